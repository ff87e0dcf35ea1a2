"""Everything that comes with the harness x every law; the laws themselves.

One law over one plug-in: `pytest tests/test_contracts.py -k "natsv:20 and fit_changes_nothing"`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import contracts
import numpy as np
import pytest

from harness.core.errors import ScoreError
from harness.registry import load_registry
from harness.report.bibtex import entries
from harness.transforms.affine import Affine, Moments

CASES = tuple(contracts.cases(load_registry()))


@pytest.mark.parametrize("law", [pytest.param(case.law, id=case.id) for case in CASES])
def test_contract(law):
    law()


def test_every_registered_word_stands_in_a_registered_method():
    """Else no law would ever see it."""
    used = {
        post.name.partition(":")[0] for m in load_registry().methods.values() for post in m.post
    }
    assert used == set(load_registry().posts)


def test_what_is_cited_is_in_the_bibliography():
    registry = load_registry()
    things = (registry.methods, registry.encoders, registry.tasks)
    assert {thing.cite for kind in things for thing in kind.values()} <= set(entries())


def test_a_failure_says_the_law_in_words_and_where_it_is_kept():
    law = contracts.check_configuration_is_frozen
    with pytest.raises(AssertionError) as failure:
        contracts.Case("broken", law, contracts.POST, (object(),)).law()
    assert failure.value.__notes__ == [
        "broken fails a contract test: configuration is frozen. baselines/whitening.py keeps it."
    ]
    kept = (contracts.POST, contracts.ENCODER, contracts.TASK)
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


def first_row(affine, x, rng):
    return affine if isinstance(x, Moments) else replace(affine, shift=x[0].astype(np.float64))


def unweighted(affine, x, rng):
    distinct = affine.shift[None] if isinstance(x, Moments) else np.unique(x, axis=0)
    return replace(affine, shift=distinct.mean(axis=0, dtype=np.float64))


def through_the_batch(affine, x, rng):
    return lambda rows: rows.astype(np.float64) - rows.mean(axis=0)


BROKEN = [
    (Centring(Remembering()), contracts.check_fit_changes_nothing),
    (Centring(overwriting), contracts.check_fit_changes_nothing),
    (Centring(drawing), contracts.check_a_deterministic_fit_draws_nothing),
    (Centring(amplifying), contracts.check_noise_in_a_constant_coordinate_stays_small),
    (Centring(amplifying), contracts.check_noise_in_a_constant_coordinate_is_not_fitted),
    (Centring(first_row), contracts.check_the_order_of_rows_does_not_matter),
    (Centring(first_row), contracts.check_fit_on_rows_is_fit_on_their_moments),
    (Centring(first_row), contracts.check_shards_fit_as_one),
    (Centring(unweighted), contracts.check_a_repeated_row_counts_again),
    (Unchecked(), contracts.check_equal_rows_are_refused),
    (Unchecked(), contracts.check_a_value_that_is_not_finite_is_refused),
    (Centring(through_the_batch), contracts.check_a_map_keeps_rows_apart),
    (Centring(through_the_batch), contracts.check_fit_gives_an_affine_map_of_its_rank),
]


@pytest.mark.parametrize("law", [*contracts.POST_LAWS, *contracts.MOMENT_LAWS])
def test_a_sound_post_processor_keeps_the_law(law):
    law(Centring())


@pytest.mark.parametrize(("broken", "law"), BROKEN)
def test_a_broken_post_processor_breaks_the_law(broken, law):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        law(broken)
