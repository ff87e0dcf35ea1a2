"""What a search may choose from: every other value of every setting, each once."""

import json
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from harness.conclusions.found_protocols import Choice
from harness.core.interfaces import Encoding
from harness.core.types import Progress
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.evaluation import neighbours
from harness.evaluation.neighbours import (
    choices_of,
    encoded_pairs,
    pairs_of_choices,
    prompts_of_mteb,
)
from harness.evaluation.protocol import Model, Prompt, Protocol, Target
from harness.evaluation.run import fit_cell
from harness.evaluation.select import PlannedCell
from harness.interop.exported import write_model
from harness.registry import load_registry
from harness.resolve import resolve
from harness.results.verdict import Published
from harness.transforms.pooling import CLS, MAX, MEAN, POOLINGS

REGISTRY = load_registry()
TASK, DEV, OTHER = (
    REGISTRY.tasks[name] for name in ("mini-sts", "mini-sts.dev", "mini-sick")
)
DEPTH = 4  # of bert-mini
PROMPTS = {"asked": "query: ", "STS": "compare: "}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def native(tmp_path_factory, places):
    """bert-mini under modules of its own, with two prompts."""
    folder = tmp_path_factory.mktemp("native") / "made"
    cell = PlannedCell(REGISTRY.parse("bert-mini.mean"), TASK, 0)
    fitted = fit_cell(cell, TaskLoader(places, {}), Progress())
    write_model(cell, fitted, places, folder)
    settings = folder / "config_sentence_transformers.json"
    stated = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps({**stated, "prompts": PROMPTS}))
    known = resolve(places, [f"made={folder}"])
    return known.registry.parse("made.native"), known.places


def target(task=TASK, **settings):
    stated = {"similarity": "cosine", "correlation": "spearman", "aggregation": "all"}
    return Target(
        task.name, task, **(stated | settings), readings=(Published("50.00"),)
    )


STATED = target()


def choices(method, places, targets=(STATED,), depth=DEPTH):
    """The choices of a method, by setting."""
    model = Model.of(method, places)
    loader = TaskLoader(places, REGISTRY.corpora)
    return [*choices_of(model, targets, loader, REGISTRY, depth)]


def values(found, setting):
    return [choice.value for choice in found if choice.setting == setting]


def words(found, setting):
    return [choice.words for choice in found if choice.setting == setting]


# Laws


@pytest.mark.parametrize(
    "name",
    [
        "bert-mini.mean",
        "bert-mini.first-last+whitening:64@target",
        "bert-mini:16.cls+sn+natsv:3@target-train",
        "glove-mini.mean",
        "native",
    ],
)
def test_every_choice_makes_another_protocol_and_has_other_words(
    name, places, native, request
):
    del request
    method, where = native if name == "native" else (REGISTRY.parse(name), places)
    found = choices(method, where, [target(), target(DEV)])
    assert found
    # What a setting is of the model as it is stated.
    stated = replace(
        Protocol(Model(method)),
        pooling=method.pooling,
        post=method.post,
        fit_on=method.fit_on,
        similarity="cosine",
        correlation="spearman",
        aggregation="all",
    )
    made = [stated, *(stated.changed([choice]) for choice in found)]
    assert all(one != other for one, other in combinations(made, 2))
    said = [choice.words for choice in found]
    assert len(set(said)) == len(said)


def encoding(depth):
    """Random statistics of all layers of five sentences of 6 to 10 tokens."""
    random = np.random.default_rng(depth)
    layers = ("mean", "layer_cls", "layer_max", "layer_sep", "layer_weighted")
    of_layers = {
        name: random.normal(size=(5, depth + 1, 3)).astype(np.float32)
        for name in layers
    }
    return Encoding(
        tuple(range(depth + 1)),
        depth,
        **of_layers,
        cls=of_layers["layer_cls"][:, -1],
        pooler=random.normal(size=(5, 3)).astype(np.float32),
        lengths=np.arange(6, 11, dtype=np.float32)[:, None],
    )


@pytest.mark.parametrize("depth", [4, 12])
def test_poolings_are_all_that_there_are_and_each_gives_other_vectors(depth):
    states = encoding(depth)
    tried = neighbours._poolings(depth)
    vectors = {pooling.name: pooling(states) for pooling in tried}
    for one, other in combinations(vectors, 2):
        assert not np.allclose(vectors[one], vectors[other]), (one, other)
    wanted = [*POOLINGS, MAX]
    for statistic in ("mean", "layer_cls"):
        wanted += [
            lambda states, name=statistic, layer=layer: getattr(states, name)[:, layer]
            for layer in range(depth + 1)
        ]
    for pooling in wanted:
        given = pooling(states)
        assert any(np.allclose(given, each) for each in vectors.values())


def test_an_encoder_without_layers_has_no_other_pooling(places):
    found = choices(REGISTRY.parse("glove-mini.mean"), places, depth=0)
    assert {choice.setting for choice in found} == {
        "correlation",
        "similarity",
        "aggregation",
        "form",
    }


# The choices of a setting


def test_other_scores_leave_out_what_is_stated(places):
    method = REGISTRY.parse("bert-mini.mean")
    found = choices(method, places)
    assert words(found, "correlation") == ["Pearson for Spearman"]
    assert words(found, "similarity") == [
        "dot for cosine",
        "euclidean for cosine",
        "manhattan for cosine",
    ]
    assert words(found, "aggregation") == ["aggregation mean", "aggregation wmean"]
    # Where columns state several, each of them may be that of all.
    both = [
        target(),
        target(OTHER, similarity="dot", correlation="pearson", aggregation="mean"),
    ]
    found = choices(method, places, both)
    assert words(found, "correlation") == [
        "correlation spearman",
        "correlation pearson",
    ]
    assert len(values(found, "similarity")) == 4
    assert values(found, "aggregation") == ["all", "mean", "wmean"]
    # A number that holds as it is stated has no other score.
    fixed = replace(both[1], is_fixed=True)
    assert words(choices(method, places, [target(), fixed]), "correlation") == [
        "Pearson for Spearman"
    ]


def test_other_forms_of_the_data_come_before_poolings_and_train_last(places):
    found = choices(REGISTRY.parse("bert-mini.mean"), places)
    assert words(found, "form") == [
        "raw text, split dev (mini-sts.dev)",
        "raw text, split test+dev (mini-sts.test-dev)",
        "raw text, split train (mini-sts.train)",
    ]
    assert found[-1].value == "train"
    settings = [choice.setting for choice in found]
    assert settings.index("form") < settings.index("pooling")
    found = choices(
        REGISTRY.parse("bert-mini.mean"), places, [target(DEV), target(OTHER)]
    )
    # mini-sick alone is stated without a form, mini-sts alone with that of dev.
    assert words(found, "form") == [
        "the tasks of the form .test-dev",
        "the tasks of the form .train",
    ]


def test_poolings_are_named_beside_the_stated_one(places):
    found = choices(REGISTRY.parse("bert-mini.mean"), places)
    said = words(found, "pooling")
    assert said[0] == "pooling cls instead of mean"
    assert "pooling layer:0 instead of mean" in said
    assert all(each != MEAN for each in values(found, "pooling"))


def test_lengths_cut_what_the_stated_one_leaves_or_leave_what_it_cuts(places):
    loader = TaskLoader(places, REGISTRY.corpora)
    longest = max(map(len, loader.texts(TASK).sentences))
    lengths = lambda name: values(choices(REGISTRY.parse(name), places), "max_length")  # noqa: E731
    all_lengths = set(neighbours.LENGTHS)
    shorter = {length for length in all_lengths if length < longest}
    assert 64 in shorter
    assert len(shorter) < len(all_lengths)
    assert set(lengths("bert-mini.mean")) == shorter
    # Every length that cuts nothing gives the same vectors.
    assert set(lengths("bert-mini:16.mean")) == all_lengths - {16}
    assert set(lengths("bert-mini:120.mean")) == shorter
    assert lengths("glove-mini.mean") == []


def test_post_processors_are_left_out_ordered_and_fitted_otherwise(places):
    of = lambda name: choices(REGISTRY.parse(name), places)  # noqa: E731
    assert words(of("bert-mini.mean"), "post") == []
    assert words(of("bert-mini.mean"), "fit_on") == []
    found = of("bert-mini.mean+sn+whitening:64@target-train")
    assert words(found, "post") == [
        "no post-processing",
        "the order whitening:64+sn",
        "whitening instead of whitening:64",
        "whitening:128 instead of whitening:64",
        "whitening:256 instead of whitening:64",
        "whitening:384 instead of whitening:64",
        "whitening:512 instead of whitening:64",
    ]
    names = [[post.name for post in each] for each in values(found, "post")]
    assert names[:3] == [[], ["whitening:64", "sn"], ["sn", "whitening"]]
    assert values(found, "fit_on") == ["target", "target-splits"]
    found = of("bert-mini.mean+sn+natsv:3@target")
    assert words(found, "post") == [
        "no post-processing",
        "the order natsv:3+sn",
        "nulled in the first sentence of each pair alone",
    ]
    for name, said in (
        ("whitening", "whitening:64 instead of whitening"),
        ("natsv:3", "nulled in the first sentence of each pair alone"),
    ):
        of_one = of(f"bert-mini.mean+{name}@target")
        place = words(of_one, "post").index(said)
        assert len(values(of_one, "post")[place]) == 1
    last = [post.name for post in values(found, "post")[-1]]
    assert last == ["sn", "natsv-first:3"]


def test_prompts_and_halves_are_tried_of_a_model_under_its_modules_alone(
    places, native
):
    method, where = native
    found = choices(method, where)
    # "compare: " is what mteb puts before texts of this task.
    assert words(found, "prompt")[:3] == [
        "no prompt",
        "the prompt 'query: '",
        "the prompt 'passage: '",
    ]
    assert len(values(found, "prompt")) == 1 + len(neighbours.KNOWN_PROMPTS)
    assert values(found, "prompt")[1] == Prompt("asked", "query: ")
    assert words(found, "dtype") == ["bfloat16", "float16"]
    assert words(found, "rebuilds_tokenizer")
    assert words(found, "padded_to") == [
        f"the padding to {tokens} tokens in the mean" for tokens in (64, 128, 256, 512)
    ]
    assert values(found, "dimensions") == [1024, 768, 512, 384, 256, 128, 64, 32, 16]
    of_plain = choices(REGISTRY.parse("bert-mini.mean"), places)
    settings = {choice.setting for choice in of_plain}
    assert settings.isdisjoint(
        {"prompt", "dtype", "rebuilds_tokenizer", "padded_to", "dimensions"}
    )


def test_lengths_of_vectors_matter_to_other_similarities_than_the_cosine(native):
    method, where = native
    assert words(choices(method, where), "unit_length") == []
    for one in ([target(similarity="dot")], [target(), target(similarity="dot")]):
        assert words(choices(method, where, one), "unit_length") == [
            "normalised vectors"
        ]
    model = Model.of(method, where)
    loader = TaskLoader(where, REGISTRY.corpora)
    for is_normalised, pooling, wanted in (
        (True, "mean", [False]),
        (True, "", [True]),
        (False, "mean", [True]),
    ):
        modules = SimpleNamespace(is_normalised=is_normalised, equal_pooling=pooling)
        of_modules = SimpleNamespace(modules=modules, method=model.method)
        found = [
            *neighbours._choices_of_vectors(
                of_modules, [target(similarity="dot")], loader
            )
        ]
        assert values(found, "unit_length") == wanted


def test_first_pairs_are_fewer_than_the_largest_task_has(native):
    method, where = native
    count = len(TaskLoader(where, REGISTRY.corpora).texts(TASK).pairs)
    found = values(choices(method, where), "first_pairs")
    assert found == [first for first in (1000, 500, 100) if first < count]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "FIRST_PAIRS", (count, count - 1))
        found = choices(method, where, [target(), target(OTHER)])
        assert words(found, "first_pairs") == [f"the first {count - 1:,} pairs"]


# Two choices


def of_setting(setting, *names):
    return [Choice(setting, SimpleNamespace(name=name), name) for name in names]


def test_two_choices_are_of_two_settings_and_single_layers_are_not_among_them():
    poolings = of_setting(
        "pooling", "cls", "layer:0", "layer:3", "cls:2", "mean-without-cls"
    )
    [post], [length] = of_setting("post", "layer:3"), of_setting("max_length", "64")
    found = [*pairs_of_choices([*poolings, post, length])]
    assert [tuple(each.words for each in pair) for pair in found] == [
        ("cls", "layer:3"),
        ("cls", "64"),
        ("layer:0", "layer:3"),
        ("layer:0", "64"),
        ("layer:3", "64"),
    ]


def test_two_choices_are_encoded_for_if_both_are_frequent():
    model = SimpleNamespace(prompts={"own": "own: "})
    texts = ["", "own: ", *(prompt.text for prompt in neighbours.KNOWN_PROMPTS)]
    prompts = [Choice("prompt", Prompt("any", text), text) for text in texts]
    poolings = [Choice("pooling", each, each.name) for each in (CLS, MAX)]
    length = Choice("max_length", 64, "64")
    form = Choice("form", "dev", "dev")
    found = [*encoded_pairs(model, [form, *prompts, *poolings, length])]
    frequent = ["", "own: ", "query: ", "passage: "]
    assert [tuple(each.words for each in pair) for pair in found] == [
        *((text, "cls") for text in frequent),
        ("64", "cls"),
        *((text, "64") for text in frequent),
    ]


# mteb


@pytest.mark.parametrize(
    ("repository", "folder", "count"),
    [("someone/made", "elsewhere", 2), ("", "made", 2), ("other/made", "elsewhere", 0)],
)
def test_mtebs_prompts_are_those_of_the_repository_or_of_the_folders_name(
    monkeypatch, repository, folder, count
):
    registry = pytest.importorskip("mteb.models.model_implementations").MODEL_REGISTRY
    stated = {"STS": "compare: ", "a b/c": "other: "}
    meta = SimpleNamespace(loader_kwargs={"model_prompts": stated})
    monkeypatch.setitem(registry, "someone/made", meta)
    config = SimpleNamespace(source=SimpleNamespace(repo=repository))
    model = Model(SimpleNamespace(encoder=config))
    places = SimpleNamespace(encoder=lambda _: SimpleNamespace(name=folder))
    found = [*prompts_of_mteb(model, places)]
    assert [choice.value for choice in found] == [
        Prompt("mteb-STS", "compare: "),
        Prompt("mteb-a-b-c", "other: "),
    ][:count]
    assert [choice.words for choice in found] == [
        "mteb's prompt STS ('compare: ')",
        "mteb's prompt a b/c ('other: ')",
    ][:count]
