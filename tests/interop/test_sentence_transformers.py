"""sentence-transformers as an oracle: its losses, its trainer and its evaluator give ours."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from fakes import Told

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.metrics import cosine, spearman
from harness.core.types import Pairs
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.records import Store
from harness.training.contrastive import Contrastive, ContrastiveTraining
from harness.training.datasets import Labelled, open_labelled_pairs, open_triplets
from harness.training.encoder import Setup, open_encoder
from harness.training.loop import CheckpointPolicy, train
from harness.training.siamese import ScoredPairs, Siamese, SiameseTraining
from harness.transforms.pooling import MEAN

theirs = pytest.importorskip("harness.interop.sentence_transformers")

COMMITTED = Path(__file__).resolve().parents[2] / "results"
COUNT, BATCH = 96, 16
SETUP = Setup(pooling=MEAN, max_length=64, dropout=0.0)


def pairs_of(name, places):
    task = load_registry().tasks[name]
    return task.pairs(places.require_data(task.asset))


@pytest.fixture(scope="module")
def dev():
    pairs = pairs_of("mini-sts.dev", Places(Path("nowhere")))
    return Pairs(pairs.a[:60], pairs.b[:60], pairs.gold[:60], pairs.group[:60])


@pytest.fixture
def task(tmp_path):
    """Six steps of a training, opened anew at every call, and the folder that it starts from."""
    places = Places(tmp_path)
    folder = places.encoder(load_registry().encoders["bert-mini"])

    def make(objective, setup=SETUP):
        encoder = open_encoder("bert-mini", folder, tmp_path, setup, seed=0)
        if objective == "regression":
            settings = replace(Siamese.regression(), setup=setup, batch=BATCH, epochs=1)
            whole = ScoredPairs.of(load_registry().tasks["mini-sts.train"], places)
            first = tuple(column[:COUNT] for column in whole.columns)
            scored = replace(whole, columns=first, scores=whole.scores[:COUNT])
            return SiameseTraining(settings, encoder, scored, 0), folder
        if objective == "softmax":
            settings = Siamese(setup=setup, batch=BATCH, learning_rate=2e-4)
            found = open_labelled_pairs("mini-nli", places).content
            columns = (found.premises[:COUNT], found.hypotheses[:COUNT], found.labels[:COUNT])
            return SiameseTraining(settings, encoder, Labelled(*columns), 0), folder
        settings = Contrastive(setup=setup, batch=BATCH, learning_rate=2e-4)
        columns = tuple(c[:COUNT] for c in open_triplets("mini-triplets", places).content)
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
    curve = theirs.train(ours, folder, dev)
    schedule = ours.settings.schedule(COUNT)
    policy = CheckpointPolicy(score=partial(scored, ours.encoder, dev), score_every=1000)
    found = train(ours, schedule, 0, Told(), policy)
    assert len(found.losses) == schedule.steps == COUNT // BATCH
    assert curve.losses == pytest.approx(found.losses, abs=1e-5)
    assert curve.before == pytest.approx(found.before, abs=1e-3)
    assert curve.best == pytest.approx(found.best, abs=0.05)  # a rank of 60 pairs is 0.006


@pytest.mark.parametrize(
    "setup", [Setup(pooling=MEAN, dropout=0.1), Setup(pooling=MEAN, head="train", dropout=0.0)]
)
def test_settings_in_which_chance_has_a_part_are_refused(setup, task, dev):
    ours, folder = task("ranking", setup)
    with pytest.raises(UsageError, match="wanted pairs or triplets, no head, and dropout 0"):
        theirs.train(ours, folder, dev)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_its_evaluator_gives_our_committed_score(tmp_path):
    """On embedded sentences; 0.01: its cosines rank identical sentences by rounding noise."""
    places = Places(tmp_path)
    folder = places.encoder(load_registry().encoders["bert-mini"])
    scores = theirs.evaluated(theirs.open_model(folder, "mean"), pairs_of("mini-sts", places))
    committed = Results.read(Store(COMMITTED))
    ours = committed.value("bert-mini.mean", "mini-sts", "spearman", "all").mean
    assert scores["spearman"] == pytest.approx(ours, abs=0.01)
