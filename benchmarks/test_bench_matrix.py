"""Twelve calibrated rows of one encoder over the seven STS tasks, end to end."""

import shutil
import warnings
from dataclasses import dataclass
from functools import partial

import pytest

from harness.core.interfaces import Encoder
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell, planned_cells
from harness.registry import load_registry
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
FEW = 150  # rows of a split where nothing is measured: enough to whiten to 128

pytestmark = [pytest.mark.data, pytest.mark.weights]


@dataclass
class Matrix:
    """The rows of one encoder.

    Attributes:
        encoder: The encoder, ready.
        places: Where data and encoder are; its cache is emptied.
        cells: Each row on each task.
        sentences: Every sentence that the cells need, once.
    """

    encoder: Encoder
    places: Places
    cells: list[PlannedCell]
    sentences: list[str]

    def measure(self):
        """Every cell, from the files of the tasks on, with what is cached."""
        loader = TaskLoader(self.places, load_registry().corpora)
        store = Store(self.places.cache.parent / "runs")
        outcomes = list(execute(self.cells, RunContext(loader, store, overwrite=True)))
        assert [outcome.message for outcome in outcomes] == [""] * len(self.cells)

    def measure_anew(self):
        """Every cell, from an empty cache."""
        shutil.rmtree(self.places.cache, ignore_errors=True)
        self.measure()

    @property
    def facts(self):
        return {"cells": len(self.cells), "sentences": len(self.sentences)}


@pytest.fixture
def matrix(data_dir, tmp_path, folder_of, side_by_side):
    """Makes the rows of an encoder on seven tasks, or a little of one where nothing is measured."""

    def make(name):
        registry = load_registry()
        tasks = [registry.tasks[task] for task in TASKS]
        if not side_by_side.on:
            tasks = [limited(tasks[0], FEW)]
        methods = [registry.parse(f"{name}.{row}") for row in ROWS]
        cells = planned_cells(methods, tasks, seeds=1)
        folder = folder_of(name)
        places = Places(tmp_path / "cache", data_dir, {name: folder})
        loader = TaskLoader(places, registry.corpora)
        distinct = set()
        for cell in cells:
            distinct.update(loader.texts(cell.task, cell.method.fit_on).sentences)
        encoder = registry.encoders[name].load(folder, tmp_path)
        return Matrix(encoder, places, cells, sorted(distinct))

    yield make
    shutil.rmtree(tmp_path)  # hundreds of megabytes


@pytest.mark.parametrize("name", ["minilm", "bert-mini"])
def test_all_rows_beside_one_pass(side_by_side, matrix, name):
    rows = matrix(name)
    alone = partial(rows.encoder.encode, rows.sentences)
    seconds = side_by_side.seconds({"alone": alone, "ours": rows.measure_anew})
    ratios = seconds["alone"] / seconds["ours"]
    side_by_side.require(f"one-pass-{name}", ratios, ONE_PASS, **rows.facts)


def beside_mteb(side_by_side, rows, folder, row, **rounds):
    """A row of mteb is encoded and scored; what it would take to calibrate is left out."""
    import mteb
    from sentence_transformers import SentenceTransformer

    from harness.interop.mteb import local_task

    names = THEIRS if side_by_side.on else THEIRS[:1]
    model = SentenceTransformer(str(folder), device="cpu")

    def one_row():
        """mteb at its defaults on the local files of its tasks, which it reads as we do ours."""
        tasks = [local_task(name, rows.places.data_dir) for name in names]
        with warnings.catch_warnings(action="ignore"):  # of what its versions renamed
            found = mteb.evaluate(
                model, tasks, cache=None, co2_tracker=False, show_progress_bar=False
            )
        assert len(found.task_results) == len(tasks)

    seconds = side_by_side.seconds(
        {"mteb": one_row, "ours": rows.measure_anew}, **rounds
    )
    ratios = len(ROWS) * seconds["mteb"] / seconds["ours"]
    side_by_side.require(row, ratios, TIMES, **rows.facts)


def test_minilm_beside_mteb(side_by_side, matrix, minilm):
    beside_mteb(side_by_side, matrix("minilm"), minilm, "one-pass-mteb")


def test_mpnet_base_beside_mteb(side_by_side, matrix, folder_of):
    rows, folder = matrix("mpnet-base"), folder_of("mpnet-base")
    beside_mteb(side_by_side, rows, folder, "one-pass-mteb-mpnet-base", rounds=1)


def test_minilm_from_the_cache(side_by_side, matrix):
    rows = matrix("minilm")
    rows.measure_anew()
    seconds = side_by_side.seconds({"ours": rows.measure})
    side_by_side.require("warm-matrix", LIMIT / seconds["ours"], 1.0, **rows.facts)
