"""A sentence is encoded once: for all maximum lengths that do not cut it, and all poolings."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import library
from safetensors.numpy import load_file
from tolerances import ROUNDING, relative_gap

from harness.core.hardware import Hardware
from harness.core.types import Method
from harness.data.places import Places
from harness.encoders.transformer import ScriptConfig, TransformerConfig
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.plan import make_plan
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.registry import load_registry
from harness.results.store import Store
from harness.transforms.pooling import (
    CLS,
    MAX,
    MEAN,
    MEAN_WITHOUT_SEP,
    MEAN_WITHOUT_SPECIAL,
)

TINY = TransformerConfig("tiny", "")
SHORT, LONG = TINY.with_max_length(8), TINY.with_max_length(20)
# Of 3, 7, 8, 9, 15 and 24 tokens, special ones included.
TEXTS = ("cat", "the cat sat on mat", "the cat sat on the mat", "a b c d e f g",
         "cat " * 13, "dog " * 22)  # fmt: skip


def opened(folder, cache, config):
    return CachedEncoder.open(config, Places(cache, encoders={"tiny": folder}))


def encoded_texts(cache):
    """How many texts stand in all shards of a cache."""
    return sum(len(load_file(path)["keys"]) for path in cache.rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("first", "then", "again"),
    # 8 tokens were not cut at 20, but may have been at 8.
    [(LONG, SHORT, 3), (SHORT, LONG, 4)],
)
def test_what_no_length_cuts_is_encoded_once(checkpoint, tmp_path, first, then, again):
    folder = checkpoint("bert")
    for _ in opened(folder, tmp_path, first).encode(TEXTS):
        pass
    encoder = opened(folder, tmp_path, then)
    assert len(encoder.cache.missing(TEXTS)) == again
    shared = [encoder.pooled(pooling, TEXTS).matrix for pooling in (MEAN, CLS)]
    assert encoded_texts(tmp_path) == len(TEXTS) + again
    assert opened(folder, tmp_path, then).cache.missing(TEXTS) == []
    alone = opened(folder, tmp_path / "alone", then)
    for rows, pooling in zip(shared, (MEAN, CLS), strict=True):
        assert relative_gap(alone.pooled(pooling, TEXTS).matrix, rows) <= ROUNDING
    assert encoder.cache.cost(TEXTS).sentences == len(TEXTS)


def test_other_encoders_share_nothing(checkpoint, tmp_path):
    """Another precision, pass, tokenizer or model, nor vectors of modules."""
    folder = checkpoint("bert")
    for _ in opened(folder, tmp_path, LONG).encode(TEXTS):
        pass
    for config in (
        SHORT.on(Hardware(dtype="bfloat16")),
        replace(SHORT, tokenizer="rebuilt"),
        ScriptConfig("tiny:8", "", max_length=8, padded_to=8),
        ScriptConfig("tiny:8", "", max_length=8, prompt="query: "),
    ):
        made = opened(folder, tmp_path, config)
        assert made.cache.missing(TEXTS) == list(TEXTS)
    assert opened(checkpoint("roberta"), tmp_path, SHORT).cache.missing(TEXTS)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_under_several_lengths_encodes_the_longest_first(
    checkpoint, tmp_path, jobs
):
    task = load_registry().tasks["mini-sts"]
    methods = [Method(config, MEAN) for config in (SHORT, LONG, TINY)]
    planned = planned_cells(methods, [task], seeds=1)
    loader = library(tmp_path)
    loader.places = replace(loader.places, encoders={"tiny": checkpoint("bert")})
    sentences = loader.texts(task).sentences
    tokenizer = TINY.load(checkpoint("bert"), tmp_path).tokenizer
    lengths = np.array([len(ids) for ids in tokenizer(sorted(sentences))])
    wanted = len(sentences) + (lengths > 20).sum() + (lengths > 8).sum()
    estimate = make_plan(planned, loader).sentences
    assert len(sentences) < estimate < 3 * len(sentences)
    context = RunContext(loader, Store(tmp_path / "runs"))
    outcomes = list(execute(planned, context, jobs))
    assert [outcome.status for outcome in outcomes] == ["measured"] * 3
    assert encoded_texts(loader.places.cache) == wanted
    assert make_plan(planned, loader).sentences == 0


def test_poolings_that_ask_for_more_cost_one_pass_and_others_nothing(
    checkpoint, tmp_path
):
    task = load_registry().tasks["mini-sts"]
    loader = library(tmp_path)
    loader.places = replace(loader.places, encoders={"tiny": checkpoint("bert")})
    sentences = loader.texts(task).sentences

    def run(*poolings):
        methods = [Method(LONG, pooling) for pooling in poolings]
        planned = planned_cells(methods, [task], seeds=1)
        outcomes = execute(planned, RunContext(loader, Store(tmp_path / "runs")))
        assert {outcome.status for outcome in outcomes} <= {"measured", "done"}
        return encoded_texts(loader.places.cache)

    assert run(MEAN) == len(sentences)
    [shard, *_] = loader.places.cache.rglob("*.safetensors")
    assert not any(name.startswith(("max.", "sep.")) for name in load_file(shard))
    both = (MEAN, MAX, MEAN_WITHOUT_SPECIAL.with_argument("1"))
    assert run(*both) == 2 * len(sentences)
    assert run(*both, MAX.with_argument("0"), MEAN_WITHOUT_SEP) == 2 * len(sentences)
