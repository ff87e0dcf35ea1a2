"""What to get next: each step lets be measured what it says, and the cheapest come first."""

from pathlib import Path

import pytest

from harness.registry import load_registry
from harness.results.explain import SMALL, Recorded, missing, next_steps
from harness.results.index import Results
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import reproductions
from harness.results.verdict import CellState

RESULTS = Path(__file__).resolve().parents[2] / "results"
FOUND = load_registry()
TABLES = load_tables(RESULTS / "papers")


def cells(results):
    return [c for table in TABLES for c in reproductions(table, results, FOUND).values()]


@pytest.fixture(scope="module")
def nothing_run():
    return cells(Results({}))


@pytest.fixture(scope="module")
def steps(nothing_run):
    return list(next_steps(nothing_run, FOUND, Recorded()))


def test_every_number_that_can_run_is_gained_once(nothing_run, steps):
    waiting = [c for c in nothing_run if c.state is CellState.NOT_RUN]
    assert sum(len(step.cells) for step in steps) == len(waiting) > 1000
    every = [get for step in steps for get in step.get]
    assert len(every) == len(set(every))
    assert all(step.cells for step in steps)


def test_the_first_step_gives_most_for_its_bytes(nothing_run, steps):
    first = steps[0]
    waiting = [
        needs
        for cell in nothing_run
        if cell.state is CellState.NOT_RUN and (needs := missing(cell.cell, FOUND, Recorded()))
    ]
    sizes = {}
    for needs in waiting:
        sizes |= {get: max(size or 0, sizes.get(get, 0)) for get, size in needs.items()}
    worth = [
        sum(other.keys() <= needs.keys() for other in waiting)
        / (sum(sizes[get] for get in needs) + SMALL)
        for needs in waiting
        if None not in needs.values()
    ]
    assert len(first.cells) / (first.bytes + SMALL) == pytest.approx(max(worth))


def test_what_is_there_is_not_to_be_got(nothing_run):
    there = Recorded({"minilm"}, {"sick-raw"})
    steps = list(next_steps(nothing_run, FOUND, there))
    assert not any("minilm" in get.split() or "sick-raw" in get for s in steps for get in s.get)
    assert any("harness fetch senteval" in step.get for step in steps)


def test_the_files_of_records_are_those_that_their_cells_read():
    results = Results.read(Store(RESULTS))
    here = Recorded.of(results, FOUND)
    assert {"minilm", "bert-mini"} <= here.encoders
    assert "bert-base" not in here.encoders
    assert "sts-raw" in here.assets
    assert "wiki1m" not in here.assets
