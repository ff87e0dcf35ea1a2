"""The page of ratios: what is measured, what is not, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ratios import write_result

from harness.core.errors import DataError, UsageError
from harness.report.build import stale_files, write_files
from harness.report.pages import speed_page
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED
from harness.results.questions import BenchmarkResult, read_benchmarks

COMMITTED = Path(__file__).parents[2] / "results"
ROWS = """
[[row]]
id = "fast"
what = "The fast way"
against = "the slow way"
device = "cpu"
wanted = "1.3"

[[row]]
id = "fast-cuda"
what = "The fast way on a GPU"
against = "the slow way"
device = "cuda"
wanted = "1.3"
"""
MACHINE = {"processor": "A processor", "threads": 2, "packages": {"torch": "9.9"}}
FOUND = BenchmarkResult((1.5, 1.4, 1.9, 1.45, 1.6), 1.3, {"sentences": 4000}, MACHINE)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "questions" / "speed.toml"
    path.parent.mkdir()
    path.write_text(ROWS)
    return path


def measured(rows):
    """The folder of what was measured."""
    return rows.parents[1] / "records" / "speed"


def line_of(page, what):
    lines = [line.strip("|").split("|") for line in page.splitlines()]
    [found] = [cells for cells in lines if cells[0].strip() == what]
    return [cell.strip() for cell in found]


def test_a_measured_row_has_its_median_and_range_and_another_says_that_it_has_none(rows):
    write_result(rows, "fast", FOUND)
    page = speed_page(read_benchmarks(rows))
    cells = ["cpu", "1.3 (here 1.3)", "1.50", "1.40–1.90", "5"]
    assert line_of(page, "The fast way")[2:] == cells
    assert line_of(page, "The fast way on a GPU")[2:] == ["cuda", "1.3", NOT_MEASURED, "", ""]
    assert "* The fast way: A processor, 2 threads, torch 9.9; sentences 4000." in page


def test_what_misses_its_limit_says_so(rows):
    write_result(rows, "fast", replace(FOUND, wanted=1.6))
    assert line_of(speed_page(read_benchmarks(rows)), "The fast way")[4] == "1.50 (missed)"


def test_what_was_written_is_read(rows):
    assert read_benchmarks(rows).results["fast"] is None
    write_result(rows, "fast", FOUND)
    assert read_benchmarks(rows).results["fast"] == FOUND


def test_every_change_changes_the_digest(rows):
    seen = {speed_page(read_benchmarks(rows))[-70:]}
    write_result(rows, "fast", FOUND)
    seen.add(speed_page(read_benchmarks(rows))[-70:])
    write_result(rows, "fast", replace(FOUND, facts={}))
    seen.add(speed_page(read_benchmarks(rows))[-70:])
    assert len(seen) == 3


def test_a_row_that_is_not_in_the_file_is_refused(rows):
    with pytest.raises(UsageError, match="no row 'other'"):
        write_result(rows, "other", FOUND)
    measured(rows).mkdir(parents=True)
    (measured(rows) / "other.json").write_text("{}")
    with pytest.raises(DataError, match="measured, but no row there: other"):
        speed_page(read_benchmarks(rows))


def test_fewer_rounds_than_five_are_refused(rows):
    with pytest.raises(UsageError, match="wanted 5 rounds or more, found 4"):
        write_result(rows, "fast", replace(FOUND, ratios=FOUND.ratios[:4]))


def test_where_bytes_are_counted_one_round_is_enough_and_none_is_not(rows):
    rows.write_text(ROWS.replace('"1.3"\n', '"1.3"\nrounds = 1\n', 1))
    write_result(rows, "fast", replace(FOUND, ratios=(1.5,)))
    assert line_of(speed_page(read_benchmarks(rows)), "The fast way")[-1] == "1"
    with pytest.raises(UsageError, match="wanted 1 rounds or more, found 0"):
        write_result(rows, "fast", replace(FOUND, ratios=()))
    with pytest.raises(UsageError, match="fast-cuda: wanted 5 rounds or more, found 1"):
        write_result(rows, "fast-cuda", replace(FOUND, ratios=(1.5,)))


@pytest.mark.parametrize("content", ["", "{}", '{"ratios": [1, 2]}', "[1]"])
def test_a_damaged_measurement_is_an_error(content, rows):
    measured(rows).mkdir(parents=True)
    (measured(rows) / "fast.json").write_text(content)
    with pytest.raises(DataError, match=r"^fast\.json: "):
        speed_page(read_benchmarks(rows))


@pytest.mark.parametrize("content", ["", "[[row]]\nid = 'x'", ROWS + ROWS])
def test_rows_that_are_none_are_an_error(content, rows):
    rows.write_text(content)
    with pytest.raises(DataError, match=r"speed\.toml"):
        read_benchmarks(rows)


def test_the_page_is_written_and_checked_with_the_others(rows, tmp_path):
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "sif.t1.toml").write_bytes((COMMITTED / "papers" / "sif.t1.toml").read_bytes())
    assert tmp_path / "tables" / "speed.md" in write_files(ResultsFolder(tmp_path), None)
    write_result(rows, "fast", FOUND)
    assert stale_files(ResultsFolder(tmp_path), None) == [tmp_path / "tables" / "speed.md"]


def test_committed_measurements_are_of_no_time_and_no_place():
    for file in (COMMITTED / "records" / "speed").glob("*.json"):
        found = json.loads(file.read_text())
        assert set(found) == {"ratios", "wanted", "facts", "environment"}
        assert not [fact for fact in found["facts"] if "second" in fact]
