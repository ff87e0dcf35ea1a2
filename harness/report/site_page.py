"""The page of results: one file that needs no network and no server.

It begins with what was reproduced; claims, leaderboard and the papers' tables are folded
below. The script `site.js` filters the leaderboard and opens the dialog of a number,
from the data of `dialogs`.

`templates/vendor` holds the core of DataTables (MIT) as npm publishes it: `npm pack
datatables.net@3.1.5`, `package/js/dataTables.min.js` and `package/License.txt`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.digests import digest_of_repr
from harness.report.bibtex import entries_with, software
from harness.report.boards import SECTIONS, Board, section_board, sts_board
from harness.report.claims import (
    OUTCOME_WORDS,
    claims_by_size,
    encoders_of,
    outcomes_in_words,
)
from harness.report.dialogs import dialog_data
from harness.report.front import Front
from harness.report.papers import VERDICT_MARKS, Sheet, paper_sheet
from harness.report.pictures import Picture
from harness.report.render import TEMPLATE_FOLDER, templates
from harness.report.sentences import signed
from harness.report.table import MISSING_NUMBER, ShownCell, ShownTable, table_of
from harness.results import published
from harness.results.claim_tests import ClaimOutcome, ClaimResult
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.reproduction import Reproduction, count
from harness.results.scorings import SCORINGS
from harness.results.verdict import TOLERANCES

SITE_PAGE = "site/index.html"
FILES = ("site.html", "table.html", "site.css", "site.js", "vendor/dataTables.min.js")
CLAIMS_HEAD = ("Claim", "Here", "Tasks as claimed", "Tested on", "Source")
INEXACT_HEAD = (
    "Published number",
    "Verdict",
    "Published",
    "Measured",
    "Difference",
    "Known reasons",
)
# The characters that the address of a picture may hold as they are.
UNQUOTED = ' !"$()*+,-./:;<=>?@[]_{|}~'
CODE_IN_TEXT = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class ShownPaper:
    """A paper with what `count` counts of its numbers, and its tables as sheets.

    Attributes:
        name: The paper.
        counts: What `count` counts of its published cells.
        tables: Its tables, each with its counts and its sheet.
        waiting: How many of its numbers wait for which commands, if none was measured.
    """

    name: str
    counts: Mapping[str, int]
    tables: Sequence[tuple[published.Table, Mapping[str, int], Sheet]]
    waiting: Mapping[tuple[str, ...], int]


def made_from(folder: ResultsFolder, pictures: Mapping[str, Picture]) -> str:
    """The digests of the records, and of everything else that the page is made from."""
    sources_of_pictures = [picture.made_from for picture in pictures.values()]
    measured = (
        folder.tables,
        folder.claims,
        folder.intervals,
        folder.references,
        folder.trials,
        folder.rehearsal,
    )
    sources = folder.registry.by_hand, entries_with(folder.papers), folder.traps
    files = [(TEMPLATE_FOLDER / name).read_bytes() for name in FILES]
    other_digest = digest_of_repr((sources_of_pictures, measured, sources, files))
    return (
        f"Records: sha256 {folder.records.digest()}. Other files: sha256 {other_digest}"
    )


def site_page(folder: ResultsFolder, pictures: Mapping[str, Picture]) -> str:
    """The page, with these pictures by their files."""
    environment = templates()
    environment.filters |= {
        "anchor": anchor,
        "code": in_code,
        "address": picture_address,
    }
    front = Front(folder)
    boards = [*_boards(folder)]
    text = environment.get_template("site.html").render(
        made_from=made_from(folder, pictures),
        software=software(),
        front=front,
        papers=_papers(front),
        inexact=_inexact(front.inexact),
        claims=[*_claims(folder.claim_results, folder.encoder_sizes)],
        pictures=pictures,
        boards=boards,
        marks={str(state): mark for state, mark in VERDICT_MARKS.items()},
        tolerances=TOLERANCES,
        style=_file("site.css"),
        data=in_script(dialog_data(folder, boards)),
        script=_file("site.js"),
        data_tables=_file("vendor/dataTables.min.js"),
    )
    return f"{text.rstrip()}\n"


def _file(name: str) -> str:
    return (TEMPLATE_FOLDER / name).read_text(encoding="utf-8")


def _papers(front: Front) -> list[ShownPaper]:
    """Each paper with its counts and tables, the one with most measured numbers first."""
    folder = front.folder
    papers = []
    for name, counts in front.counts_by_paper.items():
        tables = []
        numbers: list[Reproduction] = []
        for table in folder.tables:
            if table.paper == name:
                cells = folder.reproductions(table)
                sheet = paper_sheet(table, cells, folder.registry)
                tables.append((table, count(cells.values()), sheet))
                numbers += cells.values()
        waiting = {} if counts["run"] else front.waiting_of(numbers)
        papers.append(ShownPaper(name, counts, tables, waiting))
    return sorted(
        papers, key=lambda paper: (-paper.counts["run"], -paper.counts["runnable"])
    )


def _inexact(numbers: Sequence[Reproduction]) -> ShownTable:
    """The measured numbers that are not exact, with the known reasons."""
    rows = []
    for number in numbers:
        cell = number.cell
        name = f"{cell.table.paper}, {cell.row.name}, {cell.column.label}"
        rows.append(
            [
                ShownCell(name, link=f"#cell={cell.id}"),
                ShownCell(
                    f"{VERDICT_MARKS[number.state]} {number.state}",
                    state=str(number.state),
                ),
                cell.in_points,
                f"{number.measured:.2f}",
                signed(number.verdict.difference or 0.0),
                " ".join(cell.notes),
            ]
        )
    table = table_of(INEXACT_HEAD, rows)
    reasons = replace(table.columns[-1], is_text=True)
    return replace(table, columns=[*table.columns[:-1], reasons])


def _claims(
    results: Sequence[ClaimResult], sizes: Mapping[str, EncoderSize]
) -> Iterator[ShownTable]:
    """A table of claims for each size of the encoders that they were tested on."""
    for title, group in claims_by_size(results, sizes).items():
        rows = []
        for result in group:
            outcomes = Counter(result.outcomes)
            table = result.claim.table
            rows.append(
                [
                    result.claim.claim,
                    ShownCell(OUTCOME_WORDS[result.outcome], bold=True),
                    f"{outcomes[ClaimOutcome.HIGHER]} of {outcomes.total()}",
                    ", ".join(result.claim.encoders),
                    f"{table.paper}, {table.table}",
                ]
            )
        about = f"{encoders_of(group)}: {outcomes_in_words(group)}"
        yield replace(table_of(CLAIMS_HEAD, rows, 5, title), about=about)


# The leaderboard


def _boards(folder: ResultsFolder) -> Iterator[Board]:
    """Every table of the leaderboard that has a row; the seven tasks with facts on methods."""
    results, sizes = folder.records, folder.encoder_sizes
    facts = _facts_by_method(results)
    names = ["Dim.", "Rank", "Params", *(["Source"] if results.packaged else [])]
    columns = {name: (lambda method, name=name: facts[method][name]) for name in names}
    for scoring in SCORINGS:
        board = sts_board(results, results.methods, scoring, sizes, facts=columns)
        if board is not None:
            title = f"Seven STS tasks: {board.table.title}"
            yield Board(replace(board.table, title=title), board.cells)
    for section in SECTIONS:
        board = section_board(section, results, folder.registry, results.methods, sizes)
        if board is not None:
            yield board


def _facts_by_method(results: Results) -> Mapping[str, Mapping[str, str]]:
    """Dimensions, rank of the fitted transform, parameters, and whether records are packaged."""
    facts: dict[str, dict[str, str]] = {}
    for (method, _), records in results.by_cell.items():
        if method in facts:
            continue
        of_record = records[0].facts
        parameters = of_record.get("parameters")
        millions = MISSING_NUMBER
        if parameters is not None:
            millions = f"{parameters / 1e6:.3g}M"
        facts[method] = {
            "Dim.": str(of_record.get("dimensions", MISSING_NUMBER)),
            "Rank": str(of_record.get("rank", MISSING_NUMBER)),
            "Params": millions,
            "Source": "packaged" if method in results.packaged else "own",
        }
    return facts


# Texts and pictures in HTML


def picture_address(svg: str) -> str:
    """A picture as an address that holds it, for an attribute in single quotes."""
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
    """JSON escaped for an element `script`."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return (
        text.replace("<", "\\u003c")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )
