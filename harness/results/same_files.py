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
from harness.results.reproduction import MEASURED_AS, compose_method
from harness.results.store import Store

# The digests of a record that say which encoder it is of.
FILE_DIGESTS = ("weights", "tokenizer", "counts")

# The values of `FILE_DIGESTS` in a record; None for one that it does not have.
Files = tuple[str | None, ...]


@dataclass(frozen=True)
class RegisteredEncoder:
    """A registered encoder as it was measured: its name, and its own maximum length."""

    name: str
    max_length: int | None


def files_of(record: Record) -> Files | None:
    """The digests of an encoder's files in a record; None where it holds none."""
    if not record.digests.get("weights"):
        return None
    return tuple(record.digests.get(name) for name in FILE_DIGESTS)


@cache
def registered_files() -> Mapping[Files, RegisteredEncoder]:
    """The registered encoders by their files, as the records that come with the harness have them.

    The records are read once. Of two names for the same files the first counts.
    """
    encoders: dict[Files, RegisteredEncoder] = {}
    registered_names = load_registry().encoders
    for record in Store(COMMITTED).records():
        # An encoder at another length or precision has another name, `bert-base:64`.
        name, files = record.method.partition(".")[0], files_of(record)
        if files is not None and name in registered_names:
            encoder = RegisteredEncoder(name, record.facts.get("max_length"))
            encoders.setdefault(files, encoder)
    return encoders


def same_encoder(record: Record) -> RegisteredEncoder | None:
    """The registered encoder whose files the encoder of a record has under another name.

    None if there is none, and for a record with another maximum length, unless its id
    states the length.
    """
    method, files = MethodId.parse(record.method), files_of(record)
    if method is None or files is None:
        return None
    if base_name(method.encoder) in load_registry().encoders:
        return None
    registered = registered_files().get(files)
    if registered is None:
        return None
    states_length = ":" in method.encoder
    if states_length or record.facts.get("max_length") == registered.max_length:
        return registered
    return None


def as_registered(record: Record, registry: Registry) -> Record | None:
    """A record under the id that a registered encoder of the same files has; None without one.

    Its facts tell the id that it was measured under.
    """
    registered = same_encoder(record)
    if registered is None:
        return None
    name = base_name(record.method.partition(".")[0])
    identifier = registered.name + record.method.removeprefix(name)
    method = compose_method(identifier, registry)
    if method is None:
        return None
    facts = {**record.facts, MEASURED_AS: record.method}
    return replace(record, method=identifier, identity=method.identity, facts=facts)


def add_registered_ids(results: Results, registry: Registry) -> Results:
    """The records, and those with the files of a registered encoder also under its ids.

    A cell of the registered encoder that was measured keeps its own records. Of several
    encoders with the same files the first is taken.
    """
    added: dict[CellName, list[Record]] = {}
    for records in results.by_cell.values():
        renamed_records = []
        for record in records:
            renamed = as_registered(record, registry)
            if renamed is not None:
                renamed_records.append(renamed)
        if not renamed_records:
            continue
        cell = (renamed_records[0].method, renamed_records[0].task)
        if cell not in results.by_cell:
            added.setdefault(cell, renamed_records)
    if not added:
        return results
    return replace(results, by_cell={**results.by_cell, **added})
