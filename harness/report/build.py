"""All generated files: what they should hold, writing them, and saying which are stale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.core.files import file_name, write_atomically
from harness.registry import registry
from harness.report.cost_chart import PICTURE, quality_against_cost
from harness.report.flows import FILE as FLOWS
from harness.report.flows import flows_page
from harness.report.leaderboard import encoder_page, leaderboard, summary
from harness.report.markdown import between_markers
from harness.report.paper_tables import latex, markdown
from harness.report.paper_tables import summary as published_summary
from harness.report.protocol_traps import FILE as TRAPS
from harness.report.protocol_traps import traps_page
from harness.report.replication import PAGE as CLAIMS_PAGE
from harness.report.replication import claims_page
from harness.report.searches import FOLDER as SEARCHES
from harness.report.searches import read_searches
from harness.report.speed import FILE as SPEED
from harness.report.speed import PAGE as SPEED_PAGE
from harness.report.speed import speed_page
from harness.results import row_comparisons as comparisons
from harness.results.claim_tests import Judge
from harness.results.claims import FILE as CLAIMS
from harness.results.claims import read_claims
from harness.results.index import Results, by_encoder
from harness.results.layout import QUESTIONS
from harness.results.published_files import load_tables
from harness.results.records import Store
from harness.results.reproduction import judge

README_PART = "leaderboard"


def generated(folder: Path, papers: Path, readme: Path | None) -> dict[Path, str]:
    """Every generated file under a results folder, and the README, with the text due to it."""
    found, everything = registry(), Results.read(Store(folder)).by_cell
    questions = papers.parent / QUESTIONS
    pages: dict[Path, str] = {}
    judged_tables = []
    for published in load_tables(papers):
        results = Results(everything)
        judged = judge(published, results, found)
        judged_tables.append((published, judged))
        place = folder / "tables" / "papers" / published.id
        for suffix, render in ((".md", markdown), (".tex", latex)):
            path = place.with_name(place.name + suffix)
            pages[path] = render(published, judged, found, results.digest())
    counts = published_summary(judged_tables)
    pages[folder / "LEADERBOARD.md"] = leaderboard(
        Results(everything), found, counts, comparisons.read(folder)
    )
    if picture := quality_against_cost(Results(everything)):
        pages[folder / PICTURE] = picture
    if (traps := questions / TRAPS).exists():
        pages[folder / "tables" / "protocols.md"] = traps_page(Results(everything), traps)
    if (rows := questions / SPEED).exists():
        pages[folder / "tables" / SPEED_PAGE] = speed_page(rows)
    if (maps := questions / FLOWS).exists() and (flows := flows_page(Results(everything), maps)):
        pages[folder / "tables" / FLOWS.replace(".toml", ".md")] = flows
    if (claimed := questions / CLAIMS).exists():
        claims = read_claims(claimed, [published for published, _ in judged_tables])
        own = Results(everything)
        asked = Judge(own, found, comparisons.read(folder))
        searches = read_searches(questions / SEARCHES)
        pages[folder / "tables" / CLAIMS_PAGE] = claims_page(claims, asked, searches)
    for encoder, methods in by_encoder(Results(everything).methods).items():
        path = folder / "tables" / f"{file_name(encoder)}.md"
        pages[path] = encoder_page(Results(everything), encoder, methods)
    if readme is not None and readme.exists():
        part = f"{counts}\n\n{summary(Results(everything))}"
        pages[readme] = between_markers(readme.read_text(encoding="utf-8"), README_PART, part)
    return pages


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
