"""Recompute every number on the generated pages: `python tests/recompute [results folder]`.

It reads records, published numbers and questions by itself and imports nothing of the
harness: what it finds equal was computed twice. Exit status 1 where a page prints
another number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from claims import compare_claims
from methods import compare_encoders, compare_leaderboard
from pages import Comparison
from papers import compare_papers
from records import Results
from references import compare_conformance, compare_traps
from website import compare_readme, compare_website

PAGES: Mapping[str, Callable[[Results], Iterator[Comparison]]] = {
    "leaderboard": compare_leaderboard,
    "encoders": compare_encoders,
    "papers": compare_papers,
    "claims": compare_claims,
    "traps": compare_traps,
    "conformance": compare_conformance,
    "README": compare_readme,
    "site": compare_website,
}


def main() -> int:
    """Print each fault, then how many numbers were compared on each kind of page."""
    committed = Path(__file__).parents[2] / "results"
    results = Results(Path(sys.argv[1]) if len(sys.argv) > 1 else committed)
    faults, counts = [], []
    for kind, comparisons_of in PAGES.items():
        comparisons = [*comparisons_of(results)]
        faults += [one for one in comparisons if not one.is_equal]
        counts.append(f"{sum(one.numbers for one in comparisons):,} on {kind}")
    for fault in faults:
        due = f"printed {fault.printed!r}, recomputed {fault.due!r}"
        sys.stdout.write(f"{fault.where}: {due}\n")
    compared = ", ".join(counts)
    sys.stdout.write(f"{len(faults)} faults; numbers recomputed: {compared}\n")
    assert not {"harness", "baselines"} & {name.split(".")[0] for name in sys.modules}
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
