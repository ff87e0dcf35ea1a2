"""Method against method: the paired bootstrap, for two methods, for columns and for claims."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, library, made_record, task
from fakes import registry as fake_registry

from harness.core.errors import DataError, UsageError
from harness.core.pairs import Pairs
from harness.evaluation.compare import against_best, compare_claims, compare_methods
from harness.evaluation.resampler import (
    RESAMPLED,
    RESAMPLES,
    RESAMPLING_SEED,
    MethodGroup,
    Resampler,
    item_texts,
)
from harness.results.bootstrap import (
    bootstrap_scores,
    compare_resamples,
    draw_counts,
    generator_of,
    holm,
    seed_weights,
)
from harness.results.claims import read_claims
from harness.results.folder import ResultsFolder
from harness.results.intervals import (
    ITEMS_ALONE,
    SEEDS_AND_ITEMS,
    Contrast,
    Interval,
    intervals_file,
    read_intervals,
    write_intervals,
)
from harness.results.published import Column, Row, Table
from harness.results.records import Cell
from harness.results.store import Store

LEXICAL = task("lexical", metric="edit-distance")
REGISTRY = fake_registry(FakeConfig())
REGISTRY = replace(REGISTRY, tasks={**REGISTRY.tasks, "lexical": LEXICAL})
METHODS = ("fake.mean", "fake.cls")
SEEDED = "fake.mean+stretch@target"
COLUMNS = (Column("toy", "TOY", task="toy"), Column("sts-b", "STS-B", task="sts-b"))
ROWS = (
    Row(
        "high", "High", "", "", "", {"toy": "70.00", "sts-b": "60.00"}, why_not="quoted"
    ),
    Row("low", "Low", "", "", "", {"toy": "50.00", "sts-b": "50.00"}, why_not="quoted"),
)
TABLE = Table(
    "made-up", "", "", "", "", "", "spearman", COLUMNS, ROWS, aggregation="all"
)
CLAIMS = """
about = "About the model."
[rows."made-up"]
high = "fake.mean"
low = "fake.cls"
[[claim]]
id = "high-above-low"
claim = "High lies above low."
table = "made-up"
better = "high"
worse = "low"
"""
ALL = ("spearman", "all")


def interval_of(contrast, difference, low, high):
    return Interval(
        contrast, difference, low, high, p=0.5, by=ITEMS_ALONE, resamples=9, seed=0
    )


ON_TOY = Contrast(*METHODS, (("toy", ALL),))
AVERAGE = Contrast(*METHODS, (("toy", ALL), ("sts-b", ALL)))


@pytest.fixture
def loader(tmp_path):
    return library(tmp_path / "library")


@pytest.fixture
def runs(tmp_path, loader):
    """Records of both methods: alike on one task, one equal to gold on the other."""
    rng, store = np.random.default_rng(7), Store(tmp_path / "runs")
    for method in METHODS:
        for of in (TOY, OTHER):
            inputs = loader.texts(of)
            values = rng.normal(size=len(inputs.pairs))
            if (method, of) == ("fake.mean", OTHER):
                values = inputs.pairs.gold / 5
            write(store, method, of, values, inputs.digests["data"])
    return store


def write(store, method, of, values, data, scores=None, seed=0):
    scores = scores or {"spearman": {"all": 50.0 + len(method)}}
    known = {"identity": REGISTRY.parse(method).identity, "digests": {"data": data}}
    made = made_record(method, of.name, scores, seed, pairs=len(values), **known)
    store.write(made, values.astype(np.float32), {})


def resampler(runs, loader):
    """What compares methods, on the records of a run as they are now."""
    return Resampler(ResultsFolder(runs.folder, REGISTRY), loader)


def resampled(runs, loader, of, methods=METHODS):
    """The scores of methods on the resamples of a task."""
    pairs = loader.texts(of).pairs
    columns = np.stack([runs.cosines(Cell(method, of.name)) for method in methods])
    counts = draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED)
    return bootstrap_scores(columns, pairs.gold, pairs.group, counts)


# Two methods


def test_it_is_the_paired_bootstrap_on_each_task(runs, loader):
    tests = compare_methods(*METHODS, (), resampler(runs, loader))
    assert [test.task for test in tests] == ["toy", "sts-b"]
    ps = []
    for test, of in zip(tests, (TOY, OTHER), strict=True):
        wanted = compare_resamples(*resampled(runs, loader, of))
        assert (test.low, test.high, test.p) == pytest.approx(
            (wanted.low, wanted.high, wanted.p)
        )
        assert (test.first, test.second, test.difference) == (59.0, 58.0, 1.0)
        ps.append(wanted.p)
    assert [test.p_holm for test in tests] == pytest.approx(holm(ps))
    assert [test.differs for test in tests] == [False, True]


def test_a_chosen_task_is_compared_alone(runs, loader):
    [test] = compare_methods(*METHODS, (OTHER,), resampler(runs, loader))
    assert (test.task, test.p_holm) == ("sts-b", test.p)


def test_what_cannot_be_compared_is_told_with_the_reason(runs, loader, monkeypatch):
    def refused(*tasks, match, error=UsageError, second="fake.cls"):
        with pytest.raises(error, match=match):
            compare_methods("fake.mean", second, tasks, resampler(runs, loader))

    refused(match="no task that fake.mean and fake.last2", second="fake.last2")
    refused(
        REGISTRY.tasks["no-train"],
        match="no record of fake.mean and of fake.cls on no-train",
    )
    for method in METHODS:
        write(runs, method, LEXICAL, np.ones(30), "d", {"edit_distance": -5.0})
    monkeypatch.delitem(RESAMPLED, ("edit_distance",))
    refused(
        LEXICAL, match="lexical: wanted a score that resamples compute again, found"
    )
    write(runs, "fake.cls", TOY, np.ones(30), "other pairs", {"spearman": {"all": 3.0}})
    refused(TOY, match="fake.cls was scored on other pairs of toy", error=DataError)
    write(runs, "fake.cls", TOY, np.ones(30), "d", {"spearman": {"all": None}})
    refused(TOY, match="toy: a score is undefined")


def test_without_similarities_the_difference_stands_without_a_test(runs, loader):
    def compared(*tasks):
        return compare_methods(*METHODS, tasks, resampler(runs, loader))

    runs.path(Cell("fake.cls", "toy")).with_suffix(".safetensors").unlink()
    toy, other = compared()
    assert (toy.first, toy.second, toy.difference, toy.missing) == (
        59.0,
        58.0,
        1.0,
        ("fake.cls",),
    )
    assert (toy.low, toy.p, toy.differs) == (None, None, None)
    assert (other.missing, other.p_holm, other.differs) == ((), other.p, True)
    runs.path(Cell("fake.mean", "toy")).with_suffix(".safetensors").unlink()
    assert compared() == [other]
    assert compared(TOY)[0].missing == METHODS


def test_the_methods_of_a_column_are_tested_against_its_best_with_holms_correction(
    runs, loader
):
    values = np.random.default_rng(8).normal(size=30)
    digest = runs.read(Cell("fake.cls", "toy")).digests["data"]
    write(
        runs, "fake.mean+centre@target", TOY, values, digest
    )  # its score is the highest
    methods = (*METHODS, "fake.mean+centre@target")
    column = MethodGroup(methods, ((TOY, ALL),))
    columns = {
        "TOY": column,
        "no column": MethodGroup(("fake.last", "fake.cls"), column.scores),
    }
    tested = against_best(columns, resampler(runs, loader))
    first, second, best = resampled(runs, loader, TOY, methods)
    adjusted = holm([compare_resamples(best, other).p for other in (first, second)])
    assert tested == {
        "TOY": {methods[2]: 1.0, **dict(zip(METHODS, adjusted, strict=True))}
    }
    assert adjusted != [compare_resamples(best, other).p for other in (first, second)]
    write(runs, methods[2], TOY, values, "other pairs")
    with pytest.raises(DataError, match="was scored on other pairs of toy"):
        against_best(columns, resampler(runs, loader))


# Claims


def intervals(runs, loader, known=None, claims=CLAIMS):
    """The intervals of a claim on both tasks and their average."""
    path = runs.folder.parent / "claims.toml"
    path.write_text(claims)
    return compare_claims(
        read_claims(path, [TABLE]), resampler(runs, loader), known or {}
    )


def test_an_interval_is_the_paired_bootstraps_and_an_averages_that_of_the_mean(
    runs, loader
):
    made = intervals(runs, loader)
    on_toy, on_other = (resampled(runs, loader, of) for of in (TOY, OTHER))
    for contrast, scores in ((ON_TOY, on_toy), (AVERAGE, (on_toy + on_other) / 2)):
        wanted, interval = compare_resamples(*scores), made[contrast]
        assert (interval.low, interval.high) == pytest.approx(
            (wanted.low, wanted.high), abs=1e-4
        )
        assert (interval.difference, interval.resamples) == (1.0, RESAMPLES)
        assert (interval.p, interval.by) == (wanted.p, ITEMS_ALONE)
    assert len(made) == 3


def write_seeds(runs, loader, seeds=range(5)):
    """A seeded method on both tasks; what each seed gave the pairs."""
    rng, given = np.random.default_rng(11), {}
    for of in (TOY, OTHER):
        inputs = loader.texts(of)
        for seed in seeds:
            values = inputs.pairs.gold / 5 + rng.normal(
                scale=0.5, size=len(inputs.pairs)
            )
            scores = {"spearman": {"all": 70.0 + seed}}
            write(runs, SEEDED, of, values, inputs.digests["data"], scores, seed)
            given[of, seed] = values
    return given


def test_an_interval_of_a_seeded_method_is_over_seeds_and_items(runs, loader):
    given = write_seeds(runs, loader)
    made = intervals(runs, loader, claims=CLAIMS.replace('"fake.mean"', f'"{SEEDED}"'))
    weights = seed_weights(
        5, RESAMPLES, generator_of(f"seeds of {SEEDED}", RESAMPLING_SEED)
    )
    on_tasks = []
    for of in (TOY, OTHER):
        pairs = loader.texts(of).pairs
        columns = np.stack([given[of, seed].astype(np.float32) for seed in range(5)])
        counts = draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED)
        scores = bootstrap_scores(columns, pairs.gold, pairs.group, counts)
        [fixed] = resampled(runs, loader, of, ["fake.cls"])
        on_tasks.append(((weights * scores).sum(axis=0), fixed))
    on_toy, on_other = on_tasks
    both = (np.add(on_toy[0], on_other[0]) / 2, np.add(on_toy[1], on_other[1]) / 2)
    for scores, of in ((on_toy, ON_TOY.scores), (both, AVERAGE.scores)):
        interval, wanted = (
            made[Contrast(SEEDED, "fake.cls", of)],
            compare_resamples(*scores),
        )
        assert (interval.low, interval.high) == pytest.approx(
            (wanted.low, wanted.high), abs=1e-4
        )
        assert (interval.p, interval.by) == (wanted.p, SEEDS_AND_ITEMS)
        assert interval.difference == 72 - 58


@pytest.mark.parametrize("lost", [0, 4])
def test_a_seed_without_similarities_leaves_the_test_over_seeds(runs, loader, lost):
    write_seeds(runs, loader)
    runs.path(Cell(SEEDED, "toy", lost)).with_suffix(".safetensors").unlink()
    made = intervals(runs, loader, claims=CLAIMS.replace('"fake.mean"', f'"{SEEDED}"'))
    assert {contrast.scores for contrast in made} == {(("sts-b", ALL),)}


def test_rows_of_a_table_are_compared_over_their_seeds(runs, loader):
    """A column's best is that of the means; seed 0 of it alone is no better than the other."""
    write_seeds(runs, loader)
    pairs, digest = loader.texts(TOY).pairs, loader.texts(TOY).digests["data"]
    write(runs, SEEDED, TOY, -pairs.gold, digest, {"spearman": {"all": 70.0}})
    column = {"TOY": MethodGroup((SEEDED, "fake.cls"), ((TOY, ALL),))}
    [tested] = against_best(column, resampler(runs, loader)).values()
    weights = seed_weights(
        5, RESAMPLES, generator_of(f"seeds of {SEEDED}", RESAMPLING_SEED)
    )
    columns = np.stack([runs.cosines(Cell(SEEDED, "toy", seed)) for seed in range(5)])
    counts = draw_counts(item_texts(pairs), RESAMPLES, RESAMPLING_SEED)
    scores = (weights * bootstrap_scores(columns, pairs.gold, pairs.group, counts)).sum(
        axis=0
    )
    [other] = resampled(runs, loader, TOY, ["fake.cls"])
    assert tested == {SEEDED: 1.0, "fake.cls": compare_resamples(scores, other).p}


def test_pairs_are_the_same_item_in_either_order_and_in_any_text_form():
    raw = Pairs(("A man's dog.", "Two"), ("“Yes!”", "three"), np.zeros(2), ("", ""))
    tokenised = Pairs(
        ("`` yes ! ''", "three"), ("A man 's dog .", "four"), np.zeros(2), ("", "")
    )
    first, second = item_texts(raw), item_texts(tokenised)
    assert first[0] == second[0]
    assert len({*first, *second}) == 3
    assert item_texts(Pairs(("Two", "two ."), (), np.zeros(2), ("", ""))) == [
        "two",
        "two",
    ]


def test_a_known_interval_stays_until_its_difference_moves(runs, loader):
    known = {ON_TOY: interval_of(ON_TOY, 1.0, -1.0, 1.0)}
    assert intervals(runs, loader, known)[ON_TOY] == known[ON_TOY]
    moved = {ON_TOY: interval_of(ON_TOY, 2.4, -1.0, 1.0)}
    assert intervals(runs, loader, moved)[ON_TOY].difference == 1.0


def test_what_was_not_measured_here_keeps_what_is_known_and_gets_nothing_new(
    runs, loader
):
    for similarities in runs.folder.rglob("fake.mean/**/*.safetensors"):
        similarities.unlink()
    assert intervals(runs, loader) == {}
    for record in runs.folder.rglob("fake.cls/**/seed-0.json"):
        record.unlink()
    known = {ON_TOY: interval_of(ON_TOY, 1.0, -1.0, 1.0)}
    assert intervals(runs, loader, known) == known


def test_intervals_are_read_as_they_were_written(tmp_path):
    assert read_intervals(tmp_path) == {}
    known = {
        AVERAGE: interval_of(AVERAGE, 2.5, -1.0, 1.0),
        ON_TOY: interval_of(ON_TOY, 1.0, 0.5, 2.0),
    }
    write_intervals(tmp_path, known)
    assert read_intervals(tmp_path) == known
    file = intervals_file(tmp_path)
    text = file.read_text().replace("low", "lowest")
    file.write_text(text)
    with pytest.raises(
        DataError, match=r"claims\.json, interval 1: unknown key .lowest."
    ):
        read_intervals(tmp_path)
