"""Sub-word vectors: those that the package model2vec gives of the same folder."""

from dataclasses import replace

import pytest
from model2vec import StaticModel
from refusals import refused
from subword_tables import VARIANTS, byte_pairs, made, variant
from tolerances import relative_gap

from harness.core.errors import DataError
from harness.encoders.modules import default_pooling
from harness.encoders.subword_vectors import SubwordConfig
from harness.resolve import config_for

TEXTS = (
    "The cats sat on the mat.",
    "zebra",  # unknown, and nothing else
    "",
    "unknown zebra cat",
    "zebra zebra zebra zebra cat dog",  # whose known pieces are behind the unknown ones
    "cat " * 600,  # cut by letters, then by pieces
    "東京 Ünknown, the cats' [UNK] [PAD] <unk> mat",
)
EQUAL = 1e-6


def loaded(folder, **change):
    return replace(SubwordConfig("m2v"), **change).load(folder, folder)


@pytest.mark.parametrize("name", VARIANTS)
def test_its_vectors_are_the_packages_own(tmp_path, name):
    folder = variant(tmp_path / "m", name)
    encoding = loaded(folder).encode(TEXTS)
    wanted = StaticModel.from_pretrained(folder).encode(TEXTS)
    assert relative_gap(encoding.mean[:, 0], wanted) <= EQUAL
    assert (encoding.layers, encoding.depth, encoding.cls) == ((0,), 0, None)
    assert isinstance(config_for("m", str(folder), folder), SubwordConfig)
    assert default_pooling(folder) == "mean"


@pytest.mark.parametrize("length", [1, 7])
def test_a_maximum_length_in_the_name_is_the_packages(tmp_path, length):
    folder = variant(tmp_path / "m", "a maximum length")
    found = loaded(folder, max_length=length).encode(TEXTS)
    wanted = StaticModel.from_pretrained(folder).encode(TEXTS, max_length=length)
    assert relative_gap(found.mean[:, 0], wanted) <= EQUAL
    config = SubwordConfig("m2v")
    assert config.identify(folder).max_length == 4
    assert config.with_max_length(length).identify(folder).max_length == length


def test_a_text_counts_its_pieces_and_those_that_have_a_vector(tmp_path):
    encoder = loaded(made(tmp_path / "m"))
    tokens = encoder.encode(["unknown zebra cat", "", "the dog"]).tokens
    assert tokens.tolist() == [[4, 3], [0, 0], [2, 2]]


def test_everything_that_changes_a_vector_changes_the_key(tmp_path):
    folder = made(tmp_path / "m")

    def key(**change):
        return SubwordConfig("m2v", **change).identify(folder).key

    keys = [key(), key(max_length=9)]
    tokens = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(tokens.replace("true", "false", 1))
    keys.append(key())
    assert len(set(keys)) == len(keys)


OPENS = "m2v: wanted a table that Model2Vec opens at .* header too small"


def with_dropout(folder):
    tokenizer = byte_pairs(dropout=0.1)
    (folder / "tokenizer.json").write_text(tokenizer.to_str())


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda f: (f / "model.safetensors").write_bytes(b"x"), OPENS),
        (with_dropout, "dropout = 0.1 .* at random"),
    ],
)
def test_a_faulty_folder_never_yields_a_vector(tmp_path, spoil, complaint):
    folder = made(tmp_path / "m")
    spoil(folder)
    with refused(DataError, complaint):
        loaded(folder).encode(TEXTS)
