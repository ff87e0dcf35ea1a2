"""A run by several processes, in shards or on a cluster: the records of one process."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
from fakes import OTHER, TOY, BrokenConfig, Told, corpus, library, method, numbered

from harness.core.errors import HarnessError, UsageError
from harness.evaluation import parallel
from harness.evaluation.engines import Engine, engine
from harness.evaluation.parallel import WHOLE_RUN, Part, WorkerRun, execute_on, units
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.results.store import Store

METHODS = (
    method("mean"),
    method("cls"),
    method("mean", "centre", on="target"),
    method("first-last", "centre", "stretch", on="target"),
)
PLANNED = planned_cells(METHODS, [TOY, OTHER], seeds=2)
TWO = Engine(2)


def outcomes_of_run(
    folder, engine, planned=PLANNED, part=WHOLE_RUN, told=None, corpora=()
):
    """The outcomes, by cell; of one process, without an engine."""
    context = RunContext(
        library(folder, *corpora), Store(folder / "runs"), told or Told()
    )
    made = (
        execute_on(engine, planned, context, part)
        if engine
        else execute(planned, context)
    )
    return {outcome.cell: outcome for outcome in made}


def scores(outcomes):
    return {cell: outcome.record.scores for cell, outcome in outcomes.items()}


@pytest.fixture(scope="module")
def scores_of_one_process(tmp_path_factory):
    """The scores of one process."""
    return scores(outcomes_of_run(tmp_path_factory.mktemp("alone"), None))


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip(
        "distributed", reason="the dask extra is not installed"
    )
    local = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0"
    )
    yield engine(None, local.scheduler_address)
    local.close()


def test_two_processes_give_the_records_of_one(tmp_path, scores_of_one_process):
    told = Told()
    outcomes = outcomes_of_run(tmp_path, TWO, told=told)
    assert scores(outcomes) == scores_of_one_process
    assert {outcome.record.facts["workers"] for outcome in outcomes.values()} == {2}
    assert told.phases[-1] == ("scoring", len(PLANNED))
    again = outcomes_of_run(tmp_path, TWO)
    assert {outcome.status for outcome in again.values()} == {"done"}


def test_a_cluster_gives_the_records_of_one_process(
    tmp_path, scores_of_one_process, cluster
):
    assert scores(outcomes_of_run(tmp_path, cluster)) == scores_of_one_process


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_the_shards_of_a_plan_are_the_whole_with_no_cell_twice(count):
    parts = [Part(number, count).cells(PLANNED) for number in range(count)]
    assert sorted(map(str, (one.address for part in parts for one in part))) == sorted(
        str(one.address) for one in PLANNED
    )
    texts = [f"sentence {n}" for n in range(100)]
    assert sorted(
        t for n in range(count) for t in Part(n, count).texts(texts)
    ) == sorted(texts)


def test_shards_one_after_the_other_leave_the_records_of_one_process(
    tmp_path, scores_of_one_process
):
    outcomes = {}
    for part in (Part(0, 2), Part(1, 2)):
        outcomes |= outcomes_of_run(tmp_path, Engine(), part.cells(PLANNED), part)
    assert scores(outcomes) == scores_of_one_process


def test_cells_that_share_work_are_one_unit_and_seeds_stand_apart():
    found = units(PLANNED)
    assert sorted(map(str, (c.address for u in found for c in u))) == sorted(
        str(c.address) for c in PLANNED
    )
    kinds = [
        {(c.method.pooling.name, c.method.seeded and c.seed) for c in unit}
        for unit in found
    ]
    assert all(len(kind) == 1 for kind in kinds)
    assert len(found) == 4  # mean, cls, and two seeds of first-last


def test_fits_on_a_corpus_are_measured_beside_each_other_after_one_pass(tmp_path):
    stream, told = corpus("stream", numbered(100, 60)), Told()
    fits = [
        method("mean", "centre", on="stream"),
        method("first-last", "stretch", on="stream"),
    ]
    planned = planned_cells(fits, [TOY, OTHER], seeds=2)
    assert len(units(planned)) == 1
    assert len(units(planned, passes_made=True)) == 3
    wanted = outcomes_of_run(tmp_path / "alone", None, planned, corpora=[stream])
    beside = outcomes_of_run(
        tmp_path / "beside", TWO, planned, told=told, corpora=[stream]
    )
    assert scores(beside) == scores(wanted)
    [(_, sentences), (_, count)] = told.phases
    assert [name for name, _ in told.phases] == ["encoding", "scoring"]
    assert count == len(planned)
    assert sentences > 60  # those of the corpus, and the tasks'
    assert told.steps == sentences + count
    for folder in ("moments", "rows"):
        [_] = (tmp_path / "beside" / "cache" / folder).rglob("stream*")


def test_a_worker_of_another_version_or_without_a_folder_is_refused(
    tmp_path, monkeypatch
):
    context = RunContext(library(tmp_path), Store(tmp_path / "nowhere"))
    worker = WorkerRun.for_run(context, TWO)
    with pytest.raises(HarnessError, match="nowhere: share it under this path"):
        worker.require_same_installation()
    monkeypatch.setattr(parallel, "code_digest", lambda: "0" * 64)
    with pytest.raises(HarnessError, match=r"the worker on \S+ has other code"):
        worker.require_same_installation()


def test_what_cannot_be_encoded_is_told_by_its_cells(tmp_path):
    broken = method("mean", encoder=BrokenConfig(weights="broken"))
    planned = planned_cells([*METHODS[:2], broken], [TOY], seeds=1)
    outcomes = outcomes_of_run(tmp_path, TWO, planned).values()
    assert sorted(outcome.status for outcome in outcomes) == [
        "failed",
        "measured",
        "measured",
    ]
    [message] = [outcome.message for outcome in outcomes if outcome.message]
    assert message == "broken: wanted weights, found none; fetch them again"


# Engines


def results(engine, function, numbers):
    """What a function gives for each number."""
    return sorted(engine.results([partial(function, number) for number in numbers]))


@pytest.mark.parametrize("made", [Engine(), TWO])
def test_an_engine_makes_every_call(made):
    assert results(made, abs, range(-9, 0)) == [*range(1, 10)]


def kill_at_3(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_is_killed_ends_the_run_with_one_line():
    with pytest.raises(
        HarnessError, match=r"^a worker process was killed[^\n]*run again[^\n]*$"
    ):
        results(TWO, kill_at_3, range(8))


def test_a_scheduler_that_is_not_there_is_refused():
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    with pytest.raises(UsageError, match="--scheduler nonsense: "):
        results(engine(None, "nonsense"), abs, [1])


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b"])
def test_a_shard_that_is_none_is_refused(text):
    with pytest.raises(UsageError, match="wanted I/N"):
        Part.parse(text)


def test_numbers_of_processes_and_a_scheduler_exclude_each_other():
    with pytest.raises(UsageError, match="give one"):
        engine(2, "tcp://localhost:1")
    assert engine(3, None) == Engine(3)
    assert Path("/proc").exists() is False or engine(None, None).jobs >= 1
