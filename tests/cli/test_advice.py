"""What a reproduction says at its end of the claims that hold."""

from pathlib import Path

from harness.cli.printing import claims_that_hold
from harness.results.folder import ResultsFolder

RESULTS = Path(__file__).resolve().parents[2] / "results"
FOLDER = ResultsFolder(RESULTS)


def test_the_claims_that_hold_are_counted_by_own_records_first(tmp_path):
    empty = ResultsFolder(tmp_path)
    [line] = claims_that_hold(empty, FOLDER)  # nothing was measured there
    assert f"16 of 31 measured claims hold by {RESULTS}/records: " in line
    assert claims_that_hold(FOLDER, FOLDER) == [line]
    assert claims_that_hold(empty, empty) == []
