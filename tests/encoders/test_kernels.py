"""Forward passes: each gives what the model gives, dropout or not; a rule says which is taken."""

import shutil
import threading
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tolerances import ROUNDING, encoding_gap

from harness.core.errors import UsageError
from harness.core.hardware import Hardware, base_name, in_precision, precision_of
from harness.encoders.kernels import passes
from harness.encoders.kernels.choose import (
    CPU_TOKENS,
    GPU_TOKENS,
    PLAIN,
    Choice,
    batches,
    rule,
    run_batches,
)
from harness.encoders.kernels.passes import PackedKernel, is_packable
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig

TINY = TransformerConfig("tiny", "none")
TEXTS = (
    "The cat sat on the mat.",
    "a",
    "dog cat " * 60,
    "Hello, 42!",
    "the dog",
    "mat?",
    "",
    "a",
)
PACKED = ("bert", "roberta", "distilbert", "electra", "mpnet")
ONEDNN = Choice("packed", "onednn", 2, 1, 64)


@pytest.fixture
def load(checkpoint, tmp_path):
    """The encoder of a kind, by the rule or with this choice, on this hardware."""

    def loaded(kind, choice=None, **hardware):
        encoder = TINY.on(Hardware(**hardware)).load(checkpoint(kind), tmp_path)
        return encoder if choice is None else run_by(encoder, choice)

    return loaded


def run_by(encoder, choice):
    kernel = encoder.plain_kernel
    if choice.route == "packed":
        kernel = PackedKernel(kernel, choice.library)
    return replace(encoder, kernel=kernel, choice=choice)


# Each pass gives what the model gives


@pytest.mark.parametrize("library", ["torch", "onednn", "mkl"])
@pytest.mark.parametrize("kind", tiny_models.KINDS)
def test_the_packed_pass_is_the_models_own(kind, library, load):
    encoder = load(kind)
    assert is_packable(encoder.plain_kernel.model) == (kind in PACKED)
    if kind not in PACKED:
        assert encoder.choice == PLAIN
        return
    kernel = PackedKernel(encoder.plain_kernel, library)
    batch = encoder.tokenizer(TEXTS)
    assert encoding_gap(encoder.plain_kernel(batch), kernel(batch)) <= ROUNDING


@pytest.mark.parametrize("kind", ["roberta", "mpnet"])
def test_a_padding_token_in_a_text_is_counted_as_the_model_counts_it(kind, load):
    plain = load(kind).plain_kernel
    kernel = PackedKernel(plain, "torch")
    for batch in ([[5, 1, 7, 8]], [[5, 7, 1], [1, 1], [4, 1, 1, 9, 6], [6, 7, 8]]):
        assert encoding_gap(plain(batch), kernel(batch)) <= ROUNDING


# How they are run


@given(st.lists(st.integers(1, 60), max_size=30), st.integers(1, 100), st.booleans())
def test_batches_hold_every_row_once_within_the_budget(lengths, budget, equal):
    formed = list(batches(lengths, budget, equal))
    assert sorted(chain(*formed)) == list(range(len(lengths)))
    for batch in formed:
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or longest * len(batch) <= budget
        assert not equal or len({lengths[row] for row in batch}) == 1


@pytest.mark.parametrize("kind", ["bert", "mpnet", "t5"])
def test_workers_order_and_batches_leave_no_trace(kind, load):
    """A vector that depends on the batch: sentence-transformers#2312."""
    encoder = load(kind)
    route, library = encoder.choice.route, encoder.choice.library
    whole = run_by(encoder, Choice(route, library, 1, 1, 4096)).encode(TEXTS)
    for workers, tokens in ((2, 16), (1, 30), (3, 1)):
        choice = Choice(route, library, workers, 1, tokens)
        backwards = run_by(encoder, choice).encode(TEXTS[::-1])
        turned = {name: array[::-1] for name, array in backwards.arrays.items()}
        assert encoding_gap(whole, replace(backwards, **turned)) <= ROUNDING


@pytest.mark.parametrize("library", ["onednn", "mkl"])
def test_a_text_of_few_tokens_has_the_bits_that_it_has_in_a_batch(library, load):
    """MKL has other kernels for products of 1, 2 and 3 rows."""
    kernel = PackedKernel(load("bert").plain_kernel, library)
    if not kernel.multiplies_rows_alike():
        pytest.skip(f"{library} breaks the rule on this processor: it is not taken")
    batch = [[5], [5, 6], [5, 6, 7], [5, 6, 7, 8], *[[9, 10, 11, 12]] * 8]
    together = kernel(batch).mean
    for row, ids in enumerate(batch):
        np.testing.assert_array_equal(kernel([ids]).mean[0], together[row])


def test_a_library_that_breaks_the_rule_of_rows_is_not_taken(load, monkeypatch):
    monkeypatch.setattr(passes, "prefers_mkl", lambda _: True)
    taken = {True: "mkl", False: "onednn" if ONEDNN.library == "onednn" else "torch"}
    for is_alike in (True, False):
        monkeypatch.setattr(
            PackedKernel, "multiplies_rows_alike", lambda _, kept=is_alike: kept
        )
        assert load("bert").choice.library == taken[is_alike]


def test_an_error_in_a_worker_is_raised_here_and_ends_the_work():
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        list(
            run_batches(
                lambda n: 1 // (3 - n), range(100), Choice("packed", "torch", 2, 1)
            )
        )
    assert threading.active_count() == before


# With dropout


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("choice", [PLAIN, ONEDNN])
def test_dropout_is_the_pass_in_which_the_architecture_trains(kind, choice, load):
    """The model in training mode, from the same draw, whichever library multiplies."""
    encoder = load(kind, choice)
    plain = encoder.plain_kernel
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.default_rng(7).integers(2**63)))
        plain.model.train()
        wanted = plain(encoder.tokenizer(TEXTS[:1]))
        plain.model.eval()
    encoding = encoder.with_dropout(7).encode(TEXTS[:1])
    assert encoding_gap(encoding, wanted) <= ROUNDING
    assert encoding_gap(encoding, encoder.encode(TEXTS[:1])) > 0.01


def test_dropout_is_drawn_from_its_seed_alone(load):
    """Over the plain pass, whose batches are the same everywhere."""
    first, again = (load("bert", choice).with_dropout(0) for choice in (PLAIN, ONEDNN))
    calls = [first.encode(TEXTS) for _ in range(2)]
    for call in calls:
        assert encoding_gap(call, again.encode(TEXTS)) <= ROUNDING
    assert encoding_gap(*calls) > 0.01
    assert encoding_gap(calls[0], load("bert").with_dropout(1).encode(TEXTS)) > 0.01


def test_a_checkpoint_whose_dropout_is_zero_is_refused(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint("bert"), tmp_path / "bert")
    edit_json(
        folder / "config.json",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    with refused(UsageError, r"^tiny: wanted an encoder with dropout, found [^\n]*$"):
        TINY.load(folder, tmp_path).with_dropout(0)


# Which one is taken


def test_a_pass_that_gives_something_else_is_never_taken(load, monkeypatch):
    class LayerWithoutNorm(passes.Layer):
        def __init__(self, *given):
            super().__init__(*given)
            self.norm = lambda x: x

    monkeypatch.setattr(passes, "Layer", LayerWithoutNorm)
    encoder = load("bert")
    assert (encoder.choice, encoder.kernel) == (PLAIN, encoder.plain_kernel)


@pytest.mark.parametrize(
    ("packable", "onednn", "mkl", "device", "machine", "taken"),
    [
        (1, 1, 0, "cpu", "x86_64", Choice("packed", "onednn", 8, 1, CPU_TOKENS)),
        (1, 1, 1, "cpu", "x86_64", Choice("packed", "mkl", 8, 1, CPU_TOKENS)),
        (0, 1, 1, "cpu", "AMD64", PLAIN),
        (1, 1, 0, "cpu", "aarch64", Choice("packed", "torch", 8, 1, CPU_TOKENS)),
        (0, 0, 0, "cpu", "x86_64", PLAIN),
        (1, 0, 0, "cuda", "x86_64", Choice("packed", "torch", 1, 8, GPU_TOKENS)),
    ],
)
def test_the_pass_follows_from_architecture_and_device(
    packable, onednn, mkl, device, machine, taken, monkeypatch
):
    monkeypatch.setattr("platform.machine", lambda: machine)
    facts = {"packable": bool(packable), "onednn": bool(onednn), "mkl": bool(mkl)}
    assert rule(**facts, device=device, threads=8) == taken


# Precisions and devices


def test_another_precision_is_another_encoder(load, checkpoint):
    whole, half = load("bert", PLAIN), load("bert", dtype="bfloat16")
    assert half.key != whole.key
    config = TINY.on(Hardware(dtype="bfloat16"))
    assert config.identify(checkpoint("bert")).key == half.key
    assert half.facts["dtype"] == "bfloat16"
    rounded = half.encode(TEXTS)
    assert rounded.mean.dtype == np.float32
    assert 1e-4 < encoding_gap(whole.encode(TEXTS), rounded) < 0.1


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [
        ("minilm", "float16", "minilm-float16"),
        ("minilm:64", "bfloat16", "minilm-bfloat16:64"),
        ("minilm-float16:64", "float32", "minilm:64"),
        ("minilm-float16", "bfloat16", "minilm-bfloat16"),
    ],
)
def test_a_precision_stands_in_the_name_and_float32_does_not(name, dtype, wanted):
    assert in_precision(name, dtype) == wanted
    assert precision_of(wanted)[1] == dtype
    assert base_name(wanted) == "minilm"


def test_a_device_and_a_batch_are_told_and_leave_the_key(load):
    plain, placed = load("bert"), load("bert", device="cpu:0", batch_tokens=7)
    assert placed.key == plain.key
    assert (placed.facts["device"], placed.facts["dtype"]) == ("cpu:0", "float32")
    assert placed.choice.tokens == 7
    assert encoding_gap(placed.encode(TEXTS), plain.encode(TEXTS)) <= ROUNDING


def test_products_are_of_whole_float32_numbers(load):
    torch.backends.cuda.matmul.allow_tf32 = True
    load("bert")
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.allow_tf32


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["bert", "mpnet", "t5"])
@pytest.mark.parametrize("plain", [False, True])
def test_a_gpu_gives_the_same(kind, plain, load):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    on_gpu = load(kind, PLAIN if plain else None, device="cuda")
    theirs = on_gpu.encode(TEXTS)
    # 1e-5: a GPU adds up in blocks of its own.
    assert encoding_gap(theirs, load(kind, PLAIN).encode(TEXTS)) <= 1e-5
