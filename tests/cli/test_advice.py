"""What a reproduction says at its end: the claims that hold, and what to get next."""

from pathlib import Path

from harness.assets.places import Places
from harness.cli.printing import STEPS, claims_that_hold, what_next
from harness.results.folder import ResultsFolder
from harness.results.index import Results

RESULTS = Path(__file__).resolve().parents[2] / "results"
FOLDER = ResultsFolder(RESULTS)


class Everything:
    """The files of a machine that lacks none."""

    def has_encoder(self, config):
        return True

    def has_data(self, asset):
        return True


def test_the_next_steps_name_a_command_a_size_and_a_gain(tmp_path):
    first, *lines = what_next(FOLDER, Results({}), Places(tmp_path))
    assert first.startswith("next")
    assert len(lines) == 2 * STEPS
    assert "  harness fetch senteval (6 MB)" in lines
    assert len([line for line in lines if " published number" in line]) == STEPS


def test_what_is_measured_or_here_needs_nothing_any_more(tmp_path):
    before = what_next(FOLDER, Results({}), Places(tmp_path))
    assert before != what_next(FOLDER, FOLDER.records, Places(tmp_path))
    assert what_next(FOLDER, Results({}), Everything()) == []


def test_the_claims_that_hold_are_counted_by_own_records_first(tmp_path):
    empty = ResultsFolder(tmp_path)
    [line] = claims_that_hold(empty, FOLDER)  # nothing was measured there
    assert f"16 of 31 measured claims hold by {RESULTS}/records: " in line
    assert claims_that_hold(FOLDER, FOLDER) == [line]
    assert claims_that_hold(empty, empty) == []
