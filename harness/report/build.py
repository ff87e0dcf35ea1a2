"""All generated files of a results folder: writing them, and saying which are stale."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.files import file_name, write_atomically
from harness.report import pages, replication, threads
from harness.report.bibtex import require_entries
from harness.report.figures import pictures
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.markdown import between_markers
from harness.report.pages import first_screen, published_counts
from harness.report.paper_tables import CONTENTS, contents, latex, markdown
from harness.report.site import page as site
from harness.results.folder import ResultsFolder
from harness.results.index import methods_by_encoder

# Which tools/measured_pages.py writes.
MEASURED_PAGES = ("speed.md", "reliability.md", "moved-pairs.md")


@dataclass(frozen=True)
class Slow:
    """A file that takes long to make: the line that it carries of what it is made from."""

    made_from: str
    make: Callable[[], str]


Pages = Mapping[Path, "str | Slow"]


def generated(folder: ResultsFolder, readme: Path | None) -> Pages:
    """Every generated file under a results folder, and the README, with what is due to it."""
    require_entries(folder.tables, folder.papers)
    records, registry, tables = folder.records, folder.registry, folder.path / "tables"
    due: dict[Path, str | Slow] = {tables / "papers" / CONTENTS: contents(folder.tables)}
    for table in folder.tables:
        cells, looked_at = folder.judged(table)
        digest = looked_at.digest()
        for suffix, render in (("md", markdown), ("tex", latex)):
            text = render(table, cells, registry, digest)
            due[tables / "papers" / f"{table.id}.{suffix}"] = text
    due[folder.path / "LEADERBOARD.md"] = leaderboard(
        records.unread(), registry, published_counts(folder), folder.comparisons
    )
    for encoder, methods in methods_by_encoder(records.methods).items():
        page = encoder_page(records.unread(), registry, encoder, methods)
        due[tables / f"{file_name(encoder)}.md"] = page
    # Without its file of questions, or references, a page is not due.
    if folder.traps:
        due[tables / "protocols.md"] = pages.traps_page(records.unread(), folder.traps)
    if folder.claims:
        text = replication.claims_page(folder.claims, folder.claim_tests, folder.searches)
        due[tables / replication.PAGE] = text
    if folder.compared:
        text = pages.conformance_page(folder.compared, folder.conformance_records)
        due[tables / pages.PAGE] = text
    if folder.threads:
        due[tables / threads.PAGE] = threads.threads_page(folder)
    drawn = pictures(folder)
    for name, picture in drawn.items():
        due[folder.path / name] = Slow(picture.made_from, partial(getattr, picture, "svg"))
    due[folder.path / site.PAGE] = Slow(
        site.made_from(folder, drawn), partial(site.site_page, folder, drawn)
    )
    if readme is not None and readme.exists():
        text = readme.read_text(encoding="utf-8")
        due[readme] = between_markers(text, "leaderboard", first_screen(folder))
    return due


def _strays(folder: ResultsFolder, due: Pages) -> list[Path]:
    tables = folder.path / "tables"
    called_for = {*due, *(tables / name for name in MEASURED_PAGES)}
    return [path for path in sorted(tables.rglob("*.*")) if path not in called_for]


def stale_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Files that writing would change, and table files that no record calls for any more."""
    due = generated(folder, readme)
    changed = [path for path, made in due.items() if not _is_up_to_date(path, made)]
    return changed + _strays(folder, due)


def _is_up_to_date(path: Path, due: str | Slow) -> bool:
    if not path.exists():
        return False
    written = path.read_bytes()
    return written == due.encode() if isinstance(due, str) else due.made_from.encode() in written


def write_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Bring every generated file up to date, slow ones too; returns those that changed."""
    due = generated(folder, readme)
    texts = {path: made if isinstance(made, str) else made.make() for path, made in due.items()}
    changed = [path for path, text in texts.items() if not _is_up_to_date(path, text)]
    for path in changed:
        write_atomically(path, texts[path].encode())
    strays = _strays(folder, due)
    for path in strays:
        path.unlink()
    return changed + strays
