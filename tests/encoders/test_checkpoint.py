"""What other programs would apply in a folder is refused by name, however the folder is read."""

import json
import shutil
from pathlib import Path

import pytest
import tiny_models
from modular_models import saved
from refusals import refused
from tolerances import ROUNDING, encoding_gap, relative_gap

from harness.cli.train import open_training
from harness.core.errors import DataError
from harness.data.places import Places
from harness.encoders.checkpoint import LOADING_ARGUMENTS
from harness.encoders.modules import default_pooling, edit_json
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig
from harness.encoders.weights import read_tensors
from harness.evaluation.evaluate import encoder
from harness.training.recipes import SimcseUnsup

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library
PLAIN = TransformerConfig("m", "")
TEXTS = ("the cat sat on the mat", "Dog!", "", "the dog, the cat's mat 42 " * 6)
ADAPTER = {
    "peft_type": "LORA",
    "base_model_name_or_path": ".",
    "r": 4,
    "target_modules": ["query"],
}

# What is done to a folder, by what the line must name.
APPLIED_ELSEWHERE = {
    "adapter_config.json": ("adapter_config.json", ADAPTER),
    "quantization_config = ": ("config.json", {"quantization_config": {"bits": 4}}),
    "transformers_weights = ": ("config.json", {"transformers_weights": "other"}),
    "auto_map = ": ("config.json", {"auto_map": {"AutoModel": "a.B"}}),
}

READINGS = {
    "a pooling of its states": PLAIN.identify,
    "its own modules": NativeConfig(PLAIN).identify,
    "a start of training": read_tensors,
    "a function of a program": lambda f: encoder(f, places=Places(f / "cache")),
}


@pytest.fixture(scope="module")
def pristine(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("pristine"), "mean")


@pytest.fixture
def folder(pristine, tmp_path):
    return shutil.copytree(pristine, tmp_path / "model")


@pytest.mark.parametrize("named", APPLIED_ELSEWHERE)
def test_what_is_applied_elsewhere_is_refused_under_every_reading(named, folder):
    file, settings = APPLIED_ELSEWHERE[named]
    edit_json(folder / file, **settings)
    for reading, read in READINGS.items():
        with pytest.raises(DataError) as refusal:
            read(folder)
        assert named in str(refusal.value), reading


@pytest.mark.parametrize("setting", LOADING_ARGUMENTS)
def test_arguments_of_loading_are_refused(setting, folder):
    edit_json(folder / "sentence_bert_config.json", **{setting: {"subfolder": "x"}})
    with refused(DataError, setting):
        PLAIN.identify(folder)


def test_a_setting_that_says_nothing_is_read(folder):
    edit_json(folder / "sentence_bert_config.json", model_args={}, config_kwargs=None)
    edit_json(
        folder / "config.json", quantization_config=None, transformers_weights=None
    )
    for read in READINGS.values():
        read(folder)


def test_a_tokenizer_that_splits_at_random_is_refused(tmp_path):
    folder = tiny_models.make("gpt2", tmp_path / "m")
    content = json.loads((folder / "tokenizer.json").read_text())
    assert content["model"]["type"] == "BPE"
    content["model"]["dropout"] = 0.1
    (folder / "tokenizer.json").write_text(json.dumps(content))
    # GPT-2's own class makes the tokenizer anew, without dropout.
    edit_json(
        folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast"
    )
    with refused(DataError, r"dropout = 0\.1 splits a text at random"):
        PLAIN.load(folder, tmp_path)


# The transformer in a folder of its own


@pytest.fixture
def old_layout(folder):
    """A folder as sentence-transformers 1 wrote it."""
    inner = folder / "0_Transformer"
    inner.mkdir()
    for file in [file for file in folder.iterdir() if file.is_file()]:
        if file.name not in ("modules.json", "config_sentence_transformers.json"):
            file.rename(inner / file.name)
    entries = json.loads((folder / "modules.json").read_text())
    entries[0]["path"] = inner.name
    (folder / "modules.json").write_text(json.dumps(entries))
    return folder


def test_the_transformer_is_where_modules_json_says(old_layout, pristine, tmp_path):
    assert default_pooling(old_layout) == default_pooling(pristine) == "mean"
    for config in (PLAIN, NativeConfig(PLAIN), PLAIN.with_max_length(9)):
        old, new = (config.identify(folder) for folder in (old_layout, pristine))
        assert (old.digests, old.max_length) == (new.digests, new.max_length)
    found = PLAIN.load(old_layout, tmp_path).encode(TEXTS)
    assert encoding_gap(found, PLAIN.load(pristine, tmp_path).encode(TEXTS)) == 0
    for reading, read in READINGS.items():
        if reading != "a start of training":
            read(old_layout)
    native = NativeConfig(PLAIN).load(old_layout, tmp_path).encode(TEXTS)
    assert relative_gap(native.native, found.mean[:, -1]) <= ROUNDING
    recipe = SimcseUnsup(start=str(old_layout), corpus="mini-text", dev="none")
    training, _, _ = open_training(recipe, Places(Path()))
    assert training.encoder.folder == old_layout / "0_Transformer"
    assert training.encoder.tokenizer.name == "model"


def test_a_table_of_vectors_is_never_taken_for_a_transformer(tmp_path):
    folder = saved(tmp_path, "static")
    with refused(DataError, "wanted a transformer as its first module, found a Static"):
        PLAIN.identify(folder)
    assert default_pooling(folder) == "native"
