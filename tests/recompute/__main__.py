"""Recompute every number on the generated pages: `python tests/recompute [results folder]`.

It reads records, published numbers and questions by itself and imports nothing of the harness: what
it finds equal was computed twice. Exit status 1 where a page prints another number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boards
import claims
import others
import papers
import website
from pages import Report
from scores import Records, read_records

Tables = Mapping[str, Any]


def leaderboard(results: Path, records: Records, tables: Tables, report: Report) -> None:
    """The leaderboard: its counts, then every table of scores."""
    papers.counts(results / "LEADERBOARD.md", tables, records, report)
    boards.board_page(results / "LEADERBOARD.md", records, report)


def encoders(results: Path, records: Records, _: Tables, report: Report) -> None:
    """The page of each encoder that has a record."""
    for name in sorted({method.partition(".")[0] for method, _ in records}):
        page = results / "tables" / f"{name.replace(':', '%3A')}.md"
        boards.board_page(page, records, report)


def flows(results: Path, records: Records, _: Tables, report: Report) -> None:
    """The page of flows."""
    questions = results / "questions" / "flows.toml"
    boards.flows_page(results / "tables" / "flows.md", questions, records, report)


def published(results: Path, records: Records, tables: Tables, report: Report) -> None:
    """The papers' tables in both formats."""
    papers.pages(results / "tables" / "papers", tables, records, report)


def claimed(results: Path, records: Records, tables: Tables, report: Report) -> None:
    """The page of claims."""
    claims.page(results, tables, records, report)


def traps(results: Path, records: Records, _: Tables, report: Report) -> None:
    """The page of protocol traps."""
    questions = results / "questions" / "traps.toml"
    others.traps(results / "tables" / "protocols.md", questions, records, report)


def conformance(results: Path, records: Records, _: Tables, report: Report) -> None:
    """The page of conformance."""
    others.conformance(results / "tables" / "conformance.md", results, records, report)


def readme(results: Path, records: Records, tables: Tables, report: Report) -> None:
    """The generated part of the README beside the results folder."""
    papers.counts(results.parent / "README.md", tables, records, report, run=True)
    papers.sentence(results.parent / "README.md", tables, records, report)


def site(results: Path, records: Records, tables: Tables, report: Report) -> None:
    """The page of all results."""
    tested = claims.all_claims(results, tables, records)
    website.page(results / "site" / "index.html", tables, tested, records, report)


CHECKS: Mapping[str, Callable[[Path, Records, Tables, Report], None]] = {
    "leaderboard": leaderboard,
    "encoders": encoders,
    "flows": flows,
    "papers": published,
    "claims": claimed,
    "traps": traps,
    "conformance": conformance,
    "README": readme,
    "site": site,
}


def main() -> int:
    """Print each fault, then how many numbers were compared on each kind of page."""
    given = sys.argv[1:2]
    results = Path(given[0]) if given else Path(__file__).parents[2] / "results"
    records, tables = read_records(results), papers.read_tables(results / "papers")
    reports = {kind: Report() for kind in CHECKS}
    for kind, check in CHECKS.items():
        check(results, records, tables, reports[kind])
    faults = [fault for report in reports.values() for fault in report.faults]
    counted = ", ".join(f"{report.numbers:,} on {kind}" for kind, report in reports.items())
    said = "\n".join([*faults, f"{len(faults)} faults; numbers recomputed: {counted}"])
    sys.stdout.write(f"{said}\n")
    assert not {"harness", "baselines"} & {name.partition(".")[0] for name in sys.modules}
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
