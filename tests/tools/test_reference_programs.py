"""References of other programs: they give our losses and scores, step by step."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from committed import committed_results
from fakes import Told

from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.core.pairs import Pairs
from harness.data.places import Places
from harness.interop.mteb import COUNTERPARTS
from harness.registry import load_registry
from harness.results.conformance import read_reference
from harness.training.contrastive import Contrastive, ContrastiveTraining
from harness.training.datasets import Labelled, open_labelled_pairs, open_triplets
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.loop import CheckpointPolicy, train
from harness.training.siamese import ScoredPairs, Siamese, SiameseTraining
from harness.transforms.pooling import MEAN

programs = pytest.importorskip("reference_programs")

ROOT = Path(__file__).resolve().parents[2]
RESULTS = committed_results()
COUNT, BATCH = 96, 16
SETUP = Setup(pooling=MEAN, max_length=64, dropout=0.0)


@pytest.fixture(scope="module")
def dev():
    pairs = load_registry().tasks["mini-sts.dev"].pairs(Path("nowhere"))
    return Pairs(pairs.a[:60], pairs.b[:60], pairs.gold[:60], pairs.group[:60])


@pytest.fixture
def task(tmp_path):
    """Six steps of a training, opened anew at every call, and the folder that it starts from."""
    places = Places(tmp_path)
    folder = places.encoder(load_registry().encoders["bert-mini"])

    def make(objective):
        encoder = SentenceEncoder("bert-mini", folder, SETUP, seed=0)
        if objective == "regression":
            settings = replace(Siamese.regression(), setup=SETUP, batch=BATCH, epochs=1)
            whole = ScoredPairs.from_task(
                load_registry().tasks["mini-sts.train"], places
            )
            first = tuple(column[:COUNT] for column in whole.columns)
            scored = replace(whole, columns=first, scores=whole.scores[:COUNT])
            return SiameseTraining(settings, encoder, scored, 0), folder
        if objective == "softmax":
            settings = Siamese(setup=SETUP, batch=BATCH, learning_rate=2e-4)
            pairs = open_labelled_pairs("mini-nli", places).content
            columns = (
                pairs.premises[:COUNT],
                pairs.hypotheses[:COUNT],
                pairs.labels[:COUNT],
            )
            return SiameseTraining(settings, encoder, Labelled(*columns), 0), folder
        settings = Contrastive(setup=SETUP, batch=BATCH, learning_rate=2e-4)
        columns = tuple(
            c[:COUNT] for c in open_triplets("mini-triplets", places).content
        )
        return ContrastiveTraining(settings, encoder, columns, 0), folder

    return make


def scored(encoder, pairs):
    vectors = encoder.embed(pairs.sentences)
    return spearman(cosine(vectors[: len(pairs)], vectors[len(pairs) :])[0], pairs.gold)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of other packages
@pytest.mark.parametrize("objective", ["softmax", "regression", "ranking"])
def test_its_losses_and_scores_are_ours_step_by_step(objective, task, dev):
    ours, folder = task(objective)
    theirs = programs.train(ours, folder, dev)
    schedule = ours.settings.schedule(COUNT)
    policy = CheckpointPolicy(
        score=partial(scored, ours.encoder, dev), score_every=1000
    )
    curve = train(ours, schedule, 0, Told(), policy)
    assert len(curve.losses) == schedule.steps == COUNT // BATCH
    assert theirs.losses == pytest.approx(curve.losses, abs=1e-5)
    assert theirs.before == pytest.approx(curve.before, abs=1e-3)
    assert theirs.best == pytest.approx(
        curve.best, abs=0.05
    )  # a rank of 60 pairs is 0.006


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
