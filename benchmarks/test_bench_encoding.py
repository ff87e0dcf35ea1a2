"""Encoding beside sentence-transformers."""

from functools import partial

import numpy as np
import pytest
from peers import model_of_berts_shape, peer

from harness.encoders.transformer import TransformerConfig

EQUAL = 1e-5  # in every coordinate of a unit vector: float32 sums in another order
BATCHES = (16, 32, 64, 128)  # of sentence-transformers
WANTED = 1.3
FEW = 8  # sentences, where nothing is measured

pytestmark = [pytest.mark.data, pytest.mark.weights]


def unit(x):
    """Rows of length 1."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def compare(side_by_side, name, folder, texts, cache):
    """Our encoding, and the peer's at each batch size, in turn."""
    texts = texts if side_by_side.on else texts[:FEW]
    encoder = TransformerConfig(name, "none", max_length=256).load(folder, cache)
    theirs = peer(folder)

    def encode(size):
        return theirs.encode(texts, batch_size=size, show_progress_bar=False)

    ours = unit(encoder.encode(texts).mean[:, -1])  # and the first pass is not timed
    assert np.abs(ours - unit(encode(BATCHES[0]))).max() <= EQUAL
    programs = {size: partial(encode, size) for size in BATCHES}
    programs["ours"] = partial(encoder.encode, texts)
    seconds = side_by_side.seconds(programs)
    best = min(BATCHES, key=lambda size: np.median(seconds[size]))
    facts = {"sentences": len(texts), "batch": best, **encoder.facts}
    ratios = seconds[best] / seconds["ours"]
    side_by_side.require(f"encode-{name}", ratios, WANTED, **facts)


def test_minilm(side_by_side, minilm, sentences, tmp_path):
    compare(side_by_side, "minilm", minilm, sentences[:4000], tmp_path)


def test_a_model_of_the_shape_of_bert_base(side_by_side, minilm, sentences, tmp_path):
    folder = model_of_berts_shape(tmp_path / "bert-base", minilm)
    compare(side_by_side, "bert-base", folder, sentences[:600], tmp_path)


def test_mpnet_base(side_by_side, folder_of, sentences, tmp_path):
    folder = folder_of("mpnet-base")
    compare(side_by_side, "mpnet-base", folder, sentences[:600], tmp_path)
