"""Encoding beside sentence-transformers and beside the rate of the bare matrix products."""

from functools import partial

import numpy as np
import pytest
import torch
import transformers
from peers import fastest, peer, unit

from harness.encoders.kernels.packed import Linear, has_onednn
from harness.encoders.transformer import TransformerConfig

ROWS = 2048  # of the matrices whose products are measured
PART = 0.25  # of the products that the sentences take: long enough for a steady rate
EQUAL = 1e-5  # in every coordinate of a unit vector: float32 sums in another order
SHARE = 0.58  # of the matrix rate
BATCHES = (16, 32, 64, 128)  # of sentence-transformers
FEW = 8  # sentences, where nothing is measured


@pytest.fixture(scope="module")
def bert_base(minilm, tmp_path_factory):
    """A checkpoint of BERT-base's shape with random weights and the real vocabulary."""
    folder = tmp_path_factory.mktemp("bert-base")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.BertModel(transformers.BertConfig()).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(minilm).save_pretrained(folder)
    return folder


def products(config, library, times):
    """A layer's matrix products by a library, on all processors, so many times over."""
    width, wide = config.hidden_size, config.intermediate_size
    # Queries, keys and values; the output of attention; and the two of the feed-forward.
    shapes = [(width, 3 * width), (width, width), (width, wide), (wide, width)]
    layers = [
        (torch.randn(ROWS, into), Linear(library, torch.nn.Linear(into, out)))
        for into, out in shapes
    ]

    def run():
        with torch.inference_mode():
            for _ in range(times):
                for x, multiply in layers:
                    multiply(x)

    return run


def compare(side_by_side, name, folder, texts, cache):
    """Our encoding, the peer's at each batch size, and the bare products, all in turn."""
    texts = texts if side_by_side.on else texts[:FEW]
    encoder = TransformerConfig(name, "none", max_length=256).load(folder, cache)
    model, theirs = encoder.kernel.model, peer(folder)

    def encode(size):
        return theirs.encode(texts, batch_size=size, show_progress_bar=False)

    ours = unit(encoder.encode(texts).mean[:, -1])  # and the first pass is not timed
    difference = float(np.abs(ours - unit(encode(BATCHES[0]))).max())
    assert difference <= EQUAL

    tokens = sum(len(ids) for ids in encoder.tokenizer(texts))
    # The products of ROWS rows that the sentences take.
    needed = tokens * model.config.num_hidden_layers / ROWS
    measured = max(1, round(PART * needed))
    libraries = ("onednn", "torch") if has_onednn(model) else ("torch",)
    programs = {"ours": lambda: encoder.encode(texts)}
    for size in BATCHES:
        programs[f"batches of {size}"] = partial(encode, size)
    for library in libraries:
        programs[library] = products(model.config, library, measured)
    seconds = side_by_side.seconds(programs)

    facts = {
        "sentences": len(texts),
        "largest difference": float(f"{difference:.1g}"),
        "passes": "{route}, {library}, {workers} x {threads}, {tokens} tokens".format(
            **encoder.facts
        ),
    }
    library = fastest(seconds, libraries)
    shares = seconds[library] * needed / measured / seconds["ours"]
    row = f"encode-{name}"
    side_by_side.require(f"{row}-matrix-rate", shares, SHARE, library=library, **facts)
    best = fastest(seconds, [f"batches of {size}" for size in BATCHES])
    # As on AMD's processors.
    torch_is_slow = np.median(seconds["torch"]) > 2 * np.median(seconds[library])
    wanted = 2.2 if torch_is_slow else 1.3
    ratios = seconds[best] / seconds["ours"]
    side_by_side.require(row, ratios, wanted, peer=best, **facts)


@pytest.mark.data
@pytest.mark.weights
def test_minilm(side_by_side, minilm, sentences, tmp_path):
    compare(side_by_side, "minilm", minilm, sentences[:4000], tmp_path)


@pytest.mark.data
@pytest.mark.weights
def test_a_model_of_the_shape_of_bert_base(
    side_by_side, bert_base, sentences, tmp_path
):
    compare(side_by_side, "bert-base", bert_base, sentences[:600], tmp_path)


@pytest.mark.data
@pytest.mark.weights
def test_mpnet_base(side_by_side, mpnet_base, sentences, tmp_path):
    compare(side_by_side, "mpnet-base", mpnet_base, sentences[:600], tmp_path)
