"""Data frames: typed columns whatever they hold, and one's own results before the packaged."""

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from harness import read_results
from harness.core.errors import UsageError
from harness.results.index import Results
from harness.results.records import Cell, cell_of
from harness.results.store import Store

ROOT = Path(__file__).resolve().parents[2]


def test_a_frame_holds_the_committed_records(tmp_path):
    frame = read_results(ROOT / "results")
    store = Store(ROOT / "results")
    assert len(frame) == len(list(store.records()))
    assert not frame.duplicated(["method", "task", "seed"]).any()
    value = Results.read(store).value("minilm.mean", "sts12", "spearman", "all")
    table = frame.pivot_table(index="method", columns="task", values="score")
    assert table.loc["minilm.mean", "sts12"] == pytest.approx(value.mean)
    exact = frame[frame.verdict == "exact"]
    assert (exact.score - exact.published).abs().max() <= 0.005
    with refused(UsageError, "wanted a folder of results"):
        read_results(tmp_path)


@pytest.fixture
def folder_with_own_results(monkeypatch, tmp_path):
    """A current folder with results of its own: a cell that is packaged, too, and one that is not.

    The packaged results have five seeds of the former.
    """
    packaged = {cell_of(record): record for record in Store(ROOT / "results").records()}
    shared = packaged[Cell("minilm.mean+flow@target", "sts-b", 0)]
    new = replace(shared, method="minilm.mean+flow:mine@target")
    Store(tmp_path / "results").promote(
        [replace(shared, scores={"spearman": {"all": 1.0}}), new]
    )
    monkeypatch.chdir(tmp_path)
    return packaged


def test_ones_own_results_stand_before_the_packaged_ones_and_replace_their_cells(
    folder_with_own_results, tmp_path
):
    frame = read_results()
    cell = ("minilm.mean+flow@target", "sts-b")
    others = [key for key in folder_with_own_results if (key.method, key.task) != cell]
    assert list(frame.source) == ["own"] * 2 + ["packaged"] * len(others)
    own, packaged = frame[:2], frame[2:]
    assert set(own.method) == {cell[0], "minilm.mean+flow:mine@target"}
    assert own[own.method == cell[0]].score.tolist() == [1.0]
    names = [(key.method, key.task, key.seed) for key in others]
    keys = zip(packaged.method, packaged.task, packaged.seed, strict=True)
    assert list(keys) == names
    assert packaged.published.notna().any()
    assert list(read_results(tmp_path / "results").source) == ["own"] * 2
