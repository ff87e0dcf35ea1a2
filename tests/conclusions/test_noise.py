"""Widths of differences: against simulations, a bootstrap, and the data; leads."""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from committed import FOLDER, TABLES
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness.conclusions.noise import (
    LeadKind,
    Spread,
    Spreads,
    between_of,
    chain_of,
    has_fit_seed,
    has_training_seed,
    lead,
    leads_of,
    least_difference,
)
from harness.conclusions.training_data import SeenPairs
from harness.conclusions.widths import (
    ASSUMED_BETWEEN,
    LEVEL_95,
    TaskPairs,
    TaskScores,
    chance_to_find,
    deviation_of_a_pair,
    pairs_of_task,
    standard_error,
    task_pairs,
)
from harness.core.metrics import PairRows, cosine
from harness.evaluation.bootstrap import bootstrap_scores, draw_counts, item_texts
from harness.registry import load_registry
from harness.results.scorings import SEVEN

# One standard deviation of 1,000 resamples is known to 2.2 %.
RESAMPLES = 1000
ENCODERS = ("glove-mini.mean", "bert-mini.mean")


# The formula

correlations = st.floats(-0.95, 0.95)


@given(correlations, correlations, st.floats(-1, 1))
def test_the_deviation_is_symmetric_and_real_whatever_the_correlations(a, b, between):
    one = deviation_of_a_pair(a, b, between)
    assert one == pytest.approx(deviation_of_a_pair(b, a, between))
    assert one == pytest.approx(deviation_of_a_pair(-a, -b, between))
    assert one >= 0


@given(
    st.floats(-0.9, 0.9), st.floats(0.8, 0.96), st.sampled_from(["spearman", "pearson"])
)
def test_systems_that_agree_more_are_told_apart_sooner(score, between, correlation):
    """In the range that is assumed. (The formula turns around below it, for scores above 0.91.)"""
    nearer, further = (
        deviation_of_a_pair(score, score, each, correlation)
        for each in (between + 0.02, between)
    )
    assert nearer <= further
    same = deviation_of_a_pair(score, score, 1.0, correlation)
    assert same == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("first", "second", "between"), [(0.8, 0.75, 0.9), (0.6, 0.4, 0.5), (0.7, 0.7, 0.6)]
)
def test_pearsons_deviation_is_that_of_simulated_normal_pairs(first, second, between):
    rng = np.random.default_rng(0)
    matrix = np.array([[1, first, second], [first, 1, between], [second, between, 1]])
    n, repeats = 400, 4000
    draws = rng.standard_normal((repeats, n, 3)) @ np.linalg.cholesky(matrix).T
    draws -= draws.mean(axis=1, keepdims=True)
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    with_gold = np.einsum("rn,rnk->rk", draws[:, :, 0], draws[:, :, 1:])
    simulated = (with_gold[:, 0] - with_gold[:, 1]).std() * math.sqrt(n)
    expected = deviation_of_a_pair(first, second, between, "pearson")
    assert expected == pytest.approx(simulated, rel=0.04)


def test_the_deviation_is_the_formulas_worked_out_by_hand():
    """v1 = .64^2, v2 = .84^2, c = .5 (.48) - .24 (.48 - .25) / 2."""
    pearson = 0.4096 + 0.7056 - 2 * 0.2124
    found = deviation_of_a_pair(0.6, 0.4, 0.5, "pearson")
    assert found == pytest.approx(math.sqrt(pearson))
    spearman = 1.18 * 0.4096 + 1.08 * 0.7056 - 2 * math.sqrt(1.18 * 1.08) * 0.2124
    assert deviation_of_a_pair(0.6, 0.4, 0.5) == pytest.approx(math.sqrt(spearman))


def test_a_correlation_that_three_cannot_have_counts_as_the_nearest_that_they_can():
    most = math.sqrt((1 - 0.9**2) * (1 - 0.2**2))
    for impossible, nearest in ((1.0, 0.18 + most), (-0.9, 0.18 - most)):
        found = deviation_of_a_pair(0.9, 0.2, impossible)
        assert found == pytest.approx(deviation_of_a_pair(0.9, 0.2, nearest))


def test_an_average_of_tasks_without_common_pairs_has_independent_errors():
    a, b = (
        TaskPairs(name, (size,), {name: size})
        for name, size in (("a", 900), ("b", 400))
    )
    scores = [TaskScores(a, 80, 79, 0.9), TaskScores(b, 60, 58, 0.9)]
    of_each = [standard_error([score]) for score in scores]
    of_pair = deviation_of_a_pair(0.6, 0.58, 0.9)
    assert of_each[1] == pytest.approx(100 * of_pair / math.sqrt(400))  # in points
    assert standard_error(scores) == pytest.approx(math.hypot(*of_each) / 2)
    twice = [TaskScores(a, 80, 79, 0.9)] * 2  # all of its pairs are common
    assert standard_error(twice) == pytest.approx(of_each[0])


def test_a_mean_over_subsets_gives_small_ones_the_weight_of_large_ones():
    even = TaskPairs("even", (500, 500), {"even": 1000})
    uneven = TaskPairs("uneven", (900, 100), {"uneven": 1000})
    assert even.inflation("mean") == pytest.approx(1)
    assert uneven.inflation("wmean") == 1
    # The variance of the mean of two correlations, of 900 and of 100 pairs.
    variance = (1 / 900 + 1 / 100) / 4
    assert uneven.inflation("mean") ** 2 / 1000 == pytest.approx(variance)


def test_the_least_difference_is_found_every_second_time():
    assert chance_to_find(LEVEL_95 * 0.4, 0.4) == pytest.approx(0.5, abs=1e-3)
    assert chance_to_find(0.0, 0.4) == pytest.approx(0.05)
    assert chance_to_find(-0.8, 0.4) == pytest.approx(chance_to_find(0.8, 0.4))
    assert (chance_to_find(0.1, 0.0), chance_to_find(0.0, 0.0)) == (1.0, 0.0)


def test_between_of_ranks_ties_as_scipy_does():
    from scipy.stats import spearmanr

    x, y = np.random.default_rng(1).integers(0, 9, (2, 50)).astype(float)
    assert between_of(x, y, "spearman") == pytest.approx(spearmanr(x, y).statistic)


# Against data


@pytest.mark.data
def test_the_committed_numbers_of_pairs_are_those_of_the_data(data_dir):
    from task_pairs import counted

    assert {row.name: row for row in counted(data_dir)} == task_pairs()


def similarities_of(pairs, encoder):
    """The cosines of real pairs in five spaces that are made of an encoder's vectors."""
    texts = list(dict.fromkeys(pairs.sentences))
    row = {text: place for place, text in enumerate(texts)}
    rows = PairRows(
        np.array([row[text] for text in pairs.a]),
        np.array([row[text] for text in pairs.b]),
        pairs.gold,
    )
    vectors = np.asarray(harness.encoder(encoder)(texts), dtype=np.float64)
    centred = vectors - vectors.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred, full_matrices=False)
    coordinates = centred @ directions.T
    spaces = [
        vectors,
        centred / centred.std(axis=0),
        coordinates[:, 6:],
        coordinates[:, :48],
        coordinates[:, :48] / sizes[:48],
    ]
    return np.array([cosine(space[rows.a], space[rows.b])[0] for space in spaces])


@pytest.mark.data
@pytest.mark.slow
def test_widths_agree_with_a_paired_bootstrap_on_a_hundred_measured_pairs(data_dir):
    """Within 10 % for 95 of 100, and 15 % for all, of unlike scores and encoders."""
    ratios = []
    for task in ("sts-b", "sick-r", "sts16"):
        pairs = load_registry().tasks[task].pairs(data_dir)
        columns = np.concatenate(
            [similarities_of(pairs, encoder) for encoder in ENCODERS]
        )
        counts = draw_counts(item_texts(pairs), RESAMPLES)
        resampled = bootstrap_scores(columns, pairs, ("spearman", "all"), counts)
        scores = resampled.mean(axis=1)
        for a, b in combinations(range(len(columns)), 2):
            between = between_of(columns[a], columns[b], "spearman")
            expected = standard_error(
                [TaskScores(task_pairs()[task], scores[a], scores[b], between)]
            )
            ratios.append(expected / (resampled[a] - resampled[b]).std())
    assert len(ratios) >= 100
    away = np.abs(np.array(ratios) - 1)
    assert np.quantile(away, 0.95) <= 0.10
    assert away.max() <= 0.15


# Leads


def number(name):
    return FOLDER.published_number(name)


def test_each_lead_is_the_best_of_its_column_backbone_and_supervision():
    for name, found in FOLDER.leads.items():
        best = found.best
        assert best.id == name
        rivals = [
            other.score
            for other in best.table.numbers
            if other.column is best.column
            and (other.start, other.row.supervision)
            == (best.start, best.row.supervision)
            and (other.aggregation, other.metric) == (best.aggregation, best.metric)
            and other.row.statistic not in ("sd", "min", "max")
            and other is not best
        ]
        assert found.runner_up.score == max(rivals) <= best.score


def test_the_kind_follows_from_the_three_widths():
    kinds = dict.fromkeys(LeadKind, 0)
    for found in FOLDER.leads.values():
        kinds[found.kind] += 1
        if found.items is None:
            assert found.kind == LeadKind.UNKNOWN
            continue
        narrow, wide = found.items
        expected = LeadKind.UNKNOWN
        if found.points >= wide:
            expected = LeadKind.BEYOND_ITEMS
        if found.points < (found.seeds or 0):
            expected = LeadKind.WITHIN_SEEDS
        if found.points < narrow:
            expected = LeadKind.WITHIN_ITEMS
        assert found.kind == expected
    assert all(kinds.values())


def test_a_difference_as_large_as_a_width_is_beyond_it():
    found = next(each for each in FOLDER.leads.values() if each.points > 1)
    here, above = found.points, found.points + 1e-6
    seed = Spread(number=found.best, source=None, deviation=0.0)
    for items, spreads, kind in (
        ((here, here), (seed, seed), LeadKind.BEYOND_ITEMS),
        ((here, here), (seed, None), LeadKind.BEYOND_ITEMS),
        ((here, above), (seed, seed), LeadKind.UNKNOWN),
        ((above, above), (seed, seed), LeadKind.WITHIN_ITEMS),
    ):
        assert replace(found, items=items, spreads=spreads).kind == kind
    for width, kind in ((here, LeadKind.BEYOND_ITEMS), (above, LeadKind.WITHIN_SEEDS)):
        of_seeds = replace(found, items=(here, here))
        vars(of_seeds)["seeds"] = width
        assert of_seeds.kind == kind
    # Each system has a spread of its own.
    row = replace(found.best.row, n=4)
    of_mean = replace(seed, number=replace(found.best, row=row), deviation=3.0)
    of_one = replace(
        seed, number=replace(found.best, row=replace(row, n=None)), deviation=2.0
    )
    both = replace(found, spreads=(of_mean, of_one))
    assert both.seeds == pytest.approx(LEVEL_95 * math.sqrt(9 / 4 + 4))
    assert replace(found, spreads=(of_mean, None)).seeds is None


def test_a_spread_is_the_own_one_or_that_of_the_nearest_relative():
    spreads = Spreads(FOLDER.published_numbers.values())
    own = spreads.of(number("promptbert.readme/promptbert-unsup-bert-base/avg"))
    assert (own.deviation, own.source) == (0.15, own.number)
    assert own.variance == pytest.approx(0.15**2 / 10)  # it is a mean of ten runs
    relative = spreads.of(number("simcse.t5/simcse-bert-base-unsup/avg"))
    assert relative.source.row_id == "simple-simcse.bert-base/mean"
    assert relative.variance == pytest.approx(0.84**2)
    not_trained = spreads.of(number("simcse.t5/bert-base-first-last-avg/avg"))
    assert (not_trained.deviation, not_trained.source) == (0.0, None)
    assert spreads.of(number("simcse.t5/simcse-bert-base-sup/avg")) is None


@pytest.mark.parametrize("order", [1, -1])
def test_of_relatives_the_one_of_the_same_data_counts_then_the_one_over_most_seeds(
    order,
):
    mine = number("simcse.t5/simcse-bert-base-unsup/avg")
    like = number("simple-simcse.bert-base/mean/avg")

    def relative(deviation, n, trained_on=mine.row.trained_on):
        row = replace(like.row, n=n, trained_on=trained_on)
        return replace(like, sd=deviation, row=row)

    other_data = relative(0.9, 50, "other sentences")
    no_spread = relative(None, 100)
    few, many = relative(0.1, 5), relative(0.2, 10)
    for relatives, deviation in (
        ([other_data], 0.9),
        ([few, other_data], 0.1),
        ([few, many, other_data, no_spread], 0.2),
    ):
        assert Spreads(relatives[::order]).of(mine).deviation == deviation


def test_the_least_difference_of_an_average_is_of_its_tasks_own_scores():
    rows = ("sbert-nli-base", "avg-bert-embeddings")
    first, second = (number(f"sbert.t1/{row}/avg") for row in rows)
    columns = first.column.average_of
    scores = [
        TaskScores(
            pairs_of_task(column),
            *(number(f"sbert.t1/{row}/{column}").score for row in rows),
            between=0.9,
        )
        for column in columns
    ]
    found = least_difference(first, second, [0.9] * len(columns))
    assert found == pytest.approx(LEVEL_95 * standard_error(scores))
    # The mean over subsets gives small ones the weight of large ones.
    sts12 = number("sbert.t1/sbert-nli-base/sts12")
    of_all, of_mean = (
        least_difference(each, each, [0.9])
        for each in (sts12, replace(sts12, aggregation="mean"))
    )
    assert of_mean / of_all == pytest.approx(pairs_of_task("sts12").inflation("mean"))


def test_similarities_that_are_here_take_the_place_of_the_range():
    [name] = [
        name
        for name, each in FOLDER.leads.items()
        if name.startswith("zipfian.") and name.endswith("/sick-r")
    ]
    found = FOLDER.leads[name]
    x = np.random.default_rng(0).random(100)
    columns = {found.best.method: x, found.runner_up.method: x + 0.1 * x[::-1]}
    measured = lead(
        found.best, found.runner_up, Spreads(()), lambda method, _task: columns[method]
    )
    between = between_of(*columns.values(), found.best.metric)
    assert measured.is_measured
    assert measured.between == pytest.approx((between, between))
    assert measured.items[0] == measured.items[1]
    # Both are needed, of the same pairs.
    first, second = columns
    for without in ({first: None}, {second: None}, {second: x[1:]}):
        found_of = columns | without
        assumed = lead(
            found.best,
            found.runner_up,
            Spreads(()),
            lambda method, _task, found_of=found_of: found_of[method],
        )
        assert (assumed.is_measured, assumed.between) == (False, ASSUMED_BETWEEN)


def test_of_an_average_the_ends_are_those_of_its_tasks():
    first, second = (
        number(f"simcse.t5/{row}/avg")
        for row in ("simcse-bert-base-unsup", "bert-base-first-last-avg")
    )
    x = np.random.default_rng(0).random(100)

    def similarities(method, task):
        weight = 0.1 * (1 + [*first.tasks].index(task))
        return x if method == first.method else x + weight * x[::-1]

    measured = lead(first, second, Spreads(()), similarities)
    of_tasks = [
        between_of(x, similarities(second.method, task), "spearman")
        for task in first.tasks
    ]
    assert measured.between == (max(of_tasks), min(of_tasks))


def test_a_flow_has_a_seed_of_its_fit_and_whitening_has_none():
    rows = ("bert-base-flow", "bert-base-whitening", "bert-base-first-last-avg")
    seeded = [has_fit_seed(number(f"simcse.t5/{row}/avg")) for row in rows]
    assert seeded == [True, False, False]
    # A row without a method here is told by its label.
    label = replace(number("simcse.t5/bert-base-flow/avg"), method=None)
    other = replace(number("simcse.t5/bert-base-whitening/avg"), method=None)
    assert (has_fit_seed(label), has_fit_seed(other)) == (True, False)


def test_what_a_row_leaves_unsaid_of_its_training_the_method_says():
    trained, plain = (
        number(f"simcse.t5/{row}/avg")
        for row in ("simcse-bert-base-unsup", "bert-base-first-last-avg")
    )
    for each, has_seed in ((trained, True), (plain, False)):
        row = replace(each.row, trained_on=None, supervision="none")
        assert has_training_seed(replace(each, row=row)) is has_seed
    row = replace(plain.row, trained_on="pairs of captions", supervision="none")
    assert has_training_seed(replace(plain, row=row))


# The best of each work


def test_a_chain_has_the_best_trained_average_of_each_work_the_lowest_first():
    like = number("simcse.t5/simcse-bert-base-unsup/avg")

    def printed(work, score, **row):
        return replace(
            like,
            table=replace(like.table, cite=work),
            row=replace(like.row, **row),
            in_points=str(score),
            id=f"{work}/{score}",
        )

    better, lower = printed("b", 80.0), printed("a", 70.0)
    numbers = [
        printed("b", 75.0),
        better,
        printed("b", 79.0),
        lower,
        printed("c", 90.0, quoted=True),
        printed("d", 91.0, statistic="max", n=5),
        printed("e", 92.0, supervision="nli"),
        printed("f", 93.0, backbone="roberta-base"),
        number("simcse.t5/bert-base-first-last-avg/avg"),  # not trained
        number("simcse.t5/simcse-bert-base-unsup/sts12"),  # another column
        replace(printed("g", 94.0), aggregation="wmean"),
    ]
    chain = chain_of(numbers, like.start, like.row.supervision, like.data_sets)
    assert [each.id for each in chain] == [lower.id, better.id]


def test_tables_alone_give_the_leads_of_the_folder():
    numbers = [n for table in TABLES for n in table.numbers if n.points is not None]
    found = leads_of(numbers, Spreads(numbers), lambda *_: None)
    assert found.keys() == FOLDER.leads.keys()
    assert {*SEVEN} <= task_pairs().keys()


# Training data


def test_a_model_that_was_trained_on_sts_b_has_seen_pairs_of_other_tasks():
    """STS-B's training split holds 1,861 of the 3,750 pairs of STS14."""
    contact = FOLDER.training_data.contact(number("mteb.2/f2llm-v2-80m/sts14"))
    assert contact.tasks == ()
    assert contact.seen == (SeenPairs("STS14", 1861, 3750),)
    itself = FOLDER.training_data.contact(number("mteb.2/f2llm-v2-80m/sts12"))
    assert (itself.tasks, itself.seen) == (("STS12",), ())
    apart = FOLDER.training_data.contact(number("mteb.1-12-75/minilm/sts-b"))
    assert apart.is_stated
    assert not apart.is_trained_on_task
    assert FOLDER.training_data.contact(number("sif.t1/psl-wr/sts13-smt")) is None
