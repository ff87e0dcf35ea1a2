"""Energy is measured where codecarbon is installed, and is a hole everywhere else."""

import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

from harness.core import energy
from harness.core.energy import measured_energy


class Tracker:
    """As codecarbon's: one task at a time, each with its own energy."""

    def __init__(self, **settings):
        self.settings, self.active, self.done = settings, False, 0

    def start_task(self):
        assert not self.active
        self.active = True

    def stop_task(self):
        assert self.active
        self.active, self.done = False, self.done + 1
        return SimpleNamespace(energy_consumed=0.25 * self.done)


@pytest.fixture
def made(monkeypatch):
    """The trackers that were made, in a process that has made none."""
    trackers, module = [], ModuleType("codecarbon")

    def make(**settings):
        trackers.append(Tracker(**settings))
        return trackers[-1]

    module.OfflineEmissionsTracker = make
    monkeypatch.setitem(sys.modules, "codecarbon", module)
    energy._tracker.cache_clear()
    yield trackers
    energy._tracker.cache_clear()
    logging.getLogger("codecarbon").disabled = False


def test_each_block_has_its_own_energy_by_one_tracker(made):
    found = []
    for _ in range(2):
        with measured_energy() as one:
            assert one.kwh is None
        found.append(one.kwh)
    assert found == [0.25, 0.5]
    assert len(made) == 1


def test_nothing_is_sent_or_written(made):
    with measured_energy():
        pass
    assert made[0].settings["save_to_file"] is False
    assert not any("api" in name for name in made[0].settings)


def test_work_that_fails_is_measured_and_the_next_too(made):
    with pytest.raises(KeyError), measured_energy() as failed:
        raise KeyError
    with measured_energy() as one:
        pass
    assert (failed.kwh, one.kwh) == (0.25, 0.5)


def test_without_codecarbon_it_is_a_hole_and_never_a_zero(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "codecarbon", None)
    with measured_energy() as one:
        pass
    assert one.kwh is None


@pytest.mark.parametrize("step", ["__init__", "start_task", "stop_task"])
def test_a_tracker_that_fails_is_a_hole_and_costs_nobody_the_work(made, monkeypatch, step):
    def fail(*_, **__):
        raise OSError("no such counter")

    monkeypatch.setattr(Tracker, step, fail)
    for _ in range(2):
        with measured_energy() as one:
            done = True
        assert (done, one.kwh) == (True, None)


def test_a_tracker_that_could_not_measure_leaves_a_hole(made, monkeypatch):
    monkeypatch.setattr(Tracker, "stop_task", lambda self: None)
    with measured_energy() as one:
        pass
    assert one.kwh is None
