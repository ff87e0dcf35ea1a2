"""Data frames: typed columns whatever they hold, and no library that was not asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

from harness import read_results
from harness.core.errors import DataError, UsageError
from harness.interop.frames import to_frame
from harness.results.index import Results
from harness.results.records import Store

ROOT = Path(__file__).resolve().parents[2]


def test_a_frame_holds_the_committed_records():
    frame, records = read_results(ROOT / "results"), list(Store(ROOT / "results").records())
    assert len(frame) == len(records)
    assert not frame.duplicated(["method", "task", "seed"]).any()
    value = Results.read(Store(ROOT / "results")).value("minilm.mean", "sts12", "spearman", "all")
    table = frame.pivot_table(index="method", columns="task", values="score")
    assert table.loc["minilm.mean", "sts12"] == pytest.approx(value.mean)
    exact = frame[frame.verdict == "exact"]
    assert (exact.score - exact.published).abs().max() <= 0.005


def test_both_libraries_give_the_same_columns():
    pandas = read_results(ROOT / "results", every_score=True)
    polars = read_results(ROOT / "results", every_score=True, library="polars")
    assert list(pandas.columns) == polars.columns
    assert polars["score"].null_count() == pandas.score.isna().sum()
    assert polars["score"].sum() == pytest.approx(pandas.score.sum())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_are_typed_without_a_row(library):
    full, empty = read_results(ROOT / "results", library=library), to_frame((), library)
    assert len(empty) == 0
    assert list(map(str, empty.dtypes)) == list(map(str, full.dtypes))


def test_a_folder_without_results_and_a_changed_record_are_refused(tmp_path):
    with pytest.raises(UsageError, match="wanted a folder of results"):
        read_results(tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "fake.jsonl").write_text('{"rows": 1}\n')
    with pytest.raises(DataError, match="wanted 1 rows, found 0"):
        read_results(tmp_path)


def test_a_library_that_is_not_here_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UsageError, match=r"pip install 'sentence-embedding-harness\[polars\]'"):
        to_frame((), "polars")


def test_no_library_is_imported_before_it_is_asked_for():
    code = "import sys; from harness import read_results; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert not {"pandas", "polars"} & set(done.stdout.split())
