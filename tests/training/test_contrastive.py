"""The contrastive losses are the published formulas, and a training step is their gradient."""

import copy
from itertools import pairwise

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from tolerances import ROUNDING, relative_gap

from harness.core.errors import DataError, UsageError
from harness.core.types import Progress
from harness.encoders.transformer import TransformerConfig
from harness.training.contrastive import (
    Augmentation,
    Contrastive,
    ContrastiveTraining,
    info_nce,
    nt_xent,
    open_mlm_head,
)
from harness.training.datasets import (
    LABELS,
    Batches,
    Labelled,
    read_labelled,
    read_triplets,
    sample,
)
from harness.training.encoder import Setup, open_encoder
from harness.training.loop import Curve, TrainingInfo, seeded, train, write_checkpoint
from harness.transforms.pooling import CLS, POOLER

SENTENCES = [
    "the cat sat on the mat.", "the dog sat on the cat", "the mat!", "a cat, a dog", "on the mat?",
    "the cat and the dog sat.", "a", "b c d", "dogs sat on the mat and on the cat", "the, cat",
]  # fmt: skip
PAIRS = (tuple(SENTENCES), tuple(reversed(SENTENCES)))
TRIPLETS = (*PAIRS, tuple(SENTENCES[3:] + SENTENCES[:3]))


def drawn(count, size=5, n=3, seed=0):
    """n matrices of rows, in float64, with gradients."""
    rng = np.random.default_rng(seed)
    return [torch.tensor(rng.normal(size=(count, size)), requires_grad=True) for _ in range(n)]


# The published formulas, with their gradients, in NumPy


def normalised(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def through_norm(x, gradient):
    """The gradient by x of something whose gradient by x / |x| is given."""
    unit = normalised(x)
    along = (gradient * unit).sum(axis=1, keepdims=True)
    return (gradient - along * unit) / np.linalg.norm(x, axis=1, keepdims=True)


def published(a, b, hard, temperature, log_alpha):
    """Equation 5: -log e^(s_ii/t) / sum_j (e^(s_ij/t) + alpha^[i=j] e^(h_ij/t)), and its gradients.

    Without `hard` equation 1.
    """
    count = len(a)
    x, y = normalised(a), normalised(b)
    loss, dx, dy = 0.0, np.zeros_like(a), np.zeros_like(b)
    z, dz = (None, None) if hard is None else (normalised(hard), np.zeros_like(hard))
    for i in range(count):
        terms = [np.exp(x[i] @ y[j] / temperature) for j in range(count)]
        pulled = (
            [np.exp(x[i] @ z[j] / temperature) for j in range(count)] if hard is not None else []
        )
        if pulled:
            pulled[i] *= np.exp(log_alpha)
        whole = sum(terms) + sum(pulled)
        loss -= np.log(terms[i] / whole) / count
        for j in range(count):
            share = (terms[j] / whole - (i == j)) / temperature / count
            dx[i] += share * y[j]
            dy[j] += share * x[i]
            if pulled:
                share = pulled[j] / whole / temperature / count
                dx[i] += share * z[j]
                dz[j] += share * x[i]
    gradients = [through_norm(a, dx), through_norm(b, dy)]
    return loss, gradients if hard is None else [*gradients, through_norm(hard, dz)]


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_info_nce_and_its_gradient_are_the_papers_equation_1(count, temperature, dtype):
    a, b = (x.detach().to(dtype).requires_grad_() for x in drawn(count, n=2))
    loss = info_nce(a, b, temperature)
    loss.backward()
    rows = (a.detach().double().numpy(), b.detach().double().numpy())
    expected, gradients = published(*rows, None, temperature, 0.0)
    # 1 / 0.05 multiplies what float32 rounds
    bound = 1e-6 if dtype == torch.float64 else 2e-5
    assert loss.item() == pytest.approx(expected, abs=bound)
    for x, gradient in zip((a, b), gradients, strict=True):
        np.testing.assert_allclose(x.grad, gradient, atol=bound)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("count", [2, 5])
def test_hard_negatives_and_their_gradient_are_the_papers_equation_5(count, alpha):
    rows = drawn(count)
    loss = info_nce(rows[0], rows[1], 0.05, rows[2], float(np.log(alpha)))
    loss.backward()
    expected, gradients = published(*(x.detach().numpy() for x in rows), 0.05, np.log(alpha))
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    for x, gradient in zip(rows, gradients, strict=True):
        np.testing.assert_allclose(x.grad, gradient, atol=1e-6)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_nt_xent_is_that_of_the_keras_version(count):
    """[a, a, b, b, ...], the diagonal pushed away, the labels [1, 0, 3, 2, ...]."""
    a, b = drawn(count, n=2)
    loss = nt_xent(a, b, 0.05)
    loss.backward()
    rows = np.stack([a.detach().numpy(), b.detach().numpy()], axis=1).reshape(2 * count, -1)
    y_pred = normalised(rows)
    idxs = np.arange(2 * count)
    y_true = idxs[None, :] == (idxs + 1 - idxs % 2 * 2)[:, None]
    logits = (y_pred @ y_pred.T - np.eye(2 * count) * 1e12) * 20
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    assert loss.item() == pytest.approx(-np.log(shares[y_true]).mean(), abs=1e-6)
    pull = (shares - y_true) * 20 / (2 * count)
    gradient = through_norm(rows, (pull + pull.T) @ y_pred)
    np.testing.assert_allclose(a.grad, gradient[::2], atol=1e-6)
    np.testing.assert_allclose(b.grad, gradient[1::2], atol=1e-6)


# Laws of the losses


# Settings

BERT_LARGE = {"model_type": "bert", "hidden_size": 1024}
ROBERTA_BASE = {"model_type": "roberta", "hidden_size": 768}


@pytest.mark.parametrize(
    ("config", "unsupervised", "supervised"),
    [
        ({"model_type": "bert", "hidden_size": 768}, (3e-5, 64), 5e-5),
        (BERT_LARGE, (1e-5, 64), 1e-5),
        (ROBERTA_BASE, (1e-5, 512), 5e-5),
        ({"model_type": "xlm-roberta", "hidden_size": 1024}, (3e-5, 512), 1e-5),
        ({"model_type": "bert", "hidden_size": 256}, (3e-5, 64), 5e-5),
    ],
)
def test_the_defaults_are_the_papers_for_each_size(config, unsupervised, supervised):
    one, other = Contrastive.unsupervised(config), Contrastive.supervised(config)
    assert (one.learning_rate, one.batch) == unsupervised
    assert (other.learning_rate, other.batch) == (supervised, 512)
    assert (one.epochs, one.setup.head, other.epochs, other.setup.head) == (1, "train", 3, "keep")
    assert one.temperature == other.temperature == 0.05
    assert one.setup.max_length == other.setup.max_length == 32
    assert {one.setup.pooling, other.setup.pooling} == {CLS}


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"masked_words": -1.0}])
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(UsageError, match="wanted a temperature above 0"):
        Contrastive(**wrong)


# Batches


@given(st.integers(2, 60), st.integers(2, 20), st.integers(0, 9), st.integers(0, 3))
def test_an_epoch_takes_every_example_once(count, size, seed, epoch):
    batches = Batches(count, size, seed)
    taken = [batches(epoch * batches.steps + step) for step in range(batches.steps)]
    assert all(len(batch) > 1 for batch in taken)
    left_out = count - sum(map(len, taken))
    assert left_out == (count % size == 1)
    assert len(set(np.concatenate(taken))) == count - left_out
    assert all(len(batch) == size for batch in taken[:-1])


# A training step


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_models.make("bert", tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def opened(bert):
    """Towers that were opened once, by their setup; a test gets a copy."""
    made = {}

    def encoder(setup):
        if setup not in made:
            made[setup] = open_encoder("tiny", bert, bert, setup, seed=0)
        return copy.deepcopy(made[setup])

    return encoder


@pytest.fixture
def training(opened):
    def make(columns=(tuple(SENTENCES),), setup=None, masked=None, **settings):
        settings = Contrastive(setup=setup or Setup(), batch=settings.pop("batch", 5), **settings)
        encoder = opened(settings.setup).train()
        return ContrastiveTraining(settings, encoder, columns, 0, masked)

    return make


def stepped(task, step=0, seed=0):
    """The loss and the gradients of one step."""
    task.model.train().zero_grad(set_to_none=True)
    with seeded(seed):
        loss = task.backward(step)
    named = task.model.named_parameters()
    return loss, {name: p.grad.clone() for name, p in named if p.grad is not None}


def assert_same(found, expected, atol=1e-5, rtol=1e-4):
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert found[1].keys() == expected[1].keys()
    for name, gradient in found[1].items():
        torch.testing.assert_close(gradient, expected[1][name], atol=atol, rtol=rtol, msg=name)


def columns_of(task, step):
    rows = task.batches(step)
    return [[column[row] for row in rows] for column in task.columns]


@pytest.mark.parametrize("columns", [PAIRS, TRIPLETS], ids=["pairs", "triplets"])
@pytest.mark.parametrize("hard_negatives", [True, False])
def test_a_step_is_the_loss_over_its_batch(columns, hard_negatives, training):
    setup = Setup(dropout=0.0)
    task = training(columns, setup, hard_negatives=hard_negatives, hard_weight=0.3)
    found = stepped(task, 1)
    task.model.zero_grad(set_to_none=True)
    views = [task.encoder(task.encoder.tokenizer(texts)) for texts in columns_of(task, 1)]
    assert len(views) == (3 if len(columns) == 3 and hard_negatives else 2)
    hard = views[2] if len(views) == 3 else None
    loss = info_nce(views[0], views[1], 0.05, hard, 0.3)
    loss.backward()
    named = task.model.named_parameters()
    expected = {name: p.grad for name, p in named if p.grad is not None}
    assert_same(found, (loss.item(), expected), atol=1e-3)  # gradients near 10 over 0.05


def test_an_augmentation_changes_the_words_of_the_second_view_alone(training):
    task = training(setup=Setup(dropout=0.0), augmentation="deletion:50")
    rng = np.random.default_rng((task.seed, 5, 1, 0))
    [texts] = columns_of(task, 1)
    fewer = [Augmentation("deletion:50")(text, rng) for text in texts]
    assert fewer != texts
    first, second = (task.encoder(task.encoder.tokenizer(view)) for view in (texts, fewer))
    assert stepped(task, 1)[0] == pytest.approx(info_nce(first, second, 0.05).item(), rel=1e-4)
    assert stepped(task, 1)[0] == stepped(task, 1)[0]


def test_a_batch_in_portions_keeps_its_negatives_and_its_gradient(training):
    setup = Setup(dropout=0.0)
    found = [stepped(training(TRIPLETS, setup, tokens_at_once=n)) for n in (10_000, 40, 1)]
    assert_same(found[1], found[0], atol=1e-3)
    assert_same(found[2], found[0], atol=1e-3)


@pytest.mark.parametrize(
    ("columns", "settings", "why"),
    [
        (TRIPLETS, {"objective": "nt-xent"}, "no place for hard negatives"),
        (PAIRS, {"same_mask": True}, "found pairs"),
        (PAIRS, {"masked_words": 0.1}, "a weight above 0 and a head"),
        (PAIRS, {"augmentation": "crop:10"}, "an augmentation needs one sentence seen twice"),
        (PAIRS[:1], {"augmentation": "crop:10", "same_mask": True}, "an augmentation needs one"),
        (PAIRS[:1], {"augmentation": "crop"}, "wanted crop:P or deletion:P"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(columns, settings, why, training):
    with pytest.raises(UsageError, match=why):
        training(columns, **settings)


# Masked words


@pytest.fixture(scope="module")
def with_head(tmp_path_factory):
    """A checkpoint that holds its head over masked words."""
    folder = tiny_models.make("bert", tmp_path_factory.mktemp("masked"))
    config = transformers.BertConfig.from_pretrained(folder)
    with seeded(3):
        model = transformers.BertForMaskedLM(config)
        for parameter in model.parameters():
            parameter.data.normal_(std=0.3)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def masked_training(with_head):
    def make(weight, **settings):
        found = Contrastive(setup=Setup(dropout=0.0), batch=5, masked_words=weight, **settings)
        encoder = open_encoder("tiny", with_head, with_head, found.setup, seed=0)
        masked = open_mlm_head("tiny", with_head, with_head, encoder) if weight else None
        return ContrastiveTraining(found, encoder, (tuple(SENTENCES),), 0, masked)

    return make


def test_masked_words_add_their_weight_times_the_loss_of_the_checkpoints_own_head(
    masked_training, with_head, monkeypatch
):
    hidden = {}

    def remember(ids, share, *rest):
        hidden["ids"], hidden["share"] = ids, share
        changed, places = real(ids, share, *rest)
        hidden["changed"], hidden["places"] = changed, places
        return changed, places

    import harness.training.contrastive as auxiliary

    real = auxiliary.mask
    monkeypatch.setattr(auxiliary, "mask", remember)
    without = stepped(masked_training(0.0))[0]
    added = stepped(masked_training(0.1))[0] - without
    rows = masked_training(0.0).encoder.tokenizer(columns_of(masked_training(0.0), 0)[0])
    lengths = sorted(2 * [len(row) for row in rows])  # both views
    assert hidden["ids"].size == sum(lengths)
    model = transformers.BertForMaskedLM.from_pretrained(with_head).eval()
    starts, losses = np.cumsum([0, *lengths]), []
    for start, end in pairwise(starts):
        logits = model(torch.from_numpy(hidden["changed"][:, start:end])).logits[0]
        for place in hidden["places"]:
            if start <= place < end:
                shares = logits[place - start].log_softmax(dim=0)
                losses.append(-shares[hidden["ids"][0, place]].item())
    assert len(losses) == len(hidden["places"]) == round(0.15 * (sum(lengths) - 2 * len(lengths)))
    assert added == pytest.approx(0.1 * np.mean(losses), rel=1e-4)


@pytest.mark.parametrize(("head", "pooling"), [("train", CLS), ("keep", POOLER)])
def test_the_loss_falls_and_the_checkpoint_is_read_as_it_was_trained(
    head, pooling, training, bert, tmp_path
):
    setup = Setup(head=head, dropout=0.0)
    task = training(TRIPLETS, setup, epochs=15, learning_rate=1e-3)
    schedule = task.settings.schedule(len(SENTENCES))
    curve = train(task, schedule, 0, Progress())
    assert len(curve.losses) == 30
    assert np.mean(curve.losses[-5:]) < np.mean(curve.losses[:5]) - 0.3
    made = TrainingInfo("harness train", {}, 0, {}, Curve())
    write_checkpoint(tmp_path / "out", task.encoder.transformer, bert, "cls", 40, made)
    encoder = TransformerConfig("trained", "trained").load(tmp_path / "out", tmp_path)
    encoding = encoder.encode(SENTENCES)
    assert relative_gap(pooling(encoding), task.encoder.embed(SENTENCES)) <= ROUNDING
    if head == "train":
        with pytest.raises(UsageError, match="holds no pooler weights"):
            POOLER(encoding)


# Files


HEADER = "split\tdataset\tfilename\tsentence1\tsentence2\tlabel\n"


@pytest.mark.parametrize(
    ("read", "text", "why"),
    [
        (read_triplets, "", ":1: wanted the header sent0,sent1,hard_neg"),
        (read_triplets, "a,b,c\n", "found 'a,b,c'"),
        (read_triplets, "sent0,sent1,hard_neg\n", "wanted rows behind the header"),
        (read_triplets, "sent0,sent1,hard_neg\na,b,c\nd,e\n", ":3: wanted 3 sentences"),
        (read_triplets, "sent0,sent1\na,\n", ":2: wanted 2 sentences"),
        (read_triplets, 'sent0,sent1\n"a"b,c\n', ":2: wanted CSV in UTF-8"),
        (read_triplets, "sent0,sent1\na,\udcff\n", "wanted CSV in UTF-8"),
        (read_labelled, "", "wanted labelled pairs"),
        (read_labelled, "4\t4\ta\tb\n", ":1: wanted a label from 1 to 3, found '4'"),
        (read_labelled, "1\ta\tb\n", ":1: wanted 4 fields, found 3"),
        (read_labelled, HEADER + "train\tSNLI\tx\ta\tb\t-\n", ":2: wanted one of contradiction"),
        (read_labelled, HEADER, "wanted labelled pairs"),
    ],
)
def test_other_files_are_refused_by_line(read, text, why, tmp_path):
    (tmp_path / "nli.csv").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataError, match=why):
        read(tmp_path / "nli.csv")


def test_labelled_pairs_are_read_from_both_forms(tmp_path):
    numbered, all_nli = tmp_path / "train.csv", tmp_path / "AllNLI.tsv"
    numbered.write_text('1\t1\ta\t"b\n2\t2\tc\td\n3\t3\te\tf\n')
    assert read_labelled(numbered) == Labelled(("a", "c", "e"), ('"b', "d", "f"), (2, 0, 1))
    all_nli.write_text(
        HEADER
        + "train\tSNLI\tx\ta\tb\tneutral\ndev\tSNLI\tx\tq\tr\tneutral\n"
        + "train\tMultiNLI\tx\tc\td\tcontradiction\n"
    )
    assert read_labelled(all_nli) == Labelled(("a", "c"), ("b", "d"), (2, 0))
    whole = Labelled(("a", "q", "c"), ("b", "r", "d"), (2, 2, 0))
    assert read_labelled(all_nli, held_out=True) == whole
    with pytest.raises(UsageError, match="wanted AllNLI, which tells splits apart, found train"):
        read_labelled(numbered, held_out=True)


def test_pairs_of_one_label_are_told_from_the_others():
    labelled = Labelled(("a", "c", "e", "g"), ("b", "d", "f", "h"), (1, 0, 1, 2))
    assert labelled.of_kind("entailment") == (("a", "e"), ("b", "f"))
    assert labelled.of_kind("contradiction") == (("c",), ("d",))
    assert labelled.of_kind("all") == labelled.columns
    with pytest.raises(UsageError, match="wanted one of contradiction, entailment, neutral, all"):
        labelled.of_kind("neutrall")
    with pytest.raises(DataError, match="labelled pairs of neutral, found none"):
        Labelled(("a",), ("b",), (1,)).of_kind("neutral")


def test_a_sample_keeps_rows_and_their_order_and_depends_on_the_seed():
    columns = (tuple(map(str, range(50))), tuple(f"to {n}" for n in range(50)))
    drawn = sample(columns, 20, seed=0)
    numbers = [int(text) for text in drawn[0]]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 20
    assert drawn[1] == tuple(f"to {n}" for n in numbers)
    assert sample(columns, 20, seed=0) == drawn != sample(columns, 20, seed=1)
    assert sample(columns, 50, seed=0) == columns
    with pytest.raises(DataError, match="--sample 51: wanted so many examples, found 50"):
        sample(columns, 51, seed=0)


def test_triplets_of_labelled_pairs_join_what_one_premise_has():
    yes, perhaps, no = map(LABELS.index, ("entailment", "neutral", "contradiction"))
    b = ("yes", "perhaps", "alone", "no", "never", "not", "indeed")
    found = Labelled(tuple("ppqpprp"), b, (yes, perhaps, yes, no, no, no, yes)).triplets()
    assert found == (("p", "p"), ("yes", "indeed"), ("no", "never"))
    with pytest.raises(DataError, match="an entailment and a contradiction"):
        Labelled(("p",), ("yes",), (1,)).triplets()
