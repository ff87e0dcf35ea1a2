"""Small folders as Model2Vec writes them: a dozen sub-words with vectors of three dimensions."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

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


def made(folder: Path) -> Path:
    """A Model2Vec folder."""
    return variant(folder, "word piece")


def variant(folder: Path, name: str) -> Path:
    """The folder of a variant."""
    tokenizer, config = VARIANTS[name]
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer().to_str(), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file({"embeddings": VECTORS}, folder / "model.safetensors")
    return folder


# Tokenizers over the same dozen of rows


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(ROWS, unk_token=PIECES[1]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


LETTERS = ("<unk>", "c", "a", "t", "s", "d", "o", "g", ".", "ca", "cat", "at")
MERGES = [("c", "a"), ("ca", "t"), ("a", "t")]


def byte_pairs(**settings):
    rows = {piece: row for row, piece in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.BPE(rows, MERGES, **settings))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


KIND = {"model_type": "model2vec"}
# What is peculiar about a folder: its tokenizer and its config.json.
VARIANTS = {
    "word piece": (word_piece, {**KIND, "normalize": False}),
    "byte pairs without an unknown piece": (byte_pairs, KIND),
    "a maximum length": (word_piece, {**KIND, "max_length": 4}),
    "no maximum length": (word_piece, {**KIND, "max_length": None}),
    "no model type": (word_piece, {"normalize": True}),
    "another model type": (word_piece, {"model_type": "bert", "hidden_size": 3}),
}
