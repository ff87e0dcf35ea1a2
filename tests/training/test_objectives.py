"""SimCSE's and SBERT's trainings: the losses of the papers, their settings, and their steps."""

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from gradients import assert_same_gradients, gradients
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tolerances import ROUNDING, relative_gap
from torch import nn

from harness.core.errors import UsageError
from harness.core.types import Progress
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig
from harness.training.encoder import SentenceEncoder
from harness.training.loop import seeded, train, write_checkpoint
from harness.training.objectives import (
    EncoderTraining,
    augmented,
    info_nce,
    mask,
    nt_xent,
    softmax_nli,
)
from harness.training.recipes import SbertNli, SbertSts, SimcseSup, SimcseUnsup, pace
from harness.transforms.pooling import CLS, FIRST_LAST, NATIVE, POOLER

SENTENCES = (
    "the cat sat on the mat.", "the dog sat on the cat", "the mat!", "a cat, a dog", "on the mat?",
    "the cat and the dog sat.", "a", "b c d", "dogs sat on the mat and on the cat", "the, cat",
)  # fmt: skip
PAIRS = (SENTENCES, SENTENCES[::-1])
TRIPLETS = (*PAIRS, SENTENCES[3:] + SENTENCES[:3])
LABELS = ("contradiction", "entailment", "neutral", "entailment", "contradiction") * 2
SCORES = (0.0, 0.2, 1.0, 0.5, 0.75) * 2


def unsup(**settings):
    return SimcseUnsup(start="tiny", dropout=0.0, batch=5, **settings)


def sup(**settings):
    return SimcseSup(**{
        "start": "tiny", "file": "-", "dropout": 0.0, "batch": 5, "head": "none", **settings
    })  # fmt: skip


NLI = SbertNli(start="tiny", file="-", dropout=0.0, batch=5, max_length=32)
STS = SbertSts(start="tiny", dropout=0.0, batch=5, max_length=32)

# The losses are the published formulas, here in NumPy

# 1 / 0.05 multiplies what float32 rounds.
BOUNDS = {torch.float64: 1e-6, torch.float32: 2e-5}


def drawn(count, size=5, n=2, seed=0):
    """n matrices of rows."""
    return np.random.default_rng(seed).normal(size=(n, count, size))


def normalised(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def softmax(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("alpha", [None, 0.5, 1.0])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_info_nce_is_the_papers_equations_1_and_5(count, temperature, alpha, dtype):
    """-log e^(s_ii/t) / sum_j (e^(s_ij/t) + alpha^[i=j] e^(h_ij/t)); equation 1 has no h."""
    rows = drawn(count, n=3 if alpha else 2)
    x, *others = map(normalised, rows)
    logits = x @ np.concatenate(others).T / temperature
    # On the diagonal of the negatives.
    logits += np.log(alpha or 1) * np.eye(*logits.shape, k=count)
    expected = -np.log(softmax(logits).diagonal()).mean()
    a, b, *hard = torch.tensor(rows, dtype=dtype)
    loss = info_nce(a, b, temperature, *hard, hard_weight=float(np.log(alpha or 1)))
    assert loss.item() == pytest.approx(expected, abs=BOUNDS[dtype])


@pytest.mark.parametrize("count", [2, 3, 8])
def test_nt_xent_is_that_of_the_keras_version(count):
    """[a, a, b, b, ...], the diagonal pushed away, the labels [1, 0, 3, 2, ...]."""
    a, b = drawn(count)
    y_pred = normalised(np.stack([a, b], axis=1).reshape(2 * count, -1))
    idxs = np.arange(2 * count)
    y_true = idxs[None, :] == (idxs + 1 - idxs % 2 * 2)[:, None]
    shares = softmax((y_pred @ y_pred.T - np.eye(2 * count) * 1e12) * 20)
    loss = nt_xent(torch.tensor(a), torch.tensor(b), 0.05)
    assert loss.item() == pytest.approx(-np.log(shares[y_true]).mean(), abs=1e-6)


@pytest.mark.parametrize("count", [1, 5])
def test_softmax_is_the_papers_formula(count):
    """o = softmax(W (u, v, |u - v|) + b), and minus its mean logarithm."""
    u, v = drawn(count, size=4)
    [weight], [bias] = drawn(3, size=12, n=1), drawn(1, size=3, n=1, seed=1)
    labels = [0, 2, 1, 1, 0][:count]
    features = np.concatenate([u, v, np.abs(u - v)], axis=1)
    shares = softmax(features @ weight.T + bias)
    expected = -np.log(shares[range(count), labels]).mean()
    tensors = map(torch.tensor, (u, v, labels, weight, bias[0]))
    assert softmax_nli(*tensors).item() == pytest.approx(expected, abs=1e-6)


# Settings


@pytest.mark.parametrize(
    ("model_type", "width", "unsupervised", "supervised"),
    [
        ("bert", 768, (64, 3e-5), (512, 5e-5)),
        ("bert", 1024, (64, 1e-5), (512, 1e-5)),
        ("roberta", 768, (512, 1e-5), (512, 5e-5)),
        ("xlm-roberta", 1024, (512, 3e-5), (512, 1e-5)),
    ],
)
def test_simcses_pace_is_the_papers_for_each_size(
    model_type, width, unsupervised, supervised
):
    assert pace(SimcseUnsup(start=""), model_type, width) == unsupervised
    assert pace(SimcseSup(start="", file=""), model_type, width) == supervised
    assert pace(unsup(learning_rate=0.5), model_type, width) == (5, 0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT that holds its head over masked words."""
    place = tiny_models.make("bert", tmp_path_factory.mktemp("masked"))
    config = transformers.BertConfig.from_pretrained(place)
    with seeded(3):
        model = transformers.BertForMaskedLM(config)
        for matrix in (p for p in model.parameters() if p.ndim > 1):
            # Norms stay as they are, so that sentences are told apart.
            matrix.data.normal_(std=0.3)
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def training(folder):
    """Trainings of a recipe on columns."""

    def make(recipe, columns, targets=()):
        encoder = SentenceEncoder("tiny", folder, recipe).train()
        return EncoderTraining(recipe, encoder, columns, targets)

    return make


def test_sberts_schedule_is_that_of_the_first_release(training):
    task = training(STS, (SENTENCES * 575,) * 2, SCORES * 575)
    assert task.schedule.steps == 4 * 1150
    assert task.schedule.warmup == 460
    assert (task.schedule.weight_decay, task.schedule.clip) == (0.01, 1.0)
    rates = [task.schedule.rate(step) for step in (459, 460, 2530, 4599)]
    # transformers' linear schedule
    assert rates == pytest.approx([2e-5, 2e-5, 1e-5, 2e-5 / 4140])


def test_impossible_settings_are_refused():
    with refused(UsageError, "--same-mask: wanted one sentence seen twice"):
        unsup(same_mask=True, augmentation="crop:10")
    with refused(UsageError, "wanted crop:P or deletion:P"):
        unsup(augmentation="crop")


# A step


def of_info_nce(task, rows, a, b=None, hard=None):
    """A sentence without another is its own positive."""
    log_alpha = vars(task.recipe).get("hard_weight", 0.0)
    return info_nce(a, a if b is None else b, 0.05, hard, log_alpha)


def of_pairs(task, rows, a, b, hard):
    return info_nce(a, b, 0.05)


def of_fewer_words(task, rows, a):
    rng = np.random.default_rng((task.recipe.seed, 5, 1, 0))
    fewer = [augmented(SENTENCES[row], "deletion:50", rng) for row in rows]
    return info_nce(a, task.encoder(task.encoder.tokenizer(fewer)), 0.05)


def of_nt_xent(task, rows, a):
    return nt_xent(a, a, 0.05)


def of_softmax(task, rows, u, v):
    labels = torch.tensor([sorted(set(LABELS)).index(LABELS[row]) for row in rows])
    return softmax_nli(u, v, labels, task.classifier.weight, task.classifier.bias)


def of_regression(task, rows, u, v):
    cosines = (u * v).sum(dim=1) / u.norm(dim=1) / v.norm(dim=1)
    return (cosines - torch.tensor([SCORES[row] for row in rows])).square().mean()


LOSSES = {
    "itself": (unsup(), (PAIRS[:1],), of_info_nce),
    "itself, one mask": (unsup(same_mask=True), (PAIRS[:1],), of_info_nce),
    "nt-xent": (unsup(objective="nt-xent"), (PAIRS[:1],), of_nt_xent),
    "triplets": (sup(hard_weight=0.3), (TRIPLETS,), of_info_nce),
    "without negatives": (sup(hard_negatives=False), (TRIPLETS,), of_pairs),
    "fewer words": (unsup(augmentation="deletion:50"), (PAIRS[:1],), of_fewer_words),
    "softmax": (NLI, (PAIRS, LABELS), of_softmax),
    "regression": (STS, (PAIRS, SCORES), of_regression),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_step_is_the_loss_over_its_batch(name, training):
    recipe, data, loss_of = LOSSES[name]
    task = training(recipe, *data)
    rows, encoder = task.batches(1), task.encoder
    texts = [[column[row] for row in rows] for column in task.columns]
    views = [encoder(encoder.tokenizer(view)) for view in texts]
    loss = loss_of(task, rows, *views)
    loss.backward()
    expected = gradients(task.model)
    task.model.zero_grad(set_to_none=True)
    found = task.loss(1)
    found.backward()
    assert found.item() == pytest.approx(loss.item(), rel=1e-5)
    assert_same_gradients(gradients(task.model), expected)


# Augmentations


@pytest.mark.parametrize(
    "augmentation", ["crop:10", "crop:50", "deletion:30", "deletion:99", "deletion:one"]
)
@given(
    words=st.lists(st.text("ab", min_size=1, max_size=2), min_size=1, max_size=30),
    seed=st.integers(0, 99),
)
def test_an_augmentation_takes_away_its_share_of_the_words(augmentation, words, seed):
    rng = np.random.default_rng(seed)
    left = augmented(" ".join(words), augmentation, rng).split()
    kind, _, amount = augmentation.partition(":")
    taken = 1 if amount == "one" else round(len(words) * int(amount) / 100)
    assert len(left) == max(1, len(words) - taken)
    if kind == "crop":
        assert any(words[n : n + len(left)] == left for n in range(len(words)))
    else:
        rest = iter(words)
        assert all(word in rest for word in left)  # in their order


# Masked words


def test_masking_follows_the_shares_of_the_paper():
    rng = np.random.default_rng(0)
    before = rng.integers(0, 90, size=10_000)  # the first five ids are special
    after, places = mask(before, 90, range(5), 4, rng)
    assert len(places) == round(0.15 * (before >= 5).sum())
    assert (np.delete(after, places) == np.delete(before, places)).all()
    assert (before[places] >= 5).all()
    assert (after[places] >= 4).all()
    assert (after[places] == 4).mean() == pytest.approx(0.8, abs=0.03)
    assert (after[places] == before[places]).mean() == pytest.approx(0.1, abs=0.03)


def test_masked_words_add_their_weight_times_the_loss_of_the_checkpoints_own_head(
    training, folder
):
    without = training(unsup(), PAIRS[:1]).loss(0).item()
    task = training(unsup(masked_words=0.1), PAIRS[:1])
    tokenizer = task.encoder.tokenizer
    rows = tokenizer([SENTENCES[row] for row in task.batches(0)])
    rows = sorted(2 * rows, key=len)  # both views
    ids, rng = np.concatenate(rows), np.random.default_rng((0, 3, 0, 0))
    words = tokenizer.tokenizer
    changed, places = mask(
        ids, len(words), words.all_special_ids, words.mask_token_id, rng
    )
    model = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    logits = []
    for sentence in np.split(changed, np.cumsum([len(row) for row in rows[:-1]])):
        logits.append(model(torch.from_numpy(sentence[None])).logits[0])
    labels = torch.from_numpy(ids[places])
    loss = nn.functional.cross_entropy(torch.cat(logits)[places], labels)
    added = task.loss(0).item() - without
    assert added == pytest.approx(0.1 * loss.item(), rel=1e-4)


# The checkpoint


@pytest.mark.parametrize(
    ("head", "pooling", "read"),
    [
        ("train", "cls", CLS),
        ("keep", "cls", POOLER),
        ("none", "first-last", FIRST_LAST),
    ],
)
def test_the_loss_falls_and_the_checkpoint_is_read_as_it_was_trained(
    head, pooling, read, training, tmp_path
):
    recipe = sup(head=head, pooling=pooling, epochs=15, learning_rate=1e-3)
    task = training(recipe, TRIPLETS)
    curve = train(task, task.schedule, 0, Progress())
    assert len(curve.losses) == 30
    assert np.mean(curve.losses[-5:]) < np.mean(curve.losses[:5]) - 0.3
    write_checkpoint(tmp_path / "out", task.encoder, {})
    plain = TransformerConfig("trained", "trained")
    for config, pooled in ((plain, read), (NativeConfig(plain), NATIVE)):
        vectors = pooled(config.load(tmp_path / "out", tmp_path).encode(SENTENCES))
        assert relative_gap(vectors, task.encoder.embed(SENTENCES)) <= ROUNDING
