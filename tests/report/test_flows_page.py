"""The page of flows and linear maps: every cell or a word, and an answer that follows from them."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from fakes import made_record, results_of
from golden import require_golden

from harness.core.toml import read_typed
from harness.core.types import Record
from harness.report.flows import flows_page
from harness.results.index import Results
from harness.results.questions import Maps

GOLDEN = Path(__file__).parent / "golden"
MAPS = """
linear = ["sn", "whitening"]
flows = ["flow", "flow:rare"]
[[question]]
text = "Is a linear map enough?"
first = "whitening"
second = "flow"
[[question]]
text = "Does rarity matter?"
first = "flow:rare"
second = "flow"
"""
SEEDS = (-0.2, -0.1, 0.0, 0.1, 0.2)
SD = np.std(SEEDS, ddof=1)
H = 2.7764451 * SD / np.sqrt(5)  # Student's t with 4 degrees of freedom at .975


def records(method: str, *wmean: float | None) -> list[Record]:
    """One a seed; under `all` each seed has the same."""
    scores = [{"spearman": {"wmean": score, "all": 50.0}} for score in wmean]
    return [made_record(method, "sts-b", tree, seed) for seed, tree in enumerate(scores)]


def seeded(method: str, mean: float) -> list[Record]:
    return records(method, *(mean + step for step in SEEDS))


def results(*every: list[Record]) -> Results:
    return results_of(*chain(*every))


@pytest.fixture
def maps(tmp_path) -> Maps:
    path = tmp_path / "flows.toml"
    path.write_text(MAPS)
    return read_typed(Maps, path)


LINEAR = (
    records("x.mean", 60.0),
    records("x.mean+sn@target", 61.0),
    records("x.mean+whitening@target", 62.0),
)


def test_every_cell_is_a_mean_with_its_spread_or_a_word(maps):
    page = flows_page(results(*LINEAR, seeded("x.mean+flow@target", 63.0)), maps)
    require_golden(GOLDEN / "flows.md", page)
    assert flows_page(results(*LINEAR), maps) is None


@pytest.mark.parametrize(
    ("flow", "answer"),
    [
        (62.0 - H - 0.01, "`whitening` is ahead on 1, `flow` on 0, of 1 task."),
        (62.0 - H + 0.01, "no task is decided."),
        (62.0 + H - 0.01, "no task is decided."),
        (62.0 + H + 0.01, "`whitening` is ahead on 0, `flow` on 1, of 1 task."),
    ],
)
def test_a_task_is_decided_beyond_the_interval_over_seeds(maps, flow, answer):
    """The best linear map and the best flow have no part in it."""
    best = records("x.mean+sn@target", 99.0), seeded("x.mean+flow:rare@target", 9)
    page = flows_page(results(*LINEAR, *best, seeded("x.mean+flow@target", flow)), maps)
    difference = f"{62.0 - flow:+.2f}"
    assert f"STS-B {difference} ± {H:.2f}; {difference} on average: {answer}" in page


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_a_flow_of_few_seeds_says_so_and_decides_nothing(maps, seeds):
    few = records("x.mean+flow@target", *[70.0] * seeds)
    page = flows_page(results(*LINEAR, few), maps)
    assert f"(k={seeds})" in page
    assert "STS-B -8.00 (too few seeds); -8.00 on average: no task is decided." in page
