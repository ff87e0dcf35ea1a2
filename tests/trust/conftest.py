"""Attacks: a short form of each in every run of the tests, the long one with `--soak TOML`."""

from collections import Counter
from pathlib import Path

import pytest
from tallies import write_tally

from harness.core.provenance import commit
from harness.results.reliability import Tally


def pytest_addoption(parser):
    parser.addoption(
        "--soak", metavar="TOML", help="Try the long form, and write the counts beside this file."
    )


class Attacked:
    """Counts what came of one attack; `times` is how often its short or long form tries it."""

    def __init__(self, rows):
        self.rows = rows
        self.outcomes = Counter()

    def times(self, short, long):
        return short if self.rows is None else long

    def count(self, outcome, times=1):
        assert outcome in ("right", "rebuilt", "refused", "silent")
        self.outcomes[outcome] += times


@pytest.fixture(scope="module")
def attacked(request):
    """One tally for all tests of a module, which is written when they are through."""
    rows = request.config.getoption("--soak", default=None)
    made = Attacked(Path(rows) if rows else None)
    yield made
    print(f"\n{request.module.ATTACK}: {dict(made.outcomes)}")  # noqa: T201 - a soak says its counts
    if made.rows is not None:
        found = Tally(**made.outcomes, commit=commit()["commit"] or "")
        write_tally(made.rows, request.module.ATTACK, found)
