"""Forward passes: each gives what the model gives, and a rule says which one is taken."""

import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from tolerances import ROUNDING, encoding_gap, relative_gap

from harness.core.errors import DataError, ScoreError, UsageError
from harness.encoders.kernels import packed
from harness.encoders.kernels.choose import (
    CPU_TOKENS,
    GPU_TOKENS,
    PLAIN,
    Choice,
    in_order,
    make,
    rule,
)
from harness.encoders.kernels.packed import PackedKernel, has_onednn, is_known, linear, swapped
from harness.encoders.kernels.padded import PaddedKernel
from harness.encoders.transformer import TransformerConfig

TINY = TransformerConfig("tiny", "none")
TEXTS = ("The cat sat on the mat.", "a", "dog cat " * 60, "Hello, 42!", "the dog", "mat?", "", "a")
PACKED = ("bert", "roberta", "distilbert", "electra", "mpnet", "xlm-roberta", "camembert")
KINDS = (*tiny_models.KINDS, "xlm-roberta", "camembert")
LIBRARIES = ("torch", "onednn")
ONEDNN = Choice("packed", "onednn", 2, 1, 64)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder with a tiny checkpoint of a kind: made once, not to be written to."""
    made = {}

    def folder(kind):
        if kind not in made:
            made[kind] = make_kind(kind, tmp_path_factory.mktemp(kind) / kind)
        return made[kind]

    return folder


def make_kind(kind, folder):
    """RoBERTa's two kin have its modules under other names."""
    if kind in tiny_models.KINDS:
        return tiny_models.make(kind, folder)
    tiny_models.make("roberta", folder)
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "model_type": kind}))
    return folder


@pytest.fixture
def load(checkpoint, tmp_path):
    def loaded(kind, choice=None, **how):
        return TINY.load(checkpoint(kind), tmp_path, choice=choice, **how)

    return loaded


def texts_for(kind):
    return TEXTS if kind != "gpt2" else [text or "cat" for text in TEXTS]  # no token, no encoding


# Each pass gives what the model gives


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_is_the_models_own(kind, library, load):
    plain = load(kind, PLAIN)
    route = "packed" if kind in PACKED else "swapped"
    kernel = make(plain.kernel, Choice(route, library))
    batch = plain.tokenizer(texts_for(kind))
    assert isinstance(kernel, PackedKernel if route == "packed" else PaddedKernel)
    assert encoding_gap(plain.kernel(batch), kernel(batch)) <= ROUNDING


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_packed_is_known_by_name(kind, load):
    assert is_known(load(kind, PLAIN).kernel.model) == (kind in PACKED)


def test_a_decoder_is_not_packed(load):
    model = load("bert", PLAIN).kernel.model
    model.config.is_decoder = True
    assert not is_known(model)


@pytest.mark.parametrize("kind", ["roberta", "mpnet", "bert"])
def test_a_padding_token_in_a_text_is_counted_as_the_model_counts_it(kind, load):
    plain = load(kind, PLAIN).kernel
    kernel = make(plain, Choice("packed", "torch"))
    for batch in ([[5, 1, 7, 8]], [[5, 7, 1], [1, 1], [4, 1, 1, 9, 6], [6, 7, 8]]):
        assert encoding_gap(plain(batch), kernel(batch)) <= ROUNDING


def test_a_summary_that_comes_last_is_the_last_token(load):
    plain = replace(load("bert", PLAIN).kernel, summary=-1)
    batch = [[5, 6, 7], [5, 8], [9, 6, 7, 4]]
    assert encoding_gap(plain(batch), make(plain, Choice("packed", "torch"))(batch)) <= ROUNDING


def test_an_activation_is_the_checkpoints(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint("bert"), tmp_path / "relu")
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "hidden_act": "relu"}))
    plain = TINY.load(folder, tmp_path, choice=PLAIN)
    found = TINY.load(folder, tmp_path, choice=ONEDNN)
    assert encoding_gap(plain.encode(TEXTS), found.encode(TEXTS)) <= ROUNDING


@pytest.mark.parametrize("library", LIBRARIES)
def test_linear_layers_are_what_they_say(library):
    rng = torch.Generator().manual_seed(0)
    x, other = torch.randn(7, 5, generator=rng), torch.randn(7, 10, generator=rng)
    pair = [torch.nn.Linear(5, 4), torch.nn.Linear(5, 6)]
    with torch.inference_mode():
        wanted = torch.cat([layer(x) for layer in pair], dim=1)
        found = linear(library, *pair)
        for one, two in (
            (found(x), wanted),
            (found.gelu(x), torch.nn.functional.gelu(wanted)),
            (found.plus(x, other), wanted + other),
        ):
            assert relative_gap(one, two) <= ROUNDING
        without = torch.nn.Linear(5, 4, bias=False)
        assert relative_gap(linear(library, without)(x), without(x)) <= ROUNDING


# Prints by how many kB a process grows while one layer meets many numbers of rows.
GROWTH = """
import re
from pathlib import Path
import torch
from harness.encoders.kernels.packed import linear

def taken():
    return int(re.search(r"RssAnon:\\s+([0-9]+)", Path("/proc/self/status").read_text())[1])

layer = linear("onednn", torch.nn.Linear(64, 64))
with torch.inference_mode():
    for rows in range(1, 801):
        if rows == 101:
            start = taken()
        layer(torch.ones(rows, 64))
print(taken() - start)
"""


@pytest.mark.slow
@pytest.mark.skipif(not has_onednn(torch.nn.Linear(1, 1)), reason="torch lacks oneDNN")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_what_onednn_keeps_for_a_number_of_rows_is_bounded_unless_somebody_says_so():
    def growth(**limit):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ONEDNN")}
        command = [sys.executable, "-c", GROWTH]
        done = subprocess.run(command, env=kept | limit, capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert growth() < 0.85 * growth(ONEDNN_PRIMITIVE_CACHE_CAPACITY="1024")


def test_a_swapped_model_shares_its_weights_and_multiplies_by_itself(load):
    model = load("albert", PLAIN).kernel.model
    copy = swapped(model)
    pairs = list(zip(model.parameters(), copy.parameters(), strict=True))
    assert all(mine is theirs for mine, theirs in pairs)
    found = [m for m in copy.modules() if type(m) is torch.nn.Linear]
    assert found
    assert all("forward" in vars(module) for module in found)
    assert not any("forward" in vars(m) for m in model.modules())


# How they are run


@pytest.mark.parametrize("kind", ["bert", "mpnet", "t5"])
def test_workers_order_and_batches_leave_no_trace(kind, load):
    route = "packed" if kind in PACKED else "swapped"
    one = load(kind, Choice(route, "onednn", 1, 1, 4096)).encode(TEXTS)
    for workers, tokens in ((2, 16), (1, 30), (3, 1)):
        found = load(kind, Choice(route, "onednn", workers, 1, tokens)).encode(TEXTS[::-1])
        rows = replace(
            found,
            mean=found.mean[::-1],
            cls=None if found.cls is None else found.cls[::-1],
            pooler=None if found.pooler is None else found.pooler[::-1],
        )
        assert encoding_gap(one, rows) <= ROUNDING


def test_twice_is_the_same(load):
    first, again = load("bert"), load("bert")
    assert encoding_gap(first.encode(TEXTS), first.encode(TEXTS)) == 0
    assert first.choice == again.choice
    assert encoding_gap(first.encode(TEXTS), again.encode(TEXTS)) == 0


def test_many_texts_are_each_in_their_place(load):
    """More than are tokenised at once, and of lengths in no order."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(tiny_models.WORDS, size)) for size in rng.integers(1, 15, 700)]
    found = load("bert", ONEDNN).encode(texts)
    assert encoding_gap(load("bert", PLAIN).encode(texts), found) <= ROUNDING


def test_a_text_without_tokens_is_named_by_its_own_number(load):
    with pytest.raises(DataError, match=r"text 2 \(''\) has no token"):
        load("gpt2", Choice("swapped", "onednn", 2, 1)).encode(["a", "the cat", "", "dog"])


def test_what_is_not_finite_is_named_by_the_texts_own_number(checkpoint, tmp_path):
    encoder = TINY.load(checkpoint("bert"), tmp_path, choice=ONEDNN)
    kernel = encoder.kernel

    def broken(batch):
        found = kernel(batch)
        for row, ids in enumerate(batch):
            if len(ids) == 4:
                found.mean[row, 0, 0] = np.nan
        return found

    with pytest.raises(ScoreError, match="encoding of text 1;"):
        replace(encoder, kernel=broken).encode(["a", "the dog", "the cat sat"])


def test_results_come_in_order_and_items_are_drawn_as_needed():
    drawn = []

    def items():
        for number in range(30):
            drawn.append(number)
            yield number

    before = torch.get_num_threads()
    found = in_order(
        lambda n: (n, torch.get_num_threads()), items(), Choice("packed", "torch", 2, 1)
    )
    assert next(found) == (0, 1)
    assert len(drawn) < 10
    assert [n for n, _ in found] == list(range(1, 30))
    with ThreadPoolExecutor(1) as another:  # a new thread has what torch was last told anywhere
        assert another.submit(torch.get_num_threads).result() == before


def test_an_error_in_a_worker_is_raised_here_and_ends_the_work():
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError):
        list(in_order(lambda n: 1 // (3 - n), range(100), Choice("packed", "torch", 2, 1)))
    assert threading.active_count() == before


def test_the_plain_pass_is_run_in_this_thread():
    here = threading.current_thread()
    assert set(in_order(lambda _: threading.current_thread(), range(3), PLAIN)) == {here}


def test_dropout_is_drawn_over_the_plain_pass_alone(load):
    """Which sentences share a batch, and so what is dropped, is then the same everywhere."""
    found = [load("bert", choice).with_dropout(3).encode(TEXTS) for choice in (PLAIN, ONEDNN)]
    assert encoding_gap(*found) == 0


# Which one is taken


def test_a_given_choice_is_taken_and_told(load):
    encoder = load("bert", ONEDNN)
    assert isinstance(encoder.kernel, PackedKernel)
    assert encoder.choice == ONEDNN
    assert encoder.facts == {**asdict(ONEDNN), "device": "cpu", "dtype": "float32"}
    assert load("bert", PLAIN).key == encoder.key


@pytest.mark.parametrize(
    ("kind", "route", "library"), [("t5", "packed", "onednn"), ("bert", "swapped", "torch")]
)
def test_a_choice_that_an_architecture_has_not_is_refused(kind, route, library, load):
    with pytest.raises(UsageError, match=f"^tiny: wanted the {route} pass with {library}, found "):
        load(kind, Choice(route, library))


def test_a_pass_that_gives_something_else_is_never_taken(load, monkeypatch):
    read = packed.read_stack

    def wrong(model, library):
        stack = read(model, library)
        return replace(
            stack, layers=(*stack.layers[:-1], replace(stack.layers[-1], norm=lambda x: x))
        )

    monkeypatch.setattr(packed, "read_stack", wrong)
    encoder = load("bert")
    assert encoder.choice == PLAIN
    assert encoder.kernel(([5, 6, 7],)).mean.shape == (1, 4, 32)
    with pytest.raises(UsageError, match="gives other encodings than the model"):
        load("bert", ONEDNN)


@pytest.mark.parametrize(
    ("known", "onednn", "device", "machine", "taken"),
    [
        (True, True, "cpu", "x86_64", Choice("packed", "onednn", 8, 1, CPU_TOKENS)),
        (False, True, "cpu", "AMD64", Choice("swapped", "onednn", 8, 1, CPU_TOKENS)),
        (True, True, "cpu", "aarch64", Choice("packed", "torch", 8, 1, CPU_TOKENS)),
        (True, False, "cpu", "x86_64", Choice("packed", "torch", 8, 1, CPU_TOKENS)),
        (False, True, "cpu", "arm64", PLAIN),
        (False, False, "cpu", "x86_64", PLAIN),
        (True, False, "cuda", "x86_64", Choice("packed", "torch", 1, 8, GPU_TOKENS)),
        (False, False, "cuda", "x86_64", PLAIN),
    ],
)
def test_the_pass_follows_from_architecture_and_device(known, onednn, device, machine, taken):
    asked = {"known": known, "onednn": onednn, "device": device, "machine": machine}
    assert rule(**asked, threads=8) == taken


@pytest.mark.parametrize("kind", ["bert", "t5"])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_an_encoder_is_loaded_by_the_rule_of_its_machine(kind, machine, load, monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: machine)
    encoder, known = load(kind), kind in PACKED
    onednn, threads = has_onednn(encoder.plain.model), torch.get_num_threads()
    assert encoder.choice == rule(known=known, onednn=onednn, device="cpu", threads=threads)
    assert encoder.facts == {**asdict(encoder.choice), "device": "cpu", "dtype": "float32"}


def test_the_plain_pass_can_be_asked_for(checkpoint, tmp_path):
    config = replace(TINY, plain_pass=True)
    encoder = config.load(checkpoint("bert"), tmp_path)
    assert (encoder.choice, encoder.kernel) == (PLAIN, encoder.plain)
    assert repr(config) == repr(TINY)


# Precisions and devices


def test_another_precision_is_another_encoder(load):
    whole, half = load("bert", PLAIN), load("bert", dtype="bfloat16")
    assert half.key != whole.key
    assert half.facts["dtype"] == "bfloat16"
    found = half.encode(TEXTS)
    assert found.mean.dtype == np.float32
    assert 1e-4 < encoding_gap(whole.encode(TEXTS), found) < 0.1


@pytest.mark.parametrize(
    ("dtype", "processor", "usable"),
    [("float32", False, True), ("bfloat16", True, True), ("bfloat16", False, False)],
)
def test_onednn_multiplies_halves_where_the_processor_does(dtype, processor, usable, monkeypatch):
    has = torch.backends.mkldnn.is_available()
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: processor)
    layer = torch.nn.Linear(2, 2, dtype=getattr(torch, dtype))
    assert has_onednn(layer) == (usable and has)
    assert not has_onednn(torch.nn.Linear(2, 2, dtype=torch.float16))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"dtype": "float64"},
            "wanted float32, float16 or bfloat16, found the precision 'float64'",
        ),
        ({"dtype": "zork"}, "found the precision 'zork'"),
        ({"device": "zork"}, "wanted a device that torch has, found 'zork'"),
    ],
)
def test_what_torch_has_not_is_refused(how, message, load):
    with pytest.raises(UsageError, match=message):
        load("bert", **how)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["bert", "mpnet", "t5"])
@pytest.mark.parametrize("choice", [None, PLAIN])
def test_a_gpu_gives_the_same(kind, choice, load):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    found = load(kind, choice, device="cuda").encode(TEXTS)
    # 1e-5: a GPU adds up in blocks of its own.
    assert encoding_gap(found, load(kind, PLAIN).encode(TEXTS)) <= 1e-5
