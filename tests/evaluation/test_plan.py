"""The plan of a run: sentences left at the rate of their encoder, and counts of all other work."""

from dataclasses import replace

import pytest
from fakes import OTHER, TOY, FakeConfig, corpus, library, method, numbered

from harness.core.types import Method, Record
from harness.evaluation.plan import make_plan, measured_rates, render_plan
from harness.evaluation.runner import RunContext, execute
from harness.results.index import Results
from harness.results.records import Store, cells
from harness.tasks.loader import limited_corpus
from harness.transforms.pooling import CLS, MEAN

RATES = {"fake": 100.0}
FAR = replace(corpus("far", numbered(300, 50)), count=1_000_000)
ON_FAR = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")


def text(plan):
    return " ".join(render_plan(plan).split())


def test_the_rate_of_an_encoder_is_the_median_of_its_records():
    records = [
        Record(1, f"{name}.mean", "", "toy", 0, {}, 4, {}, {}, {}, {"sentences_per_second": rate})
        for name, rate in (("a", 1.0), ("a", 5.0), ("a", 2.0), ("b", None))
    ]
    assert measured_rates(Results({("m", "t"): records})) == {"a": 2.0}


def test_a_plan_times_sentences_and_counts_what_else_is_left(tmp_path):
    texts, runs = library(tmp_path), Store(tmp_path / "runs")
    posts = [method("mean", "stretch", on="target"), method("mean", "centre", on="target")]
    planned = cells([*posts, method("mean")], [TOY], seeds=2)
    made = make_plan(planned, texts, runs, RATES)
    [entry] = made.encoders
    sentences = {t for split in TOY.splits for t in TOY.load(tmp_path, split).sentences}
    assert entry.to_encode == entry.sentences == len(sentences)
    assert entry.seconds == round(len(sentences) / 100, 1)
    assert (entry.measured, entry.fits, entry.scorings) == (0, 3, 4)
    assert "4 of 4 cells can run here; encoding takes about 1 s; not timed are" in text(made)
    assert "not timed are 3 fits, 4 scorings." in text(made)

    list(execute(planned[:2], RunContext(texts, runs)))
    made = make_plan(planned, texts, runs, RATES)
    [entry] = made.encoders
    assert (entry.measured, entry.to_encode, entry.seconds) == (2, 0, 0)
    assert entry.rate != RATES["fake"]  # that of the cache
    assert "2 of them are measured already; encoding takes about 0 s" in text(made)
    assert "not timed are 1 fit, 2 scorings." in text(made)
    changed = [replace(one, method=replace(one.method, pooling=CLS)) for one in planned]
    assert make_plan(changed, texts, runs, RATES).encoders[0].measured == 0


def test_a_pass_over_a_corpus_is_left_until_its_file_is_made(tmp_path):
    texts, planned = library(tmp_path, FAR), cells([ON_FAR], [TOY, OTHER], seeds=1)
    [before] = make_plan(planned, texts, None, RATES).encoders
    assert before.to_encode == before.sentences + FAR.count
    assert before.seconds > FAR.count / 100
    list(execute(planned[:1], RunContext(texts, Store(tmp_path / "runs"))))
    [after] = make_plan(planned, texts, None, RATES).encoders
    assert after.to_encode < after.sentences
    stretch = method("mean", "stretch", on="target").post
    for fitted_on_other_files in (replace(ON_FAR, pooling=CLS), replace(ON_FAR, post=stretch)):
        [again] = make_plan(cells([fitted_on_other_files], [TOY], 1), texts).encoders
        assert again.to_encode == FAR.count
    few = limited_corpus(FAR, 20)
    texts = library(tmp_path, few)
    texts.corpora = {"far": few}
    assert make_plan(planned[:1], texts).encoders[0].to_encode == 20


@pytest.mark.parametrize(
    ("count", "rates", "to_encode"), [(None, RATES, "unknown"), (1_000_000, {}, "1,000,045")]
)
def test_a_time_that_cannot_be_known_is_said_to_be_unknown(tmp_path, count, rates, to_encode):
    texts = library(tmp_path, replace(FAR, count=count))
    made = make_plan(cells([ON_FAR], [TOY], 1), texts, None, rates)
    assert made.encoders[0].seconds is None
    assert f"0 of 45 {to_encode} unknown" in text(made)
    assert "encoding takes an unknown time for fake;" in text(made)
