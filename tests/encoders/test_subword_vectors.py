"""Sub-word vectors: those that the package model2vec gives of the same folder."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from model2vec import StaticModel
from safetensors.numpy import save_file
from subword_tables import (
    PLAIN,
    SHARED,
    VARIANTS,
    VECTORS,
    byte_pairs,
    made,
    padded,
    variant,
    word_piece,
    written,
)
from tolerances import relative_gap

from harness.core.errors import DataError
from harness.encoders.modules import default_pooling
from harness.encoders.subword_vectors import SubwordConfig
from harness.resolve import config_for

TEXTS = (
    "The cats sat on the mat.",
    "the dog",
    "zebra",  # unknown, and nothing else
    "",
    "   ",
    "unknown zebra cat",
    "zebra zebra zebra zebra cat dog",  # whose known pieces are behind the unknown ones
    "cat " * 600,  # cut by letters, then by pieces
    "the the the dog dog",
    "東京 Ünknown, the cats' [UNK] [PAD] <unk> mat",
)
EQUAL = 1e-6


def loaded(folder: Path, **change):
    return replace(SubwordConfig("m2v"), **change).load(folder, folder)


@pytest.mark.parametrize("name", VARIANTS)
def test_its_vectors_are_the_packages_own(tmp_path, name):
    folder = variant(tmp_path / "m", name)
    package, ours = StaticModel.from_pretrained(folder), loaded(folder)
    encoding = ours.encode(TEXTS)
    assert relative_gap(encoding.mean[:, 0], package.encode(TEXTS)) <= EQUAL
    assert (encoding.layers, encoding.depth, encoding.cls) == ((0,), 0, None)
    for row, text in enumerate(TEXTS):
        [alone] = ours.encode([text]).mean
        np.testing.assert_array_equal(alone, encoding.mean[row])
        assert relative_gap(alone[0], package.encode(text)) <= EQUAL


@pytest.mark.parametrize("length", [1, 2, 7])
def test_a_maximum_length_in_the_name_is_the_packages(tmp_path, length):
    folder = variant(tmp_path / "m", "a maximum length")
    found = loaded(folder, max_length=length).encode(TEXTS)
    wanted = StaticModel.from_pretrained(folder).encode(TEXTS, max_length=length)
    assert relative_gap(found.mean[:, 0], wanted) <= EQUAL
    config = SubwordConfig("m2v")
    assert config.identify(folder).max_length == 4
    assert config.with_max_length(length).identify(folder).max_length == length


def test_a_text_counts_its_pieces_and_those_that_have_a_vector(tmp_path):
    tokens = (
        loaded(padded_folder(tmp_path))
        .encode(["unknown zebra cat", "", "the dog"])
        .tokens
    )
    assert tokens.tolist() == [[4, 3], [0, 0], [2, 2]]


def padded_folder(tmp_path):
    return written(tmp_path / "m", padded(word_piece(), length=9), PLAIN, {})


@pytest.mark.parametrize("name", ["word piece", "no model type", "another model type"])
def test_a_folder_is_known_by_its_table(tmp_path, name):
    folder = variant(tmp_path / "m", name)
    assert isinstance(config_for("m", str(folder), folder), SubwordConfig)
    assert default_pooling(folder) == "mean"


def test_everything_that_changes_a_vector_changes_the_key(tmp_path):
    folder = made(tmp_path / "m")
    keys = [SubwordConfig("m2v").identify(folder).key]
    keys += [SubwordConfig("m2v", max_length=9).identify(folder).key]
    keys += [SubwordConfig("m2v").identify(made(tmp_path / "u", unit=True)).key]
    keys += [SubwordConfig("m2v").identify(made(tmp_path / "s", shared=True)).key]
    keys += [
        SubwordConfig("m2v").identify(variant(tmp_path / "l", "a maximum length")).key
    ]
    tokens = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(tokens.replace("true", "false", 1))
    keys += [SubwordConfig("m2v").identify(folder).key]
    assert len(set(keys)) == len(keys)
    assert SubwordConfig("other").identify(folder).key == keys[-1]


def with_tensors(**tensors):
    return lambda folder: save_file(tensors, folder / "model.safetensors")


def with_config(**settings):
    text = json.dumps({"model_type": "model2vec", **settings})
    return lambda folder: (folder / "config.json").write_text(text)


def with_dropout(folder):
    tokenizer = byte_pairs(dropout=0.1)
    (folder / "tokenizer.json").write_text(tokenizer.to_str())


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda f: (f / "config.json").unlink(), "a folder that Model2Vec wrote"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x"), "header too small"),
        (with_tensors(embeddings=VECTORS[:3]), "vectors .3"),
        (with_tensors(embeddings=VECTORS * np.inf), "finite"),
        (with_tensors(**SHARED | {"weights": SHARED["weights"][:4]}), "out of bounds"),
        (with_dropout, "dropout = 0.1 .* at random"),
        (with_config(max_length="512"), "max_length = '512'"),
    ],
)
def test_a_faulty_folder_never_yields_a_vector(tmp_path, spoil, complaint):
    folder = made(tmp_path / "m")
    spoil(folder)
    with pytest.raises(DataError, match=complaint) as error:
        loaded(folder).encode(TEXTS)
    assert "\n" not in str(error.value)
