"""The page of all results: what was reproduced, the leaderboard, the papers' tables, claims."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.files import digest_of_repr
from harness.core.scores import ScorePath, score_at
from harness.core.types import Record
from harness.report import sentences
from harness.report.bibtex import HARNESS, bib_keys, bibtex, entries_with, keys_of, software
from harness.report.diagnosis import neighbours_in_words
from harness.report.figures import Picture
from harness.report.leaderboard import SECTIONS, Board, BoardColumn, section_board, sts_board
from harness.report.markdown import tolerances
from harness.report.next_steps import missing, recorded, waiting_for
from harness.report.pages import counts_by_paper, tallies
from harness.report.paper_tables import MARKS, Sheet, printed, sheet
from harness.results.conformance import confirmed_by
from harness.results.diagnosis import neighbours_of
from harness.results.folder import ResultsFolder
from harness.results.index import SHOWN, Results, Value
from harness.results.protocols import SCORINGS
from harness.results.published import PublishedCell, Table
from harness.results.reproduction import Reproduction, composed, count
from harness.results.verdict import VERDICTS, CellState

PAGE = "site/index.html"
HERE = Path(__file__).parent
VENDORED = HERE / "vendor" / "dataTables.min.js"
TEMPLATE, STYLE, SCRIPT = (HERE / f"page.{suffix}" for suffix in ("html", "css", "js"))
IN_ADDRESS = ' !"$()*+,-./:;<=>?@[]_{|}~'  # what stands in the address of a picture as it is
# Of a picture, what shows nothing: metadata, comments, the names of groups, line breaks.
UNSEEN = re.compile(
    r"""\s*<metadata>.*?</metadata>|/\*.*?\*/|<!--.*?-->|(?<=<g) id="[^"]*"|(?<=>)\s*\n\s*(?=<)""",
    re.DOTALL,
)
MARKED = re.compile(r"`([^`]+)`")  # a code in a text


def made_from(folder: ResultsFolder, drawn: Mapping[str, Picture]) -> str:
    """The digests of the records, and of all else that the page holds, its template among it."""
    pictures = [picture.made_from for picture in drawn.values()]
    of_folder = folder.tables, folder.claims, folder.intervals, folder.references, folder.trials
    sources = folder.registry.by_hand, entries_with(folder.papers), folder.traps
    files = [file.read_bytes() for file in (TEMPLATE, STYLE, SCRIPT, VENDORED)]
    everything_else = digest_of_repr((pictures, of_folder, sources, files))
    return f"Records: sha256 {folder.records.digest()}. Other files: sha256 {everything_else}"


def site_page(folder: ResultsFolder, drawn: Mapping[str, Picture]) -> str:
    """The page, with these pictures by their files."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"anchor": anchor, "code": in_code, "address": picture_address}
    cells, registry = folder.reproduced, folder.registry
    total, shown_boards = count(cells), list(boards(folder))
    exact = (CellState.EXACT, CellState.CONSISTENT)
    shown, here = papers(folder), recorded(folder.records, registry)
    waits = {
        paper: waiting_for([c for c in cells if c.cell.table.paper == paper], registry, here)
        for paper, counts, _ in shown
        if not counts["run"]
    }
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        made_from=made_from(folder, drawn),
        software=software(),
        tallies=list(tallies(folder)),
        total=total,
        verdicts=[str(verdict) for verdict in VERDICTS if total[verdict]],
        papers=shown,
        waits=waits,
        inexact=[cell for cell in cells if cell.scores and cell.state not in exact],
        waiting=waiting_for(cells, registry, here),
        claims=folder.claim_results,
        pictures=drawn,
        boards=shown_boards,
        marks={str(state): mark for state, mark in MARKS.items()},
        tolerances=tolerances(),
        style=STYLE.read_text(encoding="utf-8"),
        data=in_script(Dialogs(folder).data(shown_boards)),
        script=SCRIPT.read_text(encoding="utf-8"),
        tables=VENDORED.read_text(encoding="utf-8"),
    )
    return f"{text.rstrip()}\n"


ShownTable = tuple[Table, Mapping[str, int], Sheet]


def papers(folder: ResultsFolder) -> list[tuple[str, Mapping[str, int], list[ShownTable]]]:
    """Each paper with its counts and tables, that of which most was measured first."""
    counts = counts_by_paper(folder)
    tables: dict[str, list[ShownTable]] = {paper: [] for paper in counts}
    for table in folder.tables:
        cells = folder.reproductions(table)
        shown = table, count(cells.values()), sheet(table, cells, folder.registry)
        tables[table.paper].append(shown)
    order = sorted(tables, key=lambda paper: (-counts[paper]["run"], -counts[paper]["runnable"]))
    return [(paper, counts[paper], tables[paper]) for paper in order]


def boards(folder: ResultsFolder) -> Iterator[Board]:
    """Every table of the leaderboard that has a row."""
    results = folder.records
    for protocol in SCORINGS:
        if board := sts_board(results, results.methods, protocol):
            # The average goes first: on a phone the last columns are out of sight.
            names = ("Dim.", "Rank", "Params", *["Source"] * bool(results.packaged))
            added = map(BoardColumn, names)
            columns = [board.columns[-1], *board.columns[:-1], *added]
            rows = [
                (method, [values[-1], *values[:-1], *about(results, method)])
                for method, values in board.rows
            ]
            yield replace(
                board, title=f"Seven STS tasks: {board.title}", columns=columns, rows=rows
            )
    sections = (section_board(name, results, folder.registry, results.methods) for name in SECTIONS)
    yield from filter(None, sections)


def about(results: Results, method: str) -> list[Value]:
    """Dimensions, rank of the fitted transform, parameters, and whether records are packaged."""
    facts = next(r[0].facts for (name, _), r in results.by_cell.items() if name == method)
    texts = [facts.get("dimensions", "–"), facts.get("rank", "–")]
    texts += [f"{facts['parameters'] / 1e6:.3g}M" if "parameters" in facts else "–"]
    texts += ["packaged" if method in results.packaged else "own"] * bool(results.packaged)
    return [Value(None, state=str(text)) for text in texts]


def picture_address(svg: str) -> str:
    """A picture as an address that holds it, for an attribute in single quotes."""
    text = re.sub(r"\s*\n\s*", " ", UNSEEN.sub("", svg))
    return f"data:image/svg+xml,{quote(text, safe=IN_ADDRESS)}"


def anchor(name: str) -> str:
    """A name as it stands in an address on the page: letters and digits between hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def in_code(text: str) -> Markup:
    """A text as HTML, what stands between backticks as code."""
    # `re` joins with the methods of what it is given: Markup would escape the tags, too.
    return Markup(MARKED.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


def in_script(data: Any) -> str:
    """JSON that ends no script element and begins no comment, whatever text it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# What the page shows of a number when it is opened: its protocol, explanation and records.

SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")

JSON = dict[str, Any]


class Dialogs:
    """Makes the dialogs of a results folder's numbers, for the script that reads them.

    Each text is in `texts` once, and its number wherever it is shown.
    """

    def __init__(self, folder: ResultsFolder) -> None:
        self.folder, self.results, self.registry = folder, folder.records, folder.registry
        self.recorded = recorded(self.results, self.registry)
        self.texts: dict[str, int] = {}
        self.keys = {HARNESS: None}
        self.origins: dict[tuple[int, tuple[int, ...]], int] = {}

    def data(self, boards: Sequence[Board]) -> JSON:
        cells: dict[str, JSON] = {}
        rows: JSON = {}
        for cell in self.folder.reproduced:
            row, _, column = cell.cell.id.rpartition("/")
            cells.setdefault(row, {})[column] = self._cell(cell)
            rows.setdefault(row, self._row(cell.cell))
        paths: dict[str, dict[ScorePath, None]] = {}
        for shown in (column for board in boards for column in board.columns if column.task):
            paths.setdefault(shown.task, {})[shown.path] = None
        return {
            "rows": rows,
            "by_hand": list(self.registry.by_hand),
            "sources": {name: str(e.source) for name, e in self.registry.encoders.items()},
            "cells": cells,
            "paths": {task: [".".join(path) for path in of] for task, of in paths.items()},
            "scores": self._scores(paths),
            "methods": {method: self._method(method) for method in self.results.methods},
            "bibtex": {key: bibtex([key], self.folder.papers) for key in self.keys},
            "harness": HARNESS,
            "origins": [
                {"environment": environment, "digests": digests}
                for environment, digests in self.origins
            ],
            "texts": list(self.texts),
        }

    def _text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _cites(self, keys: Iterable[str]) -> list[int]:
        wanted = bib_keys(keys)
        self.keys |= dict.fromkeys(wanted)
        return [self._text(key) for key in wanted]

    def _row(self, cell: PublishedCell) -> JSON:
        """What the numbers of a row share: label, training data, fit corpus, evidence, papers."""
        row, method = cell.row, composed(cell.row.method or "", self.registry)
        known = self.folder.confirmations
        reference = confirmed_by(cell, known, self.results, self.registry)
        trained = "" if row.model_free else sentences.trained_on(row, method)
        evidence, fitted = sentences.evidence_of(cell, reference), sentences.fitted_on(row, method)
        return {
            "label": self._text(row.name),
            "trained": self._text(trained),
            "fitted": self._text(fitted),
            "evidence": self._text(evidence),
            "cites": self._cites([cell.table.cite, *keys_of(method, self.registry)]),
        }

    def _cell(self, reproduction: Reproduction) -> JSON:
        cell, state = reproduction.cell, reproduction.state
        tasks = [name for name in cell.tasks if name in self.registry.tasks]
        why = cell.why_not.explanation if cell.why_not else ""
        needs: Iterable[str] = ()
        if state is CellState.NOT_RUN:
            needs = missing(cell, self.registry, self.recorded)
        protocol = ", ".join(filter(None, sentences.protocol_of(cell, self.registry)))
        notes = (why, *cell.notes, *sentences.notes_on_origin(reproduction))
        fields: JSON = {
            "printed": printed(cell),
            "column": self._text(cell.column.label),
            "place": self._text(cell.place),
            "source": self._text(cell.source),
            "protocol": self._text(protocol),
            "method": self._text(cell.method or ""),
            "state": self._text(str(state)),
            "tasks": [self._text(task) for task in tasks],
            "notes": [self._text(note) for note in notes if note],
            "needs": [self._text(command) for command in needs],
            "neighbours": self._neighbours(cell),
        }
        if reproduction.scores:
            difference = reproduction.verdict.difference
            fields["seeds"] = [round(score, 4) for score in reproduction.scores]
            fields["difference"] = None if difference is None else round(difference, 4)
            fields["halfWidth"] = reproduction.verdict.half_width
        return {name: value for name, value in fields.items() if value not in ([], None)}

    def _neighbours(self, cell: PublishedCell) -> list[int]:
        """Other published numbers of a cell's encoder that differ in one choice, in words."""
        number = self.folder.published_numbers.get(cell.id)
        if number is None:
            return []
        neighbours = neighbours_of(number, self.folder.published_numbers)
        return [self._text(text) for text in neighbours_in_words(number, neighbours)]

    def _scores(self, paths: Mapping[str, Iterable[ScorePath]]) -> JSON:
        """By method and task: what they were measured with, and the seeds' scores of each path."""
        by_method: dict[str, JSON] = {}
        for (method, task), records in self.results.by_cell.items():
            shown: list[Any] = []
            for path in paths.get(task, ()):
                seeds = [score_at(record.scores, path) for record in records]
                points = [round(score, 2) for score in seeds if score is not None]
                shown.append(points if len(points) == len(seeds) else 0)
            by_method.setdefault(method, {})[task] = {
                "origin": self._origin(records[0]),
                "records": self.results.select([(method, task)]).digest()[:SHOWN],
                "scores": shown,
            }
        return by_method

    def _origin(self, record: Record) -> int:
        """The number of what a record was measured with: environment and digests."""
        digests = sorted(f"{name} {d[:SHOWN]}" for name, d in record.digests.items())
        origin = self._text(_environment(record)), tuple(map(self._text, digests))
        return self.origins.setdefault(origin, len(self.origins))

    def _method(self, name: str) -> JSON:
        """Training data, note, keys of its papers."""
        method = composed(name, self.registry)
        return {
            "trained": self._text(method.encoder.trained_on if method else ""),
            "note": self._text(method.note if method else ""),
            "cites": self._cites(keys_of(method, self.registry)),
        }


def _environment(record: Record) -> str:
    environment = record.environment
    packages = environment.get("packages", {})
    versions = [f"Python {environment.get('python')}"]
    versions += [f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages]
    commit = str(environment.get("commit") or "unknown")[:SHOWN]
    machine = f"{environment.get('processor')}, {environment.get('device')}"
    return f"commit {commit}; {', '.join(versions)}; {machine}"
