"""Everything that comes with the harness x every law; the laws themselves.

One law over one plug-in: `pytest tests/test_contracts.py -k "natsv:20 and row_by_itself"`.
"""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pytest

from harness.contracts import laws
from harness.contracts.laws import POST_LAWS, BrokenLaw, Case, cases
from harness.core.errors import ScoreError
from harness.core.metrics import Metric
from harness.core.types import Task
from harness.encoders.config import FunctionConfig
from harness.registry import load_registry
from harness.transforms.affine import Affine, Moments
from harness.transforms.pooling import MEAN, Mean

CASES = tuple(cases(load_registry()))


@pytest.mark.parametrize("law", [pytest.param(case.run, id=case.id) for case in CASES])
def test_contract(law):
    law()


def test_what_comes_with_the_harness_is_licensed_and_told_of():
    registry = load_registry()
    for encoder in registry.encoders.values():
        assert encoder.trained_on
        assert encoder.licence
    assert all(task.licence for task in registry.tasks.values())


# The laws see what they are there for


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
        affine = Affine(moments.mean, np.eye(len(moments.mean)), rank=len(moments.mean))
        return self.fault(affine, x, rng)


@dataclass(unsafe_hash=True)
class Unfrozen:
    fault: int = 0


def through_a_pointer(affine, x, rng):
    """Writes in spite of the flag, as torch does."""
    if not isinstance(x, Moments):
        ctypes.memset(x.ctypes.data, 0, 4)
    return affine


def drawing(affine, x, rng):
    return replace(affine, shift=affine.shift + rng.normal())


def amplifying(affine, x, rng):
    spread = np.sqrt(np.diag(Moments.of(x).covariance)) + 1e-17
    return replace(affine, weight=np.diag(1 / spread))


def behind(affine, x, rng):
    def centred(rows):
        rows -= rows.dtype.type(1)
        return affine(rows)

    return centred


def first_row(affine, x, rng):
    if isinstance(x, Moments):
        return affine
    return replace(affine, shift=x[0].astype(np.float64))


def through_the_batch(affine, x, rng):
    return lambda rows: rows.astype(np.float64) - rows.mean(axis=0)


def nothing(affine, x, rng):
    return None


def fewer_rows(affine, x, rng):
    return lambda rows: affine(rows)[1:]


def not_finite(affine, x, rng):
    return lambda rows: affine(rows) / 0


BROKEN = [
    (through_a_pointer, laws.writes_into_no_shared_rows),
    (behind, laws.maps_rows_to_finite_rows),
    (nothing, laws.maps_rows_to_finite_rows),
    (fewer_rows, laws.maps_rows_to_finite_rows),
    (not_finite, laws.maps_rows_to_finite_rows),
    (drawing, laws.draws_nothing_if_deterministic),
    (through_the_batch, laws.maps_each_row_by_itself),
    (first_row, laws.fits_moments_as_rows),
    (amplifying, laws.amplifies_no_rounding_noise),
]


def broken_by(law, *things):
    with pytest.raises(BrokenLaw) as failure:
        Case("broken", law, things).run()
    line = str(failure.value)
    assert "\n" not in line
    return line


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize(("fault", "law"), BROKEN)
def test_a_broken_post_processor_breaks_the_law(fault, law):
    line = broken_by(law, Centring(fault))
    assert line.startswith(f"broken: {law.__doc__.rstrip('.')}: ")
    assert "found" in line or "read-only" in line


def test_a_configuration_that_is_not_frozen_breaks_the_law():
    assert "found object, which is none" in broken_by(laws.is_frozen, object())
    assert "found one that can be changed" in broken_by(laws.is_frozen, Unfrozen())


def quantising(affine, x, rng):
    return lambda rows: np.round(rows.astype(np.float64), 1)


def signed_root(affine, x, rng):
    return lambda rows: np.sign(rows) * np.sqrt(np.abs(rows))


@pytest.mark.parametrize("make", [quantising, signed_root])
def test_a_post_processor_that_quantises_or_takes_a_root_is_legitimate(make):
    for law in POST_LAWS:
        law(Centring(make))


@dataclass(frozen=True)
class OfTheBatch(Mean):
    def __call__(self, encoding):
        pooled = super().__call__(encoding)
        return pooled - pooled.mean(axis=0)


@dataclass(frozen=True)
class OfAllLayers(Mean):
    def __call__(self, encoding):
        return encoding.mean.mean(axis=1)


@pytest.mark.parametrize(
    ("pooling", "law"),
    [
        (OfTheBatch("x", (-1,)), laws.gives_a_finite_row_a_sentence),
        (OfAllLayers("x", (-1,)), laws.reads_the_layers_that_it_asks_for),
    ],
)
def test_a_broken_pooling_breaks_the_law(pooling, law):
    law(MEAN)
    assert "found a difference of" in broken_by(law, pooling)


def test_a_metric_of_chance_breaks_the_law():
    rng = np.random.default_rng(0)
    metric = Metric("chance", lambda *_: {"score": rng.random()}, ("score",), {})
    assert "found others" in broken_by(laws.scores_the_same_again, metric)


def test_an_encoder_of_batches_breaks_the_law():
    def embed(texts):
        return np.full((len(texts), 2), float(len(texts)))

    line = broken_by(laws.gives_a_text_one_vector, FunctionConfig("broken", embed))
    assert "whatever the texts next to it, found two" in line


def test_a_bit_that_rounding_turns_in_another_batch_breaks_no_law():
    """Of binary vectors one bit is more than a twentieth of their length."""

    def embed(texts, turned=1):
        rows = [np.random.default_rng(len(text)).integers(0, 2, 192) for text in texts]
        bits = np.asarray(rows)
        bits[:, :turned] ^= len(texts) > 1
        return bits

    laws.gives_a_text_one_vector(FunctionConfig("binary", embed))
    random = FunctionConfig("random", partial(embed, turned=40))
    assert "found two" in broken_by(laws.gives_a_text_one_vector, random)


@pytest.mark.parametrize("name", ["", "..", "my task", "a/b", "a\nb", "x" * 101])
def test_a_task_without_a_word_as_its_name_breaks_the_law(name):
    sound = Task("My_task.dev", None, (), (), "correlation", "none", "raw")
    laws.has_a_word_as_name(sound)
    assert "is a word of letters" in broken_by(
        laws.has_a_word_as_name, replace(sound, name=name)
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(0), "found SystemExit(0)"),
        (ValueError("one\ntwo"), ": ValueError: one"),
        (ScoreError("no direction"), ": no direction"),
    ],
)
def test_whatever_a_law_meets_is_one_line(error, words):
    def is_sound(thing):
        """It is sound."""
        raise error

    line = broken_by(is_sound, object())
    assert line.startswith("broken: It is sound: ")
    assert words in line
