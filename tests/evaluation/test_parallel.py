"""A run by several processes, in shards or on a cluster: the records of one process."""

import os
import signal
from dataclasses import dataclass
from functools import partial

import pytest
from fakes import (
    OTHER,
    TOY,
    BrokenConfig,
    Sentences,
    Told,
    method,
    outcomes_of_run,
    task,
)
from refusals import refused

from harness.core.errors import HarnessError, UsageError
from harness.evaluation.processes import _client, results_of
from harness.evaluation.select import part_of, planned_cells, units

METHODS = (
    method("mean"),
    method("cls"),
    method("mean", "centre", on="target"),
    method("first-last", "centre", "stretch", on="target"),
)
PLANNED = planned_cells(METHODS, [TOY, OTHER], seeds=2)


def scores(outcomes):
    return {cell: outcome.record.scores for cell, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def scores_of_one_process(tmp_path_factory):
    """The scores of one process."""
    return scores(outcomes_of_run(tmp_path_factory.mktemp("alone"), PLANNED))


@pytest.fixture(scope="module")
def scheduler():
    distributed = pytest.importorskip(
        "distributed", reason="the dask extra is not installed"
    )
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address
        _client(cluster.scheduler_address).close()


def test_two_processes_give_the_records_of_one(tmp_path, scores_of_one_process):
    told = Told()
    outcomes = outcomes_of_run(tmp_path, PLANNED, told=told, jobs=2)
    assert scores(outcomes) == scores_of_one_process
    assert {outcome.record.facts["workers"] for outcome in outcomes.values()} == {2}
    assert told.phases[-1] == ("scoring", len(PLANNED))
    again = outcomes_of_run(tmp_path, PLANNED, jobs=2)
    assert {outcome.status for outcome in again.values()} == {"done"}


@dataclass(frozen=True)
class SentencesOfFile:
    """Pairs that a file chooses."""

    def __call__(self, data_dir, split):
        return Sentences(int((data_dir / "start").read_text()))(data_dir, split)


def test_processes_keep_no_texts_of_an_earlier_run(tmp_path):
    several = [method("mean"), method("cls")]
    planned = planned_cells(several, [task(load=SentencesOfFile())], seeds=1)
    for start in ("0", "7"):
        measured = []
        for folder, jobs in (tmp_path / "several", 2), (tmp_path / start, 1):
            (folder / "data").mkdir(parents=True, exist_ok=True)
            (folder / "data" / "start").write_text(start)
            outcomes = outcomes_of_run(folder, planned, jobs=jobs)
            records = [
                outcome.record for _, outcome in sorted(outcomes.items(), key=str)
            ]
            measured.append([(each.scores, each.digests["data"]) for each in records])
        assert measured[0] == measured[1]


def test_a_cluster_gives_the_records_of_one_process(
    tmp_path, scores_of_one_process, scheduler
):
    outcomes = outcomes_of_run(tmp_path, PLANNED, jobs=scheduler)
    assert scores(outcomes) == scores_of_one_process


def kill_once(number, folder):
    """A worker's process is killed by the call of 2, the first time that it is made."""
    killed = folder / "killed"
    if number == 2 and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_lost_worker_is_told_in_one_line_and_its_calls_are_made_again(
    tmp_path, scheduler, caplog
):
    calls = [partial(kill_once, number, tmp_path) for number in range(6)]
    with caplog.at_level("WARNING", logger="harness"):
        assert sorted(results_of(calls, scheduler)) == [*range(6)]
    [told] = [each for each in caplog.records if each.name.startswith("harness")]
    assert told.getMessage().startswith(
        "harness: a worker of the cluster was lost, tcp://"
    )
    assert "\n" not in told.getMessage()


@pytest.mark.parametrize("count", [1, 3, 50])
def test_the_shards_of_a_plan_are_the_whole_with_no_cell_twice(count):
    cells = []
    for number in range(count):
        cells += part_of(PLANNED, f"{number + 1}/{count}")
    assert sorted(map(repr, cells)) == sorted(map(repr, PLANNED))


def test_cells_that_share_a_pooling_are_one_unit_and_fits_by_chance_stand_apart():
    kinds = []
    for unit in units(PLANNED):
        [kind] = {(cell.method.pooling.name, cell.seed) for cell in unit}
        kinds.append((*kind, len(unit)))
    assert sorted(kinds) == [
        ("cls", 0, 2),
        *[("first-last", 0, 1)] * 2,
        *[("first-last", 1, 1)] * 2,
        ("mean", 0, 4),
    ]


def test_what_cannot_be_encoded_is_told_by_its_cells(tmp_path):
    broken = method("mean", encoder=BrokenConfig(weights="broken"))
    planned = planned_cells([*METHODS[:2], broken], [TOY], seeds=1)
    outcomes = outcomes_of_run(tmp_path, planned, jobs=2).values()
    messages = sorted(outcome.message for outcome in outcomes)
    assert messages == ["", "", "broken: wanted weights, found none; fetch them again"]


# Processes


def kill_at_3(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_is_killed_ends_the_run_with_one_line():
    calls = [partial(kill_at_3, number) for number in range(8)]
    with refused(HarnessError, r"^a worker process was killed[^\n]*run again[^\n]*$"):
        list(results_of(calls, 2))


def test_a_scheduler_that_is_not_there_is_refused():
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    with refused(UsageError, "--scheduler nonsense: "):
        list(results_of([partial(abs, 1), partial(abs, 2)], "nonsense"))
