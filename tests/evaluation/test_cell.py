"""One cell: what a score may not depend on, its facts, and the same vectors as a function."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import TOY, Centre, FakeConfig, library, method, numbered, pooled_pairs
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from baselines.natsv import Natsv
from baselines.sn import SN
from baselines.whitening import Whitening
from harness.contracts.samples import rows
from harness.core.errors import ScoreError, UsageError
from harness.core.metrics import cosine, score
from harness.core.pairs import Pairs
from harness.core.types import score_at, score_paths
from harness.evaluation.cell import measure
from harness.evaluation.evaluate import Embedder, fit_method
from harness.evaluation.fits import fit
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.results.store import Store


def measured(view, pairs, *posts):
    rows_to_fit_on = view.matrix[view.rows(pairs.sentences)]
    transforms = fit(posts, rows_to_fit_on, np.random.default_rng(0))
    return measure(TOY, pairs, view, transforms)


def numbers(scores):
    """Every score by its path."""
    return {path: score_at(scores, path) for path in score_paths(scores)}


def reordered(pairs, order):
    a, b, group = (
        tuple(column[i] for i in order) for column in (pairs.a, pairs.b, pairs.group)
    )
    return Pairs(a, b, pairs.gold[order], group)


@pytest.mark.parametrize("posts", [(), (SN(), Natsv(2)), (Whitening(3),)])
def test_neither_the_order_of_pairs_nor_that_of_the_columns_moves_a_score(posts):
    view, pairs = pooled_pairs(rows(60, 6))
    shuffled = reordered(pairs, np.random.default_rng(1).permutation(len(pairs)))
    swapped = replace(pairs, a=pairs.b, b=pairs.a)
    first = numbers(measured(view, pairs, *posts).scores)
    for other in (shuffled, swapped):
        found = numbers(measured(view, other, *posts).scores)
        assert found == pytest.approx(first, abs=1e-6)  # uniformity is a float32 sum


def test_zero_vectors_are_counted_and_score_zero():
    x = rows(20, 4)
    x[0] = x[3] = 0
    found = measured(*pooled_pairs(x))
    assert found.facts["zero_vector_pairs"] == 2
    assert found.values[:2].tolist() == [0, 0]
    assert found.scores["uniformity"] is None


def test_the_positive_pairs_of_alignment_have_gold_above_four():
    x = rows(20, 4)
    view, pairs = pooled_pairs(x)
    found = measured(view, replace(pairs, gold=np.repeat([4.0, 4.5], 5)))
    unit = x[10:] / np.linalg.norm(x[10:], axis=1, keepdims=True)
    distances = ((unit[0::2] - unit[1::2]) ** 2).sum(axis=1)
    assert found.scores["alignment"] == pytest.approx(distances.mean())


def test_a_map_of_the_first_sentence_leaves_the_second_as_it_is():
    """Though each sentence is the second one of a pair, too."""
    view, pairs = pooled_pairs(rows(60, 6))
    both_ways = (*pairs.a, *pairs.b), (*pairs.b, *pairs.a)
    pairs = Pairs(*both_ways, np.tile(pairs.gold, 2), pairs.group * 2)
    x = view.matrix[view.rows(pairs.sentences)]
    shift, nulled = fit((SN(), Natsv(2)), x, np.random.default_rng(0))
    first, second = (shift(view.matrix[view.rows(side)]) for side in (pairs.a, pairs.b))
    wanted, _ = cosine(nulled(first), second)
    posts = (SN(), Natsv(2, first_alone=True))
    np.testing.assert_allclose(measured(view, pairs, *posts).values, wanted, atol=1e-12)


def test_vectors_that_are_not_finite_are_never_scored():
    x = rows(20, 4)
    x[7, 2] = np.nan
    pooled, pairs = pooled_pairs(x)
    [text] = [text for text, row in pooled.row.items() if row == 7]
    with refused(ScoreError, f"^the encoder: .* the vector of {text!r};"):
        measured(pooled, pairs)
    with refused(ScoreError, "not finite"):
        measured(*pooled_pairs(x), SN())


class Bent(Centre):
    """Says that it is fitted from moments, and gives another map than an affine one."""

    def fit(self, x, rng):
        return np.tanh


def test_what_is_fitted_from_moments_must_be_affine():
    """Else what comes after it would be fitted on the moments before it."""
    view, pairs = pooled_pairs(rows(20, 4))
    moments, _ = view.moments(pairs.sentences)
    with refused(UsageError, "wanted an Affine of a fit from moments"):
        fit((Bent(), SN()), moments, np.random.default_rng(0))


# A fitted method as a function

PLAIN = method("first-last")
CENTRED = method("mean", "centre", on="target")
SEEDED = method("cls", "centre", "stretch", on="target")
SENTENCES = numbered(0, 12)


def loaded(wanted, folder):
    return wanted.encoder.load(folder, folder)


@pytest.mark.parametrize("wanted", [PLAIN, CENTRED, SEEDED], ids=lambda m: m.id)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_cell_of_a_run_has_the_scores_of_the_same_vectors(wanted, seed, tmp_path):
    texts = library(tmp_path)
    cell = PlannedCell(wanted, TOY, seed)
    [outcome] = execute([cell], RunContext(texts, Store(tmp_path / "runs")))
    inputs = texts.texts(TOY, "target")
    sentences = inputs.fit_corpus.sentences()
    embedder = fit_method(wanted, loaded(wanted, tmp_path), sentences, seed)
    similarities, _ = cosine(embedder(inputs.pairs.a), embedder(inputs.pairs.b))
    scores = score(TOY, similarities, inputs.pairs)
    for path in score_paths(scores):
        # Two orders of summation.
        measured = score_at(outcome.record.scores, path)
        assert score_at(scores, path) == pytest.approx(measured, abs=1e-9)


@given(st.lists(st.sampled_from(SENTENCES), max_size=20))
def test_a_row_depends_on_its_text_alone(texts):
    wanted = method("mean", "stretch", on="target")
    embedder = fit_method(wanted, FakeConfig().load("", ""), SENTENCES)
    whole = dict(zip(SENTENCES, embedder(SENTENCES), strict=True))
    assert np.array_equal(
        embedder(texts), np.array([whole[t] for t in texts]).reshape(-1, 4)
    )


def test_a_map_of_the_first_sentence_of_pairs_is_none_of_a_text(tmp_path):
    forgetful = fit(
        (Natsv(1, first_alone=True),), rows(20, 4), np.random.default_rng(0)
    )
    with refused(UsageError, "first sentence of each pair"):
        Embedder(PLAIN, loaded(PLAIN, tmp_path), forgetful)(SENTENCES)


def test_a_vector_that_is_not_finite_is_refused_by_its_text(tmp_path):
    boundless = Embedder(PLAIN, loaded(PLAIN, tmp_path), (lambda x: x * np.inf,))
    with refused(ScoreError, SENTENCES[3]):
        boundless(SENTENCES[3:])
