"""The page's first answer: what was reproduced, what is not exact, and what the rest waits for."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.files import sized
from harness.registry import Registry
from harness.report.bibtex import software
from harness.report.figures import Picture
from harness.report.paper_tables import MARKS, OURS, RAISED, Block, sheet
from harness.report.site.dialogs import Dialogs, boards
from harness.report.tallies import tallies
from harness.results.claims import intervals_file
from harness.results.explain import Recorded, next_steps
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.layout import CONFORMANCE, QUESTIONS, RECORDS, REFERENCES
from harness.results.published import Table
from harness.results.reproduction import Reproduction, count
from harness.results.verdict import TOLERANCES, VERDICTS, CellState

STEPS = 8  # of what to get next


def answer(folder: ResultsFolder) -> dict[str, Any]:
    """What the page says first: counts, papers, what is not exact, what to get, tested claims."""
    cells, claims = folder.reproduced, folder.claim_results
    by_paper: dict[str, list[Reproduction]] = {}
    for cell in cells:
        by_paper.setdefault(cell.cell.table.paper, []).append(cell)
    papers = [(paper, count(cells_of_paper)) for paper, cells_of_paper in by_paper.items()]
    papers.sort(key=lambda item: (-item[1]["run"], -item[1]["runnable"]))
    total = count(cells)
    exact = (CellState.EXACT, CellState.CONSISTENT)
    recorded = Recorded(folder.records, folder.registry)
    compared = [one for _, scores in folder.compared for one in scores]
    return {
        "tallies": list(tallies(cells, claims, compared, folder.records)),
        "verdicts": [str(verdict) for verdict in VERDICTS if total[verdict]],
        "papers": [*papers, ("all", total)],
        "inexact": [cell for cell in cells if cell.scores and cell.state not in exact],
        "waiting": list(islice(next_steps(cells, folder.registry, recorded), STEPS)),
        "claims": claims,
    }


DIGITS = "0123456789".translate(RAISED)  # of the marks of footnotes, with which a label ends


@dataclass(frozen=True)
class ShownTable:
    """A text in a table; of a measured number also its verdict in word and mark."""

    text: str
    verdict: str = ""
    mark: str = ""


@dataclass(frozen=True)
class Line:
    """A line: its heading and texts. `kind` is heading, published, measured or spread.

    `row` is the published row whose numbers it holds; empty where it holds none.
    """

    kind: str
    label: str
    row: str = ""
    texts: Sequence[ShownTable] = ()


@dataclass(frozen=True)
class Part:
    """Columns that stand beside each other, those of numbers by their ids, and the lines below."""

    caption: str
    head: Sequence[str]
    columns: Sequence[str]
    lines: Sequence[Line]


@dataclass(frozen=True)
class PaperTable:
    """A published table with what was measured of it."""

    id: str
    title: str
    place: str
    counts: Mapping[str, int]
    parts: Sequence[Part]
    legend: Sequence[str]
    notes: Sequence[str]


def paper_tables(folder: ResultsFolder) -> Iterator[tuple[str, list[PaperTable]]]:
    """The tables of each paper, papers of which something was measured first."""
    papers: dict[str, list[PaperTable]] = {}
    for table in folder.tables:
        shown = _table(table, folder.reproductions(table), folder.registry)
        papers.setdefault(table.paper, []).append(shown)
    yield from sorted(papers.items(), key=lambda item: -sum(t.counts["run"] for t in item[1]))


def _table(table: Table, cells: Mapping[str, Reproduction], registry: Registry) -> PaperTable:
    made = sheet(table, cells, registry)
    parts = [
        Part(block.caption, block.head, block.columns, list(_lines(table.id, block, cells)))
        for block in made.blocks
    ]
    place = f"{table.table}. Source: {table.source}."
    counts = count(list(cells.values()))
    # The page says in words which lines are ours, and has the marks of verdicts above all tables.
    legend = [text for text in made.legend if not text.startswith(OURS)]
    return PaperTable(table.id, table.title, place, counts, parts, legend, made.notes)


def _lines(table: str, block: Block, cells: Mapping[str, Reproduction]) -> Iterator[Line]:
    previous = ""
    for row, (label, *texts) in zip(block.rows, block.lines, strict=True):
        if not row:
            yield Line("heading", label)
            continue
        evidence, *numbers = texts
        own = [cells.get(f"{table}/{row}/{column}") for column in block.columns]
        kind = "published" if row != previous else "spread" if "sd" in label else "measured"
        shown = [_shown(text, one, kind) for one, text in zip(own, numbers, strict=True)]
        text = label.removeprefix(OURS).strip()
        if kind == "measured":
            text = f"{_verdicts(own)}{label[len(label.rstrip(DIGITS)) :]}"
        of = "" if kind == "spread" else row
        yield Line(kind, text, of, [ShownTable(evidence), *shown])
        previous = row


def _verdicts(cells: Sequence[Reproduction | None]) -> str:
    """`measured: exact`, or how many cells have each verdict."""
    states = Counter(str(cell.state) for cell in cells if cell and cell.scores)
    if len(states) == 1:
        return f"measured: {next(iter(states))}"
    return f"measured: {', '.join(f'{n} {state}' for state, n in states.items())}"


def _shown(text: str, one: Reproduction | None, kind: str) -> ShownTable:
    """A number; a measured one with its verdict."""
    if one is None or kind != "measured" or not one.scores:
        return ShownTable(text)
    return ShownTable(_unmarked(text), str(one.state), MARKS.get(one.state, ""))


def _unmarked(text: str) -> str:
    """A number without the mark of its verdict, which the page sets apart."""
    words = text.split()
    return " ".join(words[:-1]) if len(words) > 1 and words[-1] in MARKS.values() else text


IN_ADDRESS = ' !"$()*+,-./:;<=>?@[]_{|}~'  # what stands in the address of a picture as it is
# Of a picture, what shows nothing: metadata, comments, the names of groups, line breaks.
UNSEEN = re.compile(
    r"""\s*<metadata>.*?</metadata>|/\*.*?\*/|<!--.*?-->|(?<=<g) id="[^"]*"|(?<=>)\s*\n\s*(?=<)""",
    re.DOTALL,
)
MARKED = re.compile(r"`([^`]+)`")  # a code in a text
PAGE = "site/index.html"
HERE = Path(__file__).parent
VENDORED = HERE / "vendor" / "dataTables.min.js"
TEMPLATE, STYLE, SCRIPT = (HERE / f"page.{suffix}" for suffix in ("html", "css", "js"))


def made_from(folder: ResultsFolder, drawn: Mapping[str, Picture]) -> str:
    """The digests of the records, and of all else that the page holds."""
    records = Results(folder.records.by_cell, set(folder.records.by_cell))
    texts = [*map(repr, folder.registry.by_hand.values()), repr(software())]
    digest = hashlib.sha256("".join([*texts, *(one.made_from for one in drawn.values())]).encode())
    written = [folder.papers, folder.written / REFERENCES]
    written += [folder.written / name / CONFORMANCE for name in (QUESTIONS, RECORDS)]
    files = [path for own in written for path in own.rglob("*") if path.is_file()]
    claims = folder.questions / "claims.toml", intervals_file(folder.path)
    for path in sorted([*files, *filter(Path.exists, claims)]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"Records: sha256 {records.digest()}. Other files: sha256 {digest.hexdigest()}"


def site_page(folder: ResultsFolder, drawn: Mapping[str, Picture]) -> str:
    """The page, with these pictures by their files."""
    from jinja2 import Environment, StrictUndefined

    shown = list(boards(folder.records.unread(), folder.registry))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "anchor": anchor,
        "code": in_code,
        "sized": sized,
        "address": picture_address,
    }
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        made_from=made_from(folder, drawn),
        software=software(),
        answer=answer(folder),
        pictures=drawn,
        boards=shown,
        papers=list(paper_tables(folder)),
        marks={str(state): mark for state, mark in MARKS.items()},
        tolerances=TOLERANCES.sentence(),
        style=STYLE.read_text(encoding="utf-8"),
        data=in_script(Dialogs(folder).data(shown)),
        script=SCRIPT.read_text(encoding="utf-8"),
        tables=VENDORED.read_text(encoding="utf-8"),
    )
    return f"{text.rstrip()}\n"


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
