"""Small folders as Model2Vec writes them: a dozen sub-words with vectors of three dimensions."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

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


def made(folder: Path, *, unit: bool = False, shared: bool = False) -> Path:
    """A Model2Vec folder."""
    tensors = SHARED if shared else {"embeddings": VECTORS}
    return written(
        folder, word_piece(), tensors, {"model_type": "model2vec", "normalize": unit}
    )


def written(folder, tokenizer, tensors, config):
    """A folder of these files; `tokenizer` is one of the library's, or the content of its file."""
    folder.mkdir()
    content = (
        tokenizer if isinstance(tokenizer, dict) else json.loads(tokenizer.to_str())
    )
    (folder / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


# Tokenizers of every model that there is, over the same dozen of rows


def split(model):
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def word_piece(unknown="[UNK]"):
    return split(models.WordPiece(ROWS, unk_token=unknown))


def word_level(unknown="[UNK]"):
    return split(models.WordLevel(ROWS, unk_token=unknown))


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


def unigram(unknown=1, byte_fallback=False):
    pieces = [(piece, -float(rank)) for rank, piece in enumerate(UNIGRAMS)]
    tokenizer = Tokenizer(models.Unigram(pieces, unknown, byte_fallback))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer


LETTERS = ("<unk>", "c", "a", "t", "s", "d", "o", "g", ".", "ca", "cat", "at")
MERGES = [("c", "a"), ("ca", "t"), ("a", "t")]


def byte_pairs(unknown="<unk>", **settings):
    rows = {piece: row for row, piece in enumerate(LETTERS)}
    tokenizer = Tokenizer(models.BPE(rows, MERGES, unk_token=unknown, **settings))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def padded(tokenizer, **settings):
    tokenizer.enable_padding(pad_id=0, pad_token=PIECES[0], **settings)
    return tokenizer


def truncated(tokenizer, length, **settings):
    tokenizer.enable_truncation(length, **settings)
    return tokenizer


def with_special_tokens():
    tokenizer = word_piece()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "the"])  # which are pieces already
    tokenizer.post_processor = processors.TemplateProcessing(
        single="the $A .", special_tokens=[("the", 2), (".", 9)]
    )
    return tokenizer


def edited(tokenizer, **settings):
    """The content of a tokenizer's file, its model's settings changed; None leaves one out."""
    content = json.loads(tokenizer.to_str())
    model = content["model"] | settings
    content["model"] = {key: value for key, value in model.items() if value is not None}
    return content


# Tables of every kind

FACTORS = np.linspace(0.5, 2, len(PIECES)).astype(np.float32)
SHARED = {
    "embeddings": VECTORS[:5],
    "mapping": np.arange(len(PIECES)) % 5,
    "weights": FACTORS,
}
HALF = {"embeddings": VECTORS.astype(np.float16)}
BYTES = {"embeddings": np.rint(VECTORS * 40).astype(np.int8)}

PLAIN = {"embeddings": VECTORS}
KIND = {"model_type": "model2vec"}

# What is peculiar about a folder: its tokenizer, its tensors, its config.json.
VARIANTS = {
    "word piece": (word_piece, PLAIN, KIND),
    "no unknown word among the pieces": (lambda: word_piece("cat"), PLAIN, KIND),
    "word level": (word_level, PLAIN, KIND),
    "unigram": (unigram, PLAIN, KIND),
    "unigram with another unknown piece": (lambda: unigram(10), PLAIN, KIND),
    "byte pairs": (byte_pairs, PLAIN, KIND),
    "byte pairs without an unknown piece": (lambda: byte_pairs(None), PLAIN, KIND),
    "byte pairs that fuse unknown ones": (
        lambda: byte_pairs(fuse_unk=True),
        PLAIN,
        KIND,
    ),
    "padding": (lambda: padded(word_piece()), PLAIN, KIND),
    "padding to a length": (lambda: padded(word_piece(), length=40), PLAIN, KIND),
    "padding to multiples": (
        lambda: padded(unigram(), pad_to_multiple_of=8),
        PLAIN,
        KIND,
    ),
    "padding on the left": (
        lambda: padded(byte_pairs(), direction="left"),
        PLAIN,
        KIND,
    ),
    "truncation": (lambda: truncated(word_piece(), 3), PLAIN, KIND),
    "truncation on the left": (
        lambda: truncated(word_piece(), 3, direction="left"),
        PLAIN,
        KIND,
    ),
    "truncation and padding": (lambda: padded(truncated(word_level(), 2)), PLAIN, KIND),
    "special tokens": (with_special_tokens, PLAIN, KIND),
    "an older file": (
        lambda: edited(word_piece(), max_input_chars_per_word=4),
        PLAIN,
        KIND,
    ),
    "unit length": (word_piece, PLAIN, {**KIND, "normalize": True}),
    "unit length by a word": (word_piece, PLAIN, {**KIND, "normalize": "false"}),
    "unit length of nothing": (word_piece, PLAIN, {**KIND, "normalize": None}),
    "a maximum length": (word_piece, PLAIN, {**KIND, "max_length": 4}),
    "a maximum length of unknown pieces": (unigram, PLAIN, {**KIND, "max_length": 3}),
    "no piece at all": (word_piece, PLAIN, {**KIND, "max_length": 0}),
    "no maximum length": (word_piece, PLAIN, {**KIND, "max_length": None}),
    "no maximum length, and truncation": (
        lambda: truncated(word_piece(), 3),
        PLAIN,
        {**KIND, "max_length": None},
    ),
    "a maximum length and padding": (
        lambda: padded(unigram()),
        HALF,
        {**KIND, "max_length": 5, "normalize": True},
    ),
    "no model type": (word_piece, PLAIN, {"normalize": True}),
    "another model type": (word_piece, PLAIN, {"model_type": "bert", "hidden_size": 3}),
    "weights": (word_piece, PLAIN | {"weights": FACTORS}, KIND),
    "weights in double precision": (
        word_piece,
        HALF | {"weights": FACTORS.astype(float)},
        KIND,
    ),
    "mapping": (unigram, {k: v for k, v in SHARED.items() if k != "weights"}, KIND),
    "mapping and weights": (word_piece, SHARED, {**KIND, "normalize": True}),
    "a mapping beyond the vocabulary": (
        word_piece,
        {"embeddings": VECTORS, "mapping": np.arange(20, dtype=np.int32) % 7},
        KIND,
    ),
    "half precision": (word_piece, HALF, KIND),
    "half precision and weights": (word_piece, HALF | {"weights": FACTORS}, KIND),
    "double precision": (word_level, {"embeddings": VECTORS.astype(float)}, KIND),
    "bytes": (word_piece, BYTES, KIND),
    "bytes of unit length": (byte_pairs, BYTES, {**KIND, "normalize": True}),
    "bytes and weights": (word_piece, BYTES | {"weights": FACTORS}, KIND),
    "whole numbers": (
        word_piece,
        {"embeddings": np.rint(VECTORS * 9).astype(np.int16)},
        KIND,
    ),
}


def variant(folder, name):
    """The folder of a variant."""
    make, tensors, config = VARIANTS[name]
    return written(folder, make(), tensors, config)
