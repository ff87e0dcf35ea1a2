"""A tiny ELMo in the layout that AllenNLP published, and its mathematics once more in NumPy.

The reference follows the paper and AllenNLP's code a word and a step at a time, in float64, with
none of the harness's own functions.
"""

import json
from pathlib import Path

import numpy as np

CELL, PROJECTION, CHARACTER = 6, 4, 3
FILTERS = ((1, 2), (2, 3), (3, 2))
OPTIONS = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": PROJECTION,
        "cell_clip": 0.4,
        "proj_clip": 0.3,
        "dim": CELL,
        "n_layers": 2,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": [list(pair) for pair in FILTERS],
        "n_highway": 2,
        "embedding": {"dim": CHARACTER},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def weights(seed=0):
    """Random arrays by their paths in `weights.hdf5`."""
    rng, total = np.random.default_rng(seed), sum(number for _, number in FILTERS)
    shapes = {"char_embed": (261, CHARACTER)}
    for n, (width, number) in enumerate(FILTERS):
        shapes |= {f"CNN/W_cnn_{n}": (1, width, CHARACTER, number), f"CNN/b_cnn_{n}": (number,)}
    for n in (0, 1):
        for part in ("carry", "transform"):
            shapes[f"CNN_high_{n}/W_{part}"] = (total, total)
            shapes[f"CNN_high_{n}/b_{part}"] = (total,)
    shapes |= {"CNN_proj/W_proj": (total, PROJECTION), "CNN_proj/b_proj": (PROJECTION,)}
    for direction in (0, 1):
        for layer in (0, 1):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes[f"{cell}/W_0"] = (2 * PROJECTION, 4 * CELL)
            shapes[f"{cell}/B"] = (4 * CELL,)
            shapes[f"{cell}/W_P_0"] = (CELL, PROJECTION)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def made(folder: Path, arrays=None, **lstm) -> Path:
    """A folder with options and weights; `lstm` changes settings of the options."""
    import h5py

    folder.mkdir(parents=True)
    options = {**OPTIONS, "lstm": {**OPTIONS["lstm"], **lstm}}
    (folder / "tiny_options.json").write_text(json.dumps(options))
    with h5py.File(folder / "tiny_weights.hdf5", "w") as file:
        for name, array in (arrays or weights()).items():
            file[name] = array
    return folder


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def word_vector(w, ids):
    """The vector of a word from its character ids."""
    letters = w["char_embed"].astype(float)[ids]
    found = []
    for n, (width, _) in enumerate(FILTERS):
        kernel, bias = w[f"CNN/W_cnn_{n}"][0].astype(float), w[f"CNN/b_cnn_{n}"]
        starts = range(len(letters) - width + 1)
        places = [np.einsum("kc,kcf->f", letters[s : s + width], kernel) + bias for s in starts]
        found.append(np.maximum(np.max(places, axis=0), 0))
    x = np.concatenate(found)
    for n in (0, 1):
        high = {part: w[f"CNN_high_{n}/{part}"].astype(float) for part in
                ("W_carry", "b_carry", "W_transform", "b_transform")}  # fmt: skip
        carry = sigmoid(x @ high["W_carry"] + high["b_carry"])
        x = carry * np.maximum(x @ high["W_transform"] + high["b_transform"], 0) + (1 - carry) * x
    return x @ w["CNN_proj/W_proj"].astype(float) + w["CNN_proj/b_proj"]


def lstm_steps(w, cell, inputs, cell_clip, state_clip):
    """The states of an LSTM with projection over inputs (T, I), a step at a time."""
    kernel, bias = w[f"{cell}/W_0"].astype(float), w[f"{cell}/B"].astype(float)
    memory, state, states = np.zeros(CELL), np.zeros(PROJECTION), []
    for x in inputs:
        gates = np.concatenate([x, state]) @ kernel + bias
        i, j, f, o = (gates[n * CELL : (n + 1) * CELL] for n in range(4))
        memory = sigmoid(f + 1) * memory + sigmoid(i) * np.tanh(j)
        memory = np.clip(memory, -cell_clip, cell_clip)
        state = (sigmoid(o) * np.tanh(memory)) @ w[f"{cell}/W_P_0"].astype(float)
        state = np.clip(state, -state_clip, state_clip)
        states.append(state)
    return np.array(states)


def ids_of(symbols):
    """A word's beginning, its characters, its end, padding: 50 in all."""
    ids = [258, *symbols, 259]
    return ids + [260] * (50 - len(ids))


def layers(w, words, clip=(0.4, 0.3)):
    """The states of the three layers (3, T, 2 P) of a sentence, boundaries left out."""
    text = [ids_of([256]), *(ids_of(word.encode()) for word in words), ids_of([257])]
    x = np.array([word_vector(w, ids) for ids in text])
    ahead, back, found = x, x[::-1], [np.concatenate([x, x], axis=1)]
    for layer in (0, 1):
        one, other = (f"RNN_{d}/RNN/MultiRNNCell/Cell{layer}/LSTMCell" for d in (0, 1))
        skip = 1 if layer else 0
        ahead = lstm_steps(w, one, ahead, *clip) + skip * ahead
        back = lstm_steps(w, other, back, *clip) + skip * back
        found.append(np.concatenate([ahead, back[::-1]], axis=1))
    return np.array(found)[:, 1:-1]
