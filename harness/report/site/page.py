"""The page of all results: what was reproduced, the leaderboard, the papers' tables, claims.

Python gathers the data, the template `page.html` lays it out, and `page.js` opens the
dialogs of single numbers from `dialogs`. The page is one file that needs no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.digests import digest_of_repr
from harness.report.bibtex import entries_with, software
from harness.report.boards import SECTIONS, Board, BoardColumn, section_board, sts_board
from harness.report.counts import counts_by_paper, tallies
from harness.report.figures import Picture
from harness.report.first_table import first_table
from harness.report.markdown import MISSING_NUMBER, tolerances
from harness.report.next_steps import sources_of_records, waiting_numbers
from harness.report.replication import claims_by_size, encoders_of, outcomes_in_words
from harness.report.sheets import VERDICT_MARKS, Sheet, make_sheet
from harness.report.site.dialogs import dialog_data
from harness.results.folder import ResultsFolder
from harness.results.index import Results, Value
from harness.results.published import Table
from harness.results.reproduction import Reproduction, count
from harness.results.scorings import SCORINGS, MethodRow
from harness.results.verdict import VERDICTS, CellState

SITE_PAGE = "site/index.html"
TEMPLATE_FILE = Path(__file__).with_suffix(".html")
STYLE_FILE = Path(__file__).with_suffix(".css")
SCRIPT_FILE = Path(__file__).with_suffix(".js")
DATA_TABLES = Path(__file__).parent / "vendor" / "dataTables.min.js"
# The characters that the address of a picture may hold as they are.
UNQUOTED = ' !"$()*+,-./:;<=>?@[]_{|}~'
# The parts of an SVG that show nothing: metadata, comments, names of groups, line breaks.
INVISIBLE = (
    re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL),
    re.compile(r"/\*.*?\*/", re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r'(?<=<g) id="[^"]*"'),
    re.compile(r"(?<=>)\s*\n\s*(?=<)"),
)
CODE_IN_TEXT = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class ShownTable:
    """A published table with its counts, and what its page says."""

    table: Table
    counts: Mapping[str, int]
    sheet: Sheet


@dataclass(frozen=True)
class ShownPaper:
    """A paper with its counts and tables.

    Attributes:
        name: The paper.
        counts: What `count` counts of its published cells.
        tables: Its tables.
        waiting: How many of its numbers wait for which commands, if none was measured.
    """

    name: str
    counts: Mapping[str, int]
    tables: Sequence[ShownTable]
    waiting: Mapping[tuple[str, ...], int]

    @property
    def is_unmeasured(self) -> bool:
        """Whether none of its numbers was measured."""
        return not self.counts["run"]


def made_from(folder: ResultsFolder, pictures: Mapping[str, Picture]) -> str:
    """The digests of the records, and of everything else that the page is made from."""
    sources_of_pictures = [picture.made_from for picture in pictures.values()]
    measured = (
        folder.tables,
        folder.claims,
        folder.intervals,
        folder.references,
        folder.trials,
    )
    sources = folder.registry.by_hand, entries_with(folder.papers), folder.traps
    files = [
        file.read_bytes()
        for file in (TEMPLATE_FILE, STYLE_FILE, SCRIPT_FILE, DATA_TABLES)
    ]
    other_digest = digest_of_repr((sources_of_pictures, measured, sources, files))
    return (
        f"Records: sha256 {folder.records.digest()}. Other files: sha256 {other_digest}"
    )


def site_page(folder: ResultsFolder, pictures: Mapping[str, Picture]) -> str:
    """The page, with these pictures by their files."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {
        "encoders_of": encoders_of,
        "outcomes_in_words": outcomes_in_words,
    }
    environment.filters |= {
        "anchor": anchor,
        "code": in_code,
        "address": picture_address,
    }
    cells = folder.all_reproductions
    total = count(cells)
    exact_states = (CellState.EXACT, CellState.CONSISTENT)
    inexact_cells = [
        cell for cell in cells if cell.scores and cell.state not in exact_states
    ]
    boards = _boards(folder)
    present = sources_of_records(folder.records, folder.registry)
    template = environment.from_string(TEMPLATE_FILE.read_text(encoding="utf-8"))
    text = template.render(
        made_from=made_from(folder, pictures),
        software=software(),
        first=first_table(folder),
        tallies=list(tallies(folder)),
        total=total,
        verdicts=[str(verdict) for verdict in VERDICTS if total[verdict]],
        papers=_papers(folder),
        inexact=inexact_cells,
        waiting=waiting_numbers(cells, folder.registry, present),
        claims=claims_by_size(folder.claim_results, folder.encoder_sizes),
        pictures=pictures,
        boards=boards,
        marks={str(state): mark for state, mark in VERDICT_MARKS.items()},
        tolerances=tolerances(),
        style=STYLE_FILE.read_text(encoding="utf-8"),
        data=in_script(dialog_data(folder, boards)),
        script=SCRIPT_FILE.read_text(encoding="utf-8"),
        data_tables=DATA_TABLES.read_text(encoding="utf-8"),
    )
    return f"{text.rstrip()}\n"


# Papers


def _papers(folder: ResultsFolder) -> list[ShownPaper]:
    """Each paper with its counts and tables, the one with most measured numbers first."""
    papers = []
    for name, counts in counts_by_paper(folder).items():
        tables = [table for table in folder.tables if table.paper == name]
        waiting = {} if counts["run"] else _waiting_numbers(tables, folder)
        papers.append(
            ShownPaper(
                name=name,
                counts=counts,
                tables=[_shown_table(table, folder) for table in tables],
                waiting=waiting,
            )
        )
    return sorted(
        papers, key=lambda paper: (-paper.counts["run"], -paper.counts["runnable"])
    )


def _waiting_numbers(
    tables: Sequence[Table], folder: ResultsFolder
) -> Mapping[tuple[str, ...], int]:
    """How many numbers of some tables wait for which commands."""
    present = sources_of_records(folder.records, folder.registry)
    cells: list[Reproduction] = []
    for table in tables:
        cells += folder.reproductions(table).values()
    return waiting_numbers(cells, folder.registry, present)


def _shown_table(table: Table, folder: ResultsFolder) -> ShownTable:
    """A published table, compared with the records of a folder."""
    cells = folder.reproductions(table)
    return ShownTable(
        table=table,
        counts=count(cells.values()),
        sheet=make_sheet(table, cells, folder.registry),
    )


# The leaderboard


def _boards(folder: ResultsFolder) -> list[Board]:
    """Every table of the leaderboard that has a row."""
    results = folder.records
    sizes = folder.encoder_sizes
    boards = []
    for scoring in SCORINGS:
        board = sts_board(results, results.methods, scoring, sizes)
        if board is not None:
            boards.append(_with_facts(board, results))
    for section in SECTIONS:
        board = section_board(section, results, folder.registry, results.methods, sizes)
        if board is not None:
            boards.append(board)
    return boards


def _with_facts(board: Board, results: Results) -> Board:
    """The seven tasks with facts on each method in further columns, and the average first.

    On a phone the last columns are out of sight.
    """
    *task_columns, average_column = board.columns
    fact_columns = [BoardColumn(name) for name in ("Model", "Dim.", "Rank", "Params")]
    if results.packaged:
        fact_columns.append(BoardColumn("Source"))
    rows = []
    for method, values in board.rows:
        *task_values, average = values
        facts = [board.size_of_row[method].word, *_facts_of_method(results, method)]
        # A value without a score is shown by its state, which here is the fact.
        fact_values = [Value(None, state=fact) for fact in facts]
        rows.append(MethodRow(method, [average, *task_values, *fact_values]))
    return replace(
        board,
        title=f"Seven STS tasks: {board.title}",
        columns=[average_column, *task_columns, *fact_columns],
        rows=rows,
    )


def _facts_of_method(results: Results, method: str) -> list[str]:
    """Dimensions, rank of the fitted transform, parameters, and whether records are packaged.

    The last fact is given only where the records of some method are packaged.
    """
    tasks = [task for name, task in results.by_cell if name == method]
    record = results.records(method, tasks[0])[0]
    parameters = record.facts.get("parameters")
    millions = MISSING_NUMBER if parameters is None else f"{parameters / 1e6:.3g}M"
    facts = [
        str(record.facts.get("dimensions", MISSING_NUMBER)),
        str(record.facts.get("rank", MISSING_NUMBER)),
        millions,
    ]
    if results.packaged:
        facts.append("packaged" if method in results.packaged else "own")
    return facts


# Texts and pictures in HTML


def picture_address(svg: str) -> str:
    """A picture as an address that holds it, for an attribute in single quotes."""
    for pattern in INVISIBLE:
        svg = pattern.sub("", svg)
    text = re.sub(r"\s*\n\s*", " ", svg)
    return f"data:image/svg+xml,{quote(text, safe=UNQUOTED)}"


def anchor(name: str) -> str:
    """A name in an address on the page: letters and digits between hyphens."""
    return "-".join(re.findall(r"[a-z0-9]+", name.lower()))


def in_code(text: str) -> Markup:
    """A text as HTML, with code where it has backticks."""
    # `re` joins with the methods of what it is given: Markup would escape the tags,
    # too.
    return Markup(CODE_IN_TEXT.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before


def in_script(data: Any) -> str:
    """JSON that ends no script element and begins no comment, whatever text it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
