"""All generated files of a results folder: writing them, and saying which are stale."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.files import file_name, write_atomically
from harness.report import pages, replication, threads
from harness.report.bibtex import require_entries
from harness.report.figures import pictures
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.markdown import between_markers, footer
from harness.report.pages import examples_part, first_screen, published_counts
from harness.report.paper_tables import CONTENTS, contents, paper_page
from harness.report.site.page import SITE_PAGE, made_from, site_page
from harness.results.folder import ResultsFolder, require_sealed
from harness.results.index import methods_by_encoder
from harness.results.layout import QUESTIONS, digest_of_measured
from harness.results.records import Store

# Pages that tools/measured_pages.py writes, with the file of questions that each answers.
MEASURED_PAGES = {
    "speed.md": "speed.toml",
    "reliability.md": "reliability.toml",
    "moved-pairs.md": "moved_pairs.toml",
}
# In a checkout of the harness: records of the example plug-ins, and the page with their table.
EXAMPLES, GUIDE = Path("examples", "plugins", "results"), Path("docs", "how-to", "plugin.md")
# The digests of generated files that a check does not make anew, as `sha256sum --check` reads them.
DIGESTS = "tables/sha256.txt"


@dataclass(frozen=True)
class Slow:
    """A file that takes long to make: the line that it carries of what it is made from.

    Without `make` it is made elsewhere.
    """

    made_from: str
    make: Callable[[], str] | None = None


Pages = Mapping[Path, "str | Slow"]


def generated(folder: ResultsFolder, readme: Path | None) -> Pages:
    """Every generated file under a results folder, and the README, with what is due to it.

    Beside the README of the harness, that is the guide to plug-ins, too.

    Raises DataError where a file that was measured has changed since.
    """
    require_sealed(folder.path)
    require_entries(folder.tables, folder.papers)
    records, registry, tables = folder.records, folder.registry, folder.path / "tables"
    due: dict[Path, str | Slow] = {tables / "papers" / CONTENTS: contents(folder.tables)}
    for table in folder.tables:
        cells, behind = folder.reproductions(table), folder.records_of_table(table)
        due[tables / "papers" / f"{table.id}.md"] = paper_page(table, cells, registry, behind).text
    made = leaderboard(records, registry, published_counts(folder), folder.comparisons)
    due[folder.path / "LEADERBOARD.md"] = made.text
    for encoder, methods in methods_by_encoder(records.methods).items():
        page = encoder_page(records, registry, encoder, methods)
        due[tables / f"{file_name(encoder)}.md"] = page.text
    # Without its file of questions, or references, a page is not due.
    if folder.traps:
        due[tables / "protocols.md"] = pages.traps_page(records, folder.traps).text
    if folder.claims:
        page = replication.claims_page(folder.claims, folder.claim_tests, folder.searches)
        due[tables / replication.PAGE] = page.text
    if folder.compared:
        due[tables / pages.PAGE] = pages.conformance_page(folder.compared, records).text
    if folder.threads:
        due[tables / threads.PAGE] = threads.threads_page(folder).text
    for name, question in MEASURED_PAGES.items():
        path = folder.path / QUESTIONS / question
        if path.exists():
            due[tables / name] = Slow(footer(digest_of_measured(path)))
    drawn = pictures(folder)
    for name, picture in drawn.items():
        due[folder.path / name] = Slow(picture.made_from, partial(getattr, picture, "svg"))
    due[folder.path / SITE_PAGE] = Slow(made_from(folder, drawn), partial(site_page, folder, drawn))
    if readme is not None and readme.exists():
        text = readme.read_text(encoding="utf-8")
        due[readme] = between_markers(text, "leaderboard", first_screen(folder))
        guide, examples = readme.parent / GUIDE, readme.parent / EXAMPLES
        if guide.exists() and examples.is_dir():
            text = guide.read_text(encoding="utf-8")
            shown = examples_part(Store(examples), registry)
            due[guide] = between_markers(text, "examples", shown)
    return due


def _strays(folder: ResultsFolder, due: Pages) -> list[Path]:
    tables = folder.path / "tables"
    called_for = {*due, *(tables / name for name in MEASURED_PAGES), folder.path / DIGESTS}
    return [path for path in sorted(tables.rglob("*.*")) if path not in called_for]


def stale_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Files that writing would change, and table files that no record calls for any more."""
    due, digests = generated(folder, readme), read_digests(folder.path)
    changed = [path for path, made in due.items() if not _is_up_to_date(path, made, digests)]
    return changed + _strays(folder, due)


def _is_up_to_date(path: Path, due: str | Slow, digests: Mapping[Path, str]) -> bool:
    """Whether a file holds what is due; a slow one, what it held when its digest was noted."""
    if not path.exists():
        return False
    written = path.read_bytes()
    if isinstance(due, str):
        return written == due.encode()
    is_as_written = digests.get(path) == hashlib.sha256(written).hexdigest()
    return is_as_written and due.made_from.encode() in written


def write_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Bring every generated file up to date, slow ones too; returns those that changed.

    Pages that are made elsewhere stay as they are, and so do their digests.
    """
    due = generated(folder, readme)
    texts = {path: made for path, made in due.items() if isinstance(made, str)}
    slow = {path: made.make() for path, made in due.items() if isinstance(made, Slow) and made.make}
    every = texts | slow
    changed = [path for path, text in every.items() if not _is_up_to_date(path, text, {})]
    for path in changed:
        write_atomically(path, every[path].encode())
    strays = _strays(folder, due)
    for path in strays:
        path.unlink()
    noted = note_digests(folder.path, slow)
    return changed + strays + [folder.path / DIGESTS] * noted


def read_digests(results: Path) -> Mapping[Path, str]:
    """The digests of slow files when they were written; none without the file that notes them."""
    path = results / DIGESTS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    noted = (line.partition("  ") for line in lines)
    return {results / name: digest for digest, _, name in noted}


def note_digests(results: Path, written: Iterable[Path]) -> bool:
    """Note the digests of files as they are, beside those of others; whether one is new."""
    before = read_digests(results)
    noted = {path: digest for path, digest in before.items() if path.exists()}
    noted |= {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in written}
    if noted == before:
        return False
    lines = (f"{noted[path]}  {path.relative_to(results).as_posix()}\n" for path in sorted(noted))
    write_atomically(results / DIGESTS, "".join(lines).encode())
    return True
