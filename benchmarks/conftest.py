"""Ratios of speed that are measured in one run.

The programs that are compared take turns, so that a slow moment of the machine is
everybody's. A benchmark makes callables, runs them by the fixture `side_by_side`, and
requires a ratio for a row of `results/questions/speed.toml`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

import jaxtyping
import numpy as np
import pytest
from fixtures import *  # noqa: F403 - shared with the tests
from measurements import write_result

from harness import Places
from harness.core.environment import environment
from harness.registry import load_registry
from harness.report.speed import LEAST_ROUNDS, BenchmarkResult

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b")


def pytest_addoption(parser):
    parser.addoption(
        "--speed",
        metavar="TOML",
        help="Store the ratios for this file of rows (speed.toml).",
    )


@dataclass
class SideBySide:
    """Runs callables in turn and keeps their seconds.

    If benchmarks are off, everything runs once, and nothing is checked or written.

    Attributes:
        benchmark: The fixture of pytest-benchmark, which times ours.
        rows: The file of rows that ratios are stored for; None to store nothing.
        seconds: The seconds of each round, by the name of the program; `ours` is the
            harness.
        missed: A line for each ratio that is below what is wanted.
    """

    benchmark: object
    rows: Path | None
    seconds: dict[str, list[float]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    @property
    def on(self) -> bool:
        return self.benchmark.enabled

    def run(
        self,
        ours: Callable,
        others: Mapping[str, Callable],
        rounds: int = LEAST_ROUNDS,
        warm: bool = True,
    ) -> None:
        """Run each of the others, then ours, for a number of rounds.

        With `warm`, ours runs once before, so that what is done only once is not timed.
        """

        def run_others():
            for name, other in others.items():
                start = perf_counter()
                other()
                self.seconds.setdefault(name, []).append(perf_counter() - start)

        if warm:
            ours()
        if not self.on:
            self.benchmark.pedantic(ours, setup=run_others, rounds=1)
            self.seconds["ours"] = [1.0]
            return
        self.benchmark.pedantic(ours, setup=run_others, rounds=rounds)
        self.seconds["ours"] = list(self.benchmark.stats.stats.data)

    def ratios(self, other: str, scale: float = 1.0) -> list[float]:
        """How many times as fast ours is as another program, round by round.

        `scale` is how many times as much work ours does in a call.
        """
        pairs = zip(self.seconds[other], self.seconds["ours"], strict=True)
        return [scale * other_seconds / ours for other_seconds, ours in pairs]

    def within(self, limit: float) -> list[float]:
        """How often ours fits into a limit in seconds, round by round."""
        return [limit / ours for ours in self.seconds["ours"]]

    def best(self, names: list[str]) -> str:
        """The fastest of the others."""
        return min(names, key=lambda name: median(self.seconds[name]))

    def require(
        self, row: str, ratios: list[float], wanted: float, **facts: object
    ) -> None:
        """Store the ratios of a row, if that was asked for.

        If their median is below what is wanted, the test fails once all of its rows are
        stored.
        """
        self.benchmark.extra_info[row] = {
            "ratio": median(ratios),
            "wanted": wanted,
            **facts,
        }
        if not self.on:
            return
        if self.rows is not None:
            machine = dict(environment())
            machine.pop("device", None)
            result = BenchmarkResult(tuple(ratios), wanted, facts, machine)
            write_result(self.rows, row, result)
        if median(ratios) < wanted:
            self.missed.append(f"{row}: {median(ratios):.2f} of {wanted}, {facts}")


@pytest.fixture
def side_by_side(benchmark, request):
    rows = request.config.getoption("--speed", default=None)
    # The shapes of arguments are checked in tests alone.
    jaxtyping.config.update("jaxtyping_disable", True)
    comparison = SideBySide(benchmark, Path(rows) if rows else None)
    yield comparison
    jaxtyping.config.update("jaxtyping_disable", False)
    assert not comparison.missed, "; ".join(comparison.missed)


@pytest.fixture(scope="module")
def sentences(data_dir):
    """Distinct sentences of the STS tasks, in random order."""
    tasks = load_registry().tasks
    distinct = {}
    for name in STS:
        distinct.update(dict.fromkeys(tasks[name].pairs(data_dir).sentences))
    return list(np.random.default_rng(0).permutation(list(distinct)))


@pytest.fixture(scope="session")
def mpnet_base():
    """The folder of all-mpnet-base-v2, where it was fetched."""
    config = load_registry().encoders["mpnet-base"]
    places = Places.from_environment(os.environ)
    if not places.has_encoder(config):
        pytest.skip("mpnet-base is not here: harness fetch mpnet-base")
    return places.encoder(config)
