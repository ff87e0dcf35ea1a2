"""The paired bootstrap, and methods compared by it: two of them, the columns of a table, claims."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
from fakes import OTHER, TOY, FakeConfig, library, made_record, task
from fakes import registry as fake_registry
from refusals import refused

from harness.conclusions.folder import Conclusions
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.metrics.auc import roc_auc
from harness.core.pairs import Pairs, pairs_digest
from harness.evaluation import bootstrap
from harness.evaluation.bootstrap import (
    bootstrap_scores,
    draw_counts,
    generator_of,
    interval_and_p,
    item_texts,
    seed_weights,
)
from harness.evaluation.compare import (
    RESAMPLES,
    Resampler,
    compare_methods,
    compare_shown,
    ties_with_best,
)
from harness.results.differences import (
    ITEMS,
    NO_INTERVAL,
    SEEDS_AND_ITEMS,
    BestTests,
    Contrast,
    Difference,
    holm,
)
from harness.results.index import column_value
from harness.results.records import Cell
from harness.results.store import Store

SEED = 5


def items(gold, groups=()):
    """Items with these gold scores, in one group unless several are named."""
    texts = tuple(f"item {number}" for number in range(len(gold)))
    return Pairs(texts, (), gold, groups or ("",) * len(gold))


def counts(pairs, resamples):
    return draw_counts(pairs.a, resamples)


def drawn(pairs, resamples):
    """The rows that each resample holds."""
    rows = np.arange(len(pairs))
    return [np.repeat(rows, column) for column in counts(pairs, resamples).T]


def made(size=60, ties=True):
    """Similarities of two methods and the gold that they follow, both with many ties."""
    rng = np.random.default_rng(size)
    gold = rng.integers(6, size=size).astype(float)
    similarities = gold / 10 + rng.normal(scale=0.3, size=(2, size))
    return (np.round(similarities, 1) if ties else similarities), gold


def spearman(x, gold):
    return 100 * scipy.stats.spearmanr(x, gold).statistic


ORACLES = {
    ("spearman", "all"): spearman,
    ("pearson", "all"): lambda x, gold: 100 * scipy.stats.pearsonr(x, gold).statistic,
    ("auc",): roc_auc,
    ("accuracy",): lambda x, gold: 100 * np.mean(x == gold),
}


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("path", ORACLES, ids="-".join)
def test_each_score_is_the_oracles_on_the_drawn_items(path, ties, monkeypatch):
    """In several blocks of resamples, the last of which is smaller."""
    monkeypatch.setattr(bootstrap, "COUNTS_IN_BLOCK", 60 * 7)
    columns, gold = made(ties=ties)
    oracle = ORACLES[path]
    if path in (("auc",), ("accuracy",)):
        gold = (gold > 2).astype(float)
    if path == ("accuracy",):
        columns = (columns > 0.3).astype(float)
    pairs = items(gold)
    scores = bootstrap_scores(columns, pairs, path, counts(pairs, 40))
    expected = [[oracle(x[i], gold[i]) for i in drawn(pairs, 40)] for x in columns]
    # points, so 1e-10 is 1e-12 of a correlation
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-10)


def test_means_over_groups_keep_the_weight_of_each_group():
    columns, gold = made(size=70)
    group = np.array(["b"] * 20 + ["a"] * 40 + ["b"] * 10)
    pairs, path = items(gold, tuple(group)), ("spearman", "wmean")
    expected = np.zeros(30)
    for number, rows in enumerate(drawn(pairs, 30)):
        for name, size in (("b", 30), ("a", 40)):
            i = rows[group[rows] == name]
            expected[number] += size / 70 * spearman(columns[0][i], gold[i])
    scores = bootstrap_scores(columns, pairs, path, counts(pairs, 30))
    np.testing.assert_allclose(scores[0], expected, rtol=0, atol=1e-10)  # as above


@pytest.mark.parametrize(
    "path", [("spearman", "all"), ("pearson", "all"), ("pearson", "wmean"), ("auc",)]
)
def test_a_resample_with_a_constant_column_is_left_out(path):
    """Many sums are inexact, so that a constant column leaves noise."""
    gold = np.array([0.0] * 60 + [1.0])
    pairs = items(gold)
    columns = np.random.default_rng(SEED).normal(size=(2, 61))
    scores = bootstrap_scores(columns, pairs, path, counts(pairs, 2000))
    constant = counts(pairs, 2000)[60] == 0
    assert 600 < constant.sum() < 900  # 1/e
    np.testing.assert_array_equal(np.isnan(scores), [constant, constant])
    assert interval_and_p(*scores) == interval_and_p(*scores[:, ~constant])
    with refused(ScoreError, "constant"):
        interval_and_p(*scores[:, constant])


@pytest.mark.parametrize("path", [("spearman", "all"), ("pearson", "all"), ("auc",)])
def test_a_score_has_no_unit_and_a_constant_column_no_score(path):
    columns, gold = made()
    pairs = items((gold > 2).astype(float))
    drawn_items = counts(pairs, 20)
    scores = bootstrap_scores(columns, pairs, path, drawn_items)
    for unit in (1e-15, 1e15):
        of_unit = bootstrap_scores(columns * unit, pairs, path, drawn_items)
        np.testing.assert_allclose(of_unit, scores, rtol=0, atol=1e-10)  # as above
    same = bootstrap_scores(np.full((1, 60), 0.3), pairs, path, drawn_items)
    assert (same == 50).all() if path == ("auc",) else np.isnan(same).all()


def test_an_empty_resample_has_no_score(monkeypatch):
    """One in e of a single item. Blocks are of one resample where the items fill a block."""
    monkeypatch.setattr(bootstrap, "COUNTS_IN_BLOCK", 1)
    one, two = items(np.array([1.0])), items(np.array([0.0, 1.0]))
    is_empty = counts(one, 50).sum(axis=0) == 0
    assert 0 < is_empty.sum() < 50
    [right] = bootstrap_scores(np.array([[1.0]]), one, ("accuracy",), counts(one, 50))
    np.testing.assert_array_equal(right, np.where(is_empty, np.nan, 100.0))
    is_whole = (counts(two, 50) > 0).all(axis=0)
    for path in (("spearman", "all"), ("pearson", "all"), ("auc",)):
        [found] = bootstrap_scores(np.array([[0.2, 0.9]]), two, path, counts(two, 50))
        wanted = np.where(is_whole, 100.0, np.nan)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)  # as above


# What is drawn


def test_draws_are_those_of_the_stored_intervals():
    """Another seed or generator would move every interval that is in results."""
    drawn_items = draw_counts(["a man is eating", "a dog runs"], 8)
    assert drawn_items[0].tolist() == [0, 1, 2, 2, 1, 3, 0, 1]
    assert drawn_items[1].tolist() == [0, 2, 1, 1, 3, 0, 1, 2]


def test_counts_are_poissons_and_an_item_that_tasks_share_is_drawn_once():
    once = draw_counts(["a", "b", "a"], 20_000)
    np.testing.assert_array_equal(once[0], once[2])
    np.testing.assert_array_equal(once[1:], draw_counts(["b", "a"], 20_000))
    # Mean and variance are 1; their standard errors here are 0.007 and 0.012.
    assert once[:2].mean(axis=1) == pytest.approx([1, 1], abs=0.03)
    assert once[:2].var(axis=1) == pytest.approx([1, 1], abs=0.05)
    assert abs(np.corrcoef(once[0], once[1])[0, 1]) < 0.03


def test_pairs_are_the_same_item_in_either_order_and_in_any_text_form():
    raw = Pairs(("A man's dog.", "Two"), ("“Yes!”", "three"), np.zeros(2), ("", ""))
    tokenised = Pairs(
        ("`` yes ! ''", "three"), ("A man 's dog .", "four"), np.zeros(2), ("", "")
    )
    first, second = item_texts(raw), item_texts(tokenised)
    assert first[0] == second[0]
    assert len({*first, *second}) == 3
    single = Pairs(("Two", "two ."), (), np.zeros(2), ("", ""))
    assert item_texts(single) == ["two", "two"]


@pytest.mark.parametrize("seeds", [2, 5, 8])
def test_the_mean_over_seeds_varies_as_students_t(seeds):
    rng = np.random.default_rng(SEED)
    scores = rng.normal(size=seeds)
    weights = seed_weights(seeds, 200_000, rng)
    np.testing.assert_allclose(weights.sum(axis=0), 1)
    error = scores.std(ddof=1) / np.sqrt(seeds)
    found = np.quantile((scores @ weights - scores.mean()) / error, [0.025, 0.5, 0.975])
    t = scipy.stats.t.ppf(0.975, seeds - 1)
    assert found == pytest.approx([-t, 0, t], rel=0.03, abs=0.02)
    np.testing.assert_array_equal(seed_weights(1, 3, rng), np.ones((1, 3)))


# Intervals and p


def test_interval_and_p_by_hand():
    a = np.array([5.0, 4.0] + [3.0] * 34 + [0.0] + [-1.0, -2.0])
    low, high, p = interval_and_p(a, np.zeros(39))
    assert p == interval_and_p(np.zeros(39), a)[2] == 2 * (1 + 3) / 40
    # Rank .95 of 38 lies between -2 and -1, and rank 37.05 between 4 and 5.
    assert (low, high) == pytest.approx((-1.05, 4.05))
    assert interval_and_p(a, a + 1e-13) == (0.0, 0.0, 1.0)  # but for rounding


def test_an_interval_over_seeds_and_items_holds_the_truth_in_95_of_100():
    """Scores are of five seeds and 80 items, both drawn anew: an accuracy with effects of each."""
    rng, trials, held = np.random.default_rng(SEED), 300, 0
    pairs = items(np.ones(80))
    drawn_items = counts(pairs, 999)
    for _ in range(trials):
        ability = 0.8 * rng.normal(size=(5, 1)) + rng.normal(size=80)
        right = (ability + rng.normal(size=(5, 80)) > 0).astype(float)  # 50 % in truth
        scores = bootstrap_scores(right, pairs, ("accuracy",), drawn_items)
        mean = (seed_weights(5, 999, rng) * scores).sum(axis=0)
        low, high, _ = interval_and_p(mean, np.zeros(999))
        held += low <= 50 <= high
    # Three standard errors of a share of .95 among 300 are 0.038. Seeds that differ in
    # what they make of the same items are counted twice, which widens it.
    assert held / trials >= 0.912


LEXICAL = task("lexical", metric="edit-distance")
REGISTRY = fake_registry(FakeConfig())
REGISTRY.tasks["lexical"] = LEXICAL
MEAN, CLS, SEEDED = "fake.mean", "fake.cls", "fake.mean+stretch@target"
ALL = ("spearman", "all")
ON_TOY = Contrast(MEAN, CLS, (("toy", ALL),))
BOTH = (("toy", ALL), ("sts-b", ALL))
NOWHERE = Path("nowhere")  # these tasks read no file


@pytest.fixture
def runs(tmp_path):
    """Records of two methods, one of them equal to gold on a task, and five seeds of a third."""
    rng, store = np.random.default_rng(7), Store(tmp_path / "runs")
    for of in (TOY, OTHER):
        gold = of.pairs(NOWHERE).gold / 5
        of_mean = gold if of == OTHER else rng.normal(size=30)
        write(store, MEAN, of, of_mean, 59.0)
        write(store, CLS, of, rng.normal(size=30), 58.0)
        for seed in range(5):
            values = gold + rng.normal(scale=0.5, size=30)
            write(store, SEEDED, of, values, 70.0 + seed, seed)
    return store


def write(store, method, of, values, score, seed=0, data=None):
    """Store the similarities of pairs, and a score."""
    record = made_record(
        method,
        of.name,
        {"spearman": {"all": score}},
        seed,
        identity=REGISTRY.parse(method).identity,
        digests={"data": data or pairs_digest(of.pairs(NOWHERE))},
    )
    store.write(record, values.astype(np.float32), {})


def forget(runs, method, of, seed=0):
    """Remove the similarities of a cell."""
    runs.path(Cell(method, of.name, seed)).with_suffix(".safetensors").unlink()


def resampler(runs):
    """What compares methods, on the records of a run as they are now."""
    return Resampler(Conclusions(runs.folder, REGISTRY), library(runs.folder))


def resampled(runs, method, *of_tasks, seeds=1):
    """The mean score of a method on the resamples of tasks, worked out by hand."""
    means = []
    for of in of_tasks:
        pairs = of.pairs(NOWHERE)
        columns = [runs.cosines(Cell(method, of.name, seed)) for seed in range(seeds)]
        counts = draw_counts(item_texts(pairs), RESAMPLES)
        scores = bootstrap_scores(np.stack(columns), pairs, ALL, counts)
        generator = generator_of(f"seeds of {method}")
        weights = seed_weights(seeds, RESAMPLES, generator)
        means.append((weights * scores).sum(axis=0))
    return np.mean(means, axis=0)


def numbers(difference):
    return difference.low, difference.high, difference.p


# Two methods


def test_it_is_the_paired_bootstrap_on_each_task(runs):
    tests = compare_methods(MEAN, CLS, (), resampler(runs))
    assert [test.contrast.scores[0][0] for test in tests] == ["toy", "sts-b"]
    assert [(test.points, test.by) for test in tests] == [(1.0, ITEMS)] * 2
    both = [resampled(runs, method, OTHER) for method in (MEAN, CLS)]
    assert numbers(tests[1]) == pytest.approx(interval_and_p(*both))
    holms = holm([test.p for test in tests])
    assert [test.p_holm for test in tests] == pytest.approx(holms)
    [alone] = compare_methods(MEAN, CLS, (OTHER,), resampler(runs))
    assert alone.p_holm == alone.p == tests[1].p


def test_what_cannot_be_compared_is_told_with_the_reason(runs):
    def require_refused(words, *tasks, second=CLS):
        with refused((DataError, UsageError), words):
            compare_methods(MEAN, second, tasks, resampler(runs))

    require_refused("wanted two methods", second=MEAN)
    require_refused("no task that fake.mean and fake.last2", second="fake.last2")
    not_run = "no-train: wanted a score of each method, found fake.mean: not run, "
    require_refused(not_run, REGISTRY.tasks["no-train"])
    write(runs, CLS, TOY, np.ones(30), 58.0, data="other pairs")
    require_refused("fake.cls was scored on other pairs of toy", TOY)
    write(runs, CLS, TOY, np.ones(30), None)
    require_refused("fake.cls: undefined; harness run -m fake.cls", TOY)


def test_without_similarities_the_difference_stands_without_a_test(runs):
    def compared(*tasks):
        return compare_methods(MEAN, CLS, tasks, resampler(runs))

    forget(runs, CLS, TOY)
    toy, other = compared()
    assert (toy.points, toy.by, toy.p, toy.p_holm) == (1.0, NO_INTERVAL, None, None)
    assert resampler(runs).lacking(toy.contrast) == [CLS]
    assert other.p_holm == other.p
    forget(runs, MEAN, TOY)
    assert compared() == [other]
    assert compared(TOY)[0].by == NO_INTERVAL


# Columns of a table


def test_the_methods_of_a_column_are_tested_against_its_best(runs):
    """The best is that of the means over seeds, whatever seed 0 has."""
    gold = TOY.pairs(NOWHERE).gold
    write(runs, SEEDED, TOY, -gold, 50.0)
    columns = {"TOY": ((TOY.name, ALL),), "lost": ((LEXICAL.name, ("alignment",)),)}
    tied = ties_with_best((MEAN, CLS, SEEDED), columns, resampler(runs))
    best = resampled(runs, SEEDED, TOY, seeds=5)
    others = [resampled(runs, method, TOY) for method in (MEAN, CLS)]
    ps = holm([interval_and_p(best, other)[2] for other in others])
    wanted = {name for name, p in zip((MEAN, CLS), ps, strict=True) if p > 0.05}
    assert tied == {"TOY": BestTests(frozenset(wanted), untested=frozenset())}


def test_one_method_without_similarities_leaves_the_others_tested(runs):
    """One row without a score switched off the test of its column."""
    columns = {"TOY": ((TOY.name, ALL),)}
    methods = (MEAN, CLS, SEEDED)
    whole = ties_with_best(methods, columns, resampler(runs))["TOY"]
    best = max(methods, key=lambda name: column_value(
        resampler(runs).results.records, name, columns["TOY"]).mean)  # fmt: skip
    first, second = (name for name in methods if name != best)
    not_measured = "fake.pooler"
    same = ties_with_best((*methods, not_measured), columns, resampler(runs))
    assert same == {"TOY": whole}
    forget(runs, first, TOY)
    column = ties_with_best(methods, columns, resampler(runs))["TOY"]
    assert column.untested == {first}
    assert column.tied <= {second}
    forget(runs, best, TOY)  # each test is against the best
    assert ties_with_best(methods, columns, resampler(runs)) == {}


# What pages show


def shown(runs, known=None, better=MEAN):
    """The differences of a claim on both tasks and their average."""
    contrasts = [Contrast(better, CLS, of) for of in (BOTH[:1], BOTH[1:], BOTH)]
    claim = SimpleNamespace(parts=[("", None, contrast) for contrast in contrasts])
    found = resampler(runs)
    found.results.claims = SimpleNamespace(resolved=[claim])
    return compare_shown(found, known or {})


@pytest.mark.parametrize(("better", "seeds"), [(MEAN, 1), (SEEDED, 5)])
def test_an_average_has_the_interval_of_the_mean(runs, better, seeds):
    made = shown(runs, better=better)
    assert len(made) == 3
    for scores, tasks in ((BOTH[:1], (TOY,)), (BOTH, (TOY, OTHER))):
        first = resampled(runs, better, *tasks, seeds=seeds)
        second = resampled(runs, CLS, *tasks)
        found = made[Contrast(better, CLS, scores)]
        assert numbers(found) == pytest.approx(interval_and_p(first, second))
        assert found.by == (ITEMS if better == MEAN else SEEDS_AND_ITEMS)
        assert found.points == (1.0 if better == MEAN else 72 - 58)


def test_a_seed_without_similarities_leaves_the_test_over_seeds(runs):
    forget(runs, SEEDED, TOY, 4)
    made = shown(runs, better=SEEDED)
    assert {contrast.scores for contrast in made} == {BOTH[1:]}


def test_a_known_difference_stays_until_its_scores_move(runs):
    def known(points):
        return {
            ON_TOY: Difference(
                contrast=ON_TOY, points=points, low=-1.0, high=2.0, p=0.5, by=ITEMS
            )
        }

    assert shown(runs, known(1.0))[ON_TOY] == known(1.0)[ON_TOY]
    assert shown(runs, known(2.4))[ON_TOY].points == 1.0
    for of in (TOY, OTHER):
        forget(runs, MEAN, of)
    assert shown(runs) == {}
    for record in runs.folder.rglob("fake.cls/**/seed-0.json"):
        record.unlink()
    assert shown(runs, known(1.0)) == known(1.0)
