"""Everything that comes with the harness x every law; the laws themselves.

One law over one plug-in: `pytest tests/test_contracts.py -k "natsv:20 and
fit_changes_nothing"`.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from harness.contracts import methods, tasks, transforms
from harness.contracts.cases import (
    ENCODER_FILE,
    METRIC_FILE,
    POOLING_FILE,
    POST_FILE,
    TASK_FILE,
    BrokenContract,
    Case,
    cases,
)
from harness.core.errors import DataError, ScoreError
from harness.core.interfaces import Identity
from harness.core.metrics import Metric, cosines
from harness.core.pairs import Pairs
from harness.core.types import Task
from harness.encoders.function import FunctionConfig
from harness.registry import load_registry
from harness.report.bibtex import bib_keys, entries
from harness.transforms.affine import Affine, Moments
from harness.transforms.pooling import Mean

CASES = tuple(cases(load_registry()))


@pytest.mark.parametrize("law", [pytest.param(case.run, id=case.id) for case in CASES])
def test_contract(law):
    law()


def test_every_registered_word_stands_in_a_registered_method():
    """Else no law would ever see it."""
    used = {
        post.name.partition(":")[0]
        for m in load_registry().methods.values()
        for post in m.post
    }
    assert used == set(load_registry().posts)


def test_what_is_cited_is_in_the_bibliography():
    registry = load_registry()
    things = (registry.methods, registry.encoders, registry.tasks)
    cites = (thing.cite for kind in things for thing in kind.values())
    assert {*bib_keys(cites)} <= {*entries()}


def test_a_failure_says_the_law_in_words_and_where_it_is_kept():
    law = methods.check_configuration_is_frozen
    with pytest.raises(AssertionError) as failure:
        Case("broken", law, POST_FILE, (object(),)).run()
    assert str(failure.value) == (
        "broken fails a contract test: configuration is frozen: wanted a frozen dataclass, found "
        "object; baselines/whitening.py keeps it"
    )
    kept = (POST_FILE, ENCODER_FILE, TASK_FILE, POOLING_FILE, METRIC_FILE)
    assert all((Path(__file__).parent.parent / path).is_file() for path in kept)


# --- the laws see what they are there for --------------------------------------------------------


@dataclass(frozen=True)
class Centring:
    """Keeps every law, but for what a fault makes of a fitted map."""

    fault: Callable = field(default=lambda affine, x, rng: affine, compare=False)
    name = "centring"
    from_moments = True
    deterministic = True
    share = 1.0
    dropout = False

    def fit(self, x, rng):
        moments = Moments.of(x)
        if not moments.scatter.any():
            raise ScoreError("all vectors to fit on are equal")
        affine = Affine(moments.mean, np.eye(len(moments.mean)), rank=len(moments.mean))
        return self.fault(affine, x, rng)


class Unchecked(Centring):
    def fit(self, x, rng):
        return Affine(np.zeros(x.shape[1]), np.eye(x.shape[1]), x.shape[1])


class Remembering(list):
    def __call__(self, affine, x, rng):
        self.append(x)
        return affine


def overwriting(affine, x, rng):
    if not isinstance(x, Moments):
        x -= x.mean(axis=0)
    return affine


def drawing(affine, x, rng):
    rng.normal()
    return affine


def amplifying(affine, x, rng):
    spread = np.sqrt(np.diag(Moments.of(x).covariance)) + 1e-17
    return replace(affine, weight=np.diag(1 / spread))


def doubling(affine, x, rng):
    if isinstance(x, Moments):
        np.multiply(x.scatter, 2, out=x.scatter)
    return affine


def through_a_pointer(affine, x, rng):
    """Writes in spite of the flag, as torch does."""
    if isinstance(x, Moments):
        ctypes.memset(x.principal.values.ctypes.data, 0, 8)
    else:
        ctypes.memset(x.ctypes.data, 0, 4)
    return affine


def behind(affine, x, rng):
    def centred(rows):
        rows -= rows.dtype.type(1)
        return affine(rows)

    return centred


def in_float32(affine, x, rng):
    return lambda rows: affine(rows).astype(np.float32)


def first_row(affine, x, rng):
    return (
        affine
        if isinstance(x, Moments)
        else replace(affine, shift=x[0].astype(np.float64))
    )


def unweighted(affine, x, rng):
    distinct = affine.shift[None] if isinstance(x, Moments) else np.unique(x, axis=0)
    return replace(affine, shift=distinct.mean(axis=0, dtype=np.float64))


def through_the_batch(affine, x, rng):
    return lambda rows: rows.astype(np.float64) - rows.mean(axis=0)


BROKEN = [
    (Centring(Remembering()), transforms.check_fit_changes_nothing),
    (Centring(overwriting), transforms.check_fit_changes_nothing),
    (Centring(overwriting), transforms.check_a_fit_does_not_write_into_shared_rows),
    (
        Centring(through_a_pointer),
        transforms.check_a_fit_does_not_write_into_shared_rows,
    ),
    (Centring(behind), transforms.check_a_map_does_not_write_into_shared_rows),
    (Centring(doubling), transforms.check_a_fit_does_not_write_into_shared_moments),
    (
        Centring(through_a_pointer),
        transforms.check_a_fit_does_not_write_into_shared_moments,
    ),
    (Centring(in_float32), transforms.check_a_map_gives_finite_float64_of_one_width),
    (Centring(drawing), transforms.check_a_deterministic_fit_draws_nothing),
    (Centring(amplifying), transforms.check_noise_in_a_constant_coordinate_stays_small),
    (
        Centring(amplifying),
        transforms.check_noise_in_a_constant_coordinate_is_not_fitted,
    ),
    (Centring(first_row), transforms.check_the_order_of_rows_does_not_matter),
    (Centring(first_row), transforms.check_fit_on_rows_is_fit_on_their_moments),
    (Centring(first_row), transforms.check_shards_fit_as_one),
    (Centring(unweighted), transforms.check_a_repeated_row_counts_again),
    (Unchecked(), transforms.check_equal_rows_are_refused),
    (Unchecked(), transforms.check_a_value_that_is_not_finite_is_refused),
    (Centring(through_the_batch), transforms.check_a_map_keeps_rows_apart),
    (Centring(through_the_batch), transforms.check_fit_gives_an_affine_map_of_its_rank),
]


@pytest.mark.parametrize(
    "law", [*transforms.POST_CONTRACTS, *transforms.MOMENT_CONTRACTS]
)
def test_a_sound_post_processor_keeps_the_law(law):
    law(Centring())


@pytest.mark.parametrize(("broken", "law"), BROKEN)
def test_a_broken_post_processor_breaks_the_law(broken, law):
    with pytest.raises(BrokenContract) as failure:
        Case("broken", law, POST_FILE, (broken,)).run()
    line = str(failure.value)
    assert line.startswith("broken fails a contract test: ")
    assert ("\n" in line, len(line) < 500, "found" in line) == (False, True, True)


def broken_by(law, *things):
    with pytest.raises(BrokenContract) as failure:
        Case("broken", law, POST_FILE, things).run()
    return str(failure.value)


@pytest.mark.parametrize(
    ("altered", "finding"),
    [
        (np.ma.array, "found MaskedArray"),
        (lambda y: y + 0j, "found an array of complex128"),
        (lambda y: y[:, 0], ",)"),
        (lambda y: y[:, :0], ", 0)"),
        (lambda y: None, "found NoneType"),
    ],
)
def test_a_map_that_gives_no_matrix_of_numbers_is_told_what_it_gives(altered, finding):
    post = Centring(lambda affine, *_: lambda rows: altered(affine(rows)))
    law = transforms.check_a_map_gives_finite_float64_of_one_width
    assert finding in broken_by(law, post)


def test_float32_is_told_as_such_and_breaks_one_law_alone():
    post = Centring(in_float32)
    failing = []
    for law in transforms.POST_CONTRACTS:
        try:
            Case("broken", law, POST_FILE, (post,)).run()
        except BrokenContract as error:
            failing.append(str(error))
    assert failing == [
        "broken fails a contract test: a map gives finite float64 of one width: wanted numbers of "
        "type float64, found float32; baselines/whitening.py keeps it"
    ]


@dataclass(frozen=True)
class Writing(Mean):
    """Writes into an encoding, by NumPy or in spite of the flag."""

    through: bool = False

    def __call__(self, encoding):
        if self.through:
            ctypes.memset(encoding.mean.ctypes.data, 0, 4)
        else:
            encoding.mean[:] /= 2
        return super().__call__(encoding)


@pytest.mark.parametrize("through", [False, True])
def test_a_pooling_that_writes_breaks_the_law(through):
    law = transforms.check_a_pooling_does_not_write_into_an_encoding
    law(Mean("mean", (-1,)))
    assert (
        "shared array" in broken_by(law, Writing("mean", (-1,), through)) or not through
    )


def sorts(values, pairs):
    pairs.gold.sort()
    return {"score": 0.0}


def scales(vectors, scored, labelled):
    vectors *= 2
    return cosines(vectors, scored, labelled)


def writes_behind(values, pairs):
    ctypes.memset(pairs.gold.ctypes.data, 255, 8)
    return {"score": 0.0}


@pytest.mark.parametrize(
    "faults", [{"score": sorts}, {"compare": scales}, {"score": writes_behind}]
)
def test_a_metric_that_writes_breaks_the_law(faults):
    sound = Metric("sound", lambda values, pairs: {"score": 0.0}, ("score",), {})
    law = tasks.check_a_metric_does_not_write_into_shared_pairs
    law(sound)
    assert "found" in broken_by(law, replace(sound, **faults))


@pytest.mark.parametrize("name", ["", "..", "my task", "a/b", "a\nb", "x" * 101])
def test_a_task_without_a_word_as_its_name_breaks_the_law(name):
    law = tasks.check_its_name_is_a_word
    sound = Task("My_task.dev", None, (), (), "correlation", "none", "raw")
    law(sound)
    assert "wanted a name as in my-task" in broken_by(law, replace(sound, name=name))


def test_a_task_that_writes_into_what_it_gave_breaks_the_law():
    pairs = Pairs(("a", "b"), ("c", "d"), np.array([3.0, 1.0]), ("g", "g"))

    loads = count(1)

    def load(folder, split):
        ctypes.memset(pairs.gold.ctypes.data, next(loads), 8)
        return pairs

    sound = Task(
        "t", lambda *_: pairs, ("test",), ("test",), "correlation", "none", "raw"
    )
    law = tasks.check_a_task_does_not_write_into_what_it_gave
    law(sound)
    assert "shared array" in broken_by(law, replace(sound, load=load))


def test_an_encoder_that_writes_into_what_it_gave_breaks_the_law():
    law = methods.check_an_encoder_does_not_write_into_what_it_gave
    law(FunctionConfig("sound", lambda texts: np.ones((len(texts), 3), np.float32)))
    kept = []

    class Reusing(FunctionConfig):
        def vectors(self, texts):
            x = kept[0] if kept else np.zeros((1, 3), np.float32)
            kept[:] = [x]
            ctypes.memset(x.ctypes.data, len(texts[0]), 4)
            return x

        def identify(self, path=None):
            return Identity("key", {})

    assert "shared array" in broken_by(law, Reusing("reusing", list))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(0), "found SystemExit: 0"),
        (ValueError("one\ntwo"), "found ValueError: one; "),
        (AssertionError(), "found AssertionError; "),
        (
            ScoreError("no direction"),
            "broken: no direction (in a contract test: it is sound)",
        ),
        (ScoreError(), "found ScoreError; "),
    ],
)
def test_whatever_a_law_meets_is_one_line(error, words):
    def check_it_is_sound(thing):
        raise error

    line = broken_by(check_it_is_sound, object())
    assert (
        line
        == (
            f"broken fails a contract test: it is sound: {words}; baselines/whitening.py keeps it"
        )
        or words in line
    )


def test_data_are_told_without_a_law():
    def check_it_is_sound(thing):
        raise DataError("pair 3: wanted a finite number as gold, found nan")

    wanted = "broken: pair 3: wanted a finite number as gold, found nan"
    assert broken_by(check_it_is_sound, object()) == wanted


def test_ctrl_c_ends_the_laws():
    def check_it_is_sound(thing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Case("broken", check_it_is_sound, POST_FILE, (object(),)).run()
