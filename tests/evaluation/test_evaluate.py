"""A fitted method as a function: the vectors of a run, whatever stands around a text."""

import numpy as np
import pytest
from fakes import TOY, FakeConfig, library, method, numbered
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from harness.core.errors import ScoreError
from harness.core.metrics import cosine, score
from harness.core.types import score_at, score_paths
from harness.evaluation.evaluate import Embedder, fit_method
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.results.store import Store

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


def test_a_vector_that_is_not_finite_is_refused_by_its_text(tmp_path):
    boundless = Embedder(PLAIN, loaded(PLAIN, tmp_path), (lambda x: x * np.inf,))
    with refused(ScoreError, SENTENCES[3]):
        boundless(SENTENCES[3:])
