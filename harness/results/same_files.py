"""Copies of registered encoders under other names.

A folder that was given by hand may have the same weights and tokenizer, byte by byte, as
a registered encoder. Then it is this encoder, and numbers that are published for it are
compared with the records of the copy too. The digests of registered encoders are in the
records that come with the harness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from harness.core.hardware import base_name
from harness.core.types import MethodId, Record
from harness.registry import Registry, load_registry
from harness.results.index import CellName, Results, encoder_of_method
from harness.results.layout import COMMITTED
from harness.results.reproduction import MEASURED_AS, compose_method
from harness.results.store import Store

# The names in `Record.digests` of the digests of an encoder's files.
FILE_DIGESTS = ("weights", "tokenizer", "counts")

# The values of `FILE_DIGESTS` in a record; None for one that it does not have.
Files = tuple[str | None, ...]


@dataclass(frozen=True)
class RegisteredEncoder:
    """The name of a registered encoder, and the maximum length with which it was measured."""

    name: str
    max_length: int | None


def files_of(record: Record) -> Files | None:
    """The digests of the encoder's files in a record; None if it has none of weights."""
    if not record.digests.get("weights"):
        return None
    return tuple(record.digests.get(name) for name in FILE_DIGESTS)


@cache
def registered_files() -> Mapping[Files, RegisteredEncoder]:
    """The registered encoders by the digests of their files, from the packaged records.

    The records are read once. Of two encoders with the same files the first is taken.
    """
    encoders: dict[Files, RegisteredEncoder] = {}
    registered_names = load_registry().encoders
    for record in Store(COMMITTED).records():
        # An encoder at another length or precision has another name, `bert-base:64`.
        name = encoder_of_method(record.method)
        files = files_of(record)
        if files is not None and name in registered_names:
            encoder = RegisteredEncoder(name, record.facts.get("max_length"))
            encoders.setdefault(files, encoder)
    return encoders


def same_encoder(record: Record) -> RegisteredEncoder | None:
    """The registered encoder that has the same files as a record's encoder; None without one.

    The copy has to have the same maximum length, unless the record's id states its own.
    """
    method = MethodId.parse(record.method)
    files = files_of(record)
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
    """The record of a copy under the id of the registered encoder; None for any other record.

    Its facts have the id under which it was measured.
    """
    registered = same_encoder(record)
    if registered is None:
        return None
    name_of_copy = base_name(encoder_of_method(record.method))
    identifier = registered.name + record.method.removeprefix(name_of_copy)
    method = compose_method(identifier, registry)
    if method is None:
        return None
    facts = {**record.facts, MEASURED_AS: record.method}
    return replace(record, method=identifier, identity=method.identity, facts=facts)


def add_registered_ids(results: Results, registry: Registry) -> Results:
    """The records, where copies of registered encoders are also under the registered ids.

    If the registered encoder itself was measured on a task, its own records are kept. Of
    several copies the first is taken.
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
