"""The page of all results: what was reproduced, the leaderboard, the papers' tables, claims."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.files import sized
from harness.report.bibtex import software
from harness.report.figures import Picture
from harness.report.leaderboard import SECTIONS, Board, section_board, sts_board
from harness.report.paper_tables import MARKS, Sheet, sheet
from harness.report.site.dialogs import Dialogs
from harness.report.tallies import tallies
from harness.results.claims import intervals_file
from harness.results.explain import Recorded, next_steps
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.layout import CONFORMANCE, QUESTIONS, RECORDS, REFERENCES
from harness.results.protocols import SCORINGS
from harness.results.published import Table
from harness.results.reproduction import count
from harness.results.verdict import TOLERANCES, VERDICTS, CellState

PAGE = "site/index.html"
HERE = Path(__file__).parent
VENDORED = HERE / "vendor" / "dataTables.min.js"
TEMPLATE, STYLE, SCRIPT = (HERE / f"page.{suffix}" for suffix in ("html", "css", "js"))
STEPS = 8  # of what to get next
IN_ADDRESS = ' !"$()*+,-./:;<=>?@[]_{|}~'  # what stands in the address of a picture as it is
# Of a picture, what shows nothing: metadata, comments, the names of groups, line breaks.
UNSEEN = re.compile(
    r"""\s*<metadata>.*?</metadata>|/\*.*?\*/|<!--.*?-->|(?<=<g) id="[^"]*"|(?<=>)\s*\n\s*(?=<)""",
    re.DOTALL,
)
MARKED = re.compile(r"`([^`]+)`")  # a code in a text


def made_from(folder: ResultsFolder, drawn: Mapping[str, Picture]) -> str:
    """The digests of the records, and of all else that the page holds."""
    records = Results(folder.records.by_cell, set(folder.records.by_cell))
    texts = [*map(repr, folder.registry.by_hand.values()), repr(software())]
    digest = hashlib.sha256("".join([*texts, *(one.made_from for one in drawn.values())]).encode())
    written = [folder.papers, folder.written / REFERENCES]
    written += [folder.written / name / CONFORMANCE for name in (QUESTIONS, RECORDS)]
    files = [path for root in written for path in root.rglob("*") if path.is_file()]
    claims = folder.questions / "claims.toml", intervals_file(folder.path)
    for path in sorted([*files, *filter(Path.exists, claims)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"Records: sha256 {records.digest()}. Other files: sha256 {digest.hexdigest()}"


def site_page(folder: ResultsFolder, drawn: Mapping[str, Picture]) -> str:
    """The page, with these pictures by their files."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters = {"anchor": anchor, "code": in_code, "sized": sized, "address": picture_address}
    environment.filters |= filters
    cells, registry = folder.reproduced, folder.registry
    total, shown_boards = count(cells), list(boards(folder))
    exact = (CellState.EXACT, CellState.CONSISTENT)
    steps = next_steps(cells, registry, Recorded(folder.records, registry))
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        made_from=made_from(folder, drawn),
        software=software(),
        tallies=list(tallies(folder)),
        total=total,
        verdicts=[str(verdict) for verdict in VERDICTS if total[verdict]],
        papers=papers(folder),
        inexact=[cell for cell in cells if cell.scores and cell.state not in exact],
        waiting=list(islice(steps, STEPS)),
        claims=folder.claim_results,
        pictures=drawn,
        boards=shown_boards,
        marks={str(state): mark for state, mark in MARKS.items()},
        tolerances=TOLERANCES.sentence(),
        style=STYLE.read_text(encoding="utf-8"),
        data=in_script(Dialogs(folder).data(shown_boards)),
        script=SCRIPT.read_text(encoding="utf-8"),
        tables=VENDORED.read_text(encoding="utf-8"),
    )
    return f"{text.rstrip()}\n"


ShownTable = tuple[Table, Mapping[str, int], Sheet]


def papers(folder: ResultsFolder) -> list[tuple[str, Mapping[str, int], list[ShownTable]]]:
    """Each paper with its counts and tables, that of which most was measured first."""
    tables: dict[str, list[ShownTable]] = {}
    counts: dict[str, Counter[str]] = {}
    for table in folder.tables:
        cells = folder.reproductions(table)
        of_table = count(cells.values())
        shown = table, of_table, sheet(table, cells, folder.registry)
        tables.setdefault(table.paper, []).append(shown)
        counts[table.paper] = counts.get(table.paper, Counter()) + of_table
    order = sorted(tables, key=lambda paper: (-counts[paper]["run"], -counts[paper]["runnable"]))
    return [(paper, counts[paper], tables[paper]) for paper in order]


def boards(folder: ResultsFolder) -> Iterator[Board]:
    """Every table of the leaderboard that has a row."""
    results = folder.records.unread()
    for protocol in SCORINGS:
        if board := sts_board(results, results.methods, protocol):
            # The average goes first: on a phone the last columns are out of sight.
            columns = [board.columns[-1], *board.columns[:-1]]
            rows = [(method, [values[-1], *values[:-1]]) for method, values in board.rows]
            yield replace(
                board, title=f"Seven STS tasks: {board.title}", columns=columns, rows=rows
            )
    sections = (section_board(name, results, folder.registry, results.methods) for name in SECTIONS)
    yield from filter(None, sections)


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
