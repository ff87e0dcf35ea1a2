"""A transformer's input embedding matrix as word vectors: BERT-flow, Table 1."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import Told, ticks
from safetensors.numpy import load_file
from tiny_models import BERT, make, pieces

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.types import Method
from harness.encoders.subword_vectors import InputConfig
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.embeddings import CachedEncoder
from harness.gate.golden_vectors import subject
from harness.registry import load_registry
from harness.transforms.pooling import INPUT, MEAN

ROWS = pieces(*BERT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make("bert", tmp_path_factory.mktemp("bert"))


def config():
    return InputConfig(TransformerConfig("m", ""))


def matrix(folder):
    return load_file(folder / "model.safetensors")["embeddings.word_embeddings.weight"]


def test_a_word_of_one_token_has_its_row_and_others_have_none(folder):
    encoder = config().load(folder, folder / "cache")
    texts = ["cat", "The DOG", "cats", "中", "", "the cats sat, q"]
    found, rows = encoder.encode(texts), matrix(folder)

    def mean(*words):
        return rows[[ROWS[word] for word in words]].mean(axis=0, dtype=np.float64)

    wanted = [mean("cat"), mean("the", "dog"), *[0 * rows[0]] * 3, mean("the", "sat", ",", "q")]
    np.testing.assert_allclose(INPUT(found), wanted, rtol=1e-6)
    np.testing.assert_array_equal(INPUT(found)[0], rows[ROWS["cat"]])  # bit for bit
    assert found.tokens.tolist() == [[1, 1], [2, 2], [1, 0], [1, 0], [0, 0], [5, 4]]
    assert (len(INPUT(encoder.encode([]))), found.layers) == (0, ())


def test_its_vectors_have_a_key_of_their_own_and_leave_the_transformers_alone(folder, tmp_path):
    plain = TransformerConfig("m", "")
    own, other = config().identify(folder), plain.identify(folder)
    assert own.key != other.key
    assert (own.digests, own.max_length) == (other.digests, None)
    assert config().load(folder, tmp_path).key == own.key
    places = Places(tmp_path, encoders={"m": folder})
    found = {}
    for reading, pooling in ((config(), INPUT), (plain, MEAN)):
        cached = CachedEncoder.open(reading, places, ticks())
        cached.ensure(["cat"], Told())
        found[pooling.name] = cached.pooled(pooling, ["cat"]).matrix
    np.testing.assert_array_equal(found["input"][0], matrix(folder)[ROWS["cat"]])
    assert np.abs(found["mean"] - found["input"]).max() > 0.01


def test_an_id_reads_it_and_nothing_else_passes_for_it(folder):
    found = load_registry()
    method = found.parse("bert-base.input")
    assert (method.id, method.encoder) == (
        "bert-base.input",
        InputConfig(found.encoders["bert-base"]),
    )
    assert found.parse(f"{method.id}+whitening@target").encoder == method.encoder
    assert subject("bert-base.input+sn@target") == "bert-base.input"
    for wrong in ("glove-mini", "bert-base:64", "bert-base-float16"):
        with pytest.raises(UsageError, match=rf"{wrong}.*\.input: "):
            found.parse(f"{wrong}.input").encoder.member(0).identify(folder)
    with pytest.raises(UsageError, match="input takes no argument"):
        found.parse("bert-base.input:x")
    encoding = TransformerConfig("m", "").load(folder, folder / "cache").encode(["cat"])
    with pytest.raises(UsageError, match="input: these encodings are not of an input embedding"):
        INPUT(encoding)
    assert Method(replace(method.encoder), INPUT).id == method.id
