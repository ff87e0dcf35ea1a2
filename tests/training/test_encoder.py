"""A sentence encoder with gradients: same vectors, no padding, repeatable dropout."""

import numpy as np
import pytest
import tiny_models
import torch
from fixtures import rest_slow
from gradients import assert_same_gradients, gradients
from refusals import refused
from tolerances import ROUNDING, relative_gap

from harness.core.errors import UsageError
from harness.encoders.transformer import TransformerConfig
from harness.training.encoder import PACKED_ARCHITECTURES, SentenceEncoder
from harness.training.loop import seeded
from harness.training.recipes import SimcseUnsup
from harness.transforms.pooling import CLS, FIRST_LAST, LAST2, MEAN, STATIC_LAST

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
def open_training_encoder(checkpoint):
    def encoder(kind="bert", head="none", **settings):
        recipe = SimcseUnsup(start=kind, head=head, **settings)
        return SentenceEncoder(kind, checkpoint(kind), recipe)

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
            with refused(UsageError, CLS.refusal):
                open_training_encoder(kind)
            continue
        found = open_training_encoder(kind, pooling=pooling.name).embed(TEXTS)
        assert relative_gap(found, pooling(encoding)) <= ROUNDING


@pytest.mark.parametrize(
    "kind", rest_slow(sorted(PACKED_ARCHITECTURES & set(tiny_models.KINDS)), "bert")
)
@pytest.mark.parametrize("pooling", ["cls", "static-last"])
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
        open_training_encoder(kind, pooling="mean", dropout=0.0),
        open_training_encoder(kind, pooling="mean", dropout=0.5),
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


def test_a_head_is_kept_as_the_encoders_pooler_or_left_out(open_training_encoder):
    bare, headed = open_training_encoder(), open_training_encoder(head="train")
    assert np.array_equal(bare.embed(TEXTS), headed.embed(TEXTS))
    assert headed.transformer.pooler is None
    encoder = open_training_encoder(head="keep")
    dense = encoder.head.dense
    assert dense is encoder.transformer.pooler.dense
    assert abs(float(dense.weight.detach().std()) - 0.02) < 0.002  # 1,024 draws
    assert not dense.bias.any()
    expected = np.tanh(bare.embed(TEXTS) @ dense.weight.detach().numpy().T)
    assert relative_gap(encoder.embed(TEXTS), expected) <= ROUNDING
    rows = encoder.tokenizer(TEXTS)
    loss_of_distinct_gradients(encoder.train()(rows)).backward()
    assert dense.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("kind", "settings", "why"),
    [
        ("distilbert", {"head": "keep"}, "no dense pooler to keep a head in"),
        ("albert", {"head": "keep"}, "no dense pooler to keep a head in"),
        ("bert", {"max_length": 41}, "wanted 41 tokens, the checkpoint takes 40"),
        (
            "bert",
            {"pooling": "pooler"},
            "--pooling pooler: .* a pooler is cls with a head",
        ),
        ("bert", {"dropout": 1.0}, "from 0 to below 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(kind, settings, why, open_training_encoder):
    with refused(UsageError, why):
        open_training_encoder(kind, **settings)


@pytest.mark.gpu
def test_a_gpu_has_the_gradients_of_the_processor(open_training_encoder):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    found = []
    for device in ("cpu", "cuda"):
        encoder = open_training_encoder(dropout=0.0, head="train", device=device)
        z = encoder.train()(encoder.tokenizer(TEXTS))
        loss_of_distinct_gradients(z.cpu()).backward()
        found.append(gradients(encoder.cpu()))
    assert_same_gradients(*found)


def test_16_bits_are_close_and_weights_stay_in_32(open_training_encoder):
    exact, half = (
        open_training_encoder(dropout=0.0),
        open_training_encoder(dropout=0.0, dtype="bfloat16"),
    )
    rows = exact.tokenizer(TEXTS)
    a, b = exact.train()(rows), half.train()(rows)
    assert b.dtype == torch.float32
    assert 0 < (a - b).abs().max() < 0.1 * a.abs().max()  # eight bits of mantissa
    loss_of_distinct_gradients(b).backward()
    assert {p.grad.dtype for p in half.parameters()} == {torch.float32}
