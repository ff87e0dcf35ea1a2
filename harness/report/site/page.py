"""The page: its template filled, its script and style put in, and a seal that says how it was made.

To make it takes longer than all other pages, so `harness report --check` compares its seal: the
digests of the records, of the files that people wrote, and of the code that words come from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.core.installed import BASELINES, HARNESS
from harness.registry import Registry
from harness.report import seals
from harness.report.bibtex import CITATION, software
from harness.report.paper_tables import MARKS
from harness.report.site.answer import answer
from harness.report.site.boards import boards
from harness.report.site.dialogs import Dialogs
from harness.report.site.papers import paper_tables
from harness.results import claim_intervals
from harness.results.claim_tests import ClaimResult
from harness.results.conformance import Comparison, confirmed, read_trials
from harness.results.index import Results
from harness.results.layout import CONFORMANCE, QUESTIONS, RECORDS, REFERENCES
from harness.results.published import Table
from harness.results.references import Reference
from harness.results.reproduction import Reproduction
from harness.results.verdict import TOLERANCES

IN_ADDRESS = ' !"$()*+,-./:;<=>?@[]_{|}~'  # what stands in the address of a picture as it is
# Of a picture, what shows nothing: metadata, comments, its own seal among them, the names of
# groups, line breaks.
UNSEEN = re.compile(
    r"""\s*<metadata>.*?</metadata>|/\*.*?\*/|<!--.*?-->|(?<=<g) id="[^"]*"|(?<=>)\s*\n\s*(?=<)""",
    re.DOTALL,
)
MARKED = re.compile(r"`([^`]+)`")  # a code in a text
PAGE = "site/index.html"
HERE = Path(__file__).parent
VENDORED = HERE / "vendor" / "dataTables.min.js"
TEMPLATE, STYLE, SCRIPT = (HERE / f"page.{suffix}" for suffix in ("html", "css", "js"))
# What decides the words and numbers of the page.
CODE = (HARNESS / "report", HARNESS / "results", HARNESS / "tasks", BASELINES)
SUFFIXES = {".py", ".html", ".css", ".js", ".bib", ".toml"}
SOURCES = (
    *(p for folder in CODE for p in sorted(folder.rglob("*")) if p.suffix in SUFFIXES),
    CITATION,
)


@dataclass(frozen=True)
class Shown:
    """A picture on the page: where its file lies from there, title, description, SVG."""

    file: str
    title: str
    about: str
    svg: str

    @property
    def address(self) -> str:
        """It as an address that holds the picture, for an attribute in single quotes."""
        svg = re.sub(r"\s*\n\s*", " ", UNSEEN.sub("", self.svg))
        return f"data:image/svg+xml,{quote(svg, safe=IN_ADDRESS)}"


@dataclass(frozen=True)
class Content:
    """What the page is made from: a folder's records, beside what people wrote in another.

    `papers` is the folder of the published tables, in a folder of results. `cells` are the
    reproduced cells of each published table, `claims` those that were tested, `compared` the
    scores of each reference.
    """

    folder: Path
    papers: Path
    published: Sequence[Table]
    cells: Sequence[Mapping[str, Reproduction]]
    results: Results
    registry: Registry
    pictures: Sequence[Shown] = ()
    claims: Sequence[ClaimResult] = ()
    compared: Sequence[tuple[Reference, Sequence[Comparison]]] = ()

    @property
    def given(self) -> Path:
        """The results folder of what people wrote."""
        return self.papers.parent

    def line(self) -> str:
        """The digests of the records, and of all else that decides the page."""
        own = Results(self.results.by_cell, set(self.results.by_cell), self.results.values)
        extra = [*map(repr, self.registry.by_hand.values())] + [one.svg for one in self.pictures]
        others = _digest_of_files(self.folder, self.papers, self.given, extra)
        return f"Records: sha256 {own.digest()}. Other files: sha256 {others}"


def site_page(made: Content, drawn: str = "") -> str:
    """The page; `drawn`, the page as it was, where it is up to date."""
    made_from = made.line()
    if seals.holds(drawn, made_from, SOURCES):
        return drawn
    from jinja2 import Environment, StrictUndefined

    results, registry, cells = made.results.unread(), made.registry, made.cells
    references = [reference for reference, _ in made.compared]
    programs = confirmed(references, results, read_trials(made.given), registry)
    shown = list(boards(results, registry))
    every = [cell for table in cells for cell in table.values()]
    data = Dialogs(results, registry, programs, made.papers).data(every, shown)
    compared = [one for _, scores in made.compared for one in scores]
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"anchor": anchor, "code": in_code}
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        made_from=made_from,
        software=software(),
        answer=answer(cells, made.claims, compared, results, registry),
        pictures=made.pictures,
        boards=shown,
        papers=list(paper_tables(made.published, cells, registry)),
        marks={str(state): mark for state, mark in MARKS.items()},
        tolerances=TOLERANCES.sentence(),
        style=STYLE.read_text(encoding="utf-8"),
        data=in_script(data),
        script=SCRIPT.read_text(encoding="utf-8"),
        tables=VENDORED.read_text(encoding="utf-8"),
    )
    return seals.seal(f"{text.rstrip()}\n", SOURCES)


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


def _digest_of_files(folder: Path, papers: Path, given: Path, texts: Sequence[str]) -> str:
    """The digest of all else that the page holds: what people wrote, comparisons, pictures."""
    folders = [papers, given / REFERENCES]
    folders += [given / name / CONFORMANCE for name in (QUESTIONS, RECORDS)]
    files = [path for own in folders for path in own.rglob("*") if path.is_file()]
    files += filter(Path.exists, (given / QUESTIONS / "claims.toml", claim_intervals.file(folder)))
    digest = hashlib.sha256("".join(texts).encode())
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
