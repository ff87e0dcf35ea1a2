"""A results folder as one object: what it reads, from where, and how often."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import made_record

from harness.conclusions.folder import Conclusions
from harness.results.folder import ResultsFolder
from harness.results.index import main_path
from harness.results.layout import COMMITTED, OWN, RUNS, reading_order
from harness.results.records import Cell
from harness.results.score_rows import folder_rows, score_rows
from harness.results.store import Store


def test_a_folder_without_questions_asks_nothing(tmp_path):
    (tmp_path / "papers").mkdir()
    shutil.copy(COMMITTED / "papers" / "sif.t1.toml", tmp_path / "papers")
    folder = Conclusions(tmp_path)
    assert folder.papers == tmp_path / "papers"
    assert [table.id for table in folder.tables] == ["sif.t1"]
    assert folder.claims is None
    assert (*folder.traps, *folder.references, *folder.compared_references) == ()


def test_a_record_of_other_settings_is_stale_and_no_number(tmp_path):
    folder, record = ResultsFolder(tmp_path), next(Store(COMMITTED).records())
    folder.store.promote([replace(record, identity="of an older version")])
    value = folder.records.value(record.method, record.task, *main_path(record.scores))
    assert (value.mean, value.state) == (None, "stale")
    assert {row.state for row in score_rows(folder.records, (), folder.registry)} == {
        "stale"
    }


# Several folders that are read as one


def write(folder, method, value, seed=0):
    """Store a record whose score and similarities are a value."""
    record = made_record(method, "toy", {"spearman": {"all": value}}, seed)
    Store(folder).write(record, np.full(3, value), {})


def test_a_cell_is_that_of_the_first_folder_with_all_its_seeds(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    write(first, "fake.mean", 1.0)
    for seed in range(3):
        write(second, "fake.mean", 2.0, seed)
    write(second, "fake.cls", 3.0)
    folder = ResultsFolder(first, folders=(first, second))
    assert folder.records.methods == ("fake.mean", "fake.cls")
    value = folder.records.value("fake.mean", "toy", "spearman", "all")
    assert (value.mean, value.seeds) == (1.0, 1)
    assert folder.similarities(Cell("fake.mean", "toy")).tolist() == [1.0] * 3
    assert folder.similarities(Cell("fake.cls", "toy")).tolist() == [3.0] * 3
    # Never those of another folder's record, nor of another seed.
    assert folder.similarities(Cell("fake.mean", "toy", 1)) is None
    Store(first).path(Cell("fake.mean", "toy")).with_suffix(".safetensors").unlink()
    assert folder.similarities(Cell("fake.mean", "toy")) is None
    assert folder.similarities(Cell("fake.last", "toy")) is None
    rows = folder_rows(folder)
    assert [(row.method, row.seed, row.score) for row in rows] == [
        ("fake.mean", 0, 1.0),
        ("fake.cls", 0, 3.0),
    ]


def test_packaged_records_are_known_by_their_folder(tmp_path):
    record = next(Store(COMMITTED).records())
    write(tmp_path, "fake.mean", 1.0)
    write(tmp_path, record.method, 1.0)
    folder = ResultsFolder(tmp_path, folders=(tmp_path, COMMITTED))
    assert folder.is_packaged(record.method, record.task)
    assert not folder.is_packaged(record.method, "toy")
    assert not folder.is_packaged("fake.mean", "toy")
    assert not folder.is_packaged("fake.mean", "no such task")
    # A method with one cell of one's own is not packaged.
    assert not {"fake.mean", record.method} & folder.records.packaged
    assert folder.records.packaged
    assert not ResultsFolder(COMMITTED).records.packaged


ELSEWHERE = Path("elsewhere")


@pytest.mark.parametrize(
    ("folder", "options", "order"),
    [
        (OWN, {}, (OWN, COMMITTED)),
        (OWN, {"with_runs": True}, (OWN, RUNS, COMMITTED)),
        (OWN, {"with_runs": True, "only_own": True}, (OWN, RUNS)),
        (RUNS, {"with_runs": True}, (RUNS,)),
        (RUNS, {"with_packaged": True}, (RUNS, OWN, COMMITTED)),
        (ELSEWHERE, {"with_packaged": True}, (ELSEWHERE, COMMITTED)),
        (ELSEWHERE, {"with_packaged": True, "only_own": True}, (ELSEWHERE,)),
        (COMMITTED, {"with_runs": True}, (RUNS, COMMITTED)),
        (COMMITTED, {"only_own": True}, ()),
    ],
)
def test_own_results_come_before_packaged_ones(
    folder, options, order, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert reading_order(folder, **options) == order


def test_the_results_of_a_checkout_are_the_packaged_ones(monkeypatch):
    monkeypatch.chdir(COMMITTED.parent)
    assert reading_order(OWN, with_runs=True) == (OWN,)
    assert reading_order(COMMITTED, with_runs=True) == (COMMITTED,)
    assert reading_order(RUNS, with_packaged=True) == (RUNS, COMMITTED)
