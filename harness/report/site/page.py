"""The page: its template filled, its script and style put in, and a seal that says how it was made.

To make it takes longer than all other pages, so `harness report --check` compares its seal: the
digests of the records, of the files that people wrote, and of the code that words come from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.core.installed import BASELINES, HARNESS
from harness.registry import Registry
from harness.report import seals
from harness.report.bibtex import CITATION, software
from harness.report.paper_tables import MARKS
from harness.report.site.answer import answer
from harness.report.site.boards import boards
from harness.report.site.dialogs import Dialogs
from harness.report.site.papers import paper_tables
from harness.results.conformance import confirmed, read_trials
from harness.results.index import Results
from harness.results.layout import QUESTIONS, RECORDS, REFERENCES
from harness.results.published import Table
from harness.results.references import read_references
from harness.results.reproduction import Reproduction
from harness.results.verdict import TOLERANCES

# What stands in the address of a picture as it is; not the colon of its own digest line.
IN_ADDRESS = ' !"$()*+,-./;<=>?@[]_{|}~'
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
        return f"data:image/svg+xml,{quote(self.svg, safe=IN_ADDRESS)}"


def site_page(
    folder: Path,
    given: Path,
    published: Sequence[Table],
    cells: Sequence[Mapping[str, Reproduction]],
    results: Results,
    registry: Registry,
    pictures: Sequence[Shown] = (),
    drawn: str = "",
) -> str:
    """The page of a folder's records beside the tables, questions and references of another.

    `drawn` is the page as it was, and is returned where it is up to date.
    """
    own = Results(results.by_cell, set(results.by_cell), results.values)
    digest = own.digest()
    others = _digest_of_files(folder, given, [picture.svg for picture in pictures])
    made_from = f"Records: sha256 {digest}. Other files: sha256 {others}"
    if seals.holds(drawn, made_from, SOURCES):
        return drawn
    from jinja2 import Environment, StrictUndefined

    references, trials = read_references(given), read_trials(given)
    programs = confirmed(references, results.unread(), trials, registry)
    shown = list(boards(results.unread(), registry))
    every = [cell for table in cells for cell in table.values()]
    data = Dialogs(results.unread(), registry, programs).data(every, shown)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        made_from=made_from,
        software=software(),
        answer=answer(cells, published, results.unread(), registry, folder, given),
        pictures=pictures,
        boards=shown,
        papers=list(paper_tables(published, cells, registry)),
        marks={str(state): mark for state, mark in MARKS.items()},
        tolerances=TOLERANCES.sentence(),
        style=STYLE.read_text(encoding="utf-8"),
        data=in_script(data),
        script=SCRIPT.read_text(encoding="utf-8"),
        tables=VENDORED.read_text(encoding="utf-8"),
    )
    return seals.seal(f"{text.rstrip()}\n", SOURCES)


def in_script(data: Any) -> str:
    """JSON that ends no script element and begins no comment, whatever text it holds."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _digest_of_files(folder: Path, given: Path, pictures: Sequence[str]) -> str:
    """The digest of all else that the page holds: what people wrote, comparisons, pictures."""
    files = [p for name in ("papers", QUESTIONS, REFERENCES) for p in (given / name).rglob("*")]
    files += [*(folder / RECORDS).glob("*.json"), *(given / RECORDS).glob("*/*.json*")]
    digest = hashlib.sha256("".join(pictures).encode())
    for path in sorted(path for path in set(files) if path.is_file()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
