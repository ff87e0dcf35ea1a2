"""The page of speed: what is measured, what is not, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from measurements import write_result

from harness.core.errors import DataError, UsageError
from harness.core.json_text import write_json
from harness.report.speed import BenchmarkResult, read_benchmarks, speed_page
from harness.results.index import NOT_MEASURED

COMMITTED = Path(__file__).parents[2] / "results"
SPEED = "".join(
    f'[[row]]\nid = "{name}"\nwhat = "{what}"\nagainst = "slow"\ndevice = "cpu"\nwanted = "1.3"\n'
    for name, what in (("fast", "The fast way"), ("gpu", "On a GPU"))
)
MACHINE = {
    "processor": "A processor",
    "threads": 2,
    "packages": {"torch": "9.9"},
    "harness": "0.5.0",
    "commit": "0123456789",
}
MEASURED = BenchmarkResult(
    (1.5, 1.4, 1.9, 1.45, 1.6), 1.3, {"sentences": 4000}, MACHINE
)


@pytest.fixture
def speed(tmp_path):
    (tmp_path / "questions").mkdir()
    path = tmp_path / "questions" / "speed.toml"
    path.write_text(SPEED)
    return path


def cells(page, what):
    [line] = [line for line in page.splitlines() if line.startswith(f"| {what} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_measured_ratio_has_its_median_and_range_and_another_says_that_it_has_none(
    speed,
):
    write_result(speed, "fast", MEASURED)
    page = speed_page(speed)
    assert [result for _, result in read_benchmarks(speed)] == [MEASURED, None]
    assert cells(page, "The fast way")[3:] == [
        "1.3 (here 1.3)",
        "1.50",
        "1.40–1.90",
        "5",
        "0.5.0, 01234567",
    ]
    assert cells(page, "On a GPU")[3:] == ["1.3", NOT_MEASURED, "", "", ""]
    write_result(speed, "fast", replace(MEASURED, wanted=1.6))
    missed = speed_page(speed)
    assert cells(missed, "The fast way")[4] == "1.50 (missed)"
    write_result(speed, "fast", replace(MEASURED, wanted=1.45))
    varying = speed_page(speed)
    assert cells(varying, "The fast way")[4] == "1.50 (not in every round)"


def test_what_cannot_be_written_or_read_is_refused(speed):
    with pytest.raises(UsageError, match="no row 'other'"):
        write_result(speed, "other", MEASURED)
    with pytest.raises(UsageError, match="wanted 5 rounds or more, found 4"):
        write_result(speed, "fast", replace(MEASURED, ratios=MEASURED.ratios[:4]))
    stored = speed.parents[1] / "records" / "speed" / "fast.json"
    stored.parent.mkdir(parents=True)
    for content in ("", "{}", '{"ratios": [1, 2]}', "[1]"):
        stored.write_text(content)
        with pytest.raises(DataError, match=r"fast\.json: "):
            read_benchmarks(speed)
    stored.unlink()
    write_json(stored.with_name("stray.json"), vars(MEASURED))
    with pytest.raises(DataError, match="measured, but no row there: stray"):
        read_benchmarks(speed)


def test_no_time_of_a_machine_is_on_the_page_of_speed():
    benchmarks = read_benchmarks(COMMITTED / "questions" / "speed.toml")
    facts = [result.facts for _, result in benchmarks if result is not None]
    assert not [name for named in facts for name in named if "second" in name]
