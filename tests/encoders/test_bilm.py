"""ELMo: the published layout read, and the network beside its formula in NumPy."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from bilm_files import OPTIONS, layers, made, weights
from tolerances import ROUNDING, relative_gap

from harness.core.errors import AssetMissing, DataError, ScoreError, UsageError
from harness.core.hardware import Hardware
from harness.encoders.elmo import ElmoConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.resolve import config_for

h5py = pytest.importorskip("h5py", reason="the elmo extra is not installed")
TEXTS = ("The cat sat on the mat", "a", "naïve CAFÉS", "cat " * 20, "", "mat the on sat cat The")
TINY = ElmoConfig("tiny", tokeniser=Tokeniser("whitespace", "keep"))


@pytest.fixture
def folder(tmp_path):
    return made(tmp_path / "tiny")


def formula(text, clips=(0.4, 0.3)):
    """The mean states of the three layers."""
    return layers(weights(), text.split(), clips).mean(axis=1)


# The network


def test_all_layers_are_those_of_the_formula_for_each_text_alone(folder, tmp_path):
    encoder = TINY.load(folder, tmp_path)
    encoding = encoder.encode(TEXTS)
    assert (encoding.layers, encoding.depth) == ((0, 1, 2), 2)
    assert (encoding.cls, encoding.pooler) == (None, None)
    for row, text in enumerate(TEXTS):
        if text:
            assert relative_gap(encoding.mean[row], formula(text)) <= ROUNDING
        else:
            assert not encoding.mean[row].any()
    assert encoding.tokens.tolist() == [[len(text.split())] * 2 for text in TEXTS]


@pytest.mark.parametrize("clips", [(0, 0), (None, 0.3)])
def test_a_clip_of_null_or_0_is_none(clips, tmp_path):
    folder = made(tmp_path / "clips", cell_clip=clips[0], proj_clip=clips[1])
    [means] = TINY.load(folder, tmp_path).encode(TEXTS[:1]).mean
    wanted = formula(TEXTS[0], tuple(clip or np.inf for clip in clips))
    assert relative_gap(means, wanted) <= ROUNDING < relative_gap(wanted, formula(TEXTS[0]))


def test_a_word_is_its_first_48_bytes(folder, tmp_path):
    one, other, shorter = (TINY.load(folder, tmp_path).encode(["é" * n]).mean for n in (24, 30, 23))
    np.testing.assert_array_equal(one, other)
    assert relative_gap(shorter, one) > 1e-3


def test_neighbours_batches_and_what_came_before_leave_no_trace(folder, tmp_path):
    encoder = TINY.load(folder, tmp_path)
    together = encoder.encode(TEXTS).mean
    for words in (1, 7, 50):
        small = TINY.on(Hardware(batch_tokens=words)).load(folder, tmp_path)
        assert relative_gap(small.encode(TEXTS).mean, together) <= ROUNDING
    assert relative_gap(encoder.encode(TEXTS[::-1]).mean[::-1], together) <= ROUNDING


def test_a_text_is_cut_after_so_many_words(folder, tmp_path):
    cut = TINY.with_max_length(2)
    assert (cut.name, cut.identify(folder).max_length) == ("tiny:2", 2)
    long, short = cut.load(folder, tmp_path).encode(["The cat sat", "The cat"]).mean
    np.testing.assert_array_equal(long, short)


def test_everything_that_changes_a_vector_changes_the_key(folder, tmp_path):
    keys = [TINY.identify(folder).key, TINY.with_max_length(3).identify(folder).key]
    keys += [replace(TINY, tokeniser=Tokeniser("penn", "keep")).identify(folder).key]
    keys += [TINY.identify(made(tmp_path / "clip", cell_clip=3)).key]
    keys += [TINY.identify(made(tmp_path / "other", weights(1))).key]
    assert len(set(keys)) == len(keys)
    assert replace(TINY, name="other").identify(folder).key == keys[0]


def test_it_runs_in_float32_alone(folder, tmp_path):
    with pytest.raises(UsageError, match="bfloat16"):
        TINY.on(Hardware(dtype="bfloat16"))
    with pytest.raises(UsageError, match="wanted a device that torch has, found 'cuda:99'"):
        TINY.on(Hardware("cuda:99")).load(folder, tmp_path)


# The files


def test_the_weights_are_converted_once(folder, tmp_path, monkeypatch):
    before = TINY.load(folder, tmp_path).encode(TEXTS).mean
    monkeypatch.setattr(h5py, "File", None)  # nobody opens it again
    np.testing.assert_array_equal(TINY.load(folder, tmp_path).encode(TEXTS).mean, before)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda w: w.pop("CNN_high_1/b_carry"), "wanted CNN_high_1/b_carry of shape"),
        (lambda w: w.update({"CNN_proj/b_proj": np.ones(3, np.float32)}), "wanted CNN_proj/b_proj"),
        (lambda w: w.update({"CNN_high_2/W_carry": w["CNN_high_1/W_carry"]}), "of shape none"),
        (lambda w: w.update({"note": np.array(b"text")}), "wanted arrays of numbers"),
        (lambda w: w["CNN_proj/b_proj"].put(1, np.nan), "wanted finite numbers"),
    ],
)
def test_weights_that_do_not_fit_the_options_are_refused(spoil, message, tmp_path):
    arrays = weights()
    spoil(arrays)
    with pytest.raises((DataError, ScoreError), match=message) as error:
        TINY.load(made(tmp_path / "spoilt", arrays), tmp_path).encode(TEXTS)
    assert "\n" not in str(error.value)


LSTM, CNN = OPTIONS["lstm"], OPTIONS["char_cnn"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lstm": {**LSTM, "use_skip_connections": False}}, "use_skip_connections"),
        ({"char_cnn": {**CNN, "activation": "tanh"}}, "activation = 'relu', found 'tanh'"),
        ({"char_cnn": {**CNN, "max_characters_per_token": 20}}, "max_characters_per_token"),
        ({"char_cnn": 3}, "wanted the options of an ELMo model"),
    ],
)
def test_options_of_another_model_are_refused(folder, change, message):
    (folder / "tiny_options.json").write_text(json.dumps({**OPTIONS, **change}))
    with pytest.raises(DataError, match=message):
        TINY.identify(folder)


def huge(file):
    with h5py.File(file, "a") as arrays:
        arrays.create_dataset("zeros", (2**34,), "f4", chunks=(2**16,))  # none is written


@pytest.mark.parametrize("spoil", [huge, lambda file: file.write_bytes(b"HDF")])
def test_a_damaged_file_and_one_that_unpacks_to_too_much_are_refused(spoil, folder, tmp_path):
    spoil(folder / "tiny_weights.hdf5")
    with pytest.raises(DataError, match=r"wanted (arrays|HDF5)") as error:
        TINY.load(folder, tmp_path)
    assert "\n" not in str(error.value)
    assert not list((tmp_path / "converted").glob("*.safetensors"))


def test_a_folder_holds_one_model_and_is_known_by_its_files(folder, tmp_path):
    assert isinstance(config_for("mine", str(folder), folder), ElmoConfig)
    (folder / "more_options.json").write_text("{}")
    with pytest.raises(DataError, match=r"wanted one file \*options.json .* found 2"):
        TINY.identify(folder)
    with pytest.raises(AssetMissing, match="found 0"):
        TINY.identify(tmp_path / "none")


def test_the_package_that_reads_the_weights_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError, match=r"h5py is not installed; .*\[elmo\]"):
        TINY.load(folder, tmp_path)
