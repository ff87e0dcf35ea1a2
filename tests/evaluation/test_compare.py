"""Method against method: the paired bootstrap, for two methods, for columns and for claims."""

from types import SimpleNamespace

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, library, made_record, task
from fakes import registry as fake_registry
from refusals import refused

from harness.core.errors import DataError, UsageError
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
    Contrast,
    Difference,
    holm,
)
from harness.results.folder import ResultsFolder
from harness.results.records import Cell
from harness.results.store import Store

LEXICAL = task("lexical", metric="edit-distance")
REGISTRY = fake_registry(FakeConfig())
REGISTRY.tasks["lexical"] = LEXICAL
MEAN, CLS, SEEDED = "fake.mean", "fake.cls", "fake.mean+stretch@target"
ALL = ("spearman", "all")
ON_TOY = Contrast(MEAN, CLS, (("toy", ALL),))
BOTH = (("toy", ALL), ("sts-b", ALL))


@pytest.fixture
def loader(tmp_path):
    return library(tmp_path / "library")


@pytest.fixture
def runs(tmp_path, loader):
    """Records of two methods, one of them equal to gold on a task, and five seeds of a third."""
    rng, store = np.random.default_rng(7), Store(tmp_path / "runs")
    for of in (TOY, OTHER):
        gold = loader.texts(of).pairs.gold / 5
        of_mean = gold if of == OTHER else rng.normal(size=30)
        write(store, loader, MEAN, of, of_mean, 59.0)
        write(store, loader, CLS, of, rng.normal(size=30), 58.0)
        for seed in range(5):
            values = gold + rng.normal(scale=0.5, size=30)
            write(store, loader, SEEDED, of, values, 70.0 + seed, seed)
    return store


def write(store, loader, method, of, values, score, seed=0, data=None):
    """Store the similarities of pairs, and a score."""
    digests = {"data": data or loader.texts(of).digests["data"]}
    identity = REGISTRY.parse(method).identity
    scores = {"spearman": {"all": score}}
    record = made_record(
        method, of.name, scores, seed, identity=identity, digests=digests
    )
    store.write(record, values.astype(np.float32), {})


def forget(runs, method, of, seed=0):
    """Remove the similarities of a cell."""
    runs.path(Cell(method, of.name, seed)).with_suffix(".safetensors").unlink()


def resampler(runs, loader):
    """What compares methods, on the records of a run as they are now."""
    return Resampler(ResultsFolder(runs.folder, REGISTRY), loader)


def resampled(runs, loader, method, *of_tasks, seeds=1):
    """The mean score of a method on the resamples of tasks, worked out by hand."""
    means = []
    for of in of_tasks:
        pairs = loader.texts(of).pairs
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


def test_it_is_the_paired_bootstrap_on_each_task(runs, loader):
    tests = compare_methods(MEAN, CLS, (), resampler(runs, loader))
    assert [test.contrast.scores[0][0] for test in tests] == ["toy", "sts-b"]
    assert [(test.points, test.by) for test in tests] == [(1.0, ITEMS)] * 2
    both = [resampled(runs, loader, method, OTHER) for method in (MEAN, CLS)]
    assert numbers(tests[1]) == pytest.approx(interval_and_p(*both))
    holms = holm([test.p for test in tests])
    assert [test.p_holm for test in tests] == pytest.approx(holms)
    [alone] = compare_methods(MEAN, CLS, (OTHER,), resampler(runs, loader))
    assert alone.p_holm == alone.p == tests[1].p


def test_what_cannot_be_compared_is_told_with_the_reason(runs, loader):
    def require_refused(words, *tasks, second=CLS):
        with refused((DataError, UsageError), words):
            compare_methods(MEAN, second, tasks, resampler(runs, loader))

    require_refused("wanted two methods", second=MEAN)
    require_refused("no task that fake.mean and fake.last2", second="fake.last2")
    not_run = "no-train: wanted a score of each method, found fake.mean: not run, "
    require_refused(not_run, REGISTRY.tasks["no-train"])
    write(runs, loader, CLS, TOY, np.ones(30), 58.0, data="other pairs")
    require_refused("fake.cls was scored on other pairs of toy", TOY)
    write(runs, loader, CLS, TOY, np.ones(30), None)
    require_refused("fake.cls: undefined; harness run -m fake.cls", TOY)


def test_without_similarities_the_difference_stands_without_a_test(runs, loader):
    def compared(*tasks):
        return compare_methods(MEAN, CLS, tasks, resampler(runs, loader))

    forget(runs, CLS, TOY)
    toy, other = compared()
    assert (toy.points, toy.by, toy.p, toy.p_holm) == (1.0, NO_INTERVAL, None, None)
    assert resampler(runs, loader).lacking(toy.contrast) == [CLS]
    assert other.p_holm == other.p
    forget(runs, MEAN, TOY)
    assert compared() == [other]
    assert compared(TOY)[0].by == NO_INTERVAL


# Columns of a table


def test_the_methods_of_a_column_are_tested_against_its_best(runs, loader):
    """The best is that of the means over seeds, whatever seed 0 has."""
    gold = loader.texts(TOY).pairs.gold
    write(runs, loader, SEEDED, TOY, -gold, 50.0)
    columns = {"TOY": ((TOY.name, ALL),), "lost": ((LEXICAL.name, ("alignment",)),)}
    tied = ties_with_best((MEAN, CLS, SEEDED), columns, resampler(runs, loader))
    best = resampled(runs, loader, SEEDED, TOY, seeds=5)
    others = [resampled(runs, loader, method, TOY) for method in (MEAN, CLS)]
    ps = holm([interval_and_p(best, other)[2] for other in others])
    wanted = {name for name, p in zip((MEAN, CLS), ps, strict=True) if p > 0.05}
    assert tied == {"TOY": wanted}


# What pages show


def shown(runs, loader, known=None, better=MEAN):
    """The differences of a claim on both tasks and their average."""
    contrasts = [Contrast(better, CLS, of) for of in (BOTH[:1], BOTH[1:], BOTH)]
    claim = SimpleNamespace(parts=[("", None, contrast) for contrast in contrasts])
    found = resampler(runs, loader)
    found.results.claims = SimpleNamespace(resolved=[claim])
    return compare_shown(found, known or {})


@pytest.mark.parametrize(("better", "seeds"), [(MEAN, 1), (SEEDED, 5)])
def test_an_average_has_the_interval_of_the_mean(runs, loader, better, seeds):
    made = shown(runs, loader, better=better)
    assert len(made) == 3
    for scores, tasks in ((BOTH[:1], (TOY,)), (BOTH, (TOY, OTHER))):
        first = resampled(runs, loader, better, *tasks, seeds=seeds)
        second = resampled(runs, loader, CLS, *tasks)
        found = made[Contrast(better, CLS, scores)]
        assert numbers(found) == pytest.approx(interval_and_p(first, second))
        assert found.by == (ITEMS if better == MEAN else SEEDS_AND_ITEMS)
        assert found.points == (1.0 if better == MEAN else 72 - 58)


def test_a_seed_without_similarities_leaves_the_test_over_seeds(runs, loader):
    forget(runs, SEEDED, TOY, 4)
    made = shown(runs, loader, better=SEEDED)
    assert {contrast.scores for contrast in made} == {BOTH[1:]}


def test_a_known_difference_stays_until_its_scores_move(runs, loader):
    def known(points):
        return {
            ON_TOY: Difference(
                contrast=ON_TOY, points=points, low=-1.0, high=2.0, p=0.5, by=ITEMS
            )
        }

    assert shown(runs, loader, known(1.0))[ON_TOY] == known(1.0)[ON_TOY]
    assert shown(runs, loader, known(2.4))[ON_TOY].points == 1.0
    for of in (TOY, OTHER):
        forget(runs, MEAN, of)
    assert shown(runs, loader) == {}
    for record in runs.folder.rglob("fake.cls/**/seed-0.json"):
        record.unlink()
    assert shown(runs, loader, known(1.0)) == known(1.0)
