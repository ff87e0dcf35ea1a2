"""Attacks: a short form of each in every run of the tests, the long one with `--soak TOML`."""

import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from measurements import write_attempts

from harness.core.environment import commit
from harness.report.reliability import Attempts

SECONDS_TO_SAY = (
    10.0  # between two lines of progress, after each of which the counts are stored
)


def pytest_addoption(parser):
    parser.addoption(
        "--soak",
        metavar="TOML",
        help="Try the long form, and write the counts beside this file.",
    )
    parser.addoption(
        "--tries",
        metavar="N",
        type=int,
        help="How often --soak tries each part of an attack.",
    )


class Attacked:
    """Counts what came of a part of an attack, says how far it is, and stores the counts so far.

    `times` is how often its short or long form tries it.
    """

    def __init__(self, attack, part, rows, tries):
        self.attack, self.part, self.rows, self.tries = attack, part, rows, tries
        self.outcomes, self.wanted = Counter(), 0
        self.began = self.said = time.monotonic()

    def times(self, short, long):
        self.wanted = short if self.rows is None else self.tries or long
        return self.wanted

    def count(self, outcome, times=1):
        assert outcome in ("right", "rebuilt", "refused", "silent")
        self.outcomes[outcome] += times
        if self.rows is not None and time.monotonic() - self.said > SECONDS_TO_SAY:
            self.store()

    def store(self):
        self.said = time.monotonic()
        done, spent = self.outcomes.total(), self.said - self.began
        left = spent * max(0, self.wanted - done) / max(1, done)
        clocks = (str(timedelta(seconds=round(seconds))) for seconds in (spent, left))
        of = f" of {self.wanted}" if self.wanted > done else ""
        words = "{}, {}: {}{} {}, elapsed {}, left {}".format(
            self.attack, self.part, done, of, dict(self.outcomes), *clocks
        )
        sys.stderr.write(f"\n{words}\n")
        attempts = Attempts(**self.outcomes, commit=commit()["commit"] or "")
        write_attempts(self.rows, self.attack, self.part, attempts)


@pytest.fixture
def attacked(request):
    """The counts of one test, a part of the attack of its module; stored also where it is cut."""
    rows, tries = (
        request.config.getoption(name, default=None) for name in ("--soak", "--tries")
    )
    part = request.node.name.removeprefix("test_").replace("_", " ")
    made = Attacked(request.module.ATTACK, part, Path(rows) if rows else None, tries)
    yield made
    if made.rows is not None and made.outcomes:
        made.store()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A try that fails is a silent one: a wrong number, a lost or a stray file, or a traceback."""
    report = yield
    if report.when == "call" and report.failed and "attacked" in item.funcargs:
        item.funcargs["attacked"].outcomes["silent"] += 1
    return report
