"""Small folders as Model2Vec writes them: a dozen sub-words with vectors of three dimensions."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

PIECES = (
    "[PAD]",
    "[UNK]",
    "the",
    "cat",
    "dog",
    "sat",
    "##s",
    "on",
    "mat",
    ".",
    "un",
    "##known",
)
ROWS = {piece: row for row, piece in enumerate(PIECES)}
VECTORS = np.random.default_rng(5).normal(size=(len(PIECES), 3)).astype(np.float32)
PLAIN = {"embeddings": VECTORS}
SHARED = {
    "embeddings": VECTORS[:5],
    "mapping": np.arange(len(PIECES)) % 5,
    "weights": np.linspace(0.5, 2, len(PIECES)).astype(np.float32),
}


def made(folder: Path, *, unit: bool = False, shared: bool = False) -> Path:
    """A Model2Vec folder."""
    config = {"model_type": "model2vec", "normalize": unit}
    return written(folder, word_piece(), SHARED if shared else PLAIN, config)


def written(folder, tokenizer, tensors, config):
    """A folder of these files."""
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


# Tokenizers over the same dozen of rows


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(ROWS, unk_token=PIECES[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


UNIGRAMS = (
    "<pad>",
    "<unk>",
    "▁the",
    "▁cat",
    "▁dog",
    "▁sat",
    "s",
    "▁on",
    "▁mat",
    ".",
    "▁",
    "c",
)


def unigram():
    pieces = [(piece, -float(rank)) for rank, piece in enumerate(UNIGRAMS)]
    tokenizer = Tokenizer(models.Unigram(pieces, 1, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


LETTERS = ("<unk>", "c", "a", "t", "s", "d", "o", "g", ".", "ca", "cat", "at")
MERGES = [("c", "a"), ("ca", "t"), ("a", "t")]


def byte_pairs(**settings):
    rows = {piece: row for row, piece in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.BPE(rows, MERGES, **settings))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def padded():
    tokenizer = word_piece()
    tokenizer.enable_padding(pad_id=0, pad_token=PIECES[0], length=9)
    tokenizer.enable_truncation(3)
    return tokenizer


KIND = {"model_type": "model2vec"}
# What is peculiar about a folder: its tokenizer, its tensors, its config.json.
VARIANTS = {
    "word piece": (word_piece, PLAIN, KIND),
    "unigram": (unigram, PLAIN, {**KIND, "normalize": True}),
    "byte pairs without an unknown piece": (byte_pairs, PLAIN, KIND),
    "padding and truncation": (padded, PLAIN, KIND),
    "a maximum length": (word_piece, PLAIN, {**KIND, "max_length": 4}),
    "no maximum length": (word_piece, PLAIN, {**KIND, "max_length": None}),
    "no model type": (word_piece, PLAIN, {"normalize": True}),
    "another model type": (word_piece, PLAIN, {"model_type": "bert", "hidden_size": 3}),
    "mapping and weights": (word_piece, SHARED, KIND),
}


def variant(folder, name):
    """The folder of a variant."""
    make, tensors, config = VARIANTS[name]
    return written(folder, make(), tensors, config)
