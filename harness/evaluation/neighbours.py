"""The neighbours of a protocol: what else each of its settings may have been.

`choices_of` lists the other values of every setting, the cheapest and likeliest first,
`pairs_of_choices` two of them at a time. Never are three changed: among so many
combinations some give any number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from typing import Any

from harness.conclusions.found_protocols import Choice
from harness.core.hardware import HALVES
from harness.core.interfaces import Pooling
from harness.core.metrics.correlation import CORRELATIONS, COSINE, SIMILARITIES
from harness.core.types import AGGREGATIONS, Method, Task
from harness.data.places import Places
from harness.data.tasks.loader import TARGETS, TaskLoader
from harness.evaluation.protocol import Model, Prompt, Target, forms_of
from harness.registry import Registry
from harness.transforms.pooling import (
    CLS,
    LAYER,
    MIX,
    ON_REQUEST,
    POOLINGS,
    statistics_of,
)

# Prompts of public models: E5's, which most models with prompts have, BGE's, and those of
# models that have one for each task.
KNOWN_PROMPTS = (
    Prompt("tried-query", "query: "),
    Prompt("tried-passage", "passage: "),
    Prompt(
        "tried-bge-query", "Represent this sentence for searching relevant passages: "
    ),
    Prompt("tried-represent", "Represent this sentence: "),
    Prompt("tried-search-query", "search_query: "),
    Prompt("tried-search-document", "search_document: "),
    Prompt("tried-classification", "classification: "),
    Prompt("tried-clustering", "clustering: "),
    Prompt("tried-instruct", "Instruct: Retrieve semantically similar text.\nQuery: "),
)
FREQUENT_PROMPTS = 2  # of these, which are combined with other choices

# In tokens: defaults of libraries, papers and programs, the most frequent ones first.
LENGTHS = (512, 256, 128, 64, 384, 32, 50, 100, 25, 16, 8)
# Dimensions that whitening keeps in papers.
WHITENED_DIMENSIONS = (64, 128, 256, 384, 512)
# Dimensions that Matryoshka models are trained for, and halves of usual ones.
DIMENSIONS = (1024, 768, 512, 384, 256, 128, 64, 32, 16)
FIRST_PAIRS = (1000, 500, 100)  # of a script that was tried on a part of the data
PADDED_LENGTHS = (64, 128, 256, 512)  # in tokens, of programs that pad every text

Choices = tuple[Choice, ...]


def choices_of(
    model: Model,
    targets: Sequence[Target],
    loader: TaskLoader,
    registry: Registry,
    depth: int,
) -> Iterator[Choice]:
    """Every other value of every setting, the cheapest and likeliest first.

    Prompts, precisions, dimensions, normalised vectors and parts of the data are tried of
    a model under its own modules alone: no paper's row has them.

    Args:
        model: The model as it is stated.
        targets: The numbers.
        loader: Reads their tasks.
        registry: The tasks and post-processors.
        depth: The last layer of the encoder; 0 for one without hidden states.
    """
    yield from choices_of_scores(targets)
    forms = [*_choices_of_forms(targets, registry)]
    yield from (choice for choice in forms if "train" not in choice.value)
    if model.modules is not None:
        yield from _choices_of_vectors(model, targets, loader)
    stated = model.method.pooling
    for pooling in _poolings(depth):
        if pooling != stated:
            words = f"pooling {pooling.name} instead of {stated.name}"
            yield Choice("pooling", pooling, words)
    if model.modules is not None:
        yield from _choices_of_prompts(model, targets)
    yield from _choices_of_lengths(model, targets, loader)
    if model.modules is not None and model.transformer is not None:
        for dtype in HALVES:
            yield Choice("dtype", dtype, dtype)
        words = "the tokenizer as transformers 5 rebuilds it"
        yield Choice("rebuilds_tokenizer", True, words)
        for tokens in PADDED_LENGTHS:
            words = f"the padding to {tokens} tokens in the mean"
            yield Choice("padded_to", tokens, words)
    if model.method.post:
        yield from _choices_of_post(model.method, registry)
    yield from (choice for choice in forms if "train" in choice.value)


def choices_of_scores(targets: Sequence[Target]) -> Iterator[Choice]:
    """Other scores of the same vectors."""
    free = [target for target in targets if not target.is_fixed]
    for setting, values in (
        ("correlation", CORRELATIONS),
        ("similarity", (COSINE, *SIMILARITIES)),
        ("aggregation", AGGREGATIONS),
    ):
        stated = {getattr(target, setting) for target in free}
        for value in values:
            words = f"{setting} {value}"
            if len(stated) == 1 and setting != "aggregation":
                [other] = stated
                words = f"{value} for {other}"
                if setting == "correlation":
                    words = f"{value.capitalize()} for {other.capitalize()}"
            if {value} != stated:
                yield Choice(setting, value, words)


def _choices_of_forms(
    targets: Sequence[Target], registry: Registry
) -> Iterator[Choice]:
    """The forms in which the data sets of the targets exist, without those that are stated."""
    forms: dict[str, list[Task]] = {}
    for target in targets:
        for form, task in forms_of(target.task, registry).items():
            if task not in forms.setdefault(form, []):
                forms[form].append(task)
    stated = {target.task.name.partition(".")[2] for target in targets}
    for form in sorted(forms.keys() - stated):
        words = f"the tasks of the form .{form}" if form else "the tasks without a form"
        if len({target.task.name for target in targets}) == 1:
            [task] = forms[form]
            words = f"{task.text} text, split {'+'.join(task.scored)} ({task.name})"
        yield Choice("form", form, words)


def _choices_of_vectors(
    model: Model, targets: Sequence[Target], loader: TaskLoader
) -> Iterator[Choice]:
    """Normalised vectors or not, their first dimensions, and the first pairs of the data."""
    # Cosines of vectors do not depend on their length.
    if any(target.similarity != COSINE for target in targets):
        modules = model.modules
        if modules and modules.is_normalised and modules.equal_pooling:
            yield Choice("unit_length", False, "vectors not normalised")
        else:
            yield Choice("unit_length", True, "normalised vectors")
    for count in DIMENSIONS:
        yield Choice("dimensions", count, f"the first {count} dimensions")
    most = max(len(loader.texts(target.task).pairs) for target in targets)
    for count in FIRST_PAIRS:
        if count < most:
            yield Choice("first_pairs", count, f"the first {count:,} pairs")


def _poolings(depth: int) -> list[Pooling]:
    """The poolings that are tried, each once: means, maxima and [CLS] of layers and mixtures."""
    if not depth:
        return []
    single: list[Any] = [LAYER, CLS]
    of_layers = [
        pooling.with_argument(str(layer))
        for pooling in single
        for layer in range(depth)
    ]
    poolings: list[Pooling] = [*POOLINGS, MIX, *of_layers, *ON_REQUEST]
    distinct: dict[Any, Pooling] = {}
    for pooling in poolings:
        # `layer:11` is `second-last` in an encoder of 12 layers.
        layers: Any = getattr(pooling, "layers", None) or (
            getattr(pooling, "layer", ""),
        )
        numbers = [n + depth + 1 if isinstance(n, int) and n < 0 else n for n in layers]
        is_plain = bool(getattr(pooling, "layers", None)) or "cls" in pooling.name
        kind = (
            (statistics_of(pooling), *numbers)
            if is_plain and numbers != [""]
            else pooling
        )
        distinct.setdefault(kind, pooling)
    return list(distinct.values())


def _choices_of_prompts(model: Model, targets: Sequence[Target]) -> Iterator[Choice]:
    """No prompt, those of the folder, and known ones, without the stated one."""
    stated = {model.prompt(target.task).text for target in targets}
    prompts = [model.known_prompt("", "tried-none")]
    prompts += [Prompt(name, text) for name, text in model.prompts.items()]
    if model.transformer is not None:
        prompts += [model.known_prompt(each.text, each.name) for each in KNOWN_PROMPTS]
    distinct: dict[str, Prompt] = {}
    for prompt in prompts:
        distinct.setdefault(prompt.text, prompt)
    for text, prompt in distinct.items():
        if {text} != stated:
            words = f"the prompt {text!r}" if text else "no prompt"
            yield Choice("prompt", prompt, words)


def prompts_of_mteb(model: Model, places: Places) -> Iterator[Choice]:
    """The prompts of mteb's implementation of a model; none without mteb.

    Importing mteb takes seconds.
    """
    config = model.method.encoder
    repository = getattr(config.source, "repo", "") or places.encoder(config).name
    try:
        from mteb.models.model_implementations import MODEL_REGISTRY
    except ImportError:
        return
    for name, implementation in MODEL_REGISTRY.items():
        if repository in (name, name.rpartition("/")[2]):
            prompts = implementation.loader_kwargs.get("model_prompts") or {}
            for title, text in prompts.items():
                word = re.sub(r"[^A-Za-z0-9_.-]+", "-", title)
                prompt = model.known_prompt(text, f"mteb-{word}")
                yield Choice("prompt", prompt, f"mteb's prompt {title} ({text!r})")


def _choices_of_lengths(
    model: Model, targets: Sequence[Target], loader: TaskLoader
) -> Iterator[Choice]:
    """Other maximum lengths that cut something of what the stated one leaves, or leave more.

    A token has a character at least, so that a length above the characters of the
    longest text cuts nothing.
    """
    transformer = model.transformer
    if transformer is None:
        return
    longest = max(
        len(sentence)
        for target in targets
        for sentence in loader.texts(target.task).sentences
    )
    encoder = model.method.encoder.member(0)
    path = loader.places.encoder(encoder)
    own_length = encoder.identify(path).max_length
    for length in LENGTHS:
        if own_length and min(length, longest) != min(own_length, longest):
            yield Choice("max_length", length, f"max length {length}")


def _choices_of_post(method: Method, registry: Registry) -> Iterator[Choice]:
    """No post-processors, other orders, dimensions of whitening, sides of NATSV and corpora."""
    yield Choice("post", (), "no post-processing")
    for order in permutations(method.post):
        if order != method.post:
            yield Choice("post", order, f"the order {'+'.join(p.name for p in order)}")
    names = [post.name for post in method.post]
    if names[-1].partition(":")[0] == "whitening":
        for name in ("whitening", *(f"whitening:{k}" for k in WHITENED_DIMENSIONS)):
            if name != names[-1]:
                post = (*method.post[:-1], *registry.parse_posts(name))
                yield Choice("post", post, f"{name} instead of {names[-1]}")
    if names[-1].startswith("natsv:"):
        # As in the program of BERT-flow's Table 5.
        forgetful = names[-1].replace("natsv:", "natsv-first:")
        post = (*method.post[:-1], *registry.parse_posts(forgetful))
        yield Choice("post", post, "nulled in the first sentence of each pair alone")
    for corpus in TARGETS:
        if corpus != method.fit_on:
            yield Choice("fit_on", corpus, f"the fit on {corpus}")


def pairs_of_choices(choices: Sequence[Choice]) -> Iterator[Choices]:
    """Two choices of different settings; single layers are not combined with anything."""
    singles = (":", "mean-without")
    few = [
        choice
        for choice in choices
        if choice.setting != "pooling"
        or not any(word in choice.value.name for word in singles)
        or choice.value.name == "layer:0"
    ]
    for first, second in combinations(few, 2):
        if first.setting != second.setting:
            yield first, second


# The settings that are tried two at a time even if texts are encoded for both.
PAIRS_OF_SETTINGS = (
    ("prompt", "pooling"),
    ("max_length", "pooling"),
    ("prompt", "max_length"),
)


def encoded_pairs(model: Model, choices: Sequence[Choice]) -> Iterator[Choices]:
    """Two choices that are encoded for: the frequent prompts, lengths and plain poolings."""
    frequent = [prompt.text for prompt in KNOWN_PROMPTS[:FREQUENT_PROMPTS]]
    frequent += ["", *model.prompts.values()]
    by_setting: dict[str, list[Choice]] = {}
    for choice in choices:
        value = choice.value
        is_rare = choice.setting == "prompt" and value.text not in frequent
        if not is_rare and (choice.setting != "pooling" or value in POOLINGS):
            by_setting.setdefault(choice.setting, []).append(choice)
    for first, second in PAIRS_OF_SETTINGS:
        yield from product(by_setting.get(first, ()), by_setting.get(second, ()))
