"""All generated files: what they should hold, writing them, and saying which are stale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import file_name, write_atomically
from harness.core.toml import read_rows, read_toml
from harness.registry import Registry, load_registry
from harness.report.bibtex import require_entries
from harness.report.flows import flows_page
from harness.report.gallery import gallery
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.markdown import between_markers
from harness.report.pages import PAGE as CONFORMANCE_PAGE
from harness.report.pages import conformance_page, reliability_page, speed_page, traps_page
from harness.report.paper_tables import CONTENTS, contents, latex, markdown
from harness.report.paper_tables import summary as published_summary
from harness.report.replication import PAGE as CLAIMS_PAGE
from harness.report.replication import claims_page
from harness.report.site import page as site
from harness.report.tallies import bullets, tallies
from harness.results.benchmarks import read_attacks, read_benchmarks
from harness.results.claim_tests import ClaimResult, ClaimTests, Maps
from harness.results.claims import read_claims, read_intervals
from harness.results.comparisons import read_comparisons
from harness.results.conformance import (
    Comparison,
    Reference,
    compare_reference,
    read_references,
    read_trials,
)
from harness.results.explain import Trap
from harness.results.index import SHOWN, Results, by_encoder
from harness.results.layout import QUESTIONS
from harness.results.published import Table
from harness.results.published_files import load_tables
from harness.results.records import Store
from harness.results.reproduction import Reproduction, count, reproductions
from harness.results.searches import read_searches


def generated(
    folder: Path, papers: Path, readme: Path | None, registry: Registry | None = None
) -> dict[Path, str]:
    """Every generated file under a results folder, and the README, with the text due to it.

    Methods are those of the registry, or of what comes with the harness.
    """
    found, records = registry or load_registry(), Results.read(Store(folder))
    given = papers.parent
    published = load_tables(papers, found)
    require_entries(published, papers)
    pages, cells = _paper_pages(folder / "tables" / "papers", published, records, found)
    counts = published_summary(list(zip(published, cells, strict=True)))
    pages[folder / "LEADERBOARD.md"] = leaderboard(
        records.unread(), found, counts, read_comparisons(folder)
    )
    asked = _asked_pages(given / QUESTIONS, records)
    pages |= {folder / "tables" / name: page for name, page in asked}
    claims, page = _claims(given / QUESTIONS, folder, published, records, found)
    pages |= {folder / "tables" / CLAIMS_PAGE: page} if page else {}
    compared, page = _conformance(given, records, found)
    pages |= {folder / "tables" / CONFORMANCE_PAGE: page} if page else {}
    made = site.Content(
        folder, papers, published, cells, records, found, claims=claims, compared=compared
    )
    pages |= _site(made)
    for encoder, methods in by_encoder(records.unread().methods).items():
        page = encoder_page(records.unread(), found, encoder, methods)
        pages[folder / "tables" / f"{file_name(encoder)}.md"] = page
    if readme is not None and readme.exists():
        text = readme.read_text(encoding="utf-8")
        pages[readme] = between_markers(text, "leaderboard", _first_screen(made))
    return pages


def _site(made: site.Content) -> dict[Path, str]:
    """The pictures, and the page of results that shows them."""
    pictures = gallery(made.given, made.cells, made.results)
    drawn = {name: one.svg(_text(made.folder / name)) for name, one in pictures.items()}
    shown = [
        site.Shown(f"../{name}", one.title, one.about, drawn[name])
        for name, one in pictures.items()
    ]
    page = site.site_page(replace(made, pictures=shown), _text(made.folder / site.PAGE))
    return {made.folder / name: text for name, text in {**drawn, site.PAGE: page}.items()}


def _first_screen(made: site.Content) -> str:
    """What README says first: the counts, and the papers of which something was measured."""
    every = [cell for table in made.cells for cell in table.values()]
    compared = [one for _, scores in made.compared for one in scores]
    counted = tallies(every, made.claims, compared, made.results)
    tables = list(zip(made.published, made.cells, strict=True))
    parts = [_published_sentence(made.published, every), bullets(list(counted))]
    return "\n\n".join([*parts, published_summary(tables, measured=True)])


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


def _asked_pages(questions: Path, records: Results) -> Iterator[tuple[str, str]]:
    """The pages that answer a file of questions; without its file there is no page."""
    if (traps := questions / "traps.toml").exists():
        yield "protocols.md", traps_page(records.unread(), read_rows(Trap, traps, "trap"))
    if (rows := questions / "speed.toml").exists():
        yield "speed.md", speed_page(read_benchmarks(rows))
    if (attacks := questions / "reliability.toml").exists():
        yield "reliability.md", reliability_page(read_attacks(attacks))
    flows = questions / "flows.toml"
    if flows.exists() and (page := flows_page(records.unread(), read_toml(Maps, flows))):
        yield "flows.md", page


def _claims(
    questions: Path, folder: Path, published: Sequence[Table], records: Results, found: Registry
) -> tuple[Sequence[ClaimResult], str]:
    """The tested claims, and their page; neither without the file of claims."""
    path = questions / "claims.toml"
    if not path.exists():
        return (), ""
    tests = ClaimTests(records.unread(), found, read_intervals(folder))
    claims, searches = read_claims(path, published), read_searches(questions / "searches")
    page = claims_page(claims, tests, searches)
    return [tests.test(claim) for claim in claims.resolved], page


def _conformance(
    given: Path, records: Results, found: Registry
) -> tuple[Sequence[tuple[Reference, Sequence[Comparison]]], str]:
    """The scores of other programs beside ours, and their page; neither without references."""
    references, results, trials = read_references(given), records.unread(), read_trials(given)
    compared = [(one, compare_reference(one, results, trials, found)) for one in references]
    return compared, conformance_page(compared, results) if compared else ""


def _published_sentence(published: Sequence[Table], cells: Sequence[Reproduction]) -> str:
    """How much the papers' tables hold, and of how much the protocol is known."""
    counts, works = count(cells), len({table.cite for table in published})
    runnable = counts["runnable"]
    inferred = sum(one.cell.evidence == "inferred" for one in cells)
    return (
        f"{len(cells):,} published numbers from {len(published)} tables of {works} works (papers "
        f"and repositories). {runnable:,} name the method and the protocol that should reproduce "
        f"them, of which {runnable - counts['run']:,} have not been run here and {inferred:,} rest "
        f"on an inferred protocol; {len(cells) - runnable:,} name the reason why none can."
    )


def stale_files(
    folder: Path, papers: Path, readme: Path | None, registry: Registry | None = None
) -> list[Path]:
    """Files that writing would change, and table files that no record calls for any more."""
    return _stale(folder, generated(folder, papers, readme, registry))


def write_files(
    folder: Path, papers: Path, readme: Path | None, registry: Registry | None = None
) -> list[Path]:
    """Bring every generated file up to date; returns those that changed."""
    pages = generated(folder, papers, readme, registry)
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


DIGEST = re.compile(r"Records: sha256 `?([0-9a-f]{64})\b")


def verified_pages(
    folder: Path, papers: Path, registry: Registry | None = None
) -> dict[Path, str | None]:
    """Every page that records make, and every other among the tables, with its fault or None."""
    due = {path: printed(text) for path, text in generated(folder, papers, None, registry).items()}
    others = (p for p in sorted((folder / "tables").rglob("*.*")) if p not in due)
    # A plot is no text and carries no digest; what is missing carries none either.
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for path in (*due, *others)
    }
    return {path: _fault(printed(text), due.get(path)) for path, text in texts.items()}


def printed(text: str) -> str | None:
    """The digest that a page carries; None unless it is exactly one."""
    digests = DIGEST.findall(text)
    return digests[0] if len(digests) == 1 else None


def verified(folder: Path, papers: Path, registry: Registry | None = None) -> Iterator[str]:
    """Each page that is wrong, in words, then an error; or how many are right."""
    if not (folder / "tables").is_dir():
        raise HarnessError(f"{folder} holds no generated pages; harness report writes them")
    every = verified_pages(folder, papers, registry)
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
