"""Sub-word vectors: those that Model2Vec gives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from subword_tables import PIECES, VECTORS, made
from tolerances import ROUNDING, relative_gap

from harness.core.errors import DataError
from harness.encoders.subword_vectors import SubwordConfig

TEXTS = (
    "The cats sat on the mat.",
    "the dog",
    "zebra",  # unknown, and nothing else
    "",
    "unknown zebra cat",
    "cat " * 600,  # cut by letters, then by pieces
    "the the the dog dog",
)

# model2vec 0.10.0, StaticModel.from_pretrained(folder).encode(TEXTS), of the folder that `made`
# makes: with "normalize" and without, and of a table with shared rows.
GOLDEN = {
    "plain": "-0.14070606 -0.26030898 -0.50224829 -0.75545621 0.40761936 0.4758141 0 0 0 0 0 0 "
    "0.01367553 -0.25148913 -0.55580157 1.6347847 0.27276799 -1.2333311 "
    "-0.71489447 0.16913943 0.53040045",
    "unit": "-0.24137555 -0.4465495 -0.86158657 -0.76972574 0.41531873 0.48480159 0 0 0 0 0 0 "
    "0.022411399 -0.4121393 -0.91084516 0.79131043 0.13203216 -0.59698856 "
    "-0.7889846 0.18666868 0.58537",
    "shared": "0.047539577 0.12795185 -0.079444557 -0.71443415 0.53316295 0.39534032 0 0 0 0 0 0 "
    "0.2775161 0.017313743 -0.45488366 1.4861671 0.24797107 -1.121209 "
    "-0.65695643 0.30524617 0.43198746",
}


def loaded(folder: Path, **change):
    return replace(SubwordConfig("m2v"), **change).load(folder, folder)


@pytest.mark.parametrize("kind", ["plain", "unit", "shared"])
def test_its_vectors_are_the_packages_own(tmp_path, kind):
    folder = made(tmp_path / "m", unit=kind == "unit", shared=kind == "shared")
    encoding = loaded(folder).encode(TEXTS)
    # The package adds up in float32: 384 rows of the longest text round by some 1e-6.
    golden = np.array(GOLDEN[kind].split(), float).reshape(-1, 3)
    assert relative_gap(encoding.mean[:, 0], golden) <= ROUNDING
    assert (encoding.layers, encoding.depth, encoding.cls) == ((0,), 0, None)


def test_a_text_is_cut_by_letters_and_then_by_pieces(tmp_path):
    folder = made(tmp_path / "m")
    cut, whole = loaded(folder, max_length=2), loaded(folder)
    assert cut.letters == 6  # the median piece has 3
    for text, left in (("the dog sat on", "the do"), (". . . .", ". .")):
        np.testing.assert_array_equal(cut.encode([text]).mean, whole.encode([left]).mean)


def test_everything_that_changes_a_vector_changes_the_key(tmp_path):
    folder = made(tmp_path / "m")
    keys = [SubwordConfig("m2v").identify(folder).key]
    keys += [SubwordConfig("m2v", max_length=9).identify(folder).key]
    keys += [SubwordConfig("m2v").identify(made(tmp_path / "u", unit=True)).key]
    keys += [SubwordConfig("m2v").identify(made(tmp_path / "s", shared=True)).key]
    tokens = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(tokens.replace("true", "false", 1))
    keys += [SubwordConfig("m2v").identify(folder).key]
    assert len(set(keys)) == len(keys)
    assert SubwordConfig("other").identify(folder).key == keys[-1]


def with_tensors(**tensors):
    return lambda folder: save_file(tensors, folder / "model.safetensors")


BEFORE_THE_FIRST = np.arange(len(PIECES)) - 1


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda f: (f / "config.json").unlink(), "wanted model_type model2vec, found None"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x"), "wanted safetensors"),
        (with_tensors(w=VECTORS), "wanted a table `emb"),
        (with_tensors(embeddings=VECTORS[:3]), "found 3"),
        (with_tensors(embeddings=VECTORS * np.inf), "wanted finite numbers"),
        (with_tensors(embeddings=VECTORS, mapping=BEFORE_THE_FIRST), "wanted a vector for each of"),
        (lambda f: (f / "tokenizer.json").rename(f / "vocab.txt"), r"wanted a tokenizer\.json"),
    ],
)
def test_a_faulty_folder_never_yields_a_vector(tmp_path, spoil, complaint):
    folder = made(tmp_path / "m")
    spoil(folder)
    with pytest.raises(DataError, match=complaint) as error:
        loaded(folder)
    assert "\n" not in str(error.value)
