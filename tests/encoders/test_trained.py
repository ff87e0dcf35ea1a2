"""Families: encoders that are trained here, of which every seed is another one."""

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
import tiny_models
from fakes import TOY, Told, library, snapshot
from refusals import refused
from typer.testing import CliRunner

from baselines.sbert import NLI
from harness.cli import app
from harness.cli.run import missing_trainings
from harness.cli.train import recipe_from
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.types import Method
from harness.data.places import Places
from harness.encoders.trained import FamilyConfig, recipe_of
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.plan import make_plan, plan_text
from harness.evaluation.promote import make_golden_vectors
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import is_embedded, planned_cells
from harness.registry import load_registry
from harness.results.store import Store
from harness.training.recipes import command_line
from harness.transforms.pooling import MEAN

RECIPE = "simcse-sup --from tiny --file triplets.csv --batch 2 --epochs 1 --dev none"
TRIPLETS = (
    "sent0,sent1,hard_neg\nthe cat,a cat,the dog\non the mat,on mat,the dog sat\n"
    "the dog,a dog,cat\nthe mat,a mat,sat\n"
)


@pytest.fixture
def training_folder(tmp_path, monkeypatch):
    """A folder with a checkpoint to start from and something to train on; work goes on in it."""
    tiny_models.make("bert", tmp_path / "tiny")
    (tmp_path / "triplets.csv").write_text(TRIPLETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def family(training_folder, **change):
    weights = sha256_of(training_folder / "tiny" / "model.safetensors")
    start = TransformerConfig("tiny", repo="", weights_sha256=weights)
    return replace(FamilyConfig("kin", RECIPE, start, trained_on="mats"), **change)


def run_train(monkeypatch, config, *options):
    found = replace(load_registry(), encoders={config.name: config})
    monkeypatch.setattr("harness.resolve.load_registry", lambda: found)
    return CliRunner().invoke(
        app, ["train", "family", config.name, "--cache", "cache", *options]
    )


# Trained


def test_the_command_trains_what_is_missing_and_runs_find_it(
    training_folder, monkeypatch
):
    kin = family(training_folder)
    done = run_train(monkeypatch, kin, "--seeds", "2", "--threads", "1")
    assert done.exit_code == 0, (done.output, done.exception)
    places = Places(training_folder / "cache")
    keys = {kin.member(n).identify(places.encoder(kin.member(n))).key for n in range(2)}
    assert len(keys) == 2
    assert places.has_encoder(kin)
    with refused(AssetMissing, "harness train family kin"):
        places.encoder(kin.member(2))
    before = snapshot(training_folder / "cache")
    again = run_train(monkeypatch, kin, "--seeds", "2")
    assert "all 2 seeds are here already" in again.output
    assert snapshot(training_folder / "cache") == before


def test_what_this_recipe_and_seed_did_not_make_is_refused(
    training_folder, monkeypatch
):
    kin = family(training_folder)
    run_train(monkeypatch, kin, "--seeds", "1", "--threads", "1")
    folder = Places(training_folder / "cache").encoder(kin.member(0))
    training = json.loads((folder / "training.json").read_text())
    kin.member(0).identify(folder)
    for change in (
        {"seed": 7},
        {"command": f"harness train {RECIPE} --temperature 1.0"},
        {"start": {"tiny": "0" * 64}},
    ):
        (folder / "training.json").write_text(json.dumps(training | change))
        with refused(DataError, r"wanted harness train simcse-sup .* with seed 0"):
            kin.member(0).identify(folder)


# On the spot


@pytest.fixture
def no_bar(monkeypatch):
    monkeypatch.setattr("harness.cli.train.progress_on", lambda *_: nullcontext(Told()))


@pytest.mark.usefixtures("no_bar")
def test_a_run_trains_on_the_spot_what_its_cells_need_and_the_plan_says_so(
    training_folder, capsys
):
    spot = family(training_folder, on_the_spot=True)
    far = family(training_folder, name="far")
    assert (is_embedded(spot), is_embedded(far)) == (True, False)
    planned = planned_cells([Method(spot, MEAN)], [TOY], 2)
    planned += planned_cells([Method(far, MEAN)], [TOY], 1)
    texts = library(training_folder)
    plan = make_plan(planned, texts)
    assert (plan.runnable, plan.trainings) == (2, 2)
    assert "2 encoders to train, then " in plan_text(plan)
    trained = [train() for train in missing_trainings(planned, texts.places)]
    assert [error for _, error in trained] == [None, None]
    assert capsys.readouterr().out.count("harness train simcse-sup") == 2
    assert make_plan(planned, texts).trainings == 0
    # Every seed is scored with the encoder that it trained.
    outcomes = list(
        execute(planned, RunContext(texts, Store(training_folder / "runs")))
    )
    records = [o.record for o in outcomes if o.status == "measured"]
    for seed, record in enumerate(records):
        member = spot.member(seed)
        weights = member.identify(texts.places.encoder(member)).digests["weights"]
        assert (record.seed, record.digests["weights"]) == (seed, weights)
    assert len({record.scores["spearman"]["all"] for record in records}) == 2
    assert [o.status for o in outcomes if not o.record] == ["asset missing"]
    make_golden_vectors([Method(spot, MEAN)], texts.places, training_folder / "golden")
    assert not (training_folder / "golden").exists()  # of what is trained anew
    (training_folder / "triplets.csv").unlink()
    another = planned_cells([Method(spot, MEAN)], [TOY], 3)
    [(_, error)] = [train() for train in missing_trainings(another, texts.places)]
    assert str(error).startswith("--file triplets.csv: wanted a file")


# Registered ones


FAMILIES = [e for e in load_registry().encoders.values() if isinstance(e, FamilyConfig)]


@pytest.mark.parametrize("config", FAMILIES, ids=lambda config: config.name)
def test_a_registered_recipe_is_the_command_as_training_tells_it(config):
    """`training.json` leaves out what is a default: a recipe that says it would never be found."""
    recipe = replace(recipe_from(config.recipe), seed=3, threads=2)
    assert recipe_of(command_line(recipe)) == config.recipe
    assert recipe.start == config.start.name
    assert load_registry().encoders[recipe.start] == config.start
    # SBERT's released checkpoints have no revision that anybody verified: a download
    # pins them.
    assert config.start.weights_sha256 or config.start.revision or config.start in NLI
