"""Models as functions, functions as models, and scores as a data frame."""

import shutil

import numpy as np
import pytest

import harness
from harness.assets.places import Places
from harness.core.errors import AssetMissing, ScoreError, UsageError
from harness.core.interfaces import Encoder, EncoderConfig
from harness.core.types import Method
from harness.encoders.function import FunctionConfig
from harness.registry import load_registry
from harness.results.records import Store
from harness.transforms.pooling import NATIVE


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path / "cache")


def hashed(texts):
    """A bag of letters."""
    return np.array([[text.count(letter) for letter in "aeioust"] for text in texts], float) + 0.1


def test_a_name_a_folder_and_a_method_are_functions_from_texts_to_vectors(places, tmp_path):
    by_name = harness.encoder("glove-mini", places=places)
    method = load_registry().parse("glove-mini.mean")
    texts = ["A man eats.", "", "A man eats."]
    assert by_name.method == method
    np.testing.assert_array_equal(by_name(texts), harness.encoder(method, places=places)(texts))
    folder = places.encoder(load_registry().encoders["bert-mini"])
    shutil.copytree(folder, tmp_path / "My_model")
    by_folder = harness.encoder(tmp_path / "My_model", places=places)
    assert by_folder.method.id == "my-model.mean"
    assert by_folder(texts).shape == (3, 256)


def test_an_encoder_is_fitted_on_the_texts_that_are_given(places):
    texts = ["A man eats.", "A dog runs.", "It rains."]
    embed = harness.encoder("glove-mini.mean+natsv:1@target", texts=texts, places=places)
    assert len(embed.transforms) == 1
    with pytest.raises(UsageError, match="wanted texts to fit it on"):
        harness.encoder("glove-mini.mean+natsv:1@target", places=places)
    with pytest.raises(AssetMissing, match="harness fetch"):
        harness.encoder("no-one/no-such-model", places=places)


def test_a_frame_has_the_scores_that_a_run_has(places, tmp_path):
    frame = harness.evaluate(
        ["glove-mini.mean", "glove-mini.mean+sn@target"],
        ["mini-sts", "mini-kind"],
        output=tmp_path / "runs",
        places=places,
    )
    stored = {(r.method, r.task): r for r in Store(tmp_path / "runs").records()}
    assert len(stored) == len(frame) == 4
    for row in frame.itertuples():
        scores = stored[row.method, row.task].scores[row.metric]
        assert row.score == (scores["all"] if row.metric == "spearman" else scores)


def test_a_function_is_a_model(places):
    frame = harness.evaluate(hashed, "mini-sts", name="letters", places=places)
    assert list(frame.method) == ["letters.native"]
    assert not places.cache.exists()  # nothing of a function is kept
    config = FunctionConfig("letters", hashed)
    assert isinstance(config, EncoderConfig)
    assert isinstance(config.load(), Encoder)
    post = load_registry().parse("minilm.mean+sn@target").post
    embed = harness.fit_method(Method(config, NATIVE, post, "target"), config.load(), ["a", "be"])
    assert embed(["a", "b"]).shape == (2, 7)


def test_another_function_has_another_key():
    keys = {FunctionConfig("f", hashed).identify().key for _ in range(2)}
    keys |= {FunctionConfig("g", hashed).identify().key}
    keys |= {FunctionConfig("f", lambda texts: hashed(texts) * 2).identify().key}
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda texts: hashed(texts)[:-1], "wanted 2 rows for 2 texts, found an array of shape"),
        (lambda texts: hashed(texts)[0], "found an array of shape"),
        (lambda texts: hashed(texts) * [[1]] * np.inf, "the vector of 'a' is not finite"),
    ],
)
def test_a_function_that_gives_no_vectors_is_refused(function, said):
    with pytest.raises(ScoreError, match=said):
        FunctionConfig("f", function).vectors(["a", "b"])


def test_what_cannot_be_measured_is_an_error(places):
    with pytest.raises(AssetMissing, match="no data folder is set"):
        harness.evaluate("glove-mini", "sts-b", places=places)
    with pytest.raises(UsageError, match="matches no task"):
        harness.evaluate("glove-mini", "no-such*", places=places)
