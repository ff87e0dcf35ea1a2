"""The pooling that an encoder's files ask for, as sentence-transformers reads them."""

import json

import pytest

from harness.assets.places import Places, packaged
from harness.core.errors import DataError
from harness.encoders.modules import own_pooling
from harness.registry import load_registry

MODULES = "sentence_transformers.models"
SWITCHES = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")


def model(folder, *kinds, pooling=None, files=None):
    """A folder with these modules; by default a transformer and the mean."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "bert"}')
    for name, content in (files or {}).items():
        (folder / name).write_text(json.dumps(content))
    if not kinds:
        return folder
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else "", "type": full(kind)}
        for n, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    for module in modules[1:]:
        (folder / module["path"]).mkdir()
        settings = (pooling or switch("mean_tokens")) if "Pooling" in module["type"] else {}
        (folder / module["path"] / "config.json").write_text(json.dumps(settings))
    return folder


def full(kind):
    return kind if "." in kind else f"{MODULES}.{kind}"


def switch(*on):
    return {"word_embedding_dimension": 4, **{f"pooling_mode_{s}": s in on for s in SWITCHES}}


POOLED = ("Transformer", "Pooling")
CASES = {
    "no modules": ((), {}, "mean"),
    "the mean": (POOLED, {}, "mean"),
    "the mean, normalised": ((*POOLED, "Normalize"), {}, "mean"),
    "the summary token": (POOLED, {"pooling": switch("cls_token")}, "cls"),
    "the maximum": (POOLED, {"pooling": switch("max_tokens")}, "native"),
    "two modes": (POOLED, {"pooling": switch("cls_token", "mean_tokens")}, "native"),
    "no mode": (POOLED, {"pooling": switch()}, "mean"),
    "a newer folder": (POOLED, {"pooling": {"pooling_mode": "cls"}}, "cls"),
    "a newer folder's last token": (POOLED, {"pooling": {"pooling_mode": "lasttoken"}}, "native"),
    "a newer folder's two": (POOLED, {"pooling": {"pooling_mode": ["cls", "mean"]}}, "native"),
    "a dense layer": ((*POOLED, "Dense"), {}, "native"),
    "lower case": (
        POOLED,
        {"files": {"sentence_bert_config.json": {"do_lower_case": True}}},
        "native",
    ),
    "a prompt": (
        POOLED,
        {"files": {"config_sentence_transformers.json": {
            "prompts": {"query": "query: "}, "default_prompt_name": "query"}}},
        "native",
    ),
    "an empty prompt": (
        POOLED,
        {"files": {"config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "none": ""}, "default_prompt_name": "none"}}},
        "mean",
    ),
    "a prompt that is not the default": (
        POOLED,
        {"files": {"config_sentence_transformers.json": {
            "prompts": {"query": "query: "}, "default_prompt_name": None}}},
        "mean",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_pooling_is_read_from_the_files(case, tmp_path):
    kinds, given, wanted = CASES[case]
    assert own_pooling(model(tmp_path / "model", *kinds, **given)) == wanted


def test_damaged_modules_are_refused(tmp_path):
    folder = model(tmp_path / "model", *POOLED)
    (folder / "modules.json").write_text('{"0": "Transformer"}')
    with pytest.raises(DataError, match=r"modules\.json: wanted type and path of each module"):
        own_pooling(folder)


def test_remote_code_is_refused_by_its_name(tmp_path):
    folder = model(tmp_path / "model", "custom.Transformer", "Pooling")
    with pytest.raises(DataError, match=r"found custom\.Transformer; take another pooling"):
        own_pooling(folder)


def test_a_file_of_vectors_is_averaged(tmp_path):
    (tmp_path / "vectors.txt").touch()
    assert own_pooling(tmp_path / "vectors.txt") == "mean"


@pytest.mark.parametrize("name", ["bert-mini", "glove-mini", "simcse-sup-mini"])
def test_what_is_carried_means_the_mean(name):
    config = load_registry().encoders[name]
    assert own_pooling(Places(packaged(config).parent).encoder(config)) == "mean"


@pytest.mark.weights
def test_minilm_means_the_mean(tmp_path):
    assert own_pooling(Places(tmp_path).encoder(load_registry().encoders["minilm"])) == "mean"
