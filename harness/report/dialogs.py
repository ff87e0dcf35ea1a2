"""What the page shows of a number that is opened: its protocol, origin and citation, as data.

The data is JSON for `site.js`. An empty field is left out. A text that many numbers
share is held once, in `texts`, and a field has its number in that list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.core.scores import ScorePath, score_at
from harness.core.types import Record
from harness.report.bibtex import HARNESS_KEY, bib_keys, bibtex, keys_of
from harness.report.boards import Board
from harness.report.diagnosis import neighbours_in_words
from harness.report.next_steps import commands_for_cell, sources_of_records
from harness.report.papers import printed_number
from harness.report.sentences import (
    evidence_in_words,
    fit_corpus_in_words,
    notes_on_origin,
    protocol_in_words,
    training_data_in_words,
)
from harness.results.conformance import confirmed_by
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, compose_method
from harness.results.settings import published_neighbours
from harness.results.verdict import CellState

SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")
UNSHARED = ("printed", "records")  # fields with a text that hardly two numbers share

JsonFields = dict[str, Any]


def dialog_data(folder: ResultsFolder, boards: Iterable[Board]) -> JsonFields:
    """Everything that `site.js` reads: all published numbers, and the scores on the boards."""
    registry = folder.registry
    sources = sources_of_records(folder.records, registry)
    cells: dict[str, JsonFields] = {}
    rows: dict[str, JsonFields] = {}
    for reproduction in folder.all_reproductions:
        row, _, column = reproduction.cell.id.rpartition("/")
        cells.setdefault(row, {})[column] = _cell(reproduction, folder, sources)
        if row not in rows:
            rows[row] = _row(reproduction.cell, folder)
    methods = {name: _method(name, folder) for name in folder.records.methods}
    origins: list[JsonFields] = []
    scores = _scores(folder, boards, origins)

    keys = [HARNESS_KEY]
    for fields in (*rows.values(), *methods.values()):
        keys += fields.get("cites", [])
    texts: dict[str, int] = {}
    return {
        "rows": _with_shared_texts(rows, texts),
        "cells": _with_shared_texts(cells, texts),
        "methods": _with_shared_texts(methods, texts),
        "origins": _with_shared_texts(origins, texts),
        "scores": scores,
        "sources": {name: str(one.source) for name, one in registry.encoders.items()},
        "by_hand": list(registry.by_hand),
        "harness": HARNESS_KEY,
        "bibtex": {key: bibtex([key], folder.papers) for key in dict.fromkeys(keys)},
        "texts": list(texts),
    }


def _with_shared_texts(fields: Any, texts: dict[str, int], name: str = "") -> Any:
    """Fields with the numbers of their texts, without the empty ones; adds to the texts."""
    if isinstance(fields, str) and name not in UNSHARED:
        return texts.setdefault(fields, len(texts))
    if isinstance(fields, list):
        return [_with_shared_texts(value, texts, name) for value in fields]
    if isinstance(fields, dict):
        return {
            key: _with_shared_texts(value, texts, key)
            for key, value in fields.items()
            if value not in (None, "", [], {})
        }
    return fields


# Published numbers


def _row(cell: PublishedCell, folder: ResultsFolder) -> JsonFields:
    """What the numbers of a row share: label, training data, fit corpus, evidence, papers."""
    row, registry = cell.row, folder.registry
    method = compose_method(row.method, registry)
    reference = confirmed_by(cell, folder.confirmations, folder.records, registry)
    return {
        "label": row.name,
        "trained": "" if row.model_free else training_data_in_words(row, method),
        "fitted": fit_corpus_in_words(row, method),
        "evidence": evidence_in_words(cell, reference),
        "cites": list(bib_keys([cell.table.cite, *keys_of(method, registry)])),
    }


def _cell(
    reproduction: Reproduction, folder: ResultsFolder, sources: frozenset[str]
) -> JsonFields:
    """A published number: where it is printed, its protocol, and what was measured for it."""
    cell, registry = reproduction.cell, folder.registry
    protocol = protocol_in_words(cell, registry)
    notes = [*cell.notes, *notes_on_origin(reproduction)]
    if cell.why_not:
        notes.insert(0, cell.why_not.explanation)
    needs: Sequence[str] = ()
    if reproduction.state is CellState.NOT_RUN:
        needs = commands_for_cell(cell, registry, sources)
    neighbours: list[str] = []
    numbers = folder.published_numbers
    if cell.id in numbers:
        number = numbers[cell.id]
        found = published_neighbours(number, numbers)
        neighbours = list(neighbours_in_words(number, found))
    difference = reproduction.verdict.difference
    facts = (protocol.tasks, protocol.metric, protocol.aggregation)
    return {
        "printed": printed_number(cell),
        "column": cell.column.label,
        "place": cell.place,
        "source": cell.source,
        "protocol": ", ".join(filter(None, facts)),
        "method": cell.method,
        "state": str(reproduction.state),
        "tasks": [name for name in cell.tasks if name in registry.tasks],
        "notes": notes,
        "needs": list(needs),
        "neighbours": neighbours,
        "seeds": [round(score, 4) for score in reproduction.scores],
        "difference": None if difference is None else round(difference, 4),
        "half_width": reproduction.verdict.half_width,
    }


# Measured scores


def _scores(
    folder: ResultsFolder, boards: Iterable[Board], origins: list[JsonFields]
) -> JsonFields:
    """For each method and task: its origin, the records' digest, and the scores of seeds.

    A path on which a seed has no score is left out. The origins, which are an
    environment and digests, are added to their list; a field has the number of its own.
    """
    paths: dict[str, dict[ScorePath, None]] = {}  # of each task, each once
    for board in boards:
        for column in board.table.columns:
            task, _, path = column.key.partition("/")
            if task:
                paths.setdefault(task, {})[tuple(path.split("."))] = None
    numbers: dict[str, int] = {}
    by_method: dict[str, JsonFields] = {}
    for (method, task), records in folder.records.by_cell.items():
        scores = {}
        for score_path in paths.get(task, ()):
            points = [score_at(record.scores, score_path) for record in records]
            known = [round(score, 2) for score in points if score is not None]
            if len(known) == len(points):
                scores[".".join(score_path)] = known
        origin = _origin(records[0])
        number = numbers.setdefault(repr(origin), len(numbers))
        if number == len(origins):
            origins.append(origin)
        digest = folder.records.select([(method, task)]).digest()
        fields: JsonFields = {"origin": number, "records": digest[:DIGEST_DIGITS_SHOWN]}
        if scores:
            fields["scores"] = scores
        by_method.setdefault(method, {})[task] = fields
    return by_method


def _origin(record: Record) -> JsonFields:
    """A record's environment, and the digests of what it was made from."""
    digests = [
        f"{name} {digest[:DIGEST_DIGITS_SHOWN]}"
        for name, digest in record.digests.items()
    ]
    return {"environment": environment_in_words(record), "digests": sorted(digests)}


def _method(name: str, folder: ResultsFolder) -> JsonFields:
    """Training data, note and papers of a method; nothing where the registry has none."""
    method = compose_method(name, folder.registry)
    if method is None:
        return {}
    return {
        "trained": method.encoder.trained_on,
        "note": method.note,
        "cites": list(keys_of(method, folder.registry)),
    }


def environment_in_words(record: Record) -> str:
    """Commit, versions and machine of a record."""
    environment: Mapping[str, Any] = record.environment
    packages = environment.get("packages", {})
    versions = [f"Python {environment.get('python')}"]
    versions += [
        f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages
    ]
    commit = str(environment.get("commit") or "unknown")[:DIGEST_DIGITS_SHOWN]
    machine = f"{environment.get('processor')}, {environment.get('device')}"
    return f"commit {commit}; {', '.join(versions)}; {machine}"
