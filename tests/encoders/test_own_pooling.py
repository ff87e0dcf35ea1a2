"""The pooling that an encoder's files ask for, as sentence-transformers reads them."""

import json

import pytest

from harness.encoders.modules import own_pooling

SWITCHES = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
QUERY = {"query": "query: "}


def switch(*on):
    return {"word_embedding_dimension": 4, **{f"pooling_mode_{s}": s in on for s in SWITCHES}}


MEAN = switch("mean_tokens")
PROMPTS, LOWER = "config_sentence_transformers.json", "sentence_bert_config.json"
POOLED = ("Transformer", "Pooling")
# The modules, the settings of the pooling, another file, and the pooling that they ask for.
CASES = {
    "no modules": ((), MEAN, {}, "mean"),
    "the mean": (POOLED, MEAN, {}, "mean"),
    "the mean, normalised": ((*POOLED, "Normalize"), MEAN, {}, "mean"),
    "the summary token": (POOLED, switch("cls_token"), {}, "cls"),
    "the maximum": (POOLED, switch("max_tokens"), {}, "native"),
    "two modes": (POOLED, switch("cls_token", "mean_tokens"), {}, "native"),
    "no mode": (POOLED, switch(), {}, "mean"),
    "a newer folder": (POOLED, {"pooling_mode": "cls"}, {}, "cls"),
    "a newer folder's last token": (POOLED, {"pooling_mode": "lasttoken"}, {}, "native"),
    "a newer folder's two": (POOLED, {"pooling_mode": ["cls", "mean"]}, {}, "native"),
    "a dense layer": ((*POOLED, "Dense"), MEAN, {}, "native"),
    "lower case": (POOLED, MEAN, {LOWER: {"do_lower_case": True}}, "native"),
    "a prompt": (
        POOLED, MEAN, {PROMPTS: {"prompts": QUERY, "default_prompt_name": "query"}}, "native",
    ),
    "an empty prompt": (
        POOLED, MEAN, {PROMPTS: {"prompts": {"none": ""}, "default_prompt_name": "none"}}, "mean",
    ),
    "a prompt that is not the default": (
        POOLED, MEAN, {PROMPTS: {"prompts": QUERY, "default_prompt_name": None}}, "mean",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kinds", "pooling", "files", "wanted"), CASES.values(), ids=CASES)
def test_the_pooling_is_read_from_the_files(kinds, pooling, files, wanted, tmp_path):
    places = [f"{number}_{kind}" if number else "" for number, kind in enumerate(kinds)]
    types = [f"sentence_transformers.models.{kind}" for kind in kinds]
    modules = [{"path": place, "type": type_} for place, type_ in zip(places, types, strict=True)]
    files = {"config.json": {"model_type": "bert"}, **files}
    files |= {"modules.json": modules, "1_Pooling/config.json": pooling} if kinds else {}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(content))
    assert own_pooling(tmp_path) == wanted


def test_a_file_of_vectors_is_averaged(tmp_path):
    (tmp_path / "vectors.txt").touch()
    assert own_pooling(tmp_path / "vectors.txt") == "mean"
