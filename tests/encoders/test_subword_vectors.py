"""Sub-word vectors: those that Model2Vec gives, and the input embeddings of a transformer."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import Told, ticks
from safetensors.numpy import load_file, save_file
from subword_tables import PIECES, VECTORS, made
from tiny_models import BERT, pieces
from tolerances import ROUNDING, relative_gap

from harness.assets.places import Places
from harness.core.errors import DataError, UsageError
from harness.encoders.subword_vectors import InputConfig, SubwordConfig
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.embeddings import CachedEncoder
from harness.gate.golden_vectors import subject
from harness.registry import load_registry
from harness.transforms.pooling import INPUT, MEAN

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


# A transformer's input embedding matrix as word vectors: BERT-flow, Table 1

TRANSFORMER = TransformerConfig("m", "")
OF_INPUT = InputConfig(TRANSFORMER)
ROWS = pieces(*BERT)


def matrix(folder):
    return load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]


def test_a_word_of_one_token_has_its_row_and_others_have_none(checkpoint, tmp_path):
    encoder, rows = OF_INPUT.load(checkpoint("bert"), tmp_path), matrix(checkpoint("bert"))
    encoding = encoder.encode(["cat", "The DOG", "cats", "中", "", "the cats sat, q"])

    def mean(*words):
        return rows[[ROWS[word] for word in words]].mean(axis=0, dtype=np.float64)

    wanted = [mean("cat"), mean("the", "dog"), *[0 * rows[0]] * 3, mean("the", "sat", ",", "q")]
    np.testing.assert_allclose(INPUT(encoding), wanted, rtol=1e-6)
    np.testing.assert_array_equal(INPUT(encoding)[0], rows[ROWS["cat"]])  # bit for bit
    assert encoding.tokens.tolist() == [[1, 1], [2, 2], [1, 0], [1, 0], [0, 0], [5, 4]]
    assert (len(INPUT(encoder.encode([]))), encoding.layers) == (0, ())


def test_its_vectors_have_a_key_of_their_own_and_leave_the_transformers_alone(checkpoint, tmp_path):
    folder = checkpoint("bert")
    own, other = OF_INPUT.identify(folder), TRANSFORMER.identify(folder)
    assert own.key != other.key
    assert (own.digests, own.max_length) == (other.digests, None)
    places = Places(tmp_path, encoders={"m": folder})
    vectors = {}
    for reading, pooling in ((OF_INPUT, INPUT), (TRANSFORMER, MEAN)):
        cached = CachedEncoder.open(reading, places, ticks())
        cached.ensure(["cat"], Told())
        vectors[pooling.name] = cached.pooled(pooling, ["cat"]).matrix
    np.testing.assert_array_equal(vectors["input"][0], matrix(folder)[ROWS["cat"]])
    assert np.abs(vectors["mean"] - vectors["input"]).max() > 0.01


def test_an_id_reads_it_and_nothing_else_passes_for_it(checkpoint, tmp_path):
    registry = load_registry()
    method = registry.parse("bert-base.input")
    assert (method.id, method.encoder.of.name) == ("bert-base.input", "bert-base")
    assert registry.parse(f"{method.id}+whitening@target").encoder == method.encoder
    assert subject("bert-base.input+sn@target") == "bert-base.input"
    for wrong in ("glove-mini", "bert-base:64", "bert-base-float16"):
        with pytest.raises(UsageError, match=rf"{wrong}.*\.input: "):
            registry.parse(f"{wrong}.input").encoder.member(0).identify(checkpoint("bert"))
    with pytest.raises(UsageError, match="input: these encodings are not of an input embedding"):
        INPUT(TRANSFORMER.load(checkpoint("bert"), tmp_path).encode(["cat"]))
