"""What cells share, no part of them can write into: another cell's score never moves."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar
from unittest.mock import Mock

import numpy as np
import pytest
from fakes import (
    TOY,
    Centre,
    FakeConfig,
    FakeEncoder,
    corpus,
    method,
    numbered,
    outcomes_of_run,
)

from harness.core import metrics
from harness.core.metrics import Metric, cosines
from harness.core.types import Method
from harness.evaluation.select import PlannedCell
from harness.transforms.affine import Moments
from harness.transforms.pooling import MEAN, Mean

REFUSED = "read-only: cells share it; write into a copy, as in x = x.copy()"
STREAM = corpus("stream", numbered(100, 25))


def outcomes(folder, *cells):
    """The outcomes of methods on tasks, by method and task."""
    planned = [PlannedCell(of, on, 0) for of, on in cells]
    found = outcomes_of_run(folder, planned, STREAM)
    return {(cell.method, cell.task): outcome for cell, outcome in found.items()}


def scores_beside(folder, vandal, *healthy):
    """The message on a cell that breaks, after the cells next to it kept their scores."""
    alone = outcomes(folder / "without", *healthy)
    beside = outcomes(folder / "with", vandal, *healthy)
    broken = beside.pop((vandal[0].id, vandal[1].name))
    for cell, outcome in beside.items():
        assert outcome.record.scores == alone[cell].record.scores
    assert (broken.status, broken.exit_status) == ("failed", 1)
    assert len(broken.message.splitlines()) == 1
    return broken.message


# Post-processors


@dataclass(frozen=True)
class FromMoments(Centre):
    """Writes into the moments that it is given."""

    name: ClassVar[str] = "vandal"

    def fit(self, x, rng):
        Moments.of(x).principal_uncentred.vectors.T[0] = 0
        return super().fit(x, rng)


@dataclass(frozen=True)
class FromRows(Centre):
    """Gives what a function makes of the rows that it is given."""

    make: Callable
    name: ClassVar[str] = "vandal"
    from_moments: ClassVar[bool] = False

    def fit(self, x, rng):
        return self.make(x)


def writing(rows):
    rows -= 1
    return rows.astype(np.float64)


POSTS = {
    "writes into moments": (FromMoments(), REFUSED),
    "writes into rows": (FromRows(writing), REFUSED),
    "maps by writing": (FromRows(lambda _: writing), REFUSED),
    "gives imaginary numbers": (
        FromRows(lambda _: lambda x: x + 1j),
        "one a sentence, found complex64",
    ),
    "ends the program": (
        FromRows(Mock(side_effect=SystemExit(0))),
        "wanted a result, found SystemExit(0)",
    ),
    "raises two lines": (
        FromRows(Mock(side_effect=ValueError("first\nsecond"))),
        "unexpected ValueError: first (--debug",
    ),
}


@pytest.mark.parametrize("fault", POSTS)
@pytest.mark.parametrize("on", ["target", "stream"])
def test_a_post_processor_fails_its_own_cell_alone(tmp_path, fault, on):
    post, words = POSTS[fault]
    vandal = Method(FakeConfig(), MEAN, (post,), on)
    healthy = (method("mean", "centre", on=on), TOY), (method(), TOY)
    assert words in scores_beside(tmp_path, (vandal, TOY), *healthy)


# Poolings, metrics


@dataclass(frozen=True)
class InEncoding(Mean):
    """Writes into the encoding that it is given."""

    def __call__(self, encoding):
        x = encoding.mean
        x *= 0
        return super().__call__(encoding)


@pytest.mark.parametrize("on", [None, "stream"])
def test_a_pooling_fails_its_own_cell_alone(tmp_path, on):
    posts = (Centre(),) if on else ()
    vandal = Method(FakeConfig(), InEncoding("vandal", (-1,)), posts, on)
    plain = method("mean", *["centre"] * len(posts), on=on)
    assert REFUSED in scores_beside(tmp_path, (vandal, TOY), (plain, TOY))


def sorting_gold(values, pairs):
    pairs.gold.sort()
    return {"score": 1.0}


def moving_pairs(vectors, scored, labelled):
    scored.b[:] = scored.a
    return cosines(vectors, scored, labelled)


def score_of(number):
    return lambda *_: {"score": number}


METRICS = {  # the functions `score` and `compare` of a metric
    "sorts the gold": (sorting_gold, cosines, REFUSED),
    "moves the pairs": (score_of(1.0), moving_pairs, REFUSED),
    "a word": (
        score_of("good"),
        cosines,
        "metric vandal, score: wanted a finite number as score, or None",
    ),
}


@pytest.mark.parametrize("fault", METRICS)
def test_a_metric_fails_its_own_cell_alone(tmp_path, monkeypatch, fault):
    score, compare, words = METRICS[fault]
    vandal = Metric("vandal", score, ("score",), {"score": "x"}, compare=compare)
    monkeypatch.setitem(metrics.metrics(), "vandal", vandal)
    strange = replace(TOY, name="vandal", metric="vandal", geometry=False)
    assert words in scores_beside(tmp_path, (method(), strange), (method(), TOY))


# Encoders

BUFFER = np.zeros((100, 4, 4), np.float32)


def in_one_buffer(texts, encoding):
    BUFFER[: len(texts)] = encoding.mean
    return replace(encoding, mean=BUFFER[: len(texts)])


ENCODINGS = {  # what an encoder makes of the texts and of their encoding
    "writes into what it gave": (in_one_buffer, REFUSED),
    "fewer rows": (
        lambda texts, e: FakeEncoder("x").encode(texts[1:] or texts),
        "wanted an Encoding with 3 rows for 3 texts, found 2 rows",
    ),
    "the difference to the batch": (
        lambda _, e: replace(e, mean=e.mean - e.mean.mean(axis=0)),
        "the encoder gives 'one sentence' another mean in another batch: ",
    ),
}


@dataclass(frozen=True)
class Strange(FakeEncoder):
    make: Callable | None = None

    def encode(self, texts):
        return self.make(texts, super().encode(texts))


@pytest.mark.parametrize("fault", ENCODINGS)
def test_an_encoder_that_gives_something_else_is_refused(tmp_path, fault):
    make, words = ENCODINGS[fault]

    @dataclass(frozen=True)
    class Config(FakeConfig):
        def load(self, path, cache):
            return Strange(self.identify(path).key, make=make)

    [outcome] = outcomes(tmp_path, (method(encoder=Config()), TOY)).values()
    assert (outcome.status, outcome.exit_status) == ("failed", 1)
    assert words in outcome.message
