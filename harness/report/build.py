"""All generated files of a results folder: writing them, and saying which are stale."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import file_name, write_atomically
from harness.report import pages, replication
from harness.report.bibtex import require_entries
from harness.report.figures import pictures
from harness.report.flows import flows_page
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.markdown import between_markers
from harness.report.pages import conformance_page, traps_page
from harness.report.paper_tables import CONTENTS, contents, latex, markdown
from harness.report.replication import claims_page
from harness.report.site import page as site
from harness.report.tallies import first_screen, published_counts
from harness.results.folder import ResultsFolder
from harness.results.index import SHOWN, by_encoder

MEASURED_PAGES = ("speed.md", "reliability.md")  # which tools/measured_pages.py writes
DIGEST = re.compile(r"Records: sha256 `?([0-9a-f]{64})\b")


@dataclass(frozen=True)
class Slow:
    """A file that takes long to make: the line that it carries of what it is made from."""

    made_from: str
    make: Callable[[], str]


Pages = Mapping[Path, "str | Slow"]


def generated(folder: ResultsFolder, readme: Path | None) -> Pages:
    """Every generated file under a results folder, and the README, with what is due to it."""
    require_entries(folder.tables, folder.papers)
    records, registry = folder.records, folder.registry
    tables = folder.path / "tables"
    due: dict[Path, str | Slow] = {tables / "papers" / CONTENTS: contents(folder.tables)}
    for table in folder.tables:
        cells, digest = folder.reproductions(table), folder.records_behind(table).digest()
        for suffix, render in (("md", markdown), ("tex", latex)):
            text = render(table, cells, registry, digest)
            due[tables / "papers" / f"{table.id}.{suffix}"] = text
    due[folder.path / "LEADERBOARD.md"] = leaderboard(
        records.unread(), registry, published_counts(folder), folder.comparisons
    )
    due |= {tables / name: text for name, text in _asked_pages(folder)}
    drawn = pictures(folder)
    for name, one in drawn.items():
        due[folder.path / name] = Slow(one.made_from, partial(getattr, one, "svg"))
    due[folder.path / site.PAGE] = Slow(
        site.made_from(folder, drawn), partial(site.site_page, folder, drawn)
    )
    for encoder, methods in by_encoder(records.methods).items():
        page = encoder_page(records.unread(), registry, encoder, methods)
        due[tables / f"{file_name(encoder)}.md"] = page
    if readme is not None and readme.exists():
        text = readme.read_text(encoding="utf-8")
        due[readme] = between_markers(text, "leaderboard", first_screen(folder))
    return due


def _asked_pages(folder: ResultsFolder) -> Iterator[tuple[str, str]]:
    """The pages that answer a file of questions; without its file there is no page."""
    if folder.traps:
        yield "protocols.md", traps_page(folder.records.unread(), folder.traps)
    if folder.flows and (page := flows_page(folder.records.unread(), folder.flows)):
        yield "flows.md", page
    if folder.claims:
        page = claims_page(folder.claims, folder.claim_tests, folder.searches)
        yield replication.PAGE, page
    if folder.compared:
        yield pages.PAGE, conformance_page(folder.compared, folder.conformance_records)


def stale_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Files that writing would change, and table files that no record calls for any more.

    Of a slow file only the line of what it is made from is compared.
    """
    due = generated(folder, readme)
    return [path for path, made in due.items() if not _is_up_to_date(path, made)] + _strays(
        folder, due
    )


def _is_up_to_date(path: Path, due: str | Slow) -> bool:
    if not path.exists():
        return False
    held = path.read_bytes()
    return held == due.encode() if isinstance(due, str) else due.made_from.encode() in held


def _strays(folder: ResultsFolder, due: Pages) -> list[Path]:
    """The files among the tables that nothing calls for."""
    tables = folder.path / "tables"
    others = {tables / name for name in MEASURED_PAGES}
    return [path for path in sorted(tables.rglob("*.*")) if path not in {*due, *others}]


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


def verified_pages(folder: ResultsFolder) -> dict[Path, str | None]:
    """Every page that records make, and every other among the tables, with its fault or None."""
    made = generated(folder, None)
    due = {p: printed(m if isinstance(m, str) else m.made_from) for p, m in made.items()}
    # A plot is no text and carries no digest; what is missing carries none either.
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for path in (*due, *_strays(folder, made))
    }
    return {path: _fault(printed(text), due.get(path)) for path, text in texts.items()}


def printed(text: str) -> str | None:
    """The digest that a page carries; None unless it is exactly one."""
    digests = DIGEST.findall(text)
    return digests[0] if len(digests) == 1 else None


def verified(folder: ResultsFolder) -> Iterator[str]:
    """Each page that is wrong, in words, then an error; or how many are right."""
    if not (folder.path / "tables").is_dir():
        raise HarnessError(f"{folder.path} holds no generated pages; harness report writes them")
    every = verified_pages(folder)
    wrong = {path: fault for path, fault in every.items() if fault}
    yield from (f"{path}: {fault}" for path, fault in wrong.items())
    if wrong:
        raise HarnessError(
            f"{len(wrong)} of {len(every)} pages do not carry the digest of their records: "
            "restore the records, or run harness report"
        )
    yield f"{len(every)} pages carry the digest of their records"


def _fault(carried: str | None, due: str | None) -> str | None:
    """The fault of a page that carries one digest where another is due; None if they agree."""
    if carried == due:
        return None
    if due is None:
        return "carries a digest, and no record calls for it"
    if carried is None:
        return f"wanted a page with one digest, {due[:SHOWN]}; found none"
    return f"made from records {carried[:SHOWN]}, those here are {due[:SHOWN]}"
