"""ELMo: the published layout read, and each step of the network beside its formula in NumPy."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from bilm_files import OPTIONS, ids_of, layers, lstm_steps, made, weights, word_vector
from fakes import Told, ticks
from tolerances import ROUNDING, relative_gap

from harness.assets.places import Places
from harness.core.errors import AssetMissing, DataError, ScoreError, UsageError
from harness.core.hardware import Hardware
from harness.core.interfaces import Encoder, EncoderConfig
from harness.encoders.elmo import ElmoConfig, Options
from harness.encoders.kernels.bilm import character_ids, read_network
from harness.encoders.word_tokenizer import Tokeniser, penn_words
from harness.evaluation.embeddings import CachedEncoder
from harness.resolve import config_for
from harness.transforms.pooling import FIRST_LAST, LAST2, MEAN, STATIC_LAST

WHITESPACE = Tokeniser("whitespace", "keep")
TEXTS = ("The cat sat on the mat", "a", "naïve CAFÉS", "cat " * 20, "", "mat the on sat cat The")
TINY = ElmoConfig("tiny", tokeniser=WHITESPACE)


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("h5py", reason="the elmo extra is not installed: pip install .[elmo]")
    return made(tmp_path / "tiny")


def network(tmp_path, arrays=None, activation="relu", **lstm):
    """The network of arrays in the published layout, without a file of them."""
    content = {**OPTIONS, "lstm": {**OPTIONS["lstm"], **lstm}}
    content["char_cnn"] = {**OPTIONS["char_cnn"], "activation": activation}
    (tmp_path / "options.json").write_text(json.dumps(content))
    options = Options.read(tmp_path / "options.json")
    tensors = {k: torch.from_numpy(v.copy()) for k, v in (arrays or weights()).items()}
    options.require_shapes("tiny", Path("weights.hdf5"), tensors)
    return read_network(tensors, options.activation, (options.cell_clip, options.state_clip), "cpu")


# The steps


@pytest.mark.parametrize(
    ("word", "inside"),
    [("cat", [99, 97, 116]), ("é", [0xC3, 0xA9]), ("", []), ("x" * 60, [120] * 48)],
)
def test_a_word_is_its_bytes_between_beginning_and_end(word, inside):
    ids = character_ids(word)
    assert ids == [258, *inside, 259] + [260] * (48 - len(inside))
    assert len(ids) == 50


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_vector_of_a_word_is_its_convolutions_through_highways_and_a_projection(
    tmp_path, activation
):
    act = np.tanh if activation == "tanh" else (lambda x: np.maximum(x, 0))
    characters = network(tmp_path, activation=activation).characters
    for word in ("cat", "é", "international"):
        wanted = word_vector(weights(), ids_of(word.encode()), act)
        found = characters(torch.tensor([character_ids(word)]))[0]
        assert relative_gap(found, wanted) <= ROUNDING


@pytest.mark.parametrize("clip", [(0.4, 0.3), (0, 0), (0.4, 0), (0, 0.3)])
def test_a_step_of_the_lstm_clips_its_memory_and_its_projected_state(tmp_path, clip):
    found = network(tmp_path, cell_clip=clip[0], proj_clip=clip[1]).backward[1]
    x = np.random.default_rng(1).normal(size=(7, 4)).astype(np.float32)
    wanted = lstm_steps(
        weights(), "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell", x, *(c or np.inf for c in clip)
    )
    states = found(torch.from_numpy(x)[None], [7])[0]
    assert relative_gap(states, wanted) <= ROUNDING
    if clip[1]:
        assert np.isclose(np.abs(wanted), clip[1]).any()  # some are clipped, or it would not show


def test_a_clip_of_null_is_none(tmp_path):
    assert network(tmp_path, cell_clip=None).forward[0].cell_clip == 0


def test_all_layers_are_those_of_the_formula_for_each_text_alone(folder, tmp_path):
    encoding = TINY.load(folder, tmp_path).encode(TEXTS)
    assert (encoding.layers, encoding.depth) == ((0, 1, 2), 2)
    assert (encoding.cls, encoding.pooler) == (None, None)
    for row, text in enumerate(TEXTS):
        if text:
            wanted = layers(weights(), text.split()).mean(axis=1)
            assert relative_gap(encoding.mean[row], wanted) <= ROUNDING


def test_poolings_take_the_layers_that_they_name(folder, tmp_path):
    encoding = TINY.load(folder, tmp_path).encode(TEXTS[:1])
    own = layers(weights(), TEXTS[0].split()).mean(axis=1)
    pairs = ((MEAN, [2]), (STATIC_LAST, [0, 2]), (FIRST_LAST, [1, 2]), (LAST2, [1, 2]))
    for pooling, chosen in pairs:
        assert relative_gap(pooling(encoding)[0], own[chosen].mean(axis=0)) <= ROUNDING


# The encoder


def test_neighbours_batches_and_what_came_before_leave_no_trace(folder, tmp_path):
    encoder = TINY.load(folder, tmp_path)
    together = encoder.encode(TEXTS).mean
    for words in (1, 7, 50):
        apart = replace(encoder, batch_words=words).encode(TEXTS).mean
        assert relative_gap(apart, together) <= ROUNDING
    assert relative_gap(encoder.encode(TEXTS[::-1]).mean[::-1], together) <= ROUNDING


def test_a_text_without_words_is_the_zero_vector_and_says_so(folder, tmp_path):
    encoding = TINY.load(folder, tmp_path).encode(TEXTS)
    assert not encoding.mean[TEXTS.index("")].any()
    np.testing.assert_array_equal(encoding.tokens[:, 0], encoding.tokens[:, 1])
    np.testing.assert_array_equal(encoding.tokens[:, 0], [len(text.split()) for text in TEXTS])


def test_a_text_is_cut_after_so_many_words(folder, tmp_path):
    cut = TINY.with_max_length(2)
    assert (cut.name, cut.identify(folder).max_length) == ("tiny:2", 2)
    encoder = cut.load(folder, tmp_path)
    one, other = encoder.encode(["The cat sat", "The cat"]).mean
    np.testing.assert_array_equal(one, other)
    with pytest.raises(UsageError, match="wanted a length of 1 or more"):
        TINY.with_max_length(0)


def test_no_text_is_no_row(folder, tmp_path):
    assert TINY.load(folder, tmp_path).encode([]).mean.shape == (0, 3, 8)


def test_it_is_an_encoder_that_the_cache_keeps(folder, tmp_path):
    encoder = TINY.load(folder, tmp_path)
    assert isinstance(TINY, EncoderConfig)
    assert isinstance(encoder, Encoder)
    places = Places(tmp_path / "cache", encoders={"tiny": folder})
    cached = CachedEncoder.open(TINY, places, ticks())
    cached.ensure(TEXTS, Told())
    kept = cached.pooled(STATIC_LAST, TEXTS).matrix
    assert relative_gap(kept, STATIC_LAST(encoder.encode(TEXTS))) <= ROUNDING


def test_everything_that_changes_a_vector_changes_the_key(folder, tmp_path):
    keys = [TINY.identify(folder).key, TINY.with_max_length(3).identify(folder).key]
    keys += [replace(TINY, tokeniser=Tokeniser("penn", "keep")).identify(folder).key]
    keys += [TINY.identify(made(tmp_path / "clip", cell_clip=3)).key]
    keys += [TINY.identify(made(tmp_path / "other", weights(1))).key]
    assert len(set(keys)) == len(keys)
    assert replace(TINY, name="other").identify(folder).key == keys[0]


def test_it_runs_in_float32_alone(folder, tmp_path):
    assert TINY.on(Hardware(batch_tokens=9)).load(folder, tmp_path).batch_words == 9
    with pytest.raises(UsageError, match="bfloat16"):
        TINY.on(Hardware(dtype="bfloat16"))
    with pytest.raises(UsageError, match="wanted a device that torch has, found 'cuda:99'"):
        TINY.on(Hardware("cuda:99")).load(folder, tmp_path)


def test_a_folder_given_by_hand_is_known_by_its_files(folder):
    assert isinstance(config_for("mine", str(folder), folder), ElmoConfig)


def test_it_lies_in_the_data_folder(folder, tmp_path):
    config = ElmoConfig("tiny", "tiny")
    assert Places(tmp_path, tmp_path).encoder(config) == folder
    with pytest.raises(AssetMissing):
        Places(tmp_path, tmp_path).encoder(ElmoConfig("tiny", "nowhere"))


# The files


def test_the_weights_are_converted_once(folder, tmp_path, monkeypatch):
    import h5py

    before = TINY.load(folder, tmp_path).encode(TEXTS).mean
    monkeypatch.setattr(h5py, "File", None)  # nobody opens it again
    np.testing.assert_array_equal(TINY.load(folder, tmp_path).encode(TEXTS).mean, before)


def test_weights_are_held_to_a_digest_or_how_it_begins(folder):
    digest = TINY.identify(folder).digests["weights"]
    for known in (digest, digest[:8]):
        assert replace(TINY, weights_sha256=known).identify(folder)
    with pytest.raises(DataError, match="wanted 00000000"):
        replace(TINY, weights_sha256="00000000").identify(folder)


def test_a_number_that_is_not_finite_is_refused(tmp_path):
    pytest.importorskip("h5py")
    arrays = weights()
    arrays["CNN_proj/b_proj"][1] = np.nan
    with pytest.raises(ScoreError, match="wanted finite numbers"):
        TINY.load(made(tmp_path / "nan", arrays), tmp_path).encode(TEXTS)


def lacking(arrays):
    del arrays["CNN_high_1/b_carry"]


def misshapen(arrays):
    arrays["CNN_proj/b_proj"] = arrays["CNN_proj/b_proj"][:-1]


def of_a_larger_model(arrays):
    arrays["CNN_high_2/W_carry"] = arrays["CNN_high_1/W_carry"]


@pytest.mark.parametrize("spoil", [lacking, misshapen, of_a_larger_model])
def test_weights_that_do_not_fit_the_options_are_refused(spoil, tmp_path):
    arrays = weights()
    spoil(arrays)
    with pytest.raises(DataError, match="options and weights do not belong together") as error:
        network(tmp_path, arrays)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lstm": {**OPTIONS["lstm"], "use_skip_connections": False}}, "use_skip_connections"),
        ({"char_cnn": {**OPTIONS["char_cnn"], "activation": "gelu"}}, "activation"),
        (
            {"char_cnn": {**OPTIONS["char_cnn"], "max_characters_per_token": 20}},
            "max_characters_per_token",
        ),
        ({"lstm": {"dim": 4}}, "wanted the options of an ELMo model"),
        ({"char_cnn": 3}, "wanted the options of an ELMo model"),
    ],
)
def test_options_of_another_model_are_refused(tmp_path, change, said):
    (tmp_path / "o.json").write_text(json.dumps({**OPTIONS, **change}))
    with pytest.raises(DataError, match=said):
        Options.read(tmp_path / "o.json")


def linked(folder, h5py):
    with h5py.File(folder / "other.hdf5", "w") as file:
        file["secret"] = np.ones(3, np.float32)
    with h5py.File(folder / "tiny_weights.hdf5", "a") as file:
        file["elsewhere"] = h5py.ExternalLink("other.hdf5", "/secret")


def in_words(folder, h5py):
    with h5py.File(folder / "tiny_weights.hdf5", "a") as file:
        file["note"] = "text"


def looped(folder, h5py):
    with h5py.File(folder / "tiny_weights.hdf5", "a") as file:
        file["CNN/again"] = file["CNN"]


def huge(folder, h5py):
    with h5py.File(folder / "tiny_weights.hdf5", "a") as file:
        file.create_dataset("zeros", (2**34,), "f4", chunks=(2**16,))  # of which none is written


def damaged(folder, _):
    (folder / "tiny_weights.hdf5").write_bytes(b"HDF")


@pytest.mark.parametrize("spoil", [linked, in_words, looped, huge, damaged])
def test_a_file_of_anything_but_its_own_arrays_is_refused(spoil, folder, tmp_path):
    import h5py

    spoil(folder, h5py)
    with pytest.raises(DataError, match=r"wanted (arrays|HDF5)") as error:
        TINY.load(folder, tmp_path)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "converted").glob("*.safetensors"))


def test_a_folder_of_two_models_or_of_half_a_model_is_refused(folder, tmp_path):
    (folder / "more_options.json").write_text("{}")
    with pytest.raises(DataError, match=r"wanted one file \*options.json .* found 2"):
        TINY.identify(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="found 0"):
        TINY.identify(tmp_path / "empty")


def test_the_package_that_reads_the_weights_is_named_where_it_is_missing(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError, match=r"h5py is not installed; .*\[elmo\]"):
        TINY.load(folder, tmp_path)


# Words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat didn't sit.", ["The", "cat", "did", "n't", "sit", "."]),
        ('He said "well-known", 3.5%', ["He", "said", '"', "well-known", '"', ",", "3.5", "%"]),
        ("``quoted''", ['"', "quoted", '"']),
        ("", []),
    ],
)
def test_words_are_those_of_the_penn_treebank_with_quotes_as_in_text(text, words):
    assert penn_words(text) == words
