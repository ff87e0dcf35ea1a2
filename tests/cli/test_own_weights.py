"""What a run says first of a folder that is given for an encoder."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from baselines.miniature import BERT_MINI
from harness.cli.run import sentences_on_encoders
from harness.data.places import Places, packaged
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.select import planned_cells
from harness.registry import load_registry

MINE = TransformerConfig("mine", "my-folder")
REGISTRY = load_registry().with_encoders([MINE])


@pytest.fixture
def said(tmp_path):
    """The sentences on bert-mini's folder as the files of an encoder, after a change of it."""
    folder = Path(shutil.copytree(packaged(BERT_MINI), tmp_path / "folder"))

    def sentences(name, **settings):
        edit_json(folder / "config.json", **settings)
        cells = planned_cells(
            [REGISTRY.parse(f"{name}:64.mean")], [REGISTRY.tasks["mini-sts"]], 1
        )
        places = Places(tmp_path / "cache", encoders={name: folder})
        return [*sentences_on_encoders(cells, REGISTRY, places)]

    return sentences


def test_its_own_checkpoint_needs_no_word_and_another_is_named(said):
    assert said("bert-mini") == []
    [sentence] = said("bert-mini", hidden_act="silu")
    assert sentence == (
        "bert-mini: not the pinned weights of bert-mini under its settings "
        '(hidden_act="silu")'
    )


def test_a_registered_checkpoint_under_another_name_is_told(said):
    [sentence] = said("mine")
    assert sentence.startswith("mine has the weights of bert-mini: ")
    assert said("mine", hidden_act="silu") == []


def test_a_file_with_a_published_digest_and_other_tensors_is_told(said, monkeypatch):
    pin = replace(
        BERT_MINI.pin, files=(BERT_MINI.weights_sha256,), tensors="of a conversion"
    )
    other = replace(BERT_MINI, pin=pin)
    encoders = {**REGISTRY.encoders, "bert-mini": other}
    monkeypatch.setattr(
        f"{__name__}.REGISTRY", replace(REGISTRY, encoders=encoders, methods={})
    )
    [sentence] = said("bert-mini")
    assert "published for it, but its tensors have the digest" in sentence
