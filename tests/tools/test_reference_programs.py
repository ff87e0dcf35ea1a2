"""References of other programs: they give our losses and scores, step by step."""

from pathlib import Path

import pytest
from committed import committed_results
from fakes import Told

from harness.cli.train import open_training
from harness.conclusions.conformance import read_reference
from harness.core.pairs import Pairs
from harness.data.places import Places
from harness.interop.mteb import COUNTERPARTS
from harness.registry import load_registry
from harness.training.datasets import NLI_LABELS
from harness.training.loop import dev_score, train
from harness.training.objectives import EncoderTraining
from harness.training.recipes import SbertNli, SbertSts, SimcseSup

programs = pytest.importorskip("reference_programs")

RESULTS = committed_results()
COUNT = 96
SETTINGS = {
    "start": "bert-mini",
    "pooling": "mean",
    "dropout": 0.0,
    "batch": 16,
    "dev": "none",
}
NLI = SbertNli(file="mini-nli", max_length=64, learning_rate=2e-4, **SETTINGS)
STS = SbertSts(task="mini-sts.train", max_length=64, epochs=1, **SETTINGS)
TRIPLETS = SimcseSup(
    file="mini-triplets",
    max_length=64,
    learning_rate=2e-4,
    head="none",
    epochs=1,
    **SETTINGS,
)


@pytest.fixture(scope="module")
def dev():
    pairs = load_registry().tasks["mini-sts.dev"].pairs(Path("nowhere"))
    return Pairs(pairs.a[:60], pairs.b[:60], pairs.gold[:60], pairs.group[:60])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of other packages
@pytest.mark.parametrize("recipe", [NLI, STS, TRIPLETS], ids=lambda r: type(r).__name__)
def test_its_losses_and_scores_are_ours_step_by_step(recipe, dev, tmp_path):
    """The first examples alone, in six steps."""
    places = Places(tmp_path)
    whole, _, _ = open_training(recipe, places)
    columns = tuple(column[:COUNT] for column in whole.columns)
    targets = whole.targets[:COUNT].tolist()
    if isinstance(recipe, SbertNli):
        targets = [NLI_LABELS[label] for label in targets]
    ours = EncoderTraining(recipe, whole.encoder, columns, targets)
    theirs = programs.train(ours, dev)
    curve = train(
        ours,
        ours.schedule,
        0,
        Told(),
        score=lambda: dev_score(ours.encoder, dev),
        score_every=1000,
    )
    assert len(curve.losses) == ours.schedule.steps == COUNT // 16
    assert theirs.losses == pytest.approx(curve.losses, abs=1e-5)
    assert theirs.before == pytest.approx(curve.before, abs=1e-3)
    # A rank of 60 pairs is 0.006.
    assert theirs.best == pytest.approx(curve.best, abs=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("program", ["sentence-transformers", "mteb"])
def test_a_package_gives_our_committed_score(program, tmp_path, monkeypatch):
    """On embedded sentences; 0.01: its cosines rank identical sentences by rounding noise."""
    monkeypatch.setitem(COUNTERPARTS, "mini-sts", COUNTERPARTS["sts-b"])
    arguments = ["make", program, "-m", "bert-mini.mean", "-t", "mini-sts"]
    programs.main(["--out", str(tmp_path), "--cache", str(tmp_path), *arguments])
    [file] = tmp_path.glob("*.json")
    reference = read_reference(file)
    [cell] = reference.cells
    ours = RESULTS.value("bert-mini.mean", "mini-sts", "spearman", "all").mean
    assert cell.scores["spearman.all"] == pytest.approx(ours, abs=0.01)
    assert reference.command == " ".join(
        ["python tools/reference_programs.py", *arguments]
    )
