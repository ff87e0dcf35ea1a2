"""SimCSE's and SBERT's trainings: their settings, and a step is the gradient of their loss."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from gradients import assert_same_gradients, gradients
from hypothesis import given
from hypothesis import strategies as st
from tolerances import ROUNDING, relative_gap

from harness.core.errors import UsageError
from harness.core.types import Progress
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig
from harness.training.contrastive import (
    Augmentation,
    Contrastive,
    ContrastiveTraining,
    info_nce,
    nt_xent,
)
from harness.training.datasets import Labelled
from harness.training.encoder import SentenceEncoder, Setup
from harness.training.finetune import write_checkpoint
from harness.training.loop import seeded, train
from harness.training.masked_words import MASKED_SHARE, mask, open_mlm_head
from harness.training.siamese import ScoredPairs, Siamese, SiameseTraining, softmax_nli
from harness.transforms.pooling import CLS, FIRST_LAST, MEAN, NATIVE, POOLER

SENTENCES = (
    "the cat sat on the mat.", "the dog sat on the cat", "the mat!", "a cat, a dog", "on the mat?",
    "the cat and the dog sat.", "a", "b c d", "dogs sat on the mat and on the cat", "the, cat",
)  # fmt: skip
PAIRS = (SENTENCES, SENTENCES[::-1])
TRIPLETS = (*PAIRS, SENTENCES[3:] + SENTENCES[:3])
LABELLED = Labelled(*PAIRS, (0, 1, 2, 1, 0) * 2)
SCORED = ScoredPairs(PAIRS, (0.0, 0.2, 1.0, 0.5, 0.75) * 2, "")

# Settings


@pytest.mark.parametrize(
    ("config", "unsupervised", "supervised"),
    [
        ({"model_type": "bert", "hidden_size": 768}, (3e-5, 64), 5e-5),
        ({"model_type": "bert", "hidden_size": 1024}, (1e-5, 64), 1e-5),
        ({"model_type": "roberta", "hidden_size": 768}, (1e-5, 512), 5e-5),
        ({"model_type": "xlm-roberta", "hidden_size": 1024}, (3e-5, 512), 1e-5),
    ],
)
def test_simcses_defaults_are_the_papers_for_each_size(
    config, unsupervised, supervised
):
    one, other = Contrastive.unsupervised(config), Contrastive.supervised(config)
    assert (one.learning_rate, one.batch) == unsupervised
    assert (other.learning_rate, other.batch) == (supervised, 512)
    assert (one.epochs, one.setup.head, other.epochs, other.setup.head) == (
        1,
        "train",
        3,
        "keep",
    )
    assert one.temperature == other.temperature == 0.05
    assert one.setup.max_length == other.setup.max_length == 32
    assert {one.setup.pooling, other.setup.pooling} == {CLS}


def test_sberts_defaults_are_the_papers():
    softmax, regression = Siamese(), Siamese.regression()
    assert (softmax.batch, softmax.epochs, softmax.learning_rate) == (16, 1, 2e-5)
    assert (softmax.setup.pooling, softmax.setup.head) == (MEAN, "none")
    schedule = softmax.schedule(942_069)  # the pairs of AllNLI's train splits
    assert (schedule.steps, schedule.warmup, schedule.weight_decay) == (
        58_880,
        5_888,
        0.01,
    )
    assert (regression.objective, regression.batch, regression.epochs) == (
        "regression",
        16,
        4,
    )
    schedule = regression.schedule(5_749)  # the pairs of STS-B's train split
    assert (schedule.steps, schedule.warmup) == (4 * 360, 144)
    rates = [schedule.rate(step) for step in (143, 144, 792, 1439)]
    assert rates == pytest.approx(
        [2e-5, 2e-5, 1e-5, 2e-5 / 1296]
    )  # transformers' linear schedule


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT that holds its head over masked words."""
    place = tiny_models.make("bert", tmp_path_factory.mktemp("masked"))
    config = transformers.BertConfig.from_pretrained(place)
    with seeded(3):
        model = transformers.BertForMaskedLM(config)
        for matrix in (p for p in model.parameters() if p.ndim > 1):
            matrix.data.normal_(
                std=0.3
            )  # norms as they are, so that sentences are told apart
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def opened(folder):
    """Encoders that were opened once, by their setup; a test gets a copy."""
    made = {}

    def encoder(setup):
        if setup not in made:
            made[setup] = SentenceEncoder("tiny", folder, setup, seed=0)
        return copy.deepcopy(made[setup]).train()

    return encoder


@pytest.fixture
def training(opened, folder):
    def make(kind, data, **settings):
        settings = kind(**{"setup": Setup(dropout=0.0), "batch": 5, **settings})
        encoder = opened(settings.setup)
        if kind is Siamese:
            return SiameseTraining(settings, encoder, data, 0)
        masked = (
            open_mlm_head("tiny", folder, encoder) if settings.masked_words else None
        )
        return ContrastiveTraining(settings, encoder, data, 0, masked)

    return make


@pytest.mark.parametrize(
    ("kind", "data", "settings", "why"),
    [
        (Contrastive, PAIRS, {"temperature": 0.0}, "wanted a temperature above 0"),
        (
            Contrastive,
            TRIPLETS,
            {"objective": "nt-xent"},
            "no place for hard negatives",
        ),
        (Contrastive, PAIRS, {"same_mask": True}, "found other views"),
        (
            Contrastive,
            PAIRS,
            {"augmentation": "crop:10"},
            "an augmentation needs one sentence",
        ),
        (
            Contrastive,
            PAIRS[:1],
            {"augmentation": "crop"},
            "wanted crop:P or deletion:P",
        ),
        (Siamese, SCORED, {}, "softmax learns from labelled pairs"),
    ],
)
def test_impossible_settings_are_refused(kind, data, settings, why, training):
    with pytest.raises(UsageError, match=why):
        training(kind, data, **settings)


# A step


def views_of(task, step):
    """The numbers of a batch's rows, and the vectors of its columns."""
    rows, encoder = task.batches(step), task.encoder
    texts = [[column[row] for row in rows] for column in task.columns]
    return rows, [encoder(encoder.tokenizer(view)) for view in texts]


def of_info_nce(task, rows, a, b=None, hard=None):
    """A sentence without another is its own positive."""
    log_alpha = vars(task.settings).get("hard_weight", 0.0)
    return info_nce(a, a if b is None else b, 0.05, hard, log_alpha)


def of_nt_xent(task, rows, a, b):
    return nt_xent(a, b, 0.05)


def of_softmax(task, rows, u, v):
    labels = torch.tensor([LABELLED.labels[row] for row in rows])
    return softmax_nli(u, v, labels, task.classifier.weight, task.classifier.bias)


def of_regression(task, rows, u, v):
    cosines = (u * v).sum(dim=1) / u.norm(dim=1) / v.norm(dim=1)
    return (
        (cosines - torch.tensor([SCORED.scores[row] for row in rows])).square().mean()
    )


LOSSES = {
    "itself": (Contrastive, PAIRS[:1], {}, of_info_nce),
    "itself, one mask": (Contrastive, PAIRS[:1], {"same_mask": True}, of_info_nce),
    "pairs": (Contrastive, PAIRS, {}, of_info_nce),
    "triplets": (Contrastive, TRIPLETS, {"hard_weight": 0.3}, of_info_nce),
    "without hard negatives": (
        Contrastive,
        TRIPLETS,
        {"hard_negatives": False},
        of_info_nce,
    ),
    "nt-xent": (Contrastive, PAIRS, {"objective": "nt-xent"}, of_nt_xent),
    "softmax": (Siamese, LABELLED, {}, of_softmax),
    "regression": (Siamese, SCORED, {"objective": "regression"}, of_regression),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_is_the_loss_over_its_batch(name, training):
    kind, data, settings, loss_of = LOSSES[name]
    task = training(kind, data, **settings)
    rows, views = views_of(task, 1)
    loss = loss_of(task, rows, *views)
    loss.backward()
    expected = gradients(task.model)
    task.model.zero_grad(set_to_none=True)
    found = task.loss(1)
    found.backward()
    assert found.item() == pytest.approx(loss.item(), rel=1e-5)
    assert_same_gradients(gradients(task.model), expected)


@pytest.mark.parametrize("kind", ["crop", "deletion"])
@given(
    words=st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=30),
    percent=st.integers(0, 99),
    seed=st.integers(0, 99),
)
def test_an_augmentation_takes_away_its_share_of_the_words(kind, words, percent, seed):
    rng = np.random.default_rng(seed)
    left = Augmentation(f"{kind}:{percent}")(" ".join(words), rng).split()
    assert len(left) == max(1, len(words) - round(len(words) * percent / 100))
    if kind == "crop":
        assert any(words[n : n + len(left)] == left for n in range(len(words)))
    else:
        rest = iter(words)
        assert all(word in rest for word in left)  # in their order


def test_one_word_is_taken_at_random_and_a_single_word_is_left():
    deletion, crop = Augmentation("deletion:one"), Augmentation("crop:50")
    rng = np.random.default_rng(0)
    assert {deletion("a b c", rng) for _ in range(200)} == {"a b", "a c", "b c"}
    assert {crop("a b c d", rng) for _ in range(200)} == {"a b", "b c", "c d"}
    assert deletion("a", rng) == "a"


def test_an_augmentation_changes_the_words_of_the_second_view_alone(training):
    task = training(Contrastive, PAIRS[:1], augmentation="deletion:50")
    rng = np.random.default_rng((task.seed, 5, 1, 0))
    texts = [SENTENCES[row] for row in task.batches(1)]
    fewer = [Augmentation("deletion:50")(text, rng) for text in texts]
    assert fewer != texts
    first, second = (
        task.encoder(task.encoder.tokenizer(view)) for view in (texts, fewer)
    )
    expected = info_nce(first, second, 0.05).item()
    assert task.loss(1).item() == task.loss(1).item()
    assert task.loss(1).item() == pytest.approx(expected, rel=1e-4)


def test_masked_words_add_their_weight_times_the_loss_of_the_checkpoints_own_head(
    training, folder
):
    without = training(Contrastive, PAIRS[:1]).loss(0).item()
    task = training(Contrastive, PAIRS[:1], masked_words=0.1)
    texts = [SENTENCES[row] for row in task.batches(0)]
    rows = sorted(2 * task.encoder.tokenizer(texts), key=len)  # both views
    ids, rng = np.concatenate(rows), np.random.default_rng((task.seed, 3, 0, 0))
    head = task.masked
    changed, places = mask(
        ids, MASKED_SHARE, head.vocabulary, head.special_ids, head.mask_id, rng
    )
    assert len(places) == round(0.15 * (ids.size - 2 * len(rows)))
    model, losses = transformers.BertForMaskedLM.from_pretrained(folder).eval(), []
    for start, end in pairwise(np.cumsum([0, *map(len, rows)])):
        logits = (
            model(torch.from_numpy(changed[None, start:end]))
            .logits[0]
            .log_softmax(dim=1)
        )
        inside = [place for place in places if start <= place < end]
        losses += [-logits[place - start, ids[place]].item() for place in inside]
    assert len(losses) == len(places)
    added = task.loss(0).item() - without
    assert added == pytest.approx(0.1 * np.mean(losses), rel=1e-4)


@pytest.mark.parametrize(
    ("head", "of", "read"),
    [("train", CLS, CLS), ("keep", CLS, POOLER), ("none", FIRST_LAST, FIRST_LAST)],
)
def test_the_loss_falls_and_the_checkpoint_is_read_as_it_was_trained(
    head, of, read, training, folder, tmp_path
):
    setup = Setup(of, head, dropout=0.0)
    task = training(Contrastive, TRIPLETS, setup=setup, epochs=15, learning_rate=1e-3)
    curve = train(task, task.settings.schedule(len(SENTENCES)), 0, Progress())
    assert len(curve.losses) == 30
    assert np.mean(curve.losses[-5:]) < np.mean(curve.losses[:5]) - 0.3
    write_checkpoint(tmp_path / "out", task.encoder, folder, {})
    plain = TransformerConfig("trained", "trained")
    for config, pooling in ((plain, read), (NativeConfig(plain), NATIVE)):
        vectors = pooling(config.load(tmp_path / "out", tmp_path).encode(SENTENCES))
        assert relative_gap(vectors, task.encoder.embed(SENTENCES)) <= ROUNDING
