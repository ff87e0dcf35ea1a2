"""Scores: scipy's on any input, none where there is none, and alike however they were made."""

import json

import numpy as np
import pytest
from fakes import TOY, FakeConfig, FakeEncoder, library, method
from processes import run, scores
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import roc_auc_score

from harness.cli.printing import score_in_words
from harness.core.metrics.auc import roc_auc
from harness.core.metrics.correlation import pearson, spearman
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.results.records import largest_move
from harness.results.store import Store

ATTACK = "number"
DIGITS = 1e-12  # of a correlation between -1 and 1
CACHED, ENCODED = 1e-6, 1e-3  # points: from the cache, and encoded again otherwise


def drawn(dice):
    """Two columns of 2 to 40 numbers: smooth, with ties, of few grades, of any magnitude."""
    size = int(dice.choice([2, 3, 4, 7, 40]))
    x, y = dice.normal(size=(2, size))
    match dice.integers(4):
        case 0:
            x, y = x.round(1), y.round(0)
        case 1:
            x, y = np.tanh(x), dice.integers(0, 6, size).astype(np.float64)
        case 2:
            x, y = (
                x * 10.0 ** dice.integers(-200, 200),
                y * 10.0 ** dice.integers(-200, 200),
            )
    return x, y


def test_correlations_and_areas_are_those_of_scipy_and_scikit_learn(attacked):
    dice = np.random.default_rng(0)
    for _ in range(attacked.times(500, 10_000)):
        x, y = drawn(dice)
        if np.ptp(x) == 0 or np.ptp(y) == 0:
            assert spearman(x, y) is None
            assert pearson(x, y) is None
            attacked.count("refused")
            continue
        assert abs(spearman(x, y) / 100 - spearmanr(x, y).statistic) < DIGITS
        assert abs(pearson(x, y) / 100 - pearsonr(x, y).statistic) < DIGITS
        positive = (y > np.median(y)).astype(np.float64)
        if 0 < positive.sum() < len(y):
            assert abs(roc_auc(x, positive) / 100 - roc_auc_score(positive, x)) < DIGITS
        attacked.count("right")


# Of each encoding that has no score: what becomes of its rows, and what the run says of
# it.
BROKEN = {
    "no number": (lambda rows: rows * np.nan, "wanted finite numbers"),
    "infinite": (lambda rows: rows + np.inf, "wanted finite numbers"),
    "constant": (lambda rows: rows * 0 + 1, ""),
    "zero": (lambda rows: rows * 0, ""),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_vectors_without_a_score_are_refused_or_undefined(
    attacked, kind, tmp_path, monkeypatch
):
    harm, complaint = BROKEN[kind]
    rows = FakeEncoder.rows_of
    monkeypatch.setattr(
        FakeEncoder, "rows_of", lambda encoder, text: harm(rows(encoder, text))
    )
    planned = planned_cells([method("mean", encoder=FakeConfig())], [TOY], seeds=1)
    store = Store(tmp_path / "runs")
    [outcome] = execute(planned, RunContext(library(tmp_path), store))
    if complaint:
        assert outcome.status == "failed"
        assert complaint in outcome.message
        assert not [*tmp_path.rglob("seed-*.json")]
    else:
        assert outcome.record.scores["spearman"]["all"] is None
        assert outcome.record.facts["undefined"] == "all similarities are equal"
        assert score_in_words(outcome.record) == "undefined: all similarities are equal"
        [path] = tmp_path.rglob("seed-*.json")
        assert json.loads(path.read_text())["scores"]["spearman"]["all"] is None
    attacked.count("refused")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["bert-mini", pytest.param("minilm", marks=pytest.mark.weights)]
)
def test_neither_threads_nor_batches_move_a_score(attacked, name, tmp_path):
    methods = ("-m", f"{name}.mean", "-m", f"{name}.mean+whitening:64@target")
    command = ("run", *methods, "-t", "mini-sts")
    if attacked.times(0, 4) == 0:  # the short form takes some pairs alone
        command = (*command, "--limit", "100")
    run(*command, "--output", "true", cwd=tmp_path, OMP_NUM_THREADS="1")
    [true, *_] = [scores(path) for path in tmp_path.glob("true*")]
    assert len(true) == 2

    def measured(output, *options, threads):
        again = run(
            *command,
            "--output",
            output,
            *options,
            cwd=tmp_path,
            OMP_NUM_THREADS=threads,
        )
        assert again.status == 0, again.err
        [found] = [scores(path) for path in tmp_path.glob(f"{output}*")]
        attacked.count("right")
        return found

    for threads in ("1", "2"):
        again = measured(f"threads-{threads}", "--overwrite", threads=threads)
        assert largest_move(true, again) <= CACHED
    for tokens in ("1", "64"):
        other = ("--cache", tmp_path / f"tokens-{tokens}", "--batch-tokens", tokens)
        assert (
            largest_move(true, measured(f"batch-{tokens}", *other, threads="2"))
            <= ENCODED
        )
