"""The page of claims: each word from its numbers, holes as holes, nothing typed that is data."""

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import FakeConfig, FakeFamily, made_record, results_of
from fakes import registry as fake_registry
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.core.errors import DataError
from harness.core.types import Record
from harness.report.bibtex import entries
from harness.report.claims import claims_by_size, claims_page
from harness.results.claim_tests import (
    SEEDS_ALONE,
    ClaimOutcome,
    ClaimTests,
    Decision,
    decide,
)
from harness.results.claims import (
    Claim,
    Claims,
    read_claims,
    score_columns,
    score_of_column,
)
from harness.results.encoder_sizes import EncoderSize, sizes_of_encoders
from harness.results.folder import ResultsFolder
from harness.results.index import SeedScores, mean_over_tasks
from harness.results.intervals import ITEMS_ALONE, SEEDS_AND_ITEMS, Contrast, Interval
from harness.results.published import Column, Row, Table
from harness.results.published_tables import load_table, load_tables
from harness.results.verdict import welch_half_width

COMMITTED = Path(__file__).parents[2] / "results"
REGISTRY = fake_registry(FakeConfig()).with_encoders([FakeFamily()])
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
WMEAN = ("spearman", "wmean")
CLAIM = """
[[claim]]
id = "high-above-low"
claim = "High lies above low."
table = "made-up"
better = "high"
worse = "low"
"""
CLAIMS = f"""
about = "About the model."
[rows."made-up"]
high = "fake.mean"
middle = "other.cls"
low = "fake.cls"
{CLAIM}"""


def row(name: str, first: float, but: str = "", **more: Any) -> Row:
    values = {t: str(first + i) for i, t in enumerate((*SEVEN, "words")) if t != but}
    return Row(
        name, f"Row {name}", "none", "none", "none", values, why_not="method", **more
    )


TABLE = Table(
    id="made-up",
    paper="Nobody et al. 1999",
    table="Table 1",
    title="Three rows",
    cite="gao2021simcse",
    source="made up",
    metric="spearman",
    aggregation="wmean",
    columns=(
        *(Column(task, task.upper(), task=task) for task in SEVEN),
        Column("avg", "Avg(7)", average_of=("sts12", "sick-r")),
        Column("mr", "MR", why_not="task"),
        Column("words", "Words", task="sts-b", metric="word statistic"),
    ),
    rows=(
        row("high", 70.5),
        row(
            "middle", 60.25, tasks={"sts12": "sts12.senteval"}
        ),  # quoted from another text form
        row("low", 50.0),
        row("elsewhere", 40.0, aggregation="all"),
        row("part", 30.0, but="sts13"),
    ),
)


def claims_over_table(folder: Path, claims: str = CLAIMS) -> Claims:
    """The claims over the made-up table."""
    (folder / "claims.toml").write_text(claims)
    return read_claims(folder / "claims.toml", [TABLE])


@pytest.fixture
def claim(tmp_path) -> Claim:
    return claims_over_table(tmp_path).resolved[0]


def records(
    method: str, task: str, *scores: float | None, written: str = ""
) -> list[Record]:
    """One a seed, under `wmean`; under `all` there is another number, which is not asked for."""
    return [
        made_record(
            method,
            task,
            {"spearman": {"wmean": score, "all": 1.0}},
            seed,
            identity=written,
        )
        for seed, score in enumerate(scores)
    ]


def claim_tests(*every: list[Record], intervals=None) -> ClaimTests:
    return ClaimTests(results_of(*chain(*every)), REGISTRY, intervals or {})


def page_of(claims, tests: ClaimTests) -> str:
    """The text of the page of these claims."""
    folder = SimpleNamespace(
        claims=claims,
        claim_results=[tests.test(claim) for claim in claims.resolved],
        encoder_sizes=sizes_of_encoders(tests.results, REGISTRY),
        records=tests.results,
        searches=(),
        tables=(),
    )
    return claims_page(folder)


def records_on_seven_tasks(method: str, *scores: float | None) -> list[Record]:
    """A score on each task, of a method without seeds, as the registry describes it."""
    written, every = REGISTRY.parse(method).identity, zip(SEVEN, scores, strict=False)
    return [
        r
        for task, score in every
        for r in records(method, task, score, written=written)
    ]


def score_of_one_seed(score: float | None) -> SeedScores:
    return SeedScores({0: score})


def scores_of_seeds(*scores: float | None) -> SeedScores:
    return SeedScores(dict(enumerate(scores)), seeded=True)


FIVE = st.lists(st.floats(-90, 90).map(lambda x: round(x, 3)), min_size=5, max_size=8)
SIDES = st.one_of(
    st.floats(-90, 90).map(score_of_one_seed), FIVE.map(lambda s: scores_of_seeds(*s))
)
OPPOSITE = {
    ClaimOutcome.HIGHER: ClaimOutcome.LOWER,
    ClaimOutcome.LOWER: ClaimOutcome.HIGHER,
}


# The word on one task


@settings(max_examples=40)
@given(SIDES, SIDES)
def test_the_claim_the_other_way_round_gets_the_opposite_word(a, b):
    there, back = decide(a, b), decide(b, a)
    assert back.outcome == OPPOSITE.get(there.outcome, there.outcome)
    assert back.difference == -there.difference
    assert there.basis == back.basis
    if there.interval:
        low, high = there.interval
        assert back.interval == pytest.approx((-high, -low), abs=1e-9)
        assert low <= there.difference <= high


@settings(max_examples=40)
@given(FIVE, FIVE)
def test_the_interval_over_seeds_is_welchs(a, b):
    if np.std(a) + np.std(b) < 1e-6:
        return
    interval = decide(scores_of_seeds(*a), scores_of_seeds(*b)).interval
    wanted = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert interval == pytest.approx((wanted.low, wanted.high), abs=1e-6)


STEPS = (-0.2, -0.1, 0.0, 0.1, 0.2)
H = welch_half_width((float(np.std(STEPS, ddof=1)), len(STEPS)))
SOME = Contrast("some", "other", (("toy", ("spearman", "all")),))


def stored(
    difference: float, low: float, high: float, p: float, by: str = ITEMS_ALONE
) -> Interval:
    return Interval(SOME, difference, low, high, p=p, by=by, resamples=9, seed=0)


@pytest.mark.parametrize(
    ("better", "worse", "interval", "outcome", "by"),
    [
        (
            score_of_one_seed(60.0),
            score_of_one_seed(59.0),
            None,
            "undecided",
            "no interval",
        ),
        (
            score_of_one_seed(60.0),
            score_of_one_seed(60.0),
            None,
            "undecided",
            "no interval",
        ),
        (
            score_of_one_seed(60.0),
            score_of_one_seed(59.0),
            stored(1.0, 0.1, 1.9, 0.05),
            "higher",
            "items",
        ),
        (
            score_of_one_seed(60.0),
            score_of_one_seed(59.0),
            stored(1.0, -0.1, 2.1, 0.051),
            "undecided",
            "items",
        ),
        (
            score_of_one_seed(59.0),
            score_of_one_seed(60.0),
            stored(-1.0, -1.9, -0.1, 0.01),
            "lower",
            "items",
        ),
        (
            score_of_one_seed(59.0),
            score_of_one_seed(60.0),
            stored(-1.02, -1.9, -0.1, 0.01),
            "undecided",
            "no interval",
        ),
        (
            score_of_one_seed(60 + H + 0.01),
            scores_of_seeds(*(60 + s for s in STEPS)),
            None,
            "higher",
            SEEDS_ALONE,
        ),
        (
            score_of_one_seed(60 + H - 0.01),
            scores_of_seeds(*(60 + s for s in STEPS)),
            None,
            "undecided",
            SEEDS_ALONE,
        ),
        (
            score_of_one_seed(60 + H + 0.01),
            scores_of_seeds(*(60 + s for s in STEPS)),
            stored(H, -0.1, 2.0, 0.06, SEEDS_AND_ITEMS),
            "undecided",
            "seeds and items",
        ),
        (
            scores_of_seeds(*[60.0] * 5),
            scores_of_seeds(*[59.99] * 5),
            None,
            "higher",
            SEEDS_ALONE,
        ),
        (
            scores_of_seeds(*[60.0] * 5),
            scores_of_seeds(*[60.0] * 5),
            None,
            "undecided",
            SEEDS_ALONE,
        ),
        (
            scores_of_seeds(*[90.0] * 4),
            score_of_one_seed(10.0),
            stored(80.0, 79, 81, 0.01),
            "undecided",
            "too few seeds",
        ),
        (
            scores_of_seeds(90.0),
            score_of_one_seed(10.0),
            None,
            "undecided",
            "too few seeds",
        ),
        (
            score_of_one_seed(None),
            score_of_one_seed(10.0),
            None,
            "undecided",
            "undefined",
        ),
        (
            scores_of_seeds(90.0, None, 90.0, 90.0, 90.0),
            score_of_one_seed(1.0),
            None,
            "undecided",
            "undefined",
        ),
        (SeedScores({}), score_of_one_seed(10.0), None, "not measured", ""),
        (score_of_one_seed(10.0), SeedScores({}), None, "not measured", ""),
        (SeedScores({}), score_of_one_seed(None), None, "not measured", ""),
    ],
)
def test_each_word_and_what_it_rests_on(better, worse, interval, outcome, by):
    decision = decide(better, worse, interval)
    assert (str(decision.outcome), decision.basis) == (outcome, by)


def test_an_interval_of_seeds_that_were_fitted_anew_is_shifted_to_their_difference():
    def found(difference: float, p: float) -> Decision:
        interval = stored(1.0, 0.4, 1.6, p, SEEDS_AND_ITEMS)
        return decide(
            scores_of_seeds(*[50 + difference] * 5), score_of_one_seed(50.0), interval
        )

    near = found(1.05, 0.001)
    assert near.interval == pytest.approx((0.45, 1.65))
    wanted = 2 * stats.norm.sf(1.05 / (0.6 / stats.norm.ppf(0.975)))
    assert near.p == pytest.approx(max(0.001, wanted))
    assert found(0.95, 0.02).p == 0.02
    assert found(1.005, 0.001).interval == (0.4, 1.6)
    assert found(1.2, 0.001).basis == SEEDS_ALONE


@settings(max_examples=40)
@given(FIVE, FIVE)
def test_p_over_seeds_is_welchs(a, b):
    if np.std(a) + np.std(b) < 1e-6:
        return
    wanted = stats.ttest_ind(a, b, equal_var=False).pvalue
    assert decide(scores_of_seeds(*a), scores_of_seeds(*b)).p == pytest.approx(
        wanted, abs=1e-9
    )


# The records behind it


def test_a_column_may_have_a_metric_of_its_own():
    lexical = load_table(COMMITTED / "papers" / "bert-flow.t6.toml")
    assert [score_of_column(lexical, column) for column in score_columns(lexical)] == [
        ("lexical", ("edit_distance",)),
        ("lexical", ("gold_similarity",)),
    ]


def test_a_claim_of_which_nothing_was_measured_is_not_undecided(claim):
    tested = claim_tests().test(claim)
    assert {tested.outcome, *tested.outcomes} == {ClaimOutcome.NOT_MEASURED}


def test_a_record_of_other_settings_is_a_hole(claim):
    tests = claim_tests(
        records_on_seven_tasks("fake.mean", 90.0),
        records("fake.cls", "sts12", 10.0, written="older"),
    )
    first = tests.test(claim).findings[0]
    assert (str(first.sides[1]), first.decision.outcome) == (
        "stale",
        ClaimOutcome.NOT_MEASURED,
    )


@pytest.mark.parametrize(
    "method", ["fake.mean+stretch@target", "kin.mean", "kin.cls+centre@target"]
)
def test_a_seeded_method_of_one_seed_decides_nothing(method):
    """By its post-processor, or by its encoder, which is trained once a seed."""
    measured = records(method, "sts12", 90.0, written=REGISTRY.parse(method).identity)
    side = claim_tests(measured).scores(method, ("sts12", WMEAN))
    assert str(side) == "90.00 (k=1)"
    assert decide(side, score_of_one_seed(10.0)).basis == "too few seeds"


# The word on a whole claim, and its average


def judged_by(
    tmp_path, ps: dict[str, float], differences: dict[str, float], more: str = ""
):
    """A claim on some tasks, each with a stored interval of this p."""
    columns = f"columns = {[*ps]}\n".replace("'", '"')
    claim = claims_over_table(tmp_path, CLAIMS + columns + more).resolved[0]
    every, intervals = [], {}
    for task, p in ps.items():
        contrast = Contrast("fake.mean", "fake.cls", ((task, WMEAN),))
        difference = differences[task]
        intervals[contrast] = Interval(
            contrast,
            difference,
            difference,
            difference,
            p=p,
            by=ITEMS_ALONE,
            resamples=9,
            seed=0,
        )
        for method, score in (("fake.mean", 50 + difference), ("fake.cls", 50.0)):
            written = REGISTRY.parse(method).identity
            every.append(records(method, task, score, written=written))
    return claim_tests(*every, intervals=intervals).test(claim)


def test_half_of_the_tasks_is_not_more_than_half(tmp_path):
    ps = dict.fromkeys(("sts12", "sts13"), 0.001)
    found = judged_by(tmp_path, ps, {"sts12": 10.0, "sts13": -10.0})
    assert (found.outcomes, found.outcome) == (
        [ClaimOutcome.HIGHER, ClaimOutcome.LOWER],
        ClaimOutcome.UNDECIDED,
    )


def test_the_tasks_of_a_claim_are_corrected_for(tmp_path):
    """Two of three p are below 0.05, one of them by Holm's procedure as well."""
    ps = {"sts12": 0.01, "sts13": 0.04, "sts14": 0.5}
    found = judged_by(tmp_path, ps, dict.fromkeys(ps, 1.0))
    assert [f.decision.p_holm for f in found.findings] == pytest.approx(
        [0.03, 0.08, 0.5]
    )
    assert found.outcomes == [
        ClaimOutcome.HIGHER,
        ClaimOutcome.UNDECIDED,
        ClaimOutcome.UNDECIDED,
    ]
    assert found.outcome is ClaimOutcome.UNDECIDED
    alone = judged_by(tmp_path, {"sts13": 0.04}, {"sts13": 1.0})
    assert alone.outcome is ClaimOutcome.HIGHER


@pytest.mark.parametrize(
    ("differences", "ps", "outcome"),
    [
        ((1.0, 1.0), (0.001, 0.001), ClaimOutcome.HIGHER),
        ((1.0, 1.0), (0.001, 0.5), ClaimOutcome.UNDECIDED),
        ((1.0, -1.0), (0.001, 0.001), ClaimOutcome.LOWER),
        ((1.0, -1.0), (0.001, 0.5), ClaimOutcome.UNDECIDED),
    ],
)
def test_a_conjunction_holds_if_all_do_and_fails_if_one_does(
    tmp_path, differences, ps, outcome
):
    tasks = ("sts12", "sts13")
    found = judged_by(
        tmp_path,
        dict(zip(tasks, ps, strict=True)),
        dict(zip(tasks, differences, strict=True)),
        "conjunction = true\n",
    )
    assert found.outcome is outcome


def test_an_average_of_seeds_pairs_them_by_number():
    sides = [
        SeedScores({0: 10.0, 1: 20.0, 2: 30.0}, True),
        SeedScores({1: 40.0, 2: 60.0, 3: 0.0}, True),
    ]
    mean = mean_over_tasks(sides)
    assert (mean.scores, mean.seeded) == ({1: 30.0, 2: 45.0}, True)
    assert (
        mean_over_tasks([score_of_one_seed(10.0), score_of_one_seed(None)]).value.mean
        is None
    )
    assert mean_over_tasks([score_of_one_seed(10.0), SeedScores({})]).value.mean is None


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize(
    ("better", "path", "other", "interval"),
    [
        ("fake.mean", WMEAN, 59.0, (-0.5, 2.5)),
        ("fake.last2", WMEAN, 59.0, None),
        ("fake.mean", ("spearman", "all"), 59.0, None),
        ("fake.mean", WMEAN, 58.0, None),  # it has moved since
    ],
)
def test_a_task_and_an_average_have_the_stored_interval(
    claim, better, path, other, interval, count
):
    contrast = Contrast(
        better, "fake.cls", tuple((task, path) for task in SEVEN[:count])
    )
    every = (
        records_on_seven_tasks("fake.mean", *[60.0] * 7),
        records_on_seven_tasks("fake.cls", *[other] * 7),
    )
    intervals = {
        contrast: Interval(
            contrast, 1.0, -0.5, 2.5, p=0.2, by=ITEMS_ALONE, resamples=9, seed=0
        )
    }
    found = claim_tests(*every, intervals=intervals).test(claim)
    decision = (found.findings[0] if count == 1 else found.average).decision
    assert (decision.interval, decision.basis) == (
        interval,
        "items" if interval else "no interval",
    )
    assert decision.outcome is ClaimOutcome.UNDECIDED
    others = [
        one.decision.basis for one in found.all_findings if one.decision is not decision
    ]
    assert set(others) == {"no interval"}


IN_WORDS = """
[[claim]]
id = "in-words"
claim = "Averaging lies above the first token."
table = "made-up"
better = "averaging"
worse = "the first token"
methods = ["fake.mean", "fake.cls"]
part_of = "one sentence"
"""


def test_the_page_of_claims_is_golden(approved, tmp_path):
    """A claim beside a row of another text form, of which most is a hole, and one in words alone.

    The average is of the tasks and counts as none.
    """
    claims = claims_over_table(
        tmp_path, CLAIMS.replace('worse = "low"', 'worse = "middle"') + IN_WORDS
    )
    better, worse = (
        records_on_seven_tasks("fake.mean", *range(60, 67)),
        records_on_seven_tasks("fake.cls", *[63.5] * 7),
    )
    tests = claim_tests(better, worse, records("other.cls", "sts12", 65.0))
    page = page_of(claims, tests)
    assert page == approved("golden/claims.md")


def test_claims_without_a_score_are_a_group_of_their_own_and_name_their_encoder(
    tmp_path,
):
    claims = claims_over_table(
        tmp_path, CLAIMS + IN_WORDS.replace("part_of =", "of_paper = false\npart_of =")
    )
    page = page_of(
        claims, claim_tests(records_on_seven_tasks("fake.mean", *[60.0] * 7))
    )
    [counts] = re.findall(r"^\* \*\*.*$", page, re.MULTILINE)
    assert counts.startswith(
        "* **Not measured** (`fake`): of 2 claims 0 as claimed, 0 opposite, "
    )
    assert (
        "No paper claims this of the encoder that was tested."
        in page.split("## in-words")[1]
    )


def test_a_claim_is_in_the_group_of_the_smallest_encoder_that_it_was_tested_on():
    committed = ResultsFolder(COMMITTED)
    groups = claims_by_size(committed.claim_results, committed.encoder_sizes)
    titles = [size.heading for size in EncoderSize]
    assert [*groups] == titles
    large, small, miniature = groups.values()
    assert {name for result in large for name in result.claim.encoders} == {
        "mpnet-base"
    }
    assert {name for result in small for name in result.claim.encoders} == {
        "minilm",
        "glove-6b-50d-22k",
    }
    for result in miniature:
        sizes = {committed.encoder_sizes[name] for name in result.claim.encoders}
        assert EncoderSize.MINIATURE in sizes, result.claim.id


# The file


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"made-up"', '"lost"'),
        ('low = "fake.cls"', 'lost = "fake.cls"'),  # no stand-in
        ('worse = "low"', 'worse = "lost"'),
        ("low", "elsewhere"),  # another aggregation
        ("low", "part"),  # not printed
        ('worse = "low"', 'worse = "low"\ncolumns = ["mr"]'),
        ('worse = "low"', 'worse = "low"\ncolumns = ["words"]'),  # no score
        ('worse = "low"', 'worse = "low"\nverdict = "holds"'),
        ("[[claim]]", CLAIM + "\n[[claim]]"),
    ],
)
def test_a_file_that_says_something_else_is_refused_in_one_line(tmp_path, old, new):
    assert old in CLAIMS
    with pytest.raises(DataError, match=r"^claims\.toml[:,] [^\n]+$"):
        claims_over_table(tmp_path, CLAIMS.replace(old, new))


def test_the_committed_claims_are_those_of_the_papers():
    """Each stands in a paper that can be cited, and the paper's own numbers show it."""
    tables, bibliography, tests = (
        load_tables(COMMITTED / "papers"),
        entries(),
        claim_tests(),
    )
    for claim in read_claims(COMMITTED / "questions" / "claims.toml", tables).resolved:
        assert claim.table.cite in bibliography, claim.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
        tested = tests.test(claim)
        in_words = all(finding.published is None for finding in tested.findings)
        assert in_words or 2 * tested.in_paper > len(tested.findings), claim.id


@pytest.mark.parametrize(
    ("bases", "rests"),
    [
        ([SEEDS_ALONE] * 7, True),
        ([SEEDS_ALONE] * 4 + [ITEMS_ALONE] * 3, True),
        ([SEEDS_ALONE] * 3 + [ITEMS_ALONE] * 4, False),
        ([ITEMS_ALONE] * 7, False),
    ],
)
@pytest.mark.parametrize("outcome", [ClaimOutcome.HIGHER, ClaimOutcome.LOWER])
def test_a_claim_that_only_seeds_decide_is_named_as_such(claim, outcome, bases, rests):
    result = claim_tests().test(claim)
    findings = tuple(
        replace(finding, decision=Decision(outcome=outcome, basis=basis))
        for finding, basis in zip(result.findings, bases, strict=True)
    )
    decided = replace(result, findings=findings, average=None)
    assert (decided.outcome, decided.rests_on_seeds_alone) == (outcome, rests)
