"""The plan of a run: sentences left at the rate of their encoder, and counts of all other work."""

import re
import shlex
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, Stretch, corpus, library, method

from harness.cli.plan_text import plan_text, short_plan_text
from harness.core.types import Method
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.fit_corpus import FitCorpusSample
from harness.evaluation.fit_vectors import write_fit_corpus
from harness.evaluation.plan import EncoderPlan, MissingAsset, make_plan
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.results.store import Store
from harness.tasks.loader import limited_corpus
from harness.transforms.pooling import CLS, MEAN

LONG = (("of the same length, " * 10),) * 50
FAR = replace(corpus("far", LONG), count=1_000_000)
ON_FAR = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")


def count_letters(sentences):
    return sum(map(len, sentences))


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
    made = make_plan(planned, texts, runs)
    [entry] = made.encoders
    sentences = {t for split in TOY.splits for t in TOY.load(tmp_path, split).sentences}
    assert entry.to_encode == entry.sentences == len(sentences)
    assert entry.seconds == round(count_letters(sentences) / 1000, 1)
    assert (entry.measured, entry.fits, entry.scorings) == (0, 3, 4)
    assert "4 of 4 cells can run here; encoding takes about 2 s; not timed are" in text(
        made
    )
    assert "not timed are 3 fits, 4 scorings." in text(made)

    list(execute(planned[:2], RunContext(texts, runs)))
    made = make_plan(planned, texts, runs)
    [entry] = made.encoders
    assert (entry.measured, entry.to_encode, entry.seconds) == (2, 0, 0)
    assert "2 of them are measured already; encoding takes about 0 s" in text(made)
    assert "not timed are 1 fit, 2 scorings." in text(made)
    changed = [replace(one, method=replace(one.method, pooling=CLS)) for one in planned]
    assert make_plan(changed, texts, runs).encoders[0].measured == 0


def test_a_pass_over_a_corpus_is_left_until_its_file_is_made(tmp_path):
    texts, planned = (
        timed(library(tmp_path, FAR)),
        planned_cells([ON_FAR], [TOY, OTHER], seeds=1),
    )
    [before] = make_plan(planned, texts).encoders
    assert (before.to_encode, before.fits) == (before.sentences + FAR.count, 1)
    # Long sentences take longer than those of tasks.
    assert before.seconds == pytest.approx(FAR.count * len(LONG[0]) / 1000, rel=1e-3)
    list(execute(planned[:1], RunContext(texts, Store(tmp_path / "runs"))))
    [after] = make_plan(planned, texts).encoders
    assert after.to_encode < after.sentences
    stretch = method("mean", "stretch", on="target").post
    for fitted_on_other_files in (
        replace(ON_FAR, pooling=CLS),
        replace(ON_FAR, post=stretch),
    ):
        [again] = make_plan(
            planned_cells([fitted_on_other_files], [TOY], 1), texts
        ).encoders
        assert again.to_encode == FAR.count
    few = limited_corpus(FAR, 20)
    texts = library(tmp_path, few)
    texts.corpora = {"far": few}
    assert make_plan(planned[:1], texts).encoders[0].to_encode == 20


@pytest.mark.parametrize(
    ("count", "prepare", "to_encode"),
    [(None, timed, "unknown"), (1_000_000, lambda texts: texts, "1,000,045")],
)
def test_a_time_that_cannot_be_known_is_said_to_be_unknown(
    tmp_path, count, prepare, to_encode
):
    texts = prepare(library(tmp_path, replace(FAR, count=count)))
    made = make_plan(planned_cells([ON_FAR], [TOY], 1), texts)
    assert made.encoders[0].seconds is None
    assert f"0 of 45 {to_encode} unknown" in text(made)
    assert "encoding takes an unknown time for 1 encoder;" in text(made)


@dataclass(frozen=True)
class Dropped(Stretch):
    """Fitted on encodings with dropout."""

    dropout: ClassVar[bool] = True


def test_a_pass_with_dropout_takes_as_long_as_those_before_it_or_is_unknown(tmp_path):
    texts = timed(library(tmp_path))
    config = FakeConfig()
    planned = planned_cells(
        [Method(config, MEAN, (Dropped(),), "target")], [TOY], seeds=2
    )
    count = texts.texts(TOY, "target").fit_corpus.count
    [entry] = make_plan(planned, texts).encoders
    assert (entry.to_encode, entry.seconds) == (entry.sentences + 2 * count, None)

    key = texts.places.identify(config, tmp_path).key
    for seed, rows in ((7, 30), (8, 10)):
        made = FitCorpusSample(
            corpus="target",
            corpus_digest="0" * 64,
            corpus_size=60,
            size=60,
            dropout_seed=seed,
        )
        file = made.file(texts.places.cache, key, planned[0].method)
        write_fit_corpus(file, np.zeros((rows, 4), np.float32), 2.0)
    [entry] = make_plan(planned, texts).encoders
    sentences = texts.texts(TOY, "target").sentences
    assert entry.seconds == round(count_letters(sentences) / 1000 + 2 * count / 10, 1)


def test_what_is_missing_is_grouped_by_what_gets_it_within_the_width(tmp_path):
    names = [f"encoder-of-a-long-name-{i}" for i in range(9)]
    missing = {
        f"encoder {n}": MissingAsset("x" * 200, f"harness fetch {n}", 10**9)
        for n in names
    }
    missing["far"] = MissingAsset("x" * 200, "put far.txt into DATA_DIR")
    shown = plan_text(replace(make_plan([], library(tmp_path)), missing=missing))
    assert all(len(line) <= 80 for line in shown.splitlines())
    [command] = re.findall(r"^  harness fetch (?:.*\\\n)*.*", shown, re.MULTILINE)
    assert shlex.split(command.replace("\\\n", "")) == ["harness", "fetch", *names]
    assert "asset missing (10, 9.0 GB as far as known)" in shown
    assert "by hand:\n  far: put far.txt into DATA_DIR" in shown


def test_a_short_plan_has_at_most_ten_lines_with_the_most_work_and_what_is_missing(
    tmp_path,
):
    names = [f"encoder-of-a-long-name-{i}" for i in range(30)]
    missing = {
        f"encoder {n}": MissingAsset("x" * 200, f"harness fetch {n}", 10**9)
        for n in names
    }
    encoders = tuple(
        EncoderPlan(
            name=name, cells=9000, to_encode=10**7 + place, fits=9000, scorings=9000
        )
        for place, name in enumerate(names)
    )
    plan = replace(make_plan([], library(tmp_path)), missing=missing, encoders=encoders)
    plan = replace(plan, cells=270_000, runnable=270_000)
    lines = short_plan_text(plan).splitlines()
    assert len(lines) <= 10
    assert all(len(line) <= 80 for line in lines)
    assert (
        sum(line.startswith(names[-1]) for line in lines) == 1
    )  # it has most to encode
    assert "and 26 encoders more: harness plan shows all" in lines
    end = " ".join(" ".join(lines[-2:]).split())
    assert end.startswith("missing: 30 assets, 30.0 GB as far as known: harness fetch ")
    assert end.endswith("(harness plan)")
