"""Folders that sentence-transformers itself writes, of every module that it has for sentences."""

import json

import numpy as np
import tiny_models
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from sentence_transformers.sentence_transformer.modules.tokenizer import (
    WhitespaceTokenizer,
)
from subword_tables import made as model2vec
from tokenizers import Tokenizer
from torch import nn

from harness.encoders.modules import edit_json

MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
PROMPTS = {"query": "the dog: ", "passage": ""}
D = 32  # dimensions of a tiny model


def transformer(folder, kind="bert", **settings):
    """A tiny checkpoint, as the library's first module."""
    source = tiny_models.make(kind, folder / "source")
    if settings.pop("hidden", False):
        edit_json(source / "config.json", output_hidden_states=True)
    # The library does not know that RoBERTa's positions begin behind the padding's.
    return st.Transformer(str(source), **{"max_seq_length": 38, **settings})


def layers():
    """Unequal weights of the layers."""
    weights = nn.Parameter(torch.arange(1.0, 4.0))
    return st.WeightedLayerPooling(
        D, num_hidden_layers=3, layer_start=1, layer_weights=weights
    )


def dense(out, **settings):
    torch.nn.init.normal_((layer := st.Dense(D, out, **settings)).linear.weight)
    return layer


def normed():
    norm = st.LayerNorm(D)
    nn.init.normal_(norm.norm.weight)
    nn.init.normal_(norm.norm.bias)
    return norm


def static(folder):
    source = model2vec(folder / "source")
    table = load_file(source / "model.safetensors")["embeddings"].numpy()
    return st.StaticEmbedding(
        Tokenizer.from_file(str(source / "tokenizer.json")), table
    )


def words():
    """A table of word vectors."""
    vocabulary = ["the", "cat", "sat", "dog", "mat"]
    tokenizer = WhitespaceTokenizer(vocabulary, stop_words=[], do_lower_case=True)
    weights = np.random.default_rng(0).normal(size=(len(vocabulary), D))
    return st.WordEmbeddings(tokenizer, weights.astype(np.float32))


# What the model is made of, by what is peculiar about it.
MODULES = {
    "mean": lambda f: [transformer(f), st.Pooling(D, "mean")],
    "cls-normalize": lambda f: [
        transformer(f, "roberta"),
        st.Pooling(D, "cls"),
        st.Normalize(),
    ],
    "all-modes": lambda f: [transformer(f), st.Pooling(D, MODES)],
    "without-prompt": lambda f: [
        transformer(f),
        st.Pooling(D, MODES, include_prompt=False),
    ],
    "dense": lambda f: [transformer(f, "distilbert"), st.Pooling(D, "mean"), dense(5)],
    "residual": lambda f: [
        transformer(f, "electra"),
        st.Pooling(D, "mean"),
        dense(7, use_residual=True, activation_function=nn.GELU()),
    ],
    "layers": lambda f: [transformer(f, hidden=True), layers(), st.Pooling(D, "mean")],
    "norm": lambda f: [
        transformer(f),
        st.Pooling(D, "mean"),
        st.Dropout(0.5),
        normed(),
    ],
    "cls-behind": lambda f: [transformer(f, "xlnet"), st.Pooling(D, "cls")],
    "lower-case": lambda f: [
        transformer(f, "roberta", do_lower_case=True),
        st.Pooling(D, "mean"),
    ],
    "short": lambda f: [
        transformer(f, "albert", max_seq_length=6),
        st.Pooling(D, "mean"),
    ],
    "static": lambda f: [static(f), st.Normalize()],
    "words": lambda f: [words(), st.Pooling(D, "mean")],
}


def saved(folder, kind, **settings):
    """A folder that the library writes, and what it makes of the texts when it opens that again."""
    torch.manual_seed(1)
    model = SentenceTransformer(modules=MODULES[kind](folder), device="cpu", **settings)
    model.save(str(folder / "model"), create_model_card=False)
    if kind == "lower-case":  # which the library forgets when it saves
        old = {"do_lower_case": True, "max_seq_length": 38}
        (folder / "model/sentence_bert_config.json").write_text(json.dumps(old))
    return folder / "model"
