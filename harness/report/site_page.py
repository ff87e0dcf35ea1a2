"""The page of results: one file that needs no network and no server.

It begins with what was reproduced; claims, leaderboard and the papers' tables are folded
below. The script `site.js` filters the leaderboard and opens the dialog of a number,
from the data of `dialogs`.

`templates/vendor` holds the core of DataTables (MIT) as npm publishes it: `npm pack
datatables.net@3.1.5`, `package/js/dataTables.min.js` and `package/License.txt`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.digests import digest_of_repr
from harness.report.bibtex import entries_with, software
from harness.report.boards import SECTIONS, section_board, seven_tasks
from harness.report.claims import (
    OUTCOME_WORDS,
    claims_by_size,
    encoders_of,
    outcomes_in_words,
)
from harness.report.dialogs import dialog_data
from harness.report.front import measured_most, missing, tallies
from harness.report.papers import VERDICT_MARKS, legend, published_table
from harness.report.pictures import PICTURE, Picture
from harness.report.render import TEMPLATE_FOLDER, templates
from harness.report.sentences import signed
from harness.report.table import HEADING, ShownCell, ShownTable, table_of
from harness.results import published
from harness.results.differences import Outcome
from harness.results.folder import ResultsFolder
from harness.results.reproduction import count
from harness.results.scorings import SCORINGS
from harness.results.verdict import CellState

SITE_PAGE = "site/index.html"
FILES = ("site.html", "table.html", "site.css", "site.js", "vendor/dataTables.min.js")
CLAIMS_HEAD = ("Claim", "Here", "Tested on", "Source", "Tasks as claimed")
INEXACT_HEAD = (
    "Published number",
    "Known reasons",
    "Verdict",
    "Published",
    "Measured",
    "Difference",
)
# The characters that the address of a picture may hold as they are.
UNQUOTED = ' !"$()*+,-./:;<=>?@[]_{|}~'
CODE_IN_TEXT = re.compile(r"`([^`]+)`")


def made_from(folder: ResultsFolder, picture: Picture | None) -> str:
    """The digests of the records, and of everything else that the page is made from."""
    other = (
        picture and picture.made_from,
        folder.tables,
        folder.claims,
        folder.differences,
        folder.references,
        folder.trials,
        folder.rehearsal,
        folder.registry.by_hand,
        entries_with(folder.papers),
        [(TEMPLATE_FOLDER / name).read_bytes() for name in FILES],
    )
    return (
        f"Records: sha256 {folder.records.digest()}. "
        f"Other files: sha256 {digest_of_repr(other)}"
    )


def site_page(folder: ResultsFolder, picture: Picture | None) -> str:
    """The page, with the picture of what was measured."""
    environment = templates()
    environment.filters |= {"code": in_code, "address": picture_address}
    files = {
        name: (TEMPLATE_FOLDER / name).read_text(encoding="utf-8") for name in FILES
    }
    boards = [*_boards(folder)]
    text = environment.get_template("site.html").render(
        made_from=made_from(folder, picture),
        software=software(),
        measured_most=measured_most(folder),
        missing=missing(folder),
        tallies=tallies(folder),
        inexact=_inexact(folder),
        claims=[*_claims(folder)],
        picture=picture,
        picture_file=PICTURE,
        boards=boards,
        papers=_papers(folder),
        legend=legend(),
        marks=VERDICT_MARKS,
        files=files,
        data=dialog_data(folder, boards),
    )
    return f"{text.rstrip()}\n"


PaperTable = tuple[published.Table, Counter[str], ShownTable]


def _papers(folder: ResultsFolder) -> list[tuple[str, list[PaperTable]]]:
    """The tables of each paper with their counts; papers with most measured numbers first."""
    papers: dict[str, list[PaperTable]] = {}
    runs: Counter[str] = Counter()
    for table in folder.tables:
        counts = count(folder.reproductions(table).values())
        shown = published_table(table, folder)
        papers.setdefault(table.paper, []).append((table, counts, shown))
        runs[table.paper] += counts["run"]
    most_first = sorted(papers, key=runs.__getitem__, reverse=True)
    return [(paper, papers[paper]) for paper in most_first]


def _inexact(folder: ResultsFolder) -> ShownTable:
    """The measured numbers that are not exact, with the known reasons."""
    rows = []
    for number in folder.all_reproductions:
        if not number.scores or number.state in (CellState.EXACT, CellState.CONSISTENT):
            continue
        cell = number.cell
        name = f"{cell.table.paper}, {cell.row.name}, {cell.column.label}"
        state = str(number.state)
        rows.append(
            [
                ShownCell(name, link=f"#cell={cell.id}"),
                " ".join(cell.notes),
                ShownCell(f"{VERDICT_MARKS[number.state]} {state}", state=state),
                cell.in_points,
                f"{number.measured:.2f}",
                signed(number.verdict.difference or 0.0),
            ]
        )
    return table_of(INEXACT_HEAD, rows, texts=2)


def _claims(folder: ResultsFolder) -> Iterator[ShownTable]:
    """A table of claims for each size of the encoders that they were tested on."""
    groups = claims_by_size(folder.claim_results, folder.encoder_sizes)
    for title, group in groups.items():
        rows = []
        for result in group:
            outcomes = Counter(result.outcomes)
            table = result.claim.table
            rows.append(
                [
                    result.claim.entry.claim,
                    ShownCell(OUTCOME_WORDS[result.outcome], bold=True),
                    ", ".join(result.claim.encoders),
                    f"{table.paper}, {table.table}",
                    f"{outcomes[Outcome.HIGHER]} of {outcomes.total()}",
                ]
            )
        about = f"{encoders_of(group)}: {outcomes_in_words(result.outcome for result in group)}"
        yield table_of(CLAIMS_HEAD, rows, 4, title=title, about=about)


def _boards(folder: ResultsFolder) -> Iterator[ShownTable]:
    """Every table of the leaderboard that has a row, without headings among the rows."""
    methods = folder.records.methods
    boards = [seven_tasks(methods, scoring, folder) for scoring in SCORINGS]
    boards += [section_board(section, methods, folder) for section in SECTIONS]
    for board in boards:
        if board is not None:
            yield replace(
                board,
                title=board.title.replace("`", ""),
                rows=[row for row in board.rows if row.kind != HEADING],
            )


# Texts and the picture in HTML


def picture_address(svg: str) -> str:
    """A picture as an address that holds it, for an attribute in single quotes."""
    text = re.sub(r"\s*\n\s*", " ", svg)
    return f"data:image/svg+xml,{quote(text, safe=UNQUOTED)}"


def in_code(text: str) -> Markup:
    """A text as HTML, with code where it has backticks."""
    # `re` joins with the methods of what it is given: Markup would escape the tags,
    # too.
    return Markup(CODE_IN_TEXT.sub(r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped before
