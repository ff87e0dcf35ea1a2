"""Encoders under another name that have the files of a registered encoder.

A folder given by hand whose weights and tokenizer are byte-identical to a registered
encoder's is that encoder: what is published for the one is published for the other. The
digests of registered encoders are in the records that come with the harness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from harness.core.hardware import base_name
from harness.core.types import MethodId, Record
from harness.registry import Registry, load_registry
from harness.results.index import CellName, Results
from harness.results.layout import COMMITTED
from harness.results.records import Store
from harness.results.reproduction import MEASURED_AS, compose_method

FILE_DIGESTS = (
    "weights",
    "tokenizer",
    "counts",
)  # digests that say which encoder it is

Files = tuple[str | None, ...]


@dataclass(frozen=True)
class Registered:
    """A registered encoder as it was measured: its name, and the length that is its own."""

    name: str
    max_length: int | None


def files_of(record: Record) -> Files | None:
    """The digests of an encoder's files in a record; None where it holds none."""
    digests = tuple(record.digests.get(name) for name in FILE_DIGESTS)
    return digests if digests[0] else None


@cache
def registered_files() -> Mapping[Files, Registered]:
    """The registered encoders by their files, as the records that come with the harness have them.

    One that is read under two names is the first.
    """
    known: dict[Files, Registered] = {}
    names = load_registry().encoders
    for record in Store(COMMITTED).records():
        encoder, files = record.method.partition(".")[0], files_of(record)
        if files is not None and encoder in names:  # at its own length and precision
            known.setdefault(files, Registered(encoder, record.facts.get("max_length")))
    return known


def same_encoder(record: Record) -> Registered | None:
    """The registered encoder whose files a record's encoder of another name has; None for none."""
    parts, files = MethodId.parse(record.method), files_of(record)
    if (
        parts is None
        or files is None
        or base_name(parts.encoder) in load_registry().encoders
    ):
        return None
    registered = registered_files().get(files)
    if registered is None:
        return None
    cut = ":" in parts.encoder  # at a length that the id states
    length = record.facts.get("max_length")
    return registered if cut or length == registered.max_length else None


def as_registered(record: Record, registry: Registry) -> Record | None:
    """A record under the id that a registered encoder of the same files has; None without one.

    Its facts tell the id that it was measured under.
    """
    registered = same_encoder(record)
    if registered is None:
        return None
    given = base_name(record.method.partition(".")[0])
    identifier = registered.name + record.method.removeprefix(given)
    method = compose_method(identifier, registry)
    if method is None:
        return None
    facts = {**record.facts, MEASURED_AS: record.method}
    return replace(record, method=identifier, identity=method.identity, facts=facts)


def add_registered_ids(results: Results, registry: Registry) -> Results:
    """The records; those with a registered encoder's files are there under its ids, too.

    A cell that has records of its own keeps these; of several encoders with the same
    files the first is taken.
    """
    added: dict[CellName, list[Record]] = {}
    for records in results.by_cell.values():
        under_registered = [as_registered(record, registry) for record in records]
        renamed = [record for record in under_registered if record is not None]
        if not renamed:
            continue
        cell = renamed[0].method, renamed[0].task
        if cell not in results.by_cell:
            added.setdefault(cell, renamed)
    return replace(results, by_cell={**results.by_cell, **added}) if added else results
