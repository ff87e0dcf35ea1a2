"""Many cells: what one costs beside its own work, and what a plan of very many takes in memory."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import fakes
import numpy as np
import pytest
from process_memory import STATUS, memory

from harness.assets.places import Places
from harness.core.types import Method
from harness.encoders.function import FunctionConfig
from harness.evaluation.plan import make_plan
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.registry import load_registry
from harness.results.store import Store
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE

CELLS, LIMIT = 10_000, 0.020  # seconds a cell
PLANNED, SENTENCES = 100_000, 10_000_000
MEMORY = 0.5e9  # bytes of a plan above the imported harness


def lengths(texts):
    return np.array([[len(text), 1.0 + text.count("1")] for text in texts])


def test_what_a_cell_costs_beside_its_own_work(side_by_side, tmp_path):
    """Each task has eight pairs, and each pair two vectors of two numbers."""
    count = CELLS if side_by_side.on else 5
    method = Method(FunctionConfig("lengths", lengths), NATIVE)
    pairs = fakes.Sentences(size=8)
    one = fakes.task(load=pairs, asset="embedded", geometry=False)
    tasks = [replace(one, name=f"t{n}") for n in range(count)]
    planned, rounds = planned_cells([method], tasks, 1), iter(range(99))

    def ours():
        folder = tmp_path / str(next(rounds))
        places, store = (
            Places(folder / "cache", encoders={"lengths": tmp_path}),
            Store(folder / "runs"),
        )
        done = execute(planned, RunContext(TaskLoader(places, {}), store))
        assert {(outcome.status, outcome.message) for outcome in done} == {
            ("measured", "")
        }

    side_by_side.run(ours, {}, warm=False)
    side_by_side.require(
        "cell-overhead", side_by_side.within(LIMIT * count), 1.0, cells=count
    )


def planning(folder, count, sentences):
    """Bytes above what was there before."""
    registry = load_registry()
    methods = [
        registry.parse(f"glove-mini.mean+whitening:{k}@mini-text")
        for k in range(1, 101)
    ]
    tasks = [
        replace(registry.tasks["mini-sts"], name=f"t{n}") for n in range(count // 100)
    ]
    many = fakes.corpus("mini-text", Lines(sentences), "embedded")
    before = memory("VmRSS")
    found = make_plan(
        tuple(planned_cells(methods, tasks, 1)),
        TaskLoader(Places(folder), {"mini-text": many}),
    )
    assert found.runnable == found.cells == count
    return memory("VmHWM") - before


class Lines:
    """Sentences that are made as they are read."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return (f"sentence number {n} of a corpus" for n in range(self.count))


@pytest.mark.skipif(not STATUS.exists(), reason="a process's peak is read from /proc")
def test_a_plan_takes_bounded_memory(side_by_side, tmp_path):
    count, sentences = (PLANNED, SENTENCES) if side_by_side.on else (200, 1000)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        taken = apart.submit(planning, Path(tmp_path), count, sentences).result()
    side_by_side.run(lambda: None, {})
    side_by_side.require(
        "plan-memory", [MEMORY / taken], 1.0, cells=count, sentences=sentences
    )
