"""A sentence encoder with gradients: same vectors, no padding, repeatable dropout."""

import shutil

import numpy as np
import pytest
import tiny_models
import torch
from gradients import assert_same_gradients, gradients
from safetensors.torch import load_file, save_file
from tiny_models import rest_slow
from tolerances import ROUNDING, relative_gap
from torch import nn

from harness.core.digests import sha256_of
from harness.core.errors import ScoreError, UsageError
from harness.encoders.transformer import TransformerConfig
from harness.training import encoder as training_encoder
from harness.training.encoder import PACKED_ARCHITECTURES, Setup, open_encoder
from harness.training.gradients import (
    LOSS_SCALES,
    backward_in_chunks,
    token_chunks,
    with_loss_scaling,
)
from harness.training.loop import seeded
from harness.transforms.pooling import CLS, FIRST_LAST, LAST2, MEAN, POOLER, STATIC_LAST

TEXTS = [
    "the cat sat on the mat.",
    "a",
    "dogs!",
    "the dog sat, the cat sat",
    "mat",
    "a cat?",
    "a",
]


@pytest.fixture
def open_training_encoder(checkpoint, tmp_path):
    def encoder(kind="bert", **setup):
        return open_encoder(kind, checkpoint(kind), tmp_path, Setup(**setup), seed=0)

    return encoder


def loss_of_distinct_gradients(z):
    """A loss whose gradient is another for every number."""
    weights = torch.linspace(-1, 1, z.numel()).view_as(z)
    return (weights * z).sum() + (z**2).mean()


# Vectors


@pytest.mark.parametrize("kind", rest_slow(tiny_models.KINDS, "bert", "mpnet", "t5"))
def test_in_evaluation_the_vectors_are_those_of_the_encoder(
    kind, open_training_encoder, checkpoint
):
    encoding = (
        TransformerConfig(kind, kind)
        .load(checkpoint(kind), checkpoint(kind))
        .encode(TEXTS)
    )
    for pooling in (CLS, MEAN, FIRST_LAST, STATIC_LAST, LAST2):
        if pooling is CLS and encoding.cls is None:
            with pytest.raises(UsageError, match=CLS.refusal):
                open_training_encoder(kind)
            continue
        found = open_training_encoder(kind, pooling=pooling).embed(TEXTS)
        assert relative_gap(found, pooling(encoding)) <= ROUNDING


def test_texts_are_cut_in_training_alone(open_training_encoder):
    encoder = open_training_encoder(max_length=6)
    long = "the cat sat on the mat and the dog sat on the cat"
    assert len(encoder.tokenizer([long])[0]) == 6
    assert (
        np.abs(encoder.embed([long]) - encoder.embed(["the cat sat on the"])).max()
        > 1e-3
    )


@pytest.mark.parametrize(
    "kind", rest_slow(sorted(PACKED_ARCHITECTURES & set(tiny_models.KINDS)), "bert")
)
@pytest.mark.parametrize("pooling", [CLS, STATIC_LAST], ids=lambda p: p.name)
def test_packed_and_padded_have_one_gradient(kind, pooling, open_training_encoder):
    encoder = open_training_encoder(
        kind, pooling=pooling, dropout=0.0, head="train"
    ).train()
    assert encoder.packs
    rows, found = encoder.tokenizer(TEXTS), []
    for encoder.packs in (True, False):
        encoder.zero_grad(set_to_none=True)
        loss_of_distinct_gradients(encoder(rows)).backward()
        found.append(gradients(encoder))
    assert len(found[0]) > 50
    assert_same_gradients(*found)


# Dropout


@pytest.mark.parametrize("kind", rest_slow(tiny_models.KINDS, "bert", "t5"))
def test_the_switch_reaches_every_dropout(kind, open_training_encoder):
    silent, loud = (
        open_training_encoder(kind, pooling=MEAN, dropout=0.0),
        open_training_encoder(kind, pooling=MEAN, dropout=0.5),
    )
    rows = silent.tokenizer(TEXTS)
    with torch.no_grad():
        evaluated = silent.eval()(rows)
        # the attention of evaluation and training are two kernels
        bound = 1e-5 * float(evaluated.abs().max())
        assert (silent.train()(rows) - evaluated).abs().max() < bound
        assert (loud.train()(rows) - loud(rows)).abs().max() > 1e-2


def test_masks_follow_torchs_generator(open_training_encoder):
    encoder = open_training_encoder().train()
    rows = encoder.tokenizer(TEXTS)
    with torch.no_grad():
        found = []
        for seed in (0, 0, 1):
            with seeded(seed):
                found.append((encoder(rows), encoder(rows)))
    (first, second), again, third = found
    assert torch.equal(torch.stack([first, second]), torch.stack(again))
    for view in (second, third[0]):
        assert (first - view).abs().max() > 1e-2


# Heads


def test_a_head_of_training_is_not_read_in_evaluation(open_training_encoder):
    bare, headed = open_training_encoder(), open_training_encoder(head="train")
    assert np.array_equal(bare.embed(TEXTS), headed.embed(TEXTS))
    rows = bare.tokenizer(TEXTS)
    with torch.no_grad(), seeded(0):
        z = headed.train()(rows)
    assert z.abs().max() < 1  # a tanh over weights of 0.02
    assert headed.transformer.pooler is None


def test_a_head_that_is_kept_is_the_encoders_pooler(open_training_encoder, checkpoint):
    encoder = open_training_encoder(head="keep")
    assert encoder.head.dense is encoder.transformer.pooler.dense
    dense = encoder.head.dense
    assert abs(float(dense.weight.detach().std()) - 0.02) < 0.002  # 1,024 draws
    assert not dense.bias.any()
    rows = encoder.tokenizer(TEXTS)
    bare = open_training_encoder().embed(TEXTS)
    expected = np.tanh(bare @ dense.weight.detach().numpy().T)
    assert relative_gap(encoder.embed(TEXTS), expected) <= ROUNDING
    loss_of_distinct_gradients(encoder.train()(rows)).backward()
    assert encoder.transformer.pooler.dense.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("kind", "setup", "why"),
    [
        ("distilbert", {"head": "keep"}, "no dense pooler to keep a head in"),
        ("albert", {"head": "keep"}, "no dense pooler to keep a head in"),
        ("bert", {"max_length": 41}, "wanted 41 tokens, the checkpoint takes 40"),
        ("bert", {"pooling": POOLER}, "found pooler; a pooler is cls with a head"),
        ("bert", {"precision": "fp16"}, "fp16 needs a GPU"),
        ("bert", {"dropout": 1.0}, "from 0 to below 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(kind, setup, why, open_training_encoder):
    with pytest.raises(UsageError, match=why):
        open_training_encoder(kind, **setup)


def test_16_bits_are_close_and_weights_stay_in_32(open_training_encoder):
    exact, half = (
        open_training_encoder(dropout=0.0),
        open_training_encoder(dropout=0.0, precision="bf16"),
    )
    rows = exact.tokenizer(TEXTS)
    a, b = exact.train()(rows), half.train()(rows)
    assert b.dtype == torch.float32
    assert 0 < (a - b).abs().max() < 0.1 * a.abs().max()  # eight bits of mantissa
    loss_of_distinct_gradients(b).backward()
    assert {p.grad.dtype for p in half.parameters()} == {torch.float32}


# Portions of a batch


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
@pytest.mark.parametrize("at_once", [1, 12])
def test_the_gradient_of_a_whole_batch_does_not_need_it_in_memory(
    kind, at_once, open_training_encoder
):
    """Against all portions held at once, under the same dropout."""
    encoder = open_training_encoder(kind).train()
    rows = encoder.tokenizer(TEXTS)
    order = np.argsort([len(row) for row in rows], kind="stable")
    parts = [order[part] for part in token_chunks([rows[i] for i in order], at_once)]
    assert len(parts) > 1
    with seeded(0):
        z = torch.cat([encoder([rows[i] for i in part]) for part in parts])
        loss = loss_of_distinct_gradients(
            z[torch.from_numpy(np.argsort(np.concatenate(parts)))]
        )
        loss.backward()
        expected, follows = gradients(encoder), torch.rand(3)
    encoder.zero_grad(set_to_none=True)
    with seeded(0):
        found = backward_in_chunks(encoder, rows, loss_of_distinct_gradients, at_once)
        assert torch.equal(torch.rand(3), follows)  # the generator is where it would be
    assert found == pytest.approx(loss.item(), rel=1e-6)
    assert_same_gradients(gradients(encoder), expected)


# 16-bit gradients


def passes(limit):
    """A pass whose gradient overflows above a factor, and what factors it was given."""
    weight, seen = nn.Parameter(torch.ones(3)), []

    def run(scale):
        seen.append((scale, float(torch.rand(()))))
        gradient = torch.full((3,), 0.5 * scale if scale <= limit else torch.inf)
        weight.grad = gradient if weight.grad is None else weight.grad + gradient
        return 2.0 * scale

    return weight, seen, run


@pytest.mark.parametrize("limit", LOSS_SCALES)
def test_an_overflow_repeats_the_pass_with_a_smaller_factor_and_the_same_dropout(limit):
    weight, seen, run = passes(limit)
    with seeded(0):
        assert with_loss_scaling(run, [weight], is_half=True) == 2.0
    assert weight.grad.tolist() == [0.5] * 3
    assert [scale for scale, _ in seen] == list(
        LOSS_SCALES[: LOSS_SCALES.index(limit) + 1]
    )
    assert len({drawn for _, drawn in seen}) == 1


def test_an_overflow_at_any_factor_is_said():
    weight, _, run = passes(0.5)
    with pytest.raises(ScoreError, match="take bf16 or float32"):
        with_loss_scaling(run, [weight], is_half=True)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_training_states_the_weights_that_it_read(
    checkpoint, tmp_path, monkeypatch, moment
):
    """Others take their place while they are read, or while it trains."""
    folder = tmp_path / "start"
    shutil.copytree(checkpoint("bert"), folder)
    weights = folder / "model.safetensors"
    true, read = sha256_of(weights), training_encoder.read_tensors

    def replaced(*arguments):
        tensors = read(*arguments) if moment == "after" else None
        save_file(
            {n: x + 1 for n, x in load_file(weights).items()},
            weights.with_suffix(".new"),
        )
        weights.with_suffix(".new").rename(weights)
        return read(*arguments) if tensors is None else tensors

    monkeypatch.setattr(training_encoder, "read_tensors", replaced)
    encoder = open_encoder("start", folder, tmp_path, Setup(), seed=0)
    assert encoder.start_sha256 == true
    key = "embeddings.word_embeddings.weight"
    whole = load_file(checkpoint("bert") / "model.safetensors")
    torch.testing.assert_close(encoder.transformer.state_dict()[key], whole[key])
    assert sha256_of(weights) != true
