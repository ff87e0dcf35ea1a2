"""Ratios of speed that are measured in one run.

The programs that are compared take turns, so that a slow moment of the machine is
everybody's. A benchmark runs them by the fixture `side_by_side`, and requires a ratio for
a row of `results/questions/speed.toml`. Where benchmarks are off, every program runs once,
on little, and nothing is checked or written.
"""

import gc
import os
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter

import jaxtyping
import numpy as np
import pytest
from fixtures import *  # noqa: F403 - shared with the tests

from harness import Places
from harness.core.environment import environment
from harness.core.files import write_json
from harness.registry import load_registry
from harness.report.speed import result_file

STS = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b")
ROUNDS = 5  # of a benchmark, unless it says otherwise


def pytest_addoption(parser):
    parser.addoption(
        "--speed",
        metavar="TOML",
        help="Store the ratios for this file of rows (speed.toml).",
    )


@dataclass
class SideBySide:
    """Runs programs in turn, and stores ratios of their seconds.

    Attributes:
        benchmark: The fixture of pytest-benchmark, which times the last program of a test.
        rows: The file of rows that ratios are stored for; None to store nothing.
        missed: A line for each ratio that is below what is wanted.
    """

    benchmark: object
    rows: Path | None
    missed: list[str] = field(default_factory=list)

    @property
    def on(self):
        return self.benchmark.enabled

    def seconds(self, programs, rounds=ROUNDS):
        """The seconds of each program in each round. All of them run in every round."""
        *others, last = programs
        seconds = {name: [] for name in programs}

        # What one program leaves behind is not collected in the time of the next.
        def run_others():
            for name in others:
                gc.collect()
                start = perf_counter()
                programs[name]()
                seconds[name].append(perf_counter() - start)
            gc.collect()

        self.benchmark.pedantic(
            programs[last], setup=run_others, rounds=rounds if self.on else 1
        )
        seconds[last] = self.benchmark.stats.stats.data if self.on else [1.0]
        return {name: np.array(values) for name, values in seconds.items()}

    def require(self, row, ratios, wanted, **facts):
        """Store the ratios of a row.

        If their median is below what is wanted, the test fails once all of its rows are
        stored.
        """
        ratio = float(median(ratios))
        self.benchmark.extra_info[row] = {"ratio": ratio, "wanted": wanted, **facts}
        if self.on and self.rows is not None:
            machine = dict(environment())
            machine.pop("device", None)
            result = {
                "ratios": [float(f"{ratio:.4g}") for ratio in ratios],
                "wanted": wanted,
                "facts": facts,
                "environment": machine,
            }
            write_json(result_file(self.rows, row), result, sort_keys=True)
        if self.on and ratio < wanted:
            self.missed.append(f"{row}: {ratio:.2f} of {wanted}")


@pytest.fixture
def side_by_side(benchmark, request):
    rows = request.config.getoption("--speed")
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
def folder_of():
    """The folder of an encoder that is on this machine."""

    def folder(name):
        config = load_registry().encoders[name]
        places = Places.from_environment(os.environ)
        if not places.has_encoder(config):
            pytest.skip(f"{name} is not here: harness fetch {name}")
        return places.encoder(config)

    return folder
