"""The siamese losses are the published formulas, and those of sentence-transformers."""

import copy

import numpy as np
import pytest
import tiny_models
import torch
from torch import nn

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.files import pairs_digest
from harness.registry import load_registry
from harness.training.contrastive import info_nce
from harness.training.datasets import Labelled
from harness.training.encoder import Setup, open_encoder
from harness.training.siamese import (
    ScoredPairs,
    Siamese,
    SiameseTraining,
    cosine_regression,
    softmax_nli,
)
from harness.transforms.pooling import MEAN

PREMISES = ("the cat sat", "the dog sat on the mat", "a cat", "dogs!", "on the mat", "a dog") * 2
HYPOTHESES = ("a cat sat.", "the mat", "the dog", "a dog, a cat", "the cat", "b") * 2
NLI = Labelled(PREMISES, HYPOTHESES, (0, 1, 2, 1, 0, 2) * 2)
SCORED = ScoredPairs((PREMISES, HYPOTHESES), (0.0, 0.2, 1.0, 0.5, 0.75, 0.1) * 2, "")
TRIPLETS = (PREMISES, HYPOTHESES, HYPOTHESES[1:] + HYPOTHESES[:1])
OBJECTIVES = {"softmax": NLI, "regression": SCORED, "ranking": TRIPLETS}
SETUP = Setup(pooling=MEAN, dropout=0.0)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_models.make("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def opened(bert):
    return open_encoder("tiny", bert, bert, SETUP, seed=0)


@pytest.fixture
def training(opened):
    def make(data=NLI, **settings):
        settings = Siamese(setup=SETUP, batch=6, **settings)
        return SiameseTraining(settings, copy.deepcopy(opened).train(), data, 0)

    return make


def drawn(count, size=4, n=2, seed=0):
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.normal(size=(count, size)), requires_grad=True) for _ in range(n)]


def gradients(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


# The loss


@pytest.mark.parametrize("count", [1, 5])
def test_softmax_and_its_gradient_are_the_papers_formula(count):
    """o = softmax(W (u, v, |u - v|) + b), and minus its mean logarithm, in NumPy."""
    u, v = drawn(count)
    weight, bias = drawn(3, size=12, n=1)[0], drawn(1, size=3, n=1, seed=1)[0]
    labels = torch.tensor([0, 2, 1, 1, 0][:count])
    loss = softmax_nli(u, v, labels, weight, bias[0])
    loss.backward()
    a, b, W = (x.detach().numpy() for x in (u, v, weight))
    x = np.concatenate([a, b, np.abs(a - b)], axis=1)
    shares = np.exp(x @ W.T + bias.detach().numpy())
    shares /= shares.sum(axis=1, keepdims=True)
    assert loss.item() == pytest.approx(-np.log(shares[range(count), labels]).mean(), abs=1e-6)
    pull = (shares - np.eye(3)[labels]) / count
    into = pull @ W
    apart = np.sign(a - b) * into[:, 8:]
    for found, expected in (
        (u.grad, into[:, :4] + apart),
        (v.grad, into[:, 4:8] - apart),
        (weight.grad, pull.T @ x),
        (bias.grad[0], pull.sum(axis=0)),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
def test_all_losses_are_those_of_sentence_transformers(training):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    u, v, hard = (x.float().detach() for x in drawn(6, n=3))

    class Model(nn.Module):
        """What its loss asks of a model: a size, and vectors that are there already."""

        def get_embedding_dimension(self):
            return 4

        def forward(self, features):
            return features

        device = torch.device("cpu")

    softmax = losses.SoftmaxLoss(Model(), 4, 3)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    theirs = softmax([{"sentence_embedding": x} for x in (u, v)], labels)
    classifier = softmax.classifier
    ours = softmax_nli(u, v, labels, classifier.weight, classifier.bias)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
    scores = torch.tensor(SCORED.scores[:6])
    regression = losses.CosineSimilarityLoss(Model())
    theirs = regression([{"sentence_embedding": x} for x in (u, v)], scores)
    torch.testing.assert_close(cosine_regression(u, v, scores), theirs, atol=1e-7, rtol=0)
    ranking = losses.MultipleNegativesRankingLoss(Model())
    for vectors in ((u, v), (u, v, hard)):
        theirs = ranking.compute_loss_from_embeddings(list(vectors), None)
        ours = info_nce(u, v, Siamese.ranking().temperature, *vectors[2:])
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


# Settings


def test_the_defaults_are_the_papers():
    found = Siamese()
    assert (found.batch, found.epochs, found.learning_rate) == (16, 1, 2e-5)
    assert (found.setup.pooling, found.setup.head) == (MEAN, "none")
    schedule = found.schedule(942_069)  # the pairs of AllNLI's train splits
    assert (schedule.steps, schedule.warmup, schedule.weight_decay) == (58_880, 5_888, 0.01)
    assert schedule.rate(5_887) == pytest.approx(2e-5, rel=0.2)
    other = Siamese.ranking()
    assert (other.objective, other.batch, other.setup.max_length) == ("ranking", 128, 75)
    scored = Siamese.regression()
    assert (scored.objective, scored.batch, scored.epochs) == ("regression", 16, 4)
    schedule = scored.schedule(5_749)  # the pairs of STS-B's train split
    assert (schedule.steps, schedule.warmup) == (4 * 360, 144)


def test_impossible_settings_are_refused():
    with pytest.raises(UsageError, match="a temperature above 0"):
        Siamese(temperature=0.0)
    with pytest.raises(UsageError, match="a share of warm-up"):
        Siamese(warmup=1.5)


# A training step


def test_a_step_is_the_loss_over_its_batch(training):
    task = training()
    loss = task.backward(1)
    found = gradients(task.model)
    assert {"classifier.weight", "classifier.bias"} <= found.keys()
    task.model.zero_grad(set_to_none=True)
    rows, encoder, classifier = task.batches(1), task.encoder, task.classifier
    u, v = (encoder(encoder.tokenizer([c[row] for row in rows])) for c in (PREMISES, HYPOTHESES))
    labels = torch.tensor([NLI.labels[row] for row in rows])
    expected = softmax_nli(u, v, labels, classifier.weight, classifier.bias)
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for name, gradient in gradients(task.model).items():
        torch.testing.assert_close(found[name], gradient, atol=1e-4, rtol=1e-4, msg=name)


def test_regression_is_the_squared_error_of_the_cosines(training):
    task = training(SCORED, objective="regression")
    loss = task.backward(1)
    rows, encoder = task.batches(1), task.encoder
    with torch.no_grad():
        u, v = (encoder(encoder.tokenizer([c[n] for n in rows])).numpy() for c in SCORED.columns)
    cosines = (u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    gold = np.array([SCORED.scores[row] for row in rows])
    assert loss == pytest.approx(((cosines - gold) ** 2).mean(), rel=1e-5)
    assert not [name for name, _ in task.model.named_parameters() if "classifier" in name]


def test_gold_is_brought_to_0_to_1(tmp_path):
    task = load_registry().tasks["mini-sts.train"]
    found = ScoredPairs.of(task, Places(tmp_path))
    pairs = task.pairs(Places(tmp_path).require_data(task.asset))
    assert found.columns == (pairs.a, pairs.b)
    assert found.scores == pytest.approx(pairs.gold / 5)  # from 0 to 5
    assert found.digest == pairs_digest(pairs)
    with pytest.raises(UsageError, match="--task mini-qnli: wanted pairs with graded gold"):
        ScoredPairs.of(load_registry().tasks["mini-qnli"], Places(tmp_path))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_batch_in_portions_has_one_gradient(objective, training):
    found = []
    for at_once in (10_000, 20):
        task = training(OBJECTIVES[objective], objective=objective, tokens_at_once=at_once)
        found.append((task.backward(0), gradients(task.model)))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    assert found[0][1].keys() == found[1][1].keys()
    for name, gradient in found[0][1].items():
        torch.testing.assert_close(found[1][1][name], gradient, atol=1e-3, rtol=1e-4, msg=name)
