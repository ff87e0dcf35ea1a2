"""One bar over everything."""

from fakes import Told

from harness.core.progress import OverallProgress


def test_nothing_is_shown_before_something_runs():
    told = Told()
    OverallProgress(told, {"a": 3.0})
    assert told.phases == []


def test_phases_move_the_whole_by_their_estimates():
    told = Told()
    whole = OverallProgress(
        told, {"one: encoding": 10.0, "one: scoring": 4.0, "two: encoding": 6.0}
    )
    whole.phase("one: encoding", 100)
    assert told.phases == [("everything", 20)]
    whole.step(50)
    assert (told.steps, told.noted) == (5, "one: encoding")
    whole.phase("one: scoring", 2)  # the other half of the encoding was not needed
    assert told.steps == 10
    whole.step(1)
    whole.phase("fitting on text", None)  # nobody estimated it
    assert told.steps == 14
    whole.step(1000)
    assert told.steps == 14
    whole.phase("two: encoding", 3)
    whole.step(3)
    assert told.steps == 20
    whole.step(5)  # more than was planned
    assert told.steps == 20


def test_a_note_is_passed_on():
    told = Told()
    OverallProgress(told, {}).note("loss 3")
    assert told.noted == "loss 3"
