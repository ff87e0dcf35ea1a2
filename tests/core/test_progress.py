"""One bar over everything, and the time that it says is left."""

from itertools import pairwise

import pytest
from fakes import Told
from hypothesis import given
from hypothesis import strategies as st

from harness.core.progress import Bar, OverallProgress, TimeLeft, time_left


def test_nothing_is_shown_before_something_runs():
    told = Told()
    whole = OverallProgress(told, {"a": 3.0})
    whole.finish()
    assert told.phases == []


def test_phases_move_the_whole_by_their_estimates():
    told = Told()
    whole = OverallProgress(
        told, {"one: encoding": 10.0, "one: scoring": 4.0, "two: encoding": 6.0}
    )
    whole.phase("one: encoding", 100)
    assert told.phases == [("everything", 20)]
    whole.step(50)
    assert (told.steps, told.skipped, told.noted) == (5, 0, "one: encoding")
    whole.phase("one: scoring", 2)  # the other half of the encoding was not needed
    assert (told.steps, told.skipped) == (5, 5)
    whole.step(1)
    whole.phase("fitting on text", None)  # nobody estimated it
    assert (told.steps, told.skipped) == (7, 7)
    whole.step(1000)
    assert (told.steps, told.skipped) == (7, 7)
    whole.phase("two: encoding", 3)
    whole.skip(1)
    whole.step(2)
    assert (told.steps, told.skipped) == (11, 9)
    whole.step(5)  # more than was planned
    assert (told.steps, told.skipped) == (11, 9)


def test_a_phase_of_several_encoders_has_all_of_their_estimates():
    told = Told()
    whole = OverallProgress(told, {"one: encoding": 10.0, "two: encoding": 6.0, "two: scoring": 4})
    whole.phase("encoding", 8)
    whole.step(8)
    assert told.steps == 16
    whole.finish()
    assert (told.steps, told.skipped) == (16, 4)


def test_a_note_is_passed_on():
    told = Told()
    OverallProgress(told, {}).note("loss 3")
    assert told.noted == "loss 3"


def test_the_time_that_is_left_goes_by_the_pace_of_all_work():
    assert time_left(10.0, 5, 20) == pytest.approx(40)
    assert time_left(3.0, 0, 20) is None
    # As long as nothing is done it is what was expected, and what is measured soon outweighs that.
    assert time_left(0.0, 0, 100, expected=1.0) == pytest.approx(100)
    assert time_left(120.0, 60, 40, expected=1.0) == pytest.approx(40 * 125 / 65)
    assert time_left(9.0, 0, 0) == 0


@given(st.integers(2, 500), st.floats(0.1, 10))
def test_a_wrong_guess_gives_way_to_the_measured_pace_step_by_step(total, pace):
    left = [time_left(pace * n, n, total - n, expected=1.0) for n in range(total)]
    errors = [abs(seconds / (total - n) - pace) for n, seconds in enumerate(left)]
    assert errors[0] == pytest.approx(abs(1.0 - pace), abs=1e-9)
    assert all(after <= before + 1e-9 for before, after in pairwise(errors))


def test_what_was_done_before_says_nothing_of_the_pace(tmp_path):
    with (tmp_path / "bar").open("w") as stream, Bar(stream) as bar:
        bar.phase("training", 1000)
        bar.skip(900)
        (task,) = bar._progress.tasks
        assert task.completed == 900
        assert TimeLeft(None).render(task).plain == "-:--:--"
        task.start_time = task.get_time() - 2.0  # two seconds for the step
        bar.step(1)
        assert TimeLeft(None).render(task).plain in {"0:03:18", "0:03:19"}


@pytest.mark.parametrize(
    ("waited", "left"), [(0, "0:03:18"), (60, "0:02:18"), (998, "1 day, 3:30:00")]
)
def test_between_two_steps_the_time_that_is_left_counts_down(tmp_path, waited, left):
    with (tmp_path / "bar").open("w") as stream, Bar(stream) as bar:
        bar.phase("encoding", 100)
        (task,) = bar._progress.tasks
        task.start_time, task._get_time = 0.0, lambda: 2.0  # two seconds for the first step
        bar.step(1)
        task._get_time = lambda: 2.0 + waited  # longer than all were to take, by the last
        shown = TimeLeft(None).render(task).plain
        assert shown == left


def test_numbers_are_seen_whole_in_80_columns(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    with (tmp_path / "bar").open("w") as stream, Bar(stream) as bar:
        bar.phase("simcse-unsup-bert-mini: training", 100_000)
        bar.note("loss 0.0123, best score 78.12 at step 250, and further words")
        bar.skip(100_000)
    lines = [line for line in (tmp_path / "bar").read_text().splitlines() if line.strip()]
    assert all(len(line) <= 80 for line in lines)
    assert "100000/100000" in lines[-1]
    assert lines[-1].rstrip().endswith("left 0:00:00")
