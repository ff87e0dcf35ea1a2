"""What shows one cell opens the files of its method alone."""

import shutil

import pytest
from committed import RESULTS

from harness.conclusions.folder import Conclusions
from harness.registry import load_registry
from harness.report.cite import cite
from harness.results.score_rows import folder_rows

METHOD = "minilm.mean"


@pytest.fixture
def folder(tmp_path):
    """Committed results, in which the records of another method are damaged."""
    records = RESULTS / "records" / "minilm"
    copy = tmp_path / "results" / "records" / "minilm"
    copy.mkdir(parents=True)
    shutil.copy(records / f"{METHOD}.jsonl", copy)
    (copy / "minilm.cls.jsonl").write_text("damaged\n")
    return Conclusions(tmp_path / "results", load_registry(), RESULTS / "papers")


def test_a_method_is_cited_and_shown_from_its_own_records(folder):
    committed = Conclusions(RESULTS, load_registry())
    assert [*cite(folder, method=METHOD)] == [*cite(committed, method=METHOD)]
    assert len(folder_rows(folder, methods=[METHOD])) == len(
        folder_rows(committed, methods=[METHOD])
    )


def test_a_published_number_is_cited_from_the_records_of_its_method(folder):
    measured = [
        number.id
        for number in folder.published_numbers.values()
        if number.method == METHOD
    ]
    assert measured
    committed = Conclusions(RESULTS, load_registry())
    for name in measured[:2]:
        assert [*cite(folder, subject=name)] == [*cite(committed, subject=name)]


def test_numbers_of_a_reader_are_explained_from_the_records_of_the_rows_encoder(folder):
    records = folder.path / "records"
    (records / "minilm" / "minilm.cls.jsonl").unlink()
    (records / "bert-mini").mkdir()
    (records / "bert-mini" / "bert-mini.mean.jsonl").write_text("damaged\n")
    numbers = [
        number
        for number in folder.table("mteb.1-12-75").numbers
        if number.method == METHOD and number.metric == "spearman"
    ][:3]
    mine = ",".join(f"{number.column.id}={number.shown}" for number in numbers)
    assert folder.diagnose(numbers[0].row_id, mine).is_rounding
    assert folder.measured_encoders == {"minilm", "bert-mini"}
