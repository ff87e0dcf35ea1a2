"""CoVe: the network of its authors over word vectors, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tolerances import ROUNDING, relative_gap
from torch import nn

from harness.assets.places import Places
from harness.core.errors import AssetMissing, DataError, ScoreError, UsageError
from harness.core.files import sha256_of
from harness.encoders.cove import CoveConfig
from harness.encoders.word_tokenizer import Tokeniser

WIDTH = 6
WORDS = ("the", "cat", "sat", "The", "mat")
VECTORS = np.random.default_rng(3).normal(size=(len(WORDS), WIDTH)).astype(np.float32)
TEXTS = ("the cat sat", "mat", "The zebra Sat the", "zebra", "", "the cat sat " * 9)
TINY = CoveConfig("tiny", "lstm.pth", Tokeniser("whitespace", "fallback"), vectors="v.txt")


def published(seed=0):
    """The state of the authors' module, whose one LSTM has two layers."""
    lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, bidirectional=True, batch_first=True)
    generator = torch.Generator().manual_seed(seed)
    state = lstm.state_dict()
    drawn = {key: 0.5 * torch.randn(own.shape, generator=generator) for key, own in state.items()}
    lstm.load_state_dict(drawn)
    return lstm.eval(), drawn


@pytest.fixture
def weights(tmp_path):
    torch.save(published()[1], tmp_path / "lstm.pth")
    lines = (f"{w} {' '.join(map(str, v.tolist()))}\n" for w, v in zip(WORDS, VECTORS, strict=True))
    (tmp_path / "v.txt").write_text("".join(lines))
    return tmp_path / "lstm.pth"


def inputs(text):
    """Vectors of the words, in lower case where they are unknown as written, zeros for none."""
    rows = [
        WORDS.index(w) if w in WORDS else WORDS.index(w.lower()) if w.lower() in WORDS else None
        for w in text.split()
    ]
    return np.array([np.zeros(WIDTH, np.float32) if r is None else VECTORS[r] for r in rows])


def test_all_layers_are_the_authors_networks_for_each_text_alone(weights, tmp_path):
    encoding = TINY.load(weights, tmp_path).encode(TEXTS)
    assert (encoding.layers, encoding.depth) == ((0, 1, 2), 2)
    lstm, state = published()
    first = nn.LSTM(WIDTH, WIDTH, bidirectional=True, batch_first=True)
    first.load_state_dict({key: tensor for key, tensor in state.items() if "_l0" in key})
    for row, text in enumerate(TEXTS):
        if not text:
            assert not encoding.mean[row].any()
            continue
        x = inputs(text)
        with torch.inference_mode():
            one, _ = first(torch.from_numpy(x)[None])
            two, _ = lstm(torch.from_numpy(x)[None])
        assert relative_gap(encoding.mean[row, 0], np.tile(x.mean(axis=0), 2)) <= ROUNDING
        assert relative_gap(encoding.mean[row, 1], one[0].mean(dim=0)) <= ROUNDING
        assert relative_gap(encoding.mean[row, 2], two[0].mean(dim=0)) <= ROUNDING


def test_unknown_words_are_counted(weights, tmp_path):
    tokens = TINY.load(weights, tmp_path).encode(TEXTS).tokens
    assert tokens.tolist() == [[3, 3], [1, 1], [4, 3], [1, 0], [0, 0], [27, 27]]


def test_the_key_holds_both_files(weights, tmp_path):
    keys = {TINY.identify(weights).key, TINY.with_max_length(2).identify(weights).key}
    (tmp_path / "v.txt").write_text("the 1 2 3 4 5 6\n")
    keys.add(TINY.identify(weights).key)
    torch.save(published(1)[1], weights)
    keys.add(TINY.identify(weights).key)
    assert len(keys) == 4


def test_the_files_are_held_to_their_digests(weights):
    digests = TINY.identify(weights).digests
    assert digests == {
        "weights": sha256_of(weights),
        "vectors": sha256_of(weights.parent / "v.txt"),
    }
    known = {"weights_sha256": digests["weights"][:8], "vectors_sha256": digests["vectors"]}
    assert replace(TINY, **known).identify(weights)
    for name in known:
        with pytest.raises(DataError, match="wanted 0123"):
            replace(TINY, **known | {name: "0123"}).identify(weights)


def test_the_vectors_lie_beside_the_weights(weights, tmp_path):
    (tmp_path / "v.txt").unlink()
    with pytest.raises(AssetMissing, match="no word vectors at"):
        TINY.identify(weights)
    with pytest.raises(AssetMissing, match="is not on this machine"):
        Places(tmp_path, tmp_path).encoder(TINY)
    with pytest.raises(AssetMissing, match="no weights at"):
        TINY.identify(tmp_path / "none.pth")
    with pytest.raises(UsageError, match="wanted a place of the weights"):
        replace(TINY, file=None)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {k: v for k, v in s.items() if k != "bias_hh_l1_reverse"},
        lambda s: {**s, "weight_ih_l0": s["weight_ih_l0"][:, :-1]},
        lambda s: {**s, "bias_ih_l0": s["bias_ih_l0"] * np.nan},
    ],
)
def test_weights_of_another_network_are_refused(weights, tmp_path, change):
    torch.save(change(published()[1]), weights)
    wanted = "wanted (the weights of CoVe|finite numbers)"
    with pytest.raises((DataError, ScoreError), match=wanted) as error:
        TINY.load(weights, tmp_path).encode(TEXTS)
    assert "\n" not in str(error.value)
