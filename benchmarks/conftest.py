"""Ratios measured side by side: in turn, in one run, so that a slow moment is everybody's."""

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
from harness.report.measured import LEAST_ROUNDS, BenchmarkResult

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b")


def pytest_addoption(parser):
    parser.addoption(
        "--speed",
        metavar="TOML",
        help="Write the ratios beside this file of rows (speed.toml).",
    )


@dataclass
class SideBySide:
    """Runs callables in turn and keeps their seconds; `ratio` is how many times as fast `ours` is.

    Where benchmarks are off, everything runs once and nothing is checked or written.
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
        """Each of the others, then ours, so many times over; `warm`: ours once before."""

        def others_first():
            for name, other in others.items():
                start = perf_counter()
                other()
                self.seconds.setdefault(name, []).append(perf_counter() - start)

        if warm:
            ours()  # what is only done once is nobody's time
        self.benchmark.pedantic(
            ours, setup=others_first, rounds=rounds if self.on else 1
        )
        self.seconds["ours"] = (
            list(self.benchmark.stats.stats.data) if self.on else [1.0]
        )

    def ratios(self, other: str, scale: float = 1.0) -> list[float]:
        """Round by round; `scale` is ours of what is compared, in units of the other's."""
        pairs = zip(self.seconds[other], self.seconds["ours"], strict=True)
        return [scale * theirs / ours for theirs, ours in pairs]

    def within(self, limit: float) -> list[float]:
        """Round by round, how often ours fits into a limit in seconds."""
        return [limit / ours for ours in self.seconds["ours"]]

    def best(self, names: list[str]) -> str:
        """The fastest of the others."""
        return min(names, key=lambda name: median(self.seconds[name]))

    def require(
        self, row: str, ratios: list[float], wanted: float, **facts: object
    ) -> None:
        """Write a row of `results/questions/speed.toml`, if that was asked for.

        A limit that it misses fails the test when all its rows are written.
        """
        self.benchmark.extra_info[row] = {
            "ratio": median(ratios),
            "wanted": wanted,
            **facts,
        }
        if not self.on:
            return
        if self.rows is not None:
            kept = {k: v for k, v in environment().items() if k != "device"}
            write_result(
                self.rows, row, BenchmarkResult(tuple(ratios), wanted, facts, kept)
            )
        if median(ratios) < wanted:
            self.missed.append(f"{row}: {median(ratios):.2f} of {wanted}, {facts}")


@pytest.fixture
def side_by_side(benchmark, request):
    rows = request.config.getoption("--speed", default=None)
    jaxtyping.config.update(
        "jaxtyping_disable", True
    )  # shapes are checked in tests alone
    made = SideBySide(benchmark, Path(rows) if rows else None)
    yield made
    jaxtyping.config.update("jaxtyping_disable", False)
    assert not made.missed, "; ".join(made.missed)


@pytest.fixture(scope="module")
def sentences(data_dir):
    """Distinct sentences of the STS tasks, in random order."""
    tasks = load_registry().tasks
    texts = dict.fromkeys(
        t for name in STS for t in tasks[name].pairs(data_dir).sentences
    )
    return list(np.random.default_rng(0).permutation(list(texts)))


@pytest.fixture(scope="session")
def mpnet_base():
    """The folder of all-mpnet-base-v2, where it was fetched."""
    config, places = (
        load_registry().encoders["mpnet-base"],
        Places.from_environment(os.environ),
    )
    if not places.has_encoder(config):
        pytest.skip("mpnet-base is not here: harness fetch mpnet-base")
    return places.encoder(config)
