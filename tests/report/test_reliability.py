"""The page of attacks: what was tried, what was not, and what is refused."""

import pytest
from tallies import write_tally

from harness.core.errors import DataError, UsageError
from harness.report.pages import reliability_page
from harness.results.benchmarks import AttackResult, Attempts, read_attacks

ROWS = """
[[row]]
id = "kill"
what = "A kill"
right = "nothing is lost"

[[row]]
id = "flip"
what = "A bit"
right = "it is noticed"
"""


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "questions" / "reliability.toml"
    path.parent.mkdir()
    path.write_text(ROWS)
    return path


def line_of(page, what):
    [line] = [line for line in page.splitlines() if line.startswith(f"| {what} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_tally_has_its_counts_and_another_row_says_that_it_has_none(rows):
    write_tally(rows, "kill", "one", Attempts(right=7, rebuilt=2, refused=1, commit="c" * 40))
    page = reliability_page(read_attacks(rows))
    assert line_of(page, "A kill")[2:] == ["10", "7", "2", "1", "0"]
    assert line_of(page, "A bit")[2] == "not measured"
    assert "Commit cccccccccccc." in page


def test_parts_are_added_up_and_a_part_that_is_tried_again_replaces_its_own_counts(rows):
    for part, right in (("one", 1), ("two", 20), ("one", 3)):
        write_tally(rows, "kill", part, Attempts(right=right, silent=1, commit=part * 20))
    page = reliability_page(read_attacks(rows))
    assert line_of(page, "A kill")[2:] == ["25", "23", "0", "0", "2"]
    assert "Commit oneoneoneone, twotwotwotwo." in page


def test_what_was_written_is_read_and_a_stray_tally_is_refused(rows):
    tally = Attempts(right=1)
    write_tally(rows, "flip", "bits", tally)
    assert list(read_attacks(rows).results.values()) == [None, AttackResult({"bits": tally})]
    with pytest.raises(UsageError, match="no row 'flood'"):
        write_tally(rows, "flood", "all", tally)
    rows.write_text(ROWS.replace('"flip"', '"flop"'))
    with pytest.raises(DataError, match="measured, but no row there: flip"):
        read_attacks(rows)
