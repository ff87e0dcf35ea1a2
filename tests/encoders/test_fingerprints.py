"""A checkpoint is known by its tensors, settings and tokens, in whatever files they are."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_models
import torch
from refusals import refused
from safetensors.torch import load_file, save_file

from baselines.bert import BERT_BASE, BERT_LARGE
from baselines.miniature import BERT_MINI
from baselines.minilm import MINILM
from baselines.tuned import SIMCSE_SUP_MINI
from harness.core.errors import AssetMissing, DataError
from harness.data.places import Places, packaged
from harness.encoders.fingerprints import Architecture, Pin, present_names
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry

TINY = TransformerConfig("tiny", "none")
NOT_PINNED = "not the pinned weights of tiny"


@pytest.fixture
def bert(checkpoint, tmp_path):
    """A tiny BERT to change."""
    return Path(shutil.copytree(checkpoint("bert"), tmp_path / "bert"))


def fingerprint(folder, config=TINY):
    digests = config.identify(folder).digests
    return config.fingerprint(folder, digests, folder.parent / "cache")


def pinned(folder):
    return Pin(**fingerprint(folder))


def change_tensors(folder, changed):
    file = folder / "model.safetensors"
    save_file({**changed(load_file(file))}, file)


# The same checkpoint in other files


def with_prefix_and_heads(folder):
    """As BertForPreTraining is saved: the model's name before each tensor, and its heads."""

    def changed(tensors):
        named = {f"bert.{name}": tensors[name] for name in tensors}
        named["bert.embeddings.position_ids"] = torch.arange(40)[None]
        named["cls.predictions.bias"] = torch.ones(3)
        return named

    change_tensors(folder, changed)


def with_names_of_2018(folder):
    def old(name):
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        return f"bert.{name.replace('LayerNorm.bias', 'LayerNorm.beta')}"

    change_tensors(folder, lambda tensors: {old(k): v for k, v in tensors.items()})


def pickled(folder):
    file = folder / "model.safetensors"
    torch.save(load_file(file), folder / "pytorch_model.bin")
    file.unlink()


def in_shards(folder):
    file = folder / "model.safetensors"
    tensors = load_file(file)
    file.unlink()
    places = {}
    for number, part in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2])):
        shard = f"model-0000{number + 1}-of-00002.safetensors"
        save_file({name: tensors[name] for name in part}, folder / shard)
        places |= dict.fromkeys(part, shard)
    index = json.dumps({"weight_map": places})
    (folder / "model.safetensors.index.json").write_text(index)


def with_an_old_config(folder):
    """Without settings that are at their defaults, and with some of an older program."""
    file = folder / "config.json"
    settings = json.loads(file.read_text())
    for name in ("hidden_act", "layer_norm_eps", "dtype", "transformers_version"):
        del settings[name]
    settings |= {"directionality": "bidi", "gradient_checkpointing": False}
    file.write_text(json.dumps(settings))


def with_a_vocabulary_alone(folder):
    tokens = tiny_models.pieces(*tiny_models.BERT)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens))


@pytest.mark.parametrize(
    "convert",
    [
        with_prefix_and_heads,
        with_names_of_2018,
        pickled,
        in_shards,
        with_an_old_config,
        with_a_vocabulary_alone,
    ],
)
def test_a_conversion_is_the_same_checkpoint(bert, convert):
    pin = pinned(bert)
    convert(bert)
    assert pin == pinned(bert)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_numbers_of_16_bits_are_the_same_in_32(bert, dtype):
    change_tensors(bert, lambda t: {k: v.to(dtype) for k, v in t.items()})
    pin = pinned(bert)
    assert pin == pinned(in_single_precision(bert))


def test_a_copy_without_pooler_is_of_the_same_encoder(bert):
    pin = pinned(bert)
    change_tensors(
        bert, lambda t: {k: v for k, v in t.items() if not k.startswith("pooler.")}
    )
    assert "pooler" not in fingerprint(bert)
    assert pin.difference("tiny", "a file", fingerprint(bert)) == ""
    assert pin.knows_weights("a file", fingerprint(bert))


# Other checkpoints


def in_half_precision(folder):
    change_tensors(folder, lambda t: {k: v.half() for k, v in t.items()})


def in_single_precision(folder):
    change_tensors(folder, lambda t: {k: v.float() for k, v in t.items()})
    return folder


def tuned(folder):
    name = "encoder.layer.1.output.dense.bias"
    change_tensors(folder, lambda t: {**t, name: t[name] + 1e-6})


def with_another_pooler(folder):
    change_tensors(folder, lambda t: {**t, "pooler.dense.bias": torch.ones(32)})


def with_silu(folder):
    edit_json(folder / "config.json", hidden_act="silu")


def without_normaliser(folder):
    edit_json(folder / "tokenizer.json", normalizer=None)
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    settings.pop("do_lower_case", None)  # which contradicts it
    file.write_text(json.dumps(settings))


def with_another_vocabulary(folder):
    words = tiny_models.WORDS
    tiny_models.hf.BertTokenizer(
        vocab=tiny_models.numbered(
            *tiny_models.pieces(*tiny_models.BERT).keys() - {words[1], words[2]},
            words[2],
            words[1],
        )
    ).save_pretrained(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (in_half_precision, NOT_PINNED),
        (tuned, NOT_PINNED),
        (with_another_pooler, NOT_PINNED),
        (with_silu, f'{NOT_PINNED} under its settings (hidden_act="silu")'),
        (without_normaliser, f"{NOT_PINNED} with its tokenizer"),
        (with_another_vocabulary, f"{NOT_PINNED} with its tokenizer"),
    ],
)
def test_another_checkpoint_is_named(bert, change, words):
    pin = pinned(bert)
    change(bert)
    assert pin.difference("tiny", "a file", fingerprint(bert)) == words


def test_a_file_with_a_published_digest_is_the_reference_itself(bert):
    pin = replace(pinned(bert), files=("published",), tensors="of another conversion")
    found = fingerprint(bert)
    assert pin.difference("tiny", "published", found) == ""
    assert "please report it" in pin.contradiction("tiny", "published", found)
    assert pin.contradiction("tiny", "another", found) == ""
    assert pinned(bert).contradiction("tiny", "published", found) == ""


def test_what_is_not_known_is_no_difference():
    assert (
        Pin().difference("tiny", "a file", {"tensors": "1", "settings": "bert"}) == ""
    )
    assert BERT_BASE.pin.difference("bert-base", "a file", {}) == ""
    assert BERT_BASE.pin.knows_weights("a file", {}) is None
    assert BERT_LARGE.pin.knows_weights("a file", {"tensors": "1"}) is None


def test_only_a_prefix_of_all_names_is_left_out():
    assert present_names(["encoder.a", "embeddings.a"]).keys() == {
        "encoder.a",
        "embeddings.a",
    }
    assert present_names(["bert.encoder.a", "lm_head.bias"]) == {
        "encoder.a": "bert.encoder.a"
    }


# Registered encoders


def test_a_folder_of_another_architecture_is_refused(bert):
    for config in load_registry().encoders.values():
        if getattr(config, "architecture", None) is not None:
            with refused(DataError, f"{config.name}:16: wanted a .* of its own"):
                config.with_max_length(16).identify(bert)


def test_architectures_have_the_size_of_their_downloads():
    """In 32 bits or 16; DiffCSE's files hold a generator and a discriminator, too."""
    for config in load_registry().encoders.values():
        size = getattr(config, "architecture", None)
        download = getattr(config, "download_size", None)
        if size is not None and download is not None:
            embeddings = (size.vocabulary + 512) * size.width
            parameters = embeddings + 12 * size.layers * size.width**2
            share = 4 * parameters / download
            wholes = [abs(share / whole - 1) < 0.1 for whole in (1, 2, 1 / 3)]
            assert any(wholes), (config.name, share)


def test_what_a_config_leaves_unsaid_is_no_other_architecture(bert):
    architecture = Architecture(
        "bert", 3, 32, 2, len(tiny_models.pieces(*tiny_models.BERT))
    )
    config = replace(TINY, architecture=architecture)
    key = config.identify(bert).key
    assert key == TINY.identify(bert).key
    file = bert / "config.json"
    settings = json.loads(file.read_text())
    del settings["num_attention_heads"]
    file.write_text(json.dumps(settings))
    assert config.identify(bert)


@pytest.mark.parametrize("config", [BERT_MINI, SIMCSE_SUP_MINI, MINILM])
def test_the_pins_of_encoders_in_packages_are_those_of_their_files(config, tmp_path):
    folder = packaged(config)
    if folder is None:
        pytest.skip(f"{config.name} is not installed")
    digests = config.identify(folder).digests
    assert Pin(**config.fingerprint(folder, digests, tmp_path)) == config.pin


def test_a_conversion_of_pinned_weights_has_their_name(tmp_path):
    folder = Path(shutil.copytree(packaged(BERT_MINI), tmp_path / "mini"))
    change_tensors(
        folder, lambda t: {k.removeprefix("bert."): t[k] for k in t if k[:4] == "bert"}
    )
    assert BERT_MINI.identify(folder)
    assert BERT_MINI.identify(in_single_precision(folder))
    tuned(folder)
    with pytest.raises(DataError, match=r"has sha256 \w+, wanted .*a name of its own"):
        BERT_MINI.identify(folder)


def test_bert_base_is_known_by_its_tensors(tmp_path):
    try:
        folder = Places.from_environment(os.environ).encoder(BERT_BASE)
    except AssetMissing:
        pytest.skip("bert-base is not on this machine")
    digests = BERT_BASE.identify(folder).digests
    found = BERT_BASE.fingerprint(folder, digests, tmp_path)
    assert BERT_BASE.pin.difference("bert-base", digests["weights"], found) == ""
    assert BERT_BASE.pin.knows_weights("a conversion", found)
