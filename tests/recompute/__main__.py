"""Recompute every number on the generated pages: `python tests/recompute [results folder]`.

It reads records, published numbers and questions by itself and imports nothing of the
harness: what it finds equal was computed twice. Exit status 1 where a page prints
another number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import boards
import claims
import others
import papers
import website
from pages import Report
from scores import Inputs, read_inputs

# The pages: of all encoders and of each, the papers' tables, claims, protocol traps,
# conformance, the generated part of the README, and the page of all results.
CHECKS: Mapping[str, Callable[[Inputs, Report], None]] = {
    "leaderboard": boards.leaderboard,
    "encoders": boards.encoders,
    "papers": papers.pages,
    "claims": claims.page,
    "traps": others.traps,
    "conformance": others.conformance,
    "README": website.readme,
    "site": website.page,
}


def main() -> int:
    """Print each fault, then how many numbers were compared on each kind of page."""
    given = sys.argv[1:2]
    inputs = read_inputs(
        Path(given[0]) if given else Path(__file__).parents[2] / "results"
    )
    reports = {kind: Report() for kind in CHECKS}
    for kind, check in CHECKS.items():
        check(inputs, reports[kind])
    faults = [fault for report in reports.values() for fault in report.faults]
    counted = ", ".join(
        f"{report.numbers:,} on {kind}" for kind, report in reports.items()
    )
    lines = [*faults, f"{len(faults)} faults; numbers recomputed: {counted}"]
    sys.stdout.write("\n".join(lines) + "\n")
    assert not {"harness", "baselines"} & {
        name.partition(".")[0] for name in sys.modules
    }
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
