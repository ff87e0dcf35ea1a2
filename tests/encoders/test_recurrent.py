"""ELMo and CoVe are the step-by-step computation in NumPy, on small files of the true layout."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from refusals import refused
from tolerances import ROUNDING, relative_gap

from harness.contracts.samples import encoding
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.encoders.recurrent import BATCH_WORDS, CoveConfig, ElmoConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.registry import load_registry
from harness.resolve import config_for

SPLIT = Tokeniser("whitespace", "keep")
TEXTS = (
    "the cat sat on the mat",
    "a",
    "",
    "naïve CAFÉS <S> " + "x" * 60,
    "cat " * (BATCH_WORDS + 1),
    "mat the on sat cat the",
)

# ELMo, by AllenNLP's files

CHARACTER, CELL, STATE, FILTERS = 3, 6, 4, ((1, 2), (2, 3), (3, 2))
OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": STATE,
        "cell_clip": 0.4,
        "proj_clip": 0.3,
        "dim": CELL,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": FILTERS,
        "n_highway": 2,
        "embedding": {"dim": CHARACTER},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def cell_of(direction, layer):
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def elmo_weights():
    size = sum(count for _, count in FILTERS)
    shapes = {
        "char_embed": (261, CHARACTER),
        "CNN_proj/W_proj": (size, STATE),
        "CNN_proj/b_proj": (STATE,),
    }
    for n, (width, count) in enumerate(FILTERS):
        shapes[f"CNN/W_cnn_{n}"] = (1, width, CHARACTER, count)
        shapes[f"CNN/b_cnn_{n}"] = (count,)
    for n in (0, 1):
        for part in ("carry", "transform"):
            shapes[f"CNN_high_{n}/W_{part}"] = (size, size)
            shapes[f"CNN_high_{n}/b_{part}"] = (size,)
        for direction in (0, 1):
            shapes[f"{cell_of(direction, n)}/W_0"] = (2 * STATE, 4 * CELL)
            shapes[f"{cell_of(direction, n)}/B"] = (4 * CELL,)
            shapes[f"{cell_of(direction, n)}/W_P_0"] = (CELL, STATE)
    rng = np.random.default_rng(0)
    return {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}


def write_elmo(folder, weights=None, lstm=None, cnn=None):
    folder.mkdir(exist_ok=True)
    options = {
        "lstm": OPTIONS["lstm"] | (lstm or {}),
        "char_cnn": OPTIONS["char_cnn"] | (cnn or {}),
    }
    (folder / "tiny_options.json").write_text(json.dumps(options))
    with h5py.File(folder / "tiny_weights.hdf5", "w") as file:
        for name, array in (weights or elmo_weights()).items():
            file[name] = array
    return folder


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def word_vector(w, symbols, activation):
    ids = [258, *symbols[:48], 259]
    letters = w["char_embed"][ids + [260] * (50 - len(ids))]
    found = []
    for n, (width, _) in enumerate(FILTERS):
        kernel, bias = w[f"CNN/W_cnn_{n}"][0], w[f"CNN/b_cnn_{n}"]
        places = [
            np.einsum("kc,kcf->f", letters[s : s + width], kernel) + bias
            for s in range(51 - width)
        ]
        found.append(activation(np.max(places, axis=0)))
    x = np.concatenate(found)
    for n in (0, 1):
        gate = sigmoid(x @ -w[f"CNN_high_{n}/W_carry"] - w[f"CNN_high_{n}/b_carry"])
        new = x @ w[f"CNN_high_{n}/W_transform"] + w[f"CNN_high_{n}/b_transform"]
        x = gate * x + (1 - gate) * np.maximum(new, 0)  # AllenNLP's form
    return x @ w["CNN_proj/W_proj"] + w["CNN_proj/b_proj"]


def lstm_states(w, cell, inputs, cell_clip, state_clip):
    memory, state, states = np.zeros(CELL), np.zeros(STATE), []
    for x in inputs:
        gates = np.concatenate([x, state]) @ w[f"{cell}/W_0"] + w[f"{cell}/B"]
        i, j, f, o = np.split(gates, 4)
        memory = sigmoid(f + 1) * memory + sigmoid(i) * np.tanh(j)
        memory = np.clip(memory, -cell_clip, cell_clip)
        state = sigmoid(o) * np.tanh(memory) @ w[f"{cell}/W_P_0"]
        state = np.clip(state, -state_clip, state_clip)
        states.append(state)
    return np.array(states)


def elmo_means(text, clips=(0.4, 0.3), activation=lambda x: np.maximum(x, 0)):
    """The means of the three layers over the words, in float64."""
    w = {name: array.astype(np.float64) for name, array in elmo_weights().items()}
    words = [[256] if word == "<S>" else list(word.encode()) for word in text.split()]
    x = np.array([word_vector(w, s, activation) for s in ([256], *words, [257])])
    ahead, back, layers = x, x[::-1], [np.concatenate([x, x], axis=1)]
    for layer in (0, 1):
        skip = layer  # the first layer has no residual connection
        ahead = lstm_states(w, cell_of(0, layer), ahead, *clips) + skip * ahead
        back = lstm_states(w, cell_of(1, layer), back, *clips) + skip * back
        layers.append(np.concatenate([ahead, back[::-1]], axis=1))
    return np.array(layers)[:, 1:-1].mean(axis=1)


ELMO = ElmoConfig("tiny", tokeniser=SPLIT)


@pytest.mark.parametrize(
    ("lstm", "cnn", "wanted"),
    [
        ({}, {}, {}),
        ({"cell_clip": None, "proj_clip": 0}, {}, {"clips": (np.inf, np.inf)}),
        ({}, {"activation": "tanh"}, {"activation": np.tanh}),
    ],
)
def test_elmos_layers_are_those_of_the_formulas_for_each_text_alone(
    lstm, cnn, wanted, tmp_path
):
    folder = write_elmo(tmp_path / "elmo", lstm=lstm, cnn=cnn)
    encoding = ELMO.load(folder, tmp_path).encode(TEXTS)
    assert (encoding.layers, encoding.depth) == ((0, 1, 2), 2)
    for found, text in zip(encoding.mean, TEXTS, strict=True):
        if text:
            assert relative_gap(found, elmo_means(text, **wanted)) <= ROUNDING
        else:
            assert not found.any()


def test_a_mixture_is_that_of_the_softmax_times_gamma():
    encoded, poolings = encoding(depth=2), load_registry().poolings
    s, gamma = np.array([0.2, 1, -3]), 0.5
    weights = gamma * np.exp(s) / np.exp(s).sum()
    mixed = poolings["mix"].with_argument("0.2_1_-3_g0.5")(encoded)
    assert relative_gap(mixed, np.tensordot(encoded.mean, weights, (1, 0))) <= ROUNDING
    plain = poolings["mix"](encoded)
    assert relative_gap(plain, encoded.mean.mean(axis=1)) <= ROUNDING
    first = poolings["layer"].with_argument("1")(encoded)
    np.testing.assert_array_equal(first, encoded.mean[:, 1])


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        ("mix:1_2", "wanted 3 numbers s_j"),
        ("mix:1_2_x", "wanted the s_j"),
        ("layer:3", r"only 0\.\.2"),
        ("layer:-1", "wanted the number of a layer"),
    ],
)
def test_a_wrong_mixture_or_layer_is_refused(pooling, message):
    with refused(UsageError, message):
        load_registry().parse(f"elmo-small.{pooling}").pooling.hidden_states(2)


def without(name):
    return {key: array for key, array in elmo_weights().items() if key != name}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": without("CNN_proj/b_proj")}, "found: 'CNN_proj/b_proj'"),
        ({"lstm": {"use_skip_connections": False}}, "use_skip_connections is not true"),
        ({"cnn": {"activation": "gelu"}}, "found: 'gelu'"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(change, message, tmp_path):
    folder = write_elmo(tmp_path / "elmo", **change)
    with refused(DataError, f"of an ELMo model in .*{message}"):
        ELMO.load(folder, tmp_path)


def test_a_folder_has_one_model_and_is_known_by_its_names(tmp_path):
    folder = write_elmo(tmp_path / "elmo")
    config = config_for("mine", "elmo", folder)
    assert config == ElmoConfig("mine", trained_on="not stated")
    (folder / "more_options.json").write_text("{}")
    with refused(DataError, r"wanted one file .* found 2"):
        ELMO.identify(folder)
    with refused(AssetMissing, "found 0"):
        ELMO.identify(tmp_path / "none")


# CoVe, by its authors' file

SIZE, HIDDEN = 5, 3
VOCABULARY = ("the", "cat", "sat", "mat")
GLOVE = np.random.default_rng(3).normal(size=(4, SIZE)).astype(np.float32)


def cove_lstm(size=SIZE):
    with torch.random.fork_rng():
        torch.manual_seed(4)
        return torch.nn.LSTM(size, HIDDEN, 2, bidirectional=True)


def write_cove(folder, lstm, prefix=""):
    state = {prefix + name: weights for name, weights in lstm.state_dict().items()}
    torch.save(state, folder / "lstm.pth")
    rows = zip(VOCABULARY, GLOVE.tolist(), strict=True)
    lines = [" ".join([word, *map(repr, row)]) for word, row in rows]
    (folder / "glove.txt").write_text("\n".join(lines))
    return folder / "lstm.pth"


TINY_COVE = CoveConfig(
    "tiny",
    file="lstm.pth",
    vectors="vectors/glove.txt",
    tokeniser=Tokeniser("whitespace", "fallback"),
)


def cove_mean(text):
    """The mean of [GloVe; CoVe] over the words of one text, in float64."""
    table = dict(zip(VOCABULARY, GLOVE.astype(np.float64), strict=True))
    zeros = np.zeros(SIZE)
    glove = np.array([table.get(word.lower(), zeros) for word in text.split()])
    with torch.no_grad():
        cove, _ = cove_lstm().double()(torch.from_numpy(glove))
    return np.concatenate([glove, cove], axis=1).mean(axis=0)


@pytest.mark.parametrize("prefix", ["", "rnn."])
def test_coves_vectors_are_those_of_the_formulas_for_each_text_alone(prefix, tmp_path):
    file = write_cove(tmp_path, cove_lstm(), prefix)
    texts = ("the cat sat", "Mat", "", "the zebra Sat the", "zebra", "cat the " * 600)
    encoding = TINY_COVE.load(file, tmp_path).encode(texts)
    assert encoding.mean.shape == (6, 1, SIZE + 2 * HIDDEN)
    for found, text in zip(encoding.mean, texts, strict=True):
        if text:
            assert relative_gap(found[0], cove_mean(text)) <= ROUNDING
        else:
            assert not found.any()
    counts = [[3, 3], [1, 1], [0, 0], [4, 3], [1, 0], [1200, 1200]]
    assert encoding.tokens.tolist() == counts


def test_another_network_and_another_file_are_refused(tmp_path):
    file = write_cove(tmp_path, cove_lstm(SIZE + 1))
    with refused(DataError, "over vectors of 5 numbers, found: "):
        TINY_COVE.load(file, tmp_path)
    pinned = replace(TINY_COVE, weights_sha256="8f474287")
    with refused(DataError, "wanted 8f474287"):
        pinned.identify(file)
    (tmp_path / "glove.txt").unlink()
    with refused(AssetMissing, "no word vectors at"):
        TINY_COVE.identify(file)
