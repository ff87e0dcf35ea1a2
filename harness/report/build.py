"""All generated files: what they should hold, writing them, and saying which are stale."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.core.files import file_name, write_atomically
from harness.core.toml import read_rows, read_toml
from harness.registry import Registry, load_registry
from harness.report.bibtex import require_entries
from harness.report.conformance import PAGE as CONFORMANCE_PAGE
from harness.report.conformance import conformance_page
from harness.report.flows import flows_page
from harness.report.gallery import gallery
from harness.report.leaderboard import encoder_page, leaderboard, summary
from harness.report.markdown import between_markers
from harness.report.paper_tables import CONTENTS, contents, latex, markdown
from harness.report.paper_tables import summary as published_summary
from harness.report.protocol_traps import traps_page
from harness.report.reliability import reliability_page
from harness.report.replication import PAGE as CLAIMS_PAGE
from harness.report.replication import claims_page
from harness.report.site import page as site
from harness.report.speed import speed_page
from harness.results import claim_intervals, row_comparisons
from harness.results.claim_tests import ClaimTests
from harness.results.claims import read_claims
from harness.results.conformance import compare, read_trials
from harness.results.index import Results, by_encoder
from harness.results.layout import QUESTIONS
from harness.results.map_comparisons import Maps
from harness.results.protocol_traps import Trap
from harness.results.published import Table
from harness.results.published_files import load_tables
from harness.results.records import Store
from harness.results.references import read_references
from harness.results.reproduction import Reproduction, reproductions
from harness.results.searches import read_searches


def generated(folder: Path, papers: Path, readme: Path | None) -> dict[Path, str]:
    """Every generated file under a results folder, and the README, with the text due to it."""
    found, records = load_registry(), Results.read(Store(folder))
    published = load_tables(papers)
    require_entries(published)
    pages, cells = _paper_pages(folder / "tables" / "papers", published, records, found)
    counts = published_summary(list(zip(published, cells, strict=True)))
    pages[folder / "LEADERBOARD.md"] = leaderboard(
        records.unread(), found, counts, row_comparisons.read(folder)
    )
    pages |= _site(folder, papers.parent, published, cells, records, found)
    asked = _asked_pages(papers.parent / QUESTIONS, folder, published, records, found)
    pages |= {folder / "tables" / name: page for name, page in asked}
    pages |= _conformance(papers.parent, folder, records, found)
    for encoder, methods in by_encoder(records.unread().methods).items():
        page = encoder_page(records.unread(), found, encoder, methods)
        pages[folder / "tables" / f"{file_name(encoder)}.md"] = page
    if readme is not None and readme.exists():
        parts = [_published_sentence(published), counts, summary(records.unread())]
        text = readme.read_text(encoding="utf-8")
        pages[readme] = between_markers(text, "leaderboard", "\n\n".join(parts))
    return pages


def _site(
    folder: Path,
    given: Path,
    published: Sequence[Table],
    cells: Sequence[Mapping[str, Reproduction]],
    records: Results,
    found: Registry,
) -> dict[Path, str]:
    """The pictures, and the page of results that shows them."""
    pictures = gallery(given, cells, records)
    drawn = {name: picture.svg(_text(folder / name)) for name, picture in pictures.items()}
    shown = [
        site.Shown(f"../{name}", one.title, one.about, drawn[name])
        for name, one in pictures.items()
    ]
    was = _text(folder / site.PAGE)
    page = site.site_page(folder, given, published, cells, records, found, shown, was)
    return {folder / name: text for name, text in {**drawn, site.PAGE: page}.items()}


def _text(path: Path) -> str:
    """The text of a generated file as it is; empty without one."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _paper_pages(
    folder: Path, published: Sequence[Table], records: Results, found: Registry
) -> tuple[dict[Path, str], list[Mapping[str, Reproduction]]]:
    """The pages of the papers' tables and what they hold; of each table its reproduced cells."""
    pages = {folder / CONTENTS: contents(published)}
    every: list[Mapping[str, Reproduction]] = []
    for table in published:
        results = records.unread()
        cells = reproductions(table, results, found)
        every.append(cells)
        for suffix, render in (("md", markdown), ("tex", latex)):
            text = render(table, cells, found, results.digest())
            pages[folder / f"{table.id}.{suffix}"] = text
    return pages, every


def _asked_pages(
    questions: Path, folder: Path, published: Sequence[Table], records: Results, found: Registry
) -> Iterator[tuple[str, str]]:
    """The pages that answer a file of questions; without its file there is no page."""
    if (traps := questions / "traps.toml").exists():
        yield "protocols.md", traps_page(records.unread(), read_rows(Trap, traps, "trap"))
    if (rows := questions / "speed.toml").exists():
        yield "speed.md", speed_page(rows)
    if (attacks := questions / "reliability.toml").exists():
        yield "reliability.md", reliability_page(attacks)
    flows = questions / "flows.toml"
    if flows.exists() and (page := flows_page(records.unread(), read_toml(Maps, flows))):
        yield "flows.md", page
    if (claims := questions / "claims.toml").exists():
        tests = ClaimTests(records.unread(), found, claim_intervals.read(folder))
        searches = read_searches(questions / "searches")
        yield CLAIMS_PAGE, claims_page(read_claims(claims, published), tests, searches)


def _conformance(given: Path, folder: Path, records: Results, found: Registry) -> dict[Path, str]:
    """The page of what other programs gave; without references there is no page."""
    references, results, trials = read_references(given), records.unread(), read_trials(given)
    if not references:
        return {}
    compared = [(one, compare(one, results, trials, found)) for one in references]
    return {folder / "tables" / CONFORMANCE_PAGE: conformance_page(compared, results)}


def _published_sentence(published: Sequence[Table]) -> str:
    """How much the papers' tables hold."""
    numbers = sum(len(table.cells()) for table in published)
    papers = len({table.paper for table in published})
    return (
        f"{numbers:,} published numbers from {len(published)} tables of {papers} papers and "
        "repositories, each with the method and the protocol that reproduce it, or the reason why "
        "none does:"
    )


def stale_files(folder: Path, papers: Path, readme: Path | None) -> list[Path]:
    """Files that writing would change, and table files that no record calls for any more."""
    return _stale(folder, generated(folder, papers, readme))


def write_files(folder: Path, papers: Path, readme: Path | None) -> list[Path]:
    """Bring every generated file up to date; returns those that changed."""
    pages = generated(folder, papers, readme)
    stale = _stale(folder, pages)
    for path in stale:
        if path in pages:
            write_atomically(path, pages[path].encode())
        else:
            path.unlink()
    return stale


def _stale(folder: Path, pages: Mapping[Path, str]) -> list[Path]:
    changed = [
        path
        for path, text in pages.items()
        if not path.exists() or path.read_bytes() != text.encode()
    ]
    left_over = [p for p in sorted((folder / "tables").rglob("*.*")) if p not in pages]
    return changed + left_over
