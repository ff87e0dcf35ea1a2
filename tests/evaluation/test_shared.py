"""What cells share, no part of them can write into: another cell's score never moves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from fakes import (
    TOY,
    Centre,
    FakeConfig,
    FakeEncoder,
    Sentences,
    corpus,
    library,
    method,
    numbered,
    task,
)

from harness.core import metrics
from harness.core.errors import HarnessError
from harness.core.interfaces import Encoding
from harness.core.metrics import Metric, cosines
from harness.core.pairs import Pairs
from harness.core.types import Method
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.results.store import Store
from harness.transforms.affine import Moments
from harness.transforms.pooling import MEAN, Mean

REFUSED = "read-only: cells share it; write into a copy, as in x = x.copy()"


def outcomes(folder, *cells, corpora=()):
    loader = library(folder, *corpora)
    context = RunContext(loader, Store(folder / "runs"))
    return {
        (o.cell.method, o.cell.task): o
        for o in execute([PlannedCell(m, t, 0) for m, t in cells], context)
    }


def scores(results, *, without="none"):
    return {
        cell: outcome.record.scores
        for cell, outcome in results.items()
        if not any(without in name for name in cell)
    }


# --- post-processors -----------------------------------------------------------------------------


@dataclass(frozen=True)
class InMoments(Centre):
    """Writes into the moments that it is given, in one of many ways."""

    how: str = ""
    name: ClassVar[str] = "vandal"

    def fit(self, x, rng):
        moments = Moments.of(x)
        if self.how == "mean":
            moments.mean[0] += 1
        elif self.how == "transposed":
            moments.principal_uncentred.vectors.T[0] = 0
        return super().fit(moments, rng)


@dataclass(frozen=True)
class InRows(Centre):
    """Writes into the rows that it is given."""

    name: ClassVar[str] = "vandal"
    from_moments: ClassVar[bool] = False

    def fit(self, x, rng):
        x -= x.mean(axis=0)
        return super().fit(x, rng)


@dataclass(frozen=True)
class Behind(Centre):
    """Gives a map that writes into the rows that it is given."""

    name: ClassVar[str] = "vandal"
    from_moments: ClassVar[bool] = False

    def fit(self, x, rng):
        mean = Moments.of(x).mean

        def centre(rows):
            rows -= mean
            return rows.astype(np.float64)

        return centre


HOW = ("mean", "transposed")


@pytest.mark.parametrize("post", [*map(InMoments, HOW), InRows(), Behind()], ids=repr)
@pytest.mark.parametrize("on", ["target", "stream"])
def test_a_post_processor_cannot_move_the_cells_beside_it(tmp_path, post, on):
    text = corpus("stream", numbered(100, 25))
    plain, calibrated = method(), method("mean", "centre", on=on)
    vandal = Method(FakeConfig(), MEAN, (post,), on)
    wanted = outcomes(
        tmp_path / "without", (calibrated, TOY), (plain, TOY), corpora=[text]
    )
    cells = (vandal, TOY), (calibrated, TOY), (plain, TOY)
    found = outcomes(tmp_path / "with", *cells, corpora=[text])
    assert scores(found, without="vandal") == scores(wanted)
    refused = found[vandal.id, "toy"]
    assert refused.status == "failed"
    assert REFUSED in refused.message
    again = outcomes(tmp_path / "with", (calibrated, TOY), (plain, TOY), corpora=[text])
    assert scores(again) == scores(wanted)


# --- poolings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InEncoding(Mean):
    """Writes into the encoding that it is given."""

    def __call__(self, encoding: Encoding):
        x = encoding.mean
        x *= 0
        return super().__call__(encoding)


@pytest.mark.parametrize("on", [None, "stream"])
def test_a_pooling_cannot_move_the_cells_beside_it_nor_what_is_kept(tmp_path, on):
    text = corpus("stream", numbered(100, 25))
    posts = (Centre(),) if on else ()
    vandal = Method(FakeConfig(), InEncoding("vandal", (-1,)), posts, on)
    plain = method("mean", *["centre"] * len(posts), on=on)
    wanted = outcomes(tmp_path / "without", (plain, TOY), corpora=[text])
    found = outcomes(tmp_path / "with", (vandal, TOY), (plain, TOY), corpora=[text])
    assert scores(found, without="vandal") == scores(wanted)
    assert REFUSED in found[vandal.id, "toy"].message
    assert scores(outcomes(tmp_path / "with", (plain, TOY), corpora=[text])) == scores(
        wanted
    )


# --- metrics and tasks ---------------------------------------------------------------------------


def metric_that_sorts_gold(values, pairs):
    pairs.gold.sort()
    return {"score": 1.0}


def over_places(vectors, scored, labelled):
    scored.b[:] = scored.a
    return cosines(vectors, scored, labelled)


def plain_score(values, pairs):
    return {"score": float(values.mean())}


@pytest.mark.parametrize(
    ("score", "compare"),
    [(metric_that_sorts_gold, cosines), (plain_score, over_places)],
)
def test_a_metric_cannot_move_the_cells_beside_it(
    tmp_path, monkeypatch, score, compare
):
    vandal = Metric("vandal", score, ("score",), {"score": "score"}, compare=compare)
    monkeypatch.setitem(metrics.metrics(), "vandal", vandal)
    strange = replace(
        TOY, name="vandal", metric="vandal", geometry=False
    )  # of the same pairs
    wanted = outcomes(tmp_path / "without", (method(), TOY))
    found = outcomes(tmp_path / "with", (method(), strange), (method(), TOY))
    assert scores(found, without="vandal") == scores(wanted)
    assert REFUSED in found[method().id, "vandal"].message


@dataclass(frozen=True)
class Rearranged:
    """The pairs of another task, whose gold it sorts in place."""

    def __call__(self, data_dir, split):
        pairs = KEPT.setdefault(split, Sentences()(data_dir, split))
        pairs.gold.sort()
        return pairs


KEPT: dict[str, Pairs] = {}


def test_a_task_cannot_sort_the_gold_of_another(tmp_path):
    found = outcomes(
        tmp_path, (method(), task("sorted", load=Rearranged())), (method(), TOY)
    )
    assert scores(found, without="sorted") == scores(
        outcomes(tmp_path / "without", (method(), TOY))
    )
    assert REFUSED in found[method().id, "sorted"].message


# --- encoders ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SortingEncoder(FakeEncoder):
    """Puts the texts that it is given into another order."""

    def encode(self, texts: Sequence[str]) -> Encoding:
        texts.sort(key=len, reverse=True)
        return super().encode(texts)


@dataclass(frozen=True)
class ReusingEncoder(FakeEncoder):
    """Gives the rows of one array that it writes into again."""

    def encode(self, texts: Sequence[str]) -> Encoding:
        made = super().encode(texts)
        BUFFER[: len(texts)] = made.mean
        return replace(made, mean=BUFFER[: len(texts)])


BUFFER = np.zeros((100, 4, 4), np.float32)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (SortingEncoder, "'tuple' object has no attribute 'sort'"),
        (ReusingEncoder, REFUSED),
    ],
)
def test_an_encoder_cannot_change_texts_nor_what_it_gave(tmp_path, kind, words):
    @dataclass(frozen=True)
    class Config(FakeConfig):
        def load(self, path, cache):
            return kind(self.identify(path).key)

    found = outcomes(tmp_path, (method(encoder=Config()), TOY))
    [outcome] = found.values()
    assert (outcome.status, words in outcome.message) == ("failed", True)


@dataclass(frozen=True)
class Giving(Centre):
    """Gives a map that makes something else of rows."""

    make: object = None
    name: ClassVar[str] = "giving"
    from_moments: ClassVar[bool] = False

    def fit(self, x, rng):
        return self.make


GIVEN = {
    "no map": (None, "+giving: wanted a map of rows from fit, found NoneType"),
    "numbers with an imaginary part": (
        lambda x: x + 1j,
        "one a sentence, found complex64",
    ),
    "fewer rows": (lambda x: x[:-1], "one a sentence, found float"),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_a_map_that_gives_something_else_is_refused(tmp_path, kind):
    make, words = GIVEN[kind]
    strange = Method(FakeConfig(), MEAN, (Giving(make),), "target")
    [outcome] = outcomes(tmp_path, (strange, TOY)).values()
    assert (outcome.status, outcome.exit_status) == ("failed", 1)
    assert words in outcome.message


NOISE = np.random.default_rng(0)
SEVERAL = "the encoder gives 'one sentence' another mean in another batch: "
ENCODINGS = {  # what an encoder makes of the texts and of their encoding
    "fewer rows": (
        lambda texts, e: FakeEncoder("x").encode(texts[1:] or texts),
        "wanted an Encoding with 3 rows for 3 texts, found 2 rows",
    ),
    "noise": (
        lambda _, e: replace(e, mean=NOISE.random(e.mean.shape, np.float32)),
        SEVERAL,
    ),
    "the difference to the batch": (
        lambda _, e: replace(e, mean=e.mean - e.mean.mean(axis=0)),
        SEVERAL,
    ),
}


@pytest.mark.parametrize("kind", ENCODINGS)
def test_an_encoder_that_gives_something_else_is_refused(tmp_path, kind):
    make, words = ENCODINGS[kind]

    @dataclass(frozen=True)
    class Strange(FakeEncoder):
        def encode(self, texts):
            return make(texts, super().encode(texts))

    @dataclass(frozen=True)
    class Config(FakeConfig):
        def load(self, path, cache):
            return Strange(self.identify(path).key)

    [outcome] = outcomes(tmp_path, (method(encoder=Config()), TOY)).values()
    assert (outcome.status, outcome.exit_status) == ("failed", 1)
    assert words in outcome.message


def score_of(number):
    return lambda *_: {"score": number}


WANTED_SCORE = "metric strange, score: wanted a finite number as score, or None"
COMPARED = "metric strange: wanted "
METRICS = {  # the functions `score` and `compare` of a metric
    "a word": (score_of("good"), cosines, WANTED_SCORE),
    "another score": (
        lambda *_: {"other": 1.0},
        cosines,
        f"{COMPARED}its main score score, found other",
    ),
    "scores below its main score": (
        score_of({"all": 3.0}),
        cosines,
        f"{COMPARED}its main score score, found score; name it by main_score",
    ),
}


@pytest.fixture
def toy_scored_by(monkeypatch):
    """The toy task under a metric of these functions."""

    def make(score, compare):
        strange = Metric("strange", score, ("score",), {"score": "x"}, compare=compare)
        monkeypatch.setitem(metrics.metrics(), "strange", strange)
        return replace(TOY, name="strange", metric="strange", geometry=False)

    return make


@pytest.mark.parametrize("kind", METRICS)
def test_a_metric_that_gives_something_else_is_refused(tmp_path, toy_scored_by, kind):
    *functions, words = METRICS[kind]
    strange = toy_scored_by(*functions)
    found = outcomes(tmp_path, (method(), strange), (method(), TOY))
    assert words in found[method().id, "strange"].message
    assert found[method().id, "toy"].status == "measured"


# --- what code raises that ends programs ---------------------------------------------------------


@dataclass(frozen=True)
class Ending(Centre):
    """Ends the program in the place of a fit."""

    error: object = None
    name: ClassVar[str] = "ending"

    def fit(self, x, rng):
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(0), "wanted a result, found SystemExit(0)"),
        (ValueError("first\nsecond"), "unexpected ValueError: first (--debug"),
        (HarnessError("the first line\nthe second"), "the first line"),
    ],
)
def test_an_error_is_one_line_and_costs_one_cell(tmp_path, error, message):
    ending = Method(FakeConfig(), MEAN, (Ending(error),), "target")
    found = outcomes(tmp_path, (ending, TOY), (method(), TOY))
    failed = found[ending.id, "toy"]
    assert (failed.status, failed.exit_status) == ("failed", 1)
    assert failed.message.startswith(message)
    assert len(failed.message.splitlines()) == 1
    assert found[method().id, "toy"].status == "measured"


def test_ctrl_c_ends_the_run(tmp_path):
    ending = Method(FakeConfig(), MEAN, (Ending(KeyboardInterrupt()),), "target")
    with pytest.raises(KeyboardInterrupt):
        outcomes(tmp_path, (ending, TOY))
