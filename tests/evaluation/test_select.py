"""What the profiles of `harness reproduce` choose."""

from itertools import groupby
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.evaluation.select import PROFILES, is_embedded, profile
from harness.registry import load_registry

PAPERS = Path(__file__).resolve().parents[2] / "results" / "papers"


@pytest.fixture(scope="module")
def chosen():
    return {name: profile(load_registry(), name, PAPERS, 1) for name in PROFILES}


def cells(planned):
    return {p.address for p in planned}


def test_all_is_what_is_registered_and_what_is_published(chosen):
    assert cells(chosen["all"]) == cells(chosen["standard"]) | cells(chosen["papers"])
    assert cells(chosen["embedded"]) < cells(chosen["standard"])
    assert not cells(chosen["papers"]) <= cells(chosen["standard"])


def test_the_embedded_profile_reads_nothing_from_outside(chosen):
    found = load_registry()
    assert chosen["embedded"]
    for planned in chosen["embedded"]:
        assert is_embedded(planned.method.encoder)
        assert planned.task.asset == "embedded"
        assert planned.method.fit_on in (None, "target", "target-train", "mini-text")
    assert {p.task.name for p in chosen["embedded"]} >= {
        name for name, task in found.tasks.items() if name.startswith("mini-") and name != "x"
    } - {name for name, task in found.tasks.items() if task.scored == (task.train,)}


@pytest.mark.parametrize("name", PROFILES)
def test_an_encoder_comes_once_and_what_is_carried_first(chosen, name):
    encoders = [key for key, _ in groupby(p.method.encoder.name for p in chosen[name])]
    assert len(encoders) == len(set(encoders))
    carried = [is_embedded(p.method.encoder) for p in chosen[name]]
    assert carried == sorted(carried, reverse=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--profile", "everything"], "wanted one of all, embedded"),
        (["--profile", "papers", "-t", "sts-b"], "give one of them"),
    ],
)
def test_a_profile_that_means_nothing_is_refused(options, said, tmp_path):
    where = ["--results", str(tmp_path), "--committed", str(PAPERS.parent)]
    done = CliRunner().invoke(app, ["reproduce", *options, *where])
    assert said in str(done.exception)
    assert not list(tmp_path.iterdir())
