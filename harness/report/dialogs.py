"""What the page shows of a number that is opened: its protocol, origin and citation, as data.

The data is JSON for `site.js`. An empty field is left out. A text that many numbers
share is held once, in `texts`, and a field has its number in that list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from harness.core.types import Record, score_at
from harness.report.bibtex import HARNESS_KEY, bib_keys, bibtex, keys_of
from harness.report.diagnosis import neighbours_in_words
from harness.report.next_steps import needs_of, sources_of_records
from harness.report.sentences import (
    evidence_in_words,
    fit_corpus_in_words,
    notes_on_origin,
    printed_number,
    protocol_in_words,
    training_data_in_words,
)
from harness.report.standings import standing_in_words
from harness.report.table import ShownTable
from harness.results.conformance import confirmed_by
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN
from harness.results.numbers import published_neighbours
from harness.results.reproduction import Reproduction, compose_method
from harness.results.verdict import CellState

SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")
UNSHARED = ("printed", "records")  # fields with a text that hardly two numbers share

JsonFields = dict[str, Any]


def dialog_data(folder: ResultsFolder, boards: Iterable[ShownTable]) -> JsonFields:
    """Everything that `site.js` reads: all published numbers, and the scores on the boards."""
    registry = folder.registry
    present = sources_of_records(folder.records, registry)
    cells = {
        number.cell.id: _published_number(number, folder, present)
        for number in folder.all_reproductions
    }
    methods: dict[str, JsonFields] = {}
    for name in folder.records.methods:
        method = compose_method(name, registry)
        methods[name] = {"cites": keys_of(method, registry)}
        if method is not None:
            methods[name] |= {"trained": method.encoder.trained_on, "note": method.note}
    keys = [HARNESS_KEY]
    for fields in (*cells.values(), *methods.values()):
        keys += fields["cites"]
    texts: dict[str, int] = {}
    return {
        "cells": _with_shared_texts(cells, texts),
        "methods": _with_shared_texts(methods, texts),
        "scores": _with_shared_texts(_measured_scores(folder, boards), texts),
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
    if isinstance(fields, list | tuple):
        return [_with_shared_texts(value, texts, name) for value in fields]
    if isinstance(fields, dict):
        return {
            key: _with_shared_texts(value, texts, key)
            for key, value in fields.items()
            if value not in (None, "", [], (), {})
        }
    return fields


def _published_number(
    number: Reproduction, folder: ResultsFolder, present: Collection[str]
) -> JsonFields:
    """A published number: where it is printed, its protocol, and what was measured for it."""
    cell, registry = number.cell, folder.registry
    method = compose_method(cell.row.method, registry)
    notes = [*cell.notes, *notes_on_origin(number)]
    if cell.why_not:
        notes.insert(0, cell.why_not.explanation)
    needs: Collection[str] = ()
    if number.state is CellState.NOT_RUN:
        needs = sorted(needs_of(cell, registry, present))
    neighbours: Iterable[str] = ()
    if cell.points is not None:
        found = published_neighbours(cell, folder.published_numbers.values())
        neighbours = neighbours_in_words(cell, found)
    reference = confirmed_by(cell, folder.confirmations, folder.records)
    difference = number.verdict.difference
    return {
        "printed": printed_number(cell),
        "label": cell.row.name,
        "column": cell.column.label,
        "place": cell.place,
        "source": cell.source,
        "protocol": ", ".join(filter(None, protocol_in_words(cell, registry))),
        "evidence": evidence_in_words(cell, reference),
        "method": cell.method,
        "trained": training_data_in_words(cell.row, method),
        "fitted": fit_corpus_in_words(cell.row, method),
        "state": str(number.state),
        "tasks": cell.tasks,
        "notes": notes,
        "needs": needs,
        "neighbours": list(neighbours),
        "standings": list(map(standing_in_words, folder.standings.get(cell.id, ()))),
        "cites": bib_keys([cell.table.cite, *keys_of(method, registry)]),
        "seeds": [round(score, 4) for score in number.scores],
        "difference": None if difference is None else round(difference, 4),
        "half_width": number.verdict.half_width,
    }


def _measured_scores(
    folder: ResultsFolder, boards: Iterable[ShownTable]
) -> dict[str, JsonFields]:
    """For each method and task: the scores of seeds by path, and what they were made from.

    The paths are those of the columns of boards. One on which a seed has no score is left
    out.
    """
    paths: dict[str, dict[str, None]] = {}  # of each task, each once
    for board in boards:
        for column in board.columns:
            task, _, path = column.key.partition("/")
            paths.setdefault(task, {})[path] = None
    by_method: dict[str, JsonFields] = {}
    for (method, task), records in folder.records.by_cell.items():
        scores = {}
        for path in paths.get(task, ()):
            names = tuple(path.split("."))
            points = [score_at(record.scores, names) for record in records]
            known = [round(score, 2) for score in points if score is not None]
            if len(known) == len(points):
                scores[path] = known
        digests = [
            f"{name} {digest[:DIGEST_DIGITS_SHOWN]}"
            for name, digest in sorted(records[0].digests.items())
        ]
        digest = folder.records.select([(method, task)]).digest()
        by_method.setdefault(method, {})[task] = {
            "scores": scores,
            "environment": environment_in_words(records[0]),
            "digests": digests,
            "records": digest[:DIGEST_DIGITS_SHOWN],
        }
    return by_method


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
