"""What the profiles of `harness reproduce` choose."""

from itertools import groupby
from pathlib import Path

import pytest
from refusals import refused

from harness.core.errors import UsageError
from harness.evaluation.select import (
    PROFILES,
    is_embedded,
    planned_cells,
    profile,
    select_cells,
)
from harness.registry import load_registry
from harness.results.published_tables import load_tables

PAPERS = Path(__file__).resolve().parents[2] / "results" / "papers"


@pytest.fixture(scope="module")
def chosen():
    return {name: profile(load_registry(), name, PAPERS, 1) for name in PROFILES}


def cells(planned):
    return {p.address for p in planned}


def test_all_is_what_is_registered_and_what_is_published(chosen):
    assert cells(chosen["all"]) == cells(chosen["standard"]) | cells(chosen["papers"])
    assert cells(chosen["embedded"]) < cells(chosen["standard"])


def test_the_embedded_profile_reads_nothing_from_outside(chosen):
    assert chosen["embedded"]
    for planned in chosen["embedded"]:
        assert is_embedded(planned.method.encoder)
        assert planned.task.asset == "embedded"
        assert planned.method.fit_on in (None, "target", "target-train", "mini-text")
    assert {p.task.name for p in chosen["embedded"]} >= {
        name
        for name, task in load_registry().tasks.items()
        if name.startswith("mini-") and task.scored != (task.train,)
    }


@pytest.mark.parametrize("name", PROFILES)
def test_an_encoder_comes_once_and_what_is_carried_first(chosen, name):
    encoders = [key for key, _ in groupby(p.method.encoder.name for p in chosen[name])]
    assert len(encoders) == len(set(encoders))
    carried = [is_embedded(p.method.encoder) for p in chosen[name]]
    assert carried == sorted(carried, reverse=True)


def test_a_map_fitted_on_the_train_split_is_not_scored_on_it():
    found = load_registry()
    method = found.parse("glove-mini.mean+sn@target-train")
    with refused(
        UsageError, "no training split other than the sentences that are scored"
    ):
        planned_cells([method], [found.tasks["sick-r.all"]], 1)


# What globs leave out


def test_a_glob_names_what_it_leaves_out_and_how_to_run_it():
    found, tasks = load_registry(), ["sick-r.senteval.dev"]
    globs = ["bert-mini.mean+s*", "bert-mini.mean+f*"]
    selected, message = select_cells(found, globs, tasks, 1)
    chosen = {cell.method.id for cell in selected}
    dropped = {method.id for method in found.select_methods(globs)} - chosen
    assert chosen
    assert set(message.partition("to run it: ")[2].split(", ")) == dropped
    every, message = select_cells(found, [*globs, *dropped], tasks, 1)
    assert {cell.method.id for cell in every} == chosen | dropped
    assert message == ""


def test_the_first_profile_reproduces_published_numbers_and_tries_each_kind_of_method(
    chosen,
):
    published, smoke = [], []
    for planned in chosen["first"]:
        (smoke if is_embedded(planned.method.encoder) else published).append(planned)
    named = {(planned.method.id, planned.task.name) for planned in published}
    numbers = [
        cell
        for table in load_tables(PAPERS, load_registry())
        for cell in table.cells
        if (cell.method, cell.task) in named
    ]
    assert len(numbers) >= 28
    assert len(smoke) <= 60
    embedded = chosen["embedded"]
    assert cells(smoke) <= cells(embedded)
    assert {p.task.name for p in smoke} == {p.task.name for p in embedded}

    def kinds(planned):
        untrained = [cell.method for cell in planned if not cell.method.seeded]
        return {type(post) for method in untrained for post in method.post}

    assert kinds(smoke) == kinds(embedded)
