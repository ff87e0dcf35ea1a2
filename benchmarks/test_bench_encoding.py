"""Encoding beside sentence-transformers and beside the rate of the bare matrix products."""

import numpy as np
import pytest
import torch
import transformers
from peers import peer, two_best, unit

from harness.core.hardware import Hardware
from harness.encoders.kernels.packed import Linear, has_onednn
from harness.encoders.transformer import TransformerConfig

ROWS = 2048  # of the matrices whose products are measured
PART = 0.25  # of the products that the sentences take: long enough for a steady rate
EQUAL = 1e-5  # in every coordinate of a unit vector: float32 sums in another order
SHARE = 0.58  # of the matrix rate
SMALL = 8  # sentences, where benchmarks are off


@pytest.fixture(scope="module")
def bert_base(minilm, tmp_path_factory):
    """A checkpoint of BERT-base's shape with random weights and the real vocabulary."""
    folder = tmp_path_factory.mktemp("bert-base")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(transformers.BertConfig()).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(folder)
    return folder


def shapes(model):
    """Rows and columns of the matrices of a layer that every token is multiplied by."""
    c = model.config
    size, wide = c.hidden_size, c.intermediate_size
    return [(3 * size, size), (size, size), (wide, size), (size, wide)]


def products(model, library, times):
    """One layer's matrix products by a library, on all processors, so many times over."""
    layers = []
    for out, into in shapes(model):
        layer = torch.nn.Linear(into, out, device=model.device)
        layers.append(
            (torch.randn(ROWS, into, device=model.device), Linear(library, layer))
        )

    def run():
        with torch.inference_mode():
            for _ in range(times):
                for x, multiply in layers:
                    multiply(x)
        if model.device.type == "cuda":
            torch.cuda.synchronize()

    return run


def compare(side_by_side, name, folder, texts, cache, device, sizes):
    """Our encoding, the peer's at each batch size, and the bare products, all in turn."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    texts = texts if side_by_side.on else texts[:SMALL]
    config = TransformerConfig(name, "none", max_length=256).on(Hardware(device))
    encoder = config.load(folder, cache)
    theirs, model = peer(folder, device), encoder.kernel.model

    def encode(size, texts=texts):
        return theirs.encode(texts, batch_size=size, show_progress_bar=False)

    ours = unit(encoder.encode(texts).mean[:, -1])
    difference = float(np.abs(ours - unit(encode(sizes[0]))).max())
    assert difference <= EQUAL

    if not side_by_side.on:
        side_by_side.run(lambda: encoder.encode(texts), {})
        return
    sizes = two_best(sizes, lambda size: encode(size, texts[: len(texts) // 4]))
    by_size = {f"batches of {size}": (lambda size=size: encode(size)) for size in sizes}
    usable = ("onednn", "torch") if has_onednn(model) else ("torch",)
    tokens = sum(len(ids) for ids in encoder.tokenizer(texts))
    layers = (
        tokens * model.config.num_hidden_layers / ROWS
    )  # products of ROWS that texts take
    times = round(PART * layers)
    by_library = {library: products(model, library, times) for library in usable}
    side_by_side.run(lambda: encoder.encode(texts), by_size | by_library)

    best = side_by_side.best(list(by_size))
    seconds = {library: np.median(side_by_side.seconds[library]) for library in usable}
    slow = (
        "onednn" in seconds and seconds["torch"] > 2 * seconds["onednn"]
    )  # as on AMD's
    facts = {
        "sentences": len(texts),
        "largest difference": float(f"{difference:.1g}"),
        "passes": "{route}, {library}, {workers} x {threads}, {tokens} tokens".format(
            **encoder.facts
        ),
    }
    row = f"encode-{name}{'' if device == 'cpu' else '-' + device}"
    if device == "cpu":
        fastest = side_by_side.best(list(usable))
        shares = side_by_side.ratios(fastest, layers / times)
        side_by_side.require(
            f"{row}-matrix-rate", shares, SHARE, library=fastest, **facts
        )
    side_by_side.require(
        row, side_by_side.ratios(best), 2.2 if slow else 1.3, peer=best, **facts
    )


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = {"cpu": (16, 32, 64, 128), "cuda": (64, 128, 256, 512)}


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.parametrize("device", DEVICES)
def test_minilm(side_by_side, minilm, sentences, tmp_path, device):
    compare(
        side_by_side,
        "minilm",
        minilm,
        sentences[:4000],
        tmp_path,
        device,
        SIZES[device],
    )


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.parametrize("device", DEVICES)
def test_a_model_of_the_shape_of_bert_base(
    side_by_side, bert_base, sentences, tmp_path, device
):
    texts = sentences[: 600 if device == "cpu" else 4000]
    compare(
        side_by_side, "bert-base", bert_base, texts, tmp_path, device, SIZES[device]
    )


@pytest.mark.data
@pytest.mark.weights
def test_mpnet_base(side_by_side, mpnet_base, sentences, tmp_path):
    compare(
        side_by_side,
        "mpnet-base",
        mpnet_base,
        sentences[:600],
        tmp_path,
        "cpu",
        SIZES["cpu"],
    )
