"""What the page shows of a number that is opened: its protocol, origin and citation, as data.

The data is JSON for `site.js`. Its fields are named; an empty field is left out. A text
that many numbers share is held once, in `texts`, and a field has its number in that list.
So the methods that make fields also add to the lists of texts, BibTeX keys and origins,
and the order of their calls decides the numbers.
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

JsonFields = dict[str, Any]


def dialog_data(folder: ResultsFolder, boards: Iterable[Board]) -> JsonFields:
    """Everything that `site.js` reads: all published numbers, and the scores on the boards."""
    return _DataMaker(folder).make(boards)


class _DataMaker:
    """Makes the data for the numbers of one results folder.

    Attributes:
        folder: The results folder.
        results: Its records.
        registry: Where methods and tasks are found by name.
        sources: The encoders and assets that the records were made from.
        text_numbers: The number of each text.
        origin_numbers: The number of each origin, which is an environment and digests,
            both as numbers of texts.
        bibtex_keys: The keys whose entries the page holds.
    """

    def __init__(self, folder: ResultsFolder) -> None:
        self.folder = folder
        self.results = folder.records
        self.registry = folder.registry
        self.sources = sources_of_records(self.results, self.registry)
        self.text_numbers: dict[str, int] = {}
        self.origin_numbers: dict[tuple[int | None, tuple[int, ...]], int] = {}
        self.bibtex_keys = [HARNESS_KEY]

    def make(self, boards: Iterable[Board]) -> JsonFields:
        """The data; it is made once, since the numbers of texts belong to it."""
        cells: dict[str, JsonFields] = {}
        rows: dict[str, JsonFields] = {}
        for reproduction in self.folder.all_reproductions:
            row, _, column = reproduction.cell.id.rpartition("/")
            cells.setdefault(row, {})[column] = self._cell(reproduction)
            if row not in rows:
                rows[row] = self._row(reproduction.cell)
        scores = self._scores(boards)
        methods = {method: self._method(method) for method in self.results.methods}

        # From here on all texts, keys and origins have their numbers.
        sources = {
            name: str(encoder.source)
            for name, encoder in self.registry.encoders.items()
        }
        entries = {key: bibtex([key], self.folder.papers) for key in self.bibtex_keys}
        origins = [
            {"environment": environment, "digests": digests}
            for environment, digests in self.origin_numbers
        ]
        return {
            "rows": rows,
            "cells": cells,
            "scores": scores,
            "methods": methods,
            "sources": sources,
            "by_hand": list(self.registry.by_hand),
            "harness": HARNESS_KEY,
            "bibtex": entries,
            "origins": origins,
            "texts": list(self.text_numbers),
        }

    # Published numbers

    def _row(self, cell: PublishedCell) -> JsonFields:
        """What the numbers of a row share: label, training data, fit corpus, evidence, papers."""
        row = cell.row
        method = compose_method(row.method, self.registry)
        training_data = "" if row.model_free else training_data_in_words(row, method)
        confirmations = self.folder.confirmations
        reference = confirmed_by(cell, confirmations, self.results, self.registry)
        keys = [cell.table.cite, *keys_of(method, self.registry)]
        return _without_empty(
            {
                "label": self._text(row.name),
                "trained": self._text(training_data),
                "fitted": self._text(fit_corpus_in_words(row, method)),
                "evidence": self._text(evidence_in_words(cell, reference)),
                "cites": self._citations(keys),
            }
        )

    def _cell(self, reproduction: Reproduction) -> JsonFields:
        """A published number: where it is printed, its protocol, and what was measured for it."""
        cell = reproduction.cell
        protocol = protocol_in_words(cell, self.registry)
        protocol_facts = [protocol.tasks, protocol.metric, protocol.aggregation]
        known_tasks = [name for name in cell.tasks if name in self.registry.tasks]
        notes = [*cell.notes, *notes_on_origin(reproduction)]
        if cell.why_not:
            notes.insert(0, cell.why_not.explanation)
        commands: Sequence[str] = ()
        if reproduction.state is CellState.NOT_RUN:
            commands = commands_for_cell(cell, self.registry, self.sources)
        difference = reproduction.verdict.difference
        return _without_empty(
            {
                "printed": printed_number(cell),
                "column": self._text(cell.column.label),
                "place": self._text(cell.place),
                "source": self._text(cell.source),
                "protocol": self._text(", ".join(filter(None, protocol_facts))),
                "method": self._text(cell.method or ""),
                "state": self._text(str(reproduction.state)),
                "tasks": self._texts(known_tasks),
                "notes": self._texts(notes),
                "needs": self._texts(commands),
                "neighbours": self._neighbours(cell),
                "seeds": [round(score, 4) for score in reproduction.scores],
                "difference": None if difference is None else round(difference, 4),
                "half_width": reproduction.verdict.half_width,
            }
        )

    def _neighbours(self, cell: PublishedCell) -> list[int]:
        """Other published numbers of a cell's encoder that differ in one choice, in words."""
        numbers = self.folder.published_numbers
        if cell.id not in numbers:
            return []
        number = numbers[cell.id]
        return self._texts(
            neighbours_in_words(number, published_neighbours(number, numbers))
        )

    # Measured scores

    def _scores(self, boards: Iterable[Board]) -> JsonFields:
        """For each method and task: the origin, the records' digest, and the scores of seeds.

        A path on which a seed has no score is left out.
        """
        paths_by_task = _paths_by_task(boards)
        by_method: dict[str, JsonFields] = {}
        for (method, task), records in self.results.by_cell.items():
            scores: dict[str, list[float]] = {}
            for path in paths_by_task.get(task, ()):
                points = _rounded_scores(records, path)
                if points is not None:
                    scores[".".join(path)] = points
            digest = self.results.select([(method, task)]).digest()
            fields = {
                "origin": self._origin(records[0]),
                "records": digest[:DIGEST_DIGITS_SHOWN],
                "scores": scores,
            }
            by_method.setdefault(method, {})[task] = _without_empty(fields)
        return by_method

    def _origin(self, record: Record) -> int:
        """The number of a record's origin: its environment and digests."""
        environment = self._text(environment_in_words(record))
        digests = sorted(
            f"{name} {digest[:DIGEST_DIGITS_SHOWN]}"
            for name, digest in record.digests.items()
        )
        origin = environment, tuple(self._texts(digests))
        return self.origin_numbers.setdefault(origin, len(self.origin_numbers))

    def _method(self, name: str) -> JsonFields:
        """Training data, note and papers of a method; nothing where the registry has none."""
        method = compose_method(name, self.registry)
        if method is None:
            return {}
        return _without_empty(
            {
                "trained": self._text(method.encoder.trained_on),
                "note": self._text(method.note),
                "cites": self._citations(keys_of(method, self.registry)),
            }
        )

    # Texts

    def _text(self, text: str) -> int | None:
        """The number of a text; None for an empty one."""
        if not text:
            return None
        return self.text_numbers.setdefault(text, len(self.text_numbers))

    def _texts(self, texts: Iterable[str]) -> list[int]:
        """The numbers of the texts that are not empty."""
        numbers = [self._text(text) for text in texts]
        return [number for number in numbers if number is not None]

    def _citations(self, cites: Iterable[str]) -> list[int]:
        """The numbers of BibTeX keys, whose entries the page then holds."""
        keys = bib_keys(cites)
        self.bibtex_keys += [key for key in keys if key not in self.bibtex_keys]
        return self._texts(keys)


def _without_empty(fields: JsonFields) -> JsonFields:
    return {
        name: value for name, value in fields.items() if value not in (None, [], {})
    }


def _paths_by_task(boards: Iterable[Board]) -> Mapping[str, Iterable[ScorePath]]:
    """The paths of the scores of each task that boards show."""
    paths: dict[str, dict[ScorePath, None]] = {}
    for board in boards:
        for column in board.table.columns:
            task, _, path = column.key.partition("/")
            if task:
                paths.setdefault(task, {})[tuple(path.split("."))] = None
    return paths


def _rounded_scores(records: Sequence[Record], path: ScorePath) -> list[float] | None:
    """The score of each seed in points, with two decimals; None where a seed has none."""
    scores = []
    for record in records:
        score = score_at(record.scores, path)
        if score is None:
            return None
        scores.append(round(score, 2))
    return scores


def environment_in_words(record: Record) -> str:
    """Commit, versions and machine of a record."""
    environment = record.environment
    packages = environment.get("packages", {})
    versions = [f"Python {environment.get('python')}"]
    versions += [
        f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages
    ]
    commit = str(environment.get("commit") or "unknown")[:DIGEST_DIGITS_SHOWN]
    machine = f"{environment.get('processor')}, {environment.get('device')}"
    return f"commit {commit}; {', '.join(versions)}; {machine}"
