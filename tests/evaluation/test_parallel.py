"""A plan by several processes, in shards or on a cluster: the records of one process."""

import importlib
import os
import signal
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fakes import (
    OTHER,
    TOY,
    BrokenConfig,
    FakeConfig,
    Told,
    corpus,
    library,
    method,
    numbered,
)
from processes import run as run_process
from tiny_models import rest_slow

from harness.assets.places import Places
from harness.core.environment import packages
from harness.core.errors import HarnessError, UsageError
from harness.evaluation import workers
from harness.evaluation.engines import (
    QUIET_TRACKER,
    Cluster,
    InProcess,
    Job,
    Processes,
    WorkersLost,
    run_jobs,
)
from harness.evaluation.parallel import WHOLE_PLAN, Part, TrainingJob, execute_on, units
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.evaluation.workers import WorkerContext
from harness.results.store import Store
from harness.tasks.loader import TaskLoader

METHODS = (
    method("mean"),
    method("cls"),
    method("mean", "centre", on="target"),
    method("first-last", "centre", "stretch", on="target"),
)
PLANNED = planned_cells(METHODS, [TOY, OTHER], seeds=2)


def outcomes_of_run(
    folder, engine, planned=PLANNED, part=WHOLE_PLAN, told=None, corpora=()
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
    made = Cluster.connect(local.scheduler_address)
    yield made
    made.client.close()
    local.close()


def test_two_processes_give_the_records_of_one(tmp_path, scores_of_one_process):
    told = Told()
    outcomes = outcomes_of_run(tmp_path, Processes(2), told=told)
    assert scores(outcomes) == scores_of_one_process
    assert {outcome.record.facts["workers"] for outcome in outcomes.values()} == {2}
    assert told.phases[-1] == ("scoring", len(PLANNED))
    again = outcomes_of_run(tmp_path, Processes(2))
    assert {outcome.status for outcome in again.values()} == {"done"}


def test_a_cluster_gives_the_records_of_one_process(
    tmp_path, scores_of_one_process, cluster
):
    assert scores(outcomes_of_run(tmp_path, cluster)) == scores_of_one_process


def test_a_run_ends_if_the_scheduler_is_lost_while_a_result_is_fetched(
    cluster, monkeypatch
):
    lost = importlib.import_module("distributed.client").FutureCancelledError

    async def gather(*_arguments, **_options):
        raise lost("a job", reason="scheduler-connection-lost")

    monkeypatch.setattr(cluster.client, "_gather", gather)
    with pytest.raises(HarnessError, match=r"^the scheduler was lost; "):
        results(cluster, abs, [-1])


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
        outcomes |= outcomes_of_run(tmp_path, InProcess(), part.cells(PLANNED), part)
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
        tmp_path / "beside", Processes(2), planned, told=told, corpora=[stream]
    )
    assert scores(beside) == scores(wanted)
    [(_, sentences), (_, count)] = told.phases
    assert [name for name, _ in told.phases] == ["encoding", "scoring"]
    assert count == len(planned)
    assert sentences > 60  # those of the corpus, and the tasks'
    assert told.steps == sentences + count
    for folder in ("moments", "rows"):
        [_] = (tmp_path / "beside" / "cache" / folder).rglob("stream*")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"code": "0" * 64}, r"the worker on \S+ has other code"),
        (
            {"libraries": {**packages(), "numpy": "0.1"}},
            r"has numpy \S+, this process 0.1",
        ),
        (
            {
                "context": RunContext(
                    TaskLoader(Places(Path()), {}), Store(Path("nowhere"))
                )
            },
            "has nothing at nowhere: share it under this path",
        ),
    ],
)
def test_a_worker_of_another_version_or_without_a_folder_is_refused(
    tmp_path, change, message
):
    worker = WorkerContext.for_run(
        RunContext(library(tmp_path), Store(tmp_path)), workers=2
    )
    with pytest.raises(HarnessError, match=message):
        replace(worker, **change).require_same_installation()


def test_a_worker_with_other_code_trains_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(
        workers, "code_digest", lambda: "0" * 64
    )  # a worker has its own
    trainings = [
        TrainingJob(call=partial((tmp_path / "trained").touch), encoder=FakeConfig())
    ]
    made = execute_on(
        Processes(2),
        PLANNED,
        RunContext(library(tmp_path), Store(tmp_path)),
        trainings=trainings,
    )
    with pytest.raises(HarnessError, match="has other code"):
        list(made)
    assert not (tmp_path / "trained").exists()


def test_what_cannot_be_encoded_is_told_by_its_cells(tmp_path):
    broken = method("mean", encoder=BrokenConfig(weights="broken"))
    planned = planned_cells([*METHODS[:2], broken], [TOY], seeds=1)
    outcomes = outcomes_of_run(tmp_path, Processes(2), planned).values()
    assert sorted(outcome.status for outcome in outcomes) == [
        "failed",
        "measured",
        "measured",
    ]
    [message] = [outcome.message for outcome in outcomes if outcome.message]
    assert message == "broken: wanted weights, found none; fetch them again"


@dataclass(frozen=True)
class LateConfig(FakeConfig):
    """An encoder that waits for a record of another before it encodes."""

    name: str = "late"
    weights: str = "late"
    records: str = ""

    def load(self, path, cache):
        end = time.monotonic() + 20
        while not [*Path(self.records).rglob("seed-*.json")]:
            if time.monotonic() > end:  # whoever encodes next does not wait
                Path(self.records, "seed-none.json").touch()
            time.sleep(0.05)
        return super().load(path, cache)


@pytest.mark.parametrize("engine", ["processes", "cluster"])
def test_cells_are_measured_when_their_own_encoder_is_done(tmp_path, engine, request):
    engine = request.getfixturevalue("cluster") if engine == "cluster" else Processes(2)
    late = LateConfig(records=str(tmp_path / "runs"))
    planned = planned_cells([*METHODS, method("mean", encoder=late)], [TOY], seeds=1)
    context = RunContext(
        library(tmp_path, encoders=("fake", "late")), Store(tmp_path / "runs")
    )
    outcomes = [*execute_on(engine, planned, context)]
    assert [outcome.message for outcome in outcomes] == [""] * len(planned)
    assert outcomes[-1].cell.encoder == "late"
    assert not (tmp_path / "runs" / "seed-none.json").exists()


def test_an_encoder_that_is_trained_keeps_no_other_waiting(tmp_path):
    kin, told = FakeConfig("kin", weights="two"), Told()
    planned = planned_cells(
        [method("mean"), method("mean", encoder=kin)], [TOY, OTHER], seeds=1
    )
    waits = partial(LateConfig(records=str(tmp_path / "runs")).load, None, None)
    trainings = [TrainingJob(call=partial(returns_nothing, waits), encoder=kin)]
    loader = library(tmp_path, encoders=("fake", "kin"))
    context = RunContext(loader, Store(tmp_path / "runs"), told)
    outcomes = [*execute_on(Processes(2), planned, context, trainings=trainings)]
    assert [outcome.status for outcome in outcomes] == ["measured"] * 4
    assert [outcome.cell.encoder for outcome in outcomes] == ["fake"] * 2 + ["kin"] * 2
    assert not (tmp_path / "runs" / "seed-none.json").exists()
    assert [name for name, _ in told.phases] == ["training", "encoding", "scoring"]


def returns_nothing(call):
    call()


def results(engine, function, numbers):
    """What a function gives for each number, in the order in which it is done."""
    jobs = [Job(call=partial(function, number)) for number in numbers]
    return [result for _, result in run_jobs(engine, jobs)]


def test_a_job_is_run_when_those_before_it_are_done_and_a_milestone_is_not_called():
    calls = []
    first, second = (Job(call=partial(calls.append, number)) for number in (1, 2))
    milestone = Job(after=(first, second))
    last = Job(call=partial(calls.append, "last"), after=(milestone,))
    assert [job for job, _ in run_jobs(InProcess(), [last, milestone, second, first])][
        -1
    ] is last
    assert calls[-1] == "last"
    assert sorted(calls[:-1]) == [1, 2]


def kill_at_3(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


GROWN = []


def grow(number):
    GROWN.append(np.ones(5 * 10**7))  # 400 MB
    time.sleep(1.1)  # joblib looks once a second
    return os.getpid()


@pytest.mark.slow
def test_a_worker_that_holds_an_encoder_is_not_replaced():
    assert len(set(results(Processes(2), grow, range(6)))) == 2


@pytest.mark.slow
def test_results_that_are_closed_early_leave_no_traceback(tmp_path):
    """In 6 of 40 tries loky's own thread ended with a traceback."""
    code = (
        "from functools import partial\n"
        "from harness.evaluation.engines import Job, Processes, run_jobs\n"
        "for count in range(1, 21):\n"
        "    jobs = [Job(call=partial(abs, number)) for number in range(200)]\n"
        "    results = run_jobs(Processes(2), jobs)\n"
        "    for _ in range(count): next(results)\n"
        "    results.close()\n"
    )
    ended = run_process(
        cwd=tmp_path, code=code, PYTHONWARNINGS=QUIET_TRACKER
    )  # as commands do
    assert (ended.status, ended.err) == (0, "")


def test_a_process_that_is_killed_ends_the_run_with_one_line():
    with pytest.raises(
        HarnessError, match=r"^a worker process was killed[^\n]*run again[^\n]*$"
    ):
        results(Processes(2), kill_at_3, range(8))


def kill_at_3_while_others_sleep(number):
    # A nanny whose worker dies before it has noted the start gives up: longer than that
    # takes.
    time.sleep(1.5 if number == 3 else 4.0)
    return kill_at_3(number)


@pytest.mark.slow
def test_a_job_that_kills_its_worker_is_lost_and_another_of_that_worker_alone_is_done():
    """One worker with two threads: when it dies it has both."""
    distributed = pytest.importorskip(
        "distributed", reason="the dask extra is not installed"
    )
    dask = pytest.importorskip("dask")
    with (
        # A cluster of this machine gives a worker up that is not back after 15 seconds; on a
        # busy machine that would be while it starts again after the second kill.
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 0,
                "distributed.deploy.lost-worker-timeout": "1h",
            }
        ),
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, dashboard_address=":0"
        ) as made,
        distributed.Client(made) as client,
    ):
        engine = Cluster(client)
        together = results(engine, kill_at_3_while_others_sleep, [3, 4])
        [three] = results(engine, kill_at_3_while_others_sleep, [3])
        [four] = results(engine, kill_at_3_while_others_sleep, [4])
    assert any(isinstance(result, WorkersLost) for result in together)
    assert isinstance(three, WorkersLost)
    assert four == 4


@pytest.mark.parametrize(
    "scheduler", rest_slow(["tcp://127.0.0.1:1", "nonsense"], "nonsense")
)
def test_a_scheduler_that_is_not_there_is_refused(scheduler):
    pytest.importorskip("distributed", reason="the dask extra is not installed")
    with pytest.raises(UsageError, match=f"--scheduler {scheduler}: "):
        Cluster.connect(scheduler)
