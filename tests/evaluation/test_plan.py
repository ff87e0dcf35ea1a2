"""The plan of a run: what can run, what is measured, what is left and what is missing."""

from dataclasses import replace

import pytest
from fakes import NOT_HERE, OTHER, TOY, FakeConfig, corpus, library, method

from harness.core.types import Method
from harness.encoders.encodings import EncoderCache
from harness.evaluation.plan import make_plan, plan_text
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.results.store import Store
from harness.transforms.pooling import CLS, MEAN

FAR = replace(corpus("far", (("of the same length, " * 3),) * 50), count=1_000_000)
ON_FAR = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")


def text(plan):
    return " ".join(plan_text(plan).split())


def timed(texts):
    """The library, where sentences of another task were encoded, 1,000 letters in a second."""
    sentences = ["x" * 500, "y" * 500]
    config = FakeConfig()
    identity = texts.places.identify(config, texts.places.cache)
    cache = EncoderCache.open(texts.places.cache, identity.key)
    cache.add(
        sentences,
        config.load(texts.places.cache, texts.places.cache).encode(sentences),
        1.0,
    )
    return texts


def test_a_plan_times_sentences_and_counts_what_else_is_left(tmp_path):
    texts, runs = timed(library(tmp_path)), Store(tmp_path / "runs")
    posts = [
        method("mean", "stretch", on="target"),
        method("mean", "centre", on="target"),
    ]
    planned = planned_cells([*posts, method("mean")], [TOY], seeds=2)
    plan = make_plan(planned, texts, runs)
    sentences = {t for split in TOY.splits for t in TOY.load(tmp_path, split).sentences}
    assert plan.sentences == len(sentences)
    assert plan.seconds == pytest.approx(sum(map(len, sentences)) / 1000)
    assert text(plan) == (
        f"4 of 4 cells can run here. {len(sentences)} sentences to encode (about 2 s), "
        "then 3 fits and 4 scores."
    )
    list(execute(planned[:2], RunContext(texts, runs)))
    assert text(make_plan(planned, texts, runs)) == (
        "4 of 4 cells can run here; 2 are already measured. 1 fit and 2 scores."
    )
    list(execute(planned, RunContext(texts, runs)))
    assert text(make_plan(planned[:1], texts, runs)) == (
        "1 of 1 cell can run here; 1 is already measured."
    )
    changed = [replace(one, method=replace(one.method, pooling=CLS)) for one in planned]
    assert make_plan(changed, texts, runs).measured == 0


def test_a_pass_over_a_corpus_is_left_until_it_is_made(tmp_path):
    texts = library(tmp_path, FAR)
    planned = planned_cells([ON_FAR], [TOY, OTHER], seeds=1)
    plan = make_plan(planned, texts)
    assert plan.sentences > FAR.count
    assert plan.seconds is None
    assert "1,000,045 sentences to encode (speed not known yet), then" in text(
        make_plan(planned[:1], texts)
    )
    list(execute(planned[:1], RunContext(texts, Store(tmp_path / "runs"))))
    assert make_plan(planned, texts).sentences < 100


def test_what_is_missing_is_named_with_what_gets_it(tmp_path):
    planned = planned_cells([method("mean")], [TOY, NOT_HERE], seeds=1)
    plan = make_plan(planned, library(tmp_path))
    assert (plan.cells, plan.runnable, list(plan.missing)) == (2, 1, ["sts-raw"])
    assert plan.missing["sts-raw"].get == "harness fetch sts-raw"
