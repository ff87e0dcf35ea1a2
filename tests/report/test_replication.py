"""The page of claims: each word from its numbers, holes as holes, nothing typed that is data."""

import re
from itertools import chain, combinations
from pathlib import Path

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
from harness.report.replication import claims_page
from harness.results.claims import (
    ClaimOutcome,
    ClaimTests,
    Contrast,
    Interval,
    address,
    decide,
    rank_order,
    read_claims,
    scored,
)
from harness.results.index import NOT_MEASURED, SeedScores, mean_over_tasks
from harness.results.published import load_table, load_tables
from harness.results.verdict import welch_half_width

COMMITTED = Path(__file__).parents[2] / "results"
REGISTRY = fake_registry(FakeConfig()).with_encoders([FakeFamily()])
SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
WMEAN = ("spearman", "wmean")
COLUMNS = ",\n".join(f'  {{ id = "{t}", label = "{t.upper()}", task = "{t}" }}' for t in SEVEN)
TABLE = f"""
paper = "Nobody et al. 1999"
table = "Table 1"
title = "Three rows"
cite = "gao2021simcse"
source = "made up"
metric = "spearman"
aggregation = "wmean"
columns = [
{COLUMNS},
  {{ id = "avg", label = "Avg(7)", average_of = ["sts12", "sick-r"] }},
  {{ id = "mr", label = "MR", why_not = "task" }},
  {{ id = "words", label = "Words", task = "sts-b", metric = "word statistic" }},
]
"""
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


def row(name: str, first: float, more: str = "", but: str = "") -> str:
    values = [f'{t} = "{first + i}"' for i, t in enumerate((*SEVEN, "words")) if t != but]
    return f"""
[[row]]
id = "{name}"
label = "Row {name}"
why_not = "method"
backbone = "none"
fit = "none"
supervision = "none"
{more}
values = {{ {", ".join(values)} }}
"""


ROWS = (
    row("high", 70.5),
    row("middle", 60.25, 'tasks = { sts12 = "sts12.senteval" }'),  # quoted from another text form
    row("low", 50),
    row("elsewhere", 40, 'aggregation = "all"'),
    row("part", 30, but="sts13"),
)


def world(folder: Path, claims: str = CLAIMS, table: str = TABLE + "".join(ROWS)):
    """The claims over the made-up table."""
    (folder / "made-up.toml").write_text(table)
    (folder / "claims.toml").write_text(claims)
    return read_claims(folder / "claims.toml", [load_table(folder / "made-up.toml")])


def rows_of(page: str, start: str) -> list[list[str]]:
    """The cells of the table rows of a page that begin so."""
    lines = [line for line in page.splitlines() if line.startswith(f"| {start}")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def records(method: str, task: str, *scores: float | None, written: str = "") -> list[Record]:
    """One a seed, under `wmean`; under `all` there is another number, which is not asked for."""
    return [
        made_record(method, task, {"spearman": {"wmean": score, "all": 1.0}}, seed, repr=written)
        for seed, score in enumerate(scores)
    ]


def judge(*every: list[Record], intervals=None) -> ClaimTests:
    return ClaimTests(results_of(*chain(*every)), REGISTRY, intervals or {})


def fixed(method: str, *scores: float | None) -> list[Record]:
    """A score on each task, of a method without seeds, as the registry describes it."""
    written = repr(REGISTRY.parse(method))
    return [
        r
        for t, s in zip(SEVEN, scores, strict=False)
        for r in records(method, t, s, written=written)
    ]


def one(score: float | None) -> SeedScores:
    return SeedScores({0: score})


def many(*scores: float | None) -> SeedScores:
    return SeedScores(dict(enumerate(scores)), seeded=True)


FIVE = st.lists(st.floats(-90, 90).map(lambda x: round(x, 3)), min_size=5, max_size=8)
SIDES = st.one_of(st.floats(-90, 90).map(one), FIVE.map(lambda s: many(*s)))
OPPOSITE = {ClaimOutcome.HOLDS: ClaimOutcome.FAILS, ClaimOutcome.FAILS: ClaimOutcome.HOLDS}


# The word on one task


@settings(max_examples=40)
@given(SIDES, SIDES)
def test_the_claim_the_other_way_round_gets_the_opposite_word(a, b):
    there, back = decide(a, b), decide(b, a)
    assert back.outcome == OPPOSITE.get(there.outcome, there.outcome)
    assert back.difference == -there.difference
    assert there.by == back.by
    if there.interval:
        low, high = there.interval
        assert back.interval == pytest.approx((-high, -low), abs=1e-9)
        assert low <= there.difference <= high


@settings(max_examples=40)
@given(FIVE, FIVE)
def test_the_interval_over_seeds_is_welchs(a, b):
    if np.std(a) + np.std(b) < 1e-6:
        return
    found = decide(many(*a), many(*b)).interval
    wanted = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert found == pytest.approx((wanted.low, wanted.high), abs=1e-6)


STEPS = (-0.2, -0.1, 0.0, 0.1, 0.2)
H = welch_half_width((float(np.std(STEPS, ddof=1)), len(STEPS)))


@pytest.mark.parametrize(
    ("better", "worse", "items", "outcome", "by"),
    [
        (one(60.0), one(59.0), None, "holds", "sign"),
        (one(59.0), one(60.0), None, "does not hold", "sign"),
        (one(60.05), one(60.0), None, "undecided", "sign"),
        (one(60.06), one(60.0), None, "holds", "sign"),
        (one(60.0), one(60.0), None, "undecided", "sign"),
        (one(60.0), one(59.0), (0.1, 1.9), "holds", "items"),
        (one(60.0), one(59.0), (-0.1, 2.1), "undecided", "items"),
        (one(59.0), one(60.0), (-1.9, -0.1), "does not hold", "items"),
        (one(60 + H + 0.01), many(*(60 + s for s in STEPS)), None, "holds", "seeds"),
        (one(60 + H - 0.01), many(*(60 + s for s in STEPS)), None, "undecided", "seeds"),
        (one(60 - H - 0.01), many(*(60 + s for s in STEPS)), None, "does not hold", "seeds"),
        (one(60 + H - 0.01), many(*(60 + s for s in STEPS)), (1.0, 2.0), "undecided", "seeds"),
        (many(*[60.0] * 5), many(*[59.99] * 5), None, "holds", "seeds"),
        (many(*[60.0] * 5), many(*[60.0] * 5), None, "undecided", "seeds"),
        (many(*[90.0] * 4), one(10.0), None, "undecided", "too few seeds"),
        (many(90.0), one(10.0), None, "undecided", "too few seeds"),
        (one(None), one(10.0), None, "undecided", "undefined"),
        (many(90.0, None, 90.0, 90.0, 90.0), one(1.0), None, "undecided", "undefined"),
        (SeedScores({}), one(10.0), None, "not measured", ""),
        (one(10.0), SeedScores({}), None, "not measured", ""),
        (SeedScores({}), one(None), None, "not measured", ""),
    ],
)
def test_each_word_and_what_it_rests_on(better, worse, items, outcome, by):
    found = decide(better, worse, items)
    assert (str(found.outcome), found.by) == (outcome, by)


# The records behind it


def test_the_score_is_the_one_of_the_tables_own_protocol(tmp_path):
    """Not of a row that quotes another text form; a column may have a metric of its own."""
    claim = world(tmp_path, CLAIMS.replace('worse = "low"', 'worse = "middle"')).resolved[0]
    asked = judge(fixed("fake.mean", 66.0), records("other.cls", "sts12", 65.0))
    found = asked.test(claim).findings[0]
    assert [side.value.mean for side in found.sides] == [66.0, 65.0]
    assert found.decision.outcome is ClaimOutcome.HOLDS
    assert (found.published, found.claimed) == ((70.5, 60.25), 10.25)
    lexical = load_table(COMMITTED / "papers" / "bert-flow.t6.toml")
    assert [address(lexical, column) for column in scored(lexical)] == [
        ("lexical", ("edit_distance",)),
        ("lexical", ("gold_similarity",)),
    ]


def test_a_hole_is_neither_side_of_a_claim(tmp_path):
    asked = judge(fixed("fake.mean", 90.0, 90.0), fixed("fake.cls", 10.0))
    found = asked.test(world(tmp_path).resolved[0])
    assert found.outcomes == [ClaimOutcome.HOLDS, *[ClaimOutcome.NOT_MEASURED] * 6]
    assert found.outcome is ClaimOutcome.UNDECIDED
    assert found.average.decision.outcome is ClaimOutcome.NOT_MEASURED
    nothing = judge().test(world(tmp_path).resolved[0])
    assert {nothing.outcome, *nothing.outcomes} == {ClaimOutcome.NOT_MEASURED}


def test_a_record_of_other_settings_is_a_hole(tmp_path):
    asked = judge(fixed("fake.mean", 90.0), records("fake.cls", "sts12", 10.0, written="older"))
    found = asked.test(world(tmp_path).resolved[0]).findings[0]
    assert (str(found.sides[1]), found.decision.outcome) == ("stale", ClaimOutcome.NOT_MEASURED)


@pytest.mark.parametrize(
    "method", ["fake.mean+stretch@target", "kin.mean", "kin.cls+centre@target"]
)
def test_a_seeded_method_of_one_seed_decides_nothing(method):
    """By its post-processor, or by its encoder, which is trained once a seed."""
    written = repr(REGISTRY.parse(method))
    judged = judge(records(method, "sts12", 90.0, written=written))
    side = judged.scores(method, ("sts12", WMEAN))
    assert str(side) == "90.00 (k=1)"
    assert decide(side, one(10.0)).by == "too few seeds"


# The word on a whole claim, and its average


def test_half_of_the_tasks_is_not_more_than_half(tmp_path):
    claim = world(tmp_path, CLAIMS + 'columns = ["sts12", "sts13"]\n').resolved[0]
    found = judge(fixed("fake.mean", 60.0, 40.0), fixed("fake.cls", 50.0, 50.0)).test(claim)
    assert (found.outcomes, found.outcome) == (
        [ClaimOutcome.HOLDS, ClaimOutcome.FAILS],
        ClaimOutcome.UNDECIDED,
    )


def test_the_average_is_of_the_tasks_and_counts_as_none(tmp_path):
    asked = judge(fixed("fake.mean", *map(float, range(60, 67))), fixed("fake.cls", *[63.5] * 7))
    found = asked.test(world(tmp_path).resolved[0])
    assert found.average.decision.difference == -0.5
    assert found.average.published == (pytest.approx(73.5), pytest.approx(53.0))
    assert len(found.outcomes) == 7


def test_an_average_of_seeds_pairs_them_by_number():
    sides = [
        SeedScores({0: 10.0, 1: 20.0, 2: 30.0}, True),
        SeedScores({1: 40.0, 2: 60.0, 3: 0.0}, True),
    ]
    mean = mean_over_tasks(sides)
    assert (mean.scores, mean.seeded) == ({1: 30.0, 2: 45.0}, True)
    assert mean_over_tasks([one(10.0), one(None)]).value.mean is None
    assert mean_over_tasks([one(10.0), SeedScores({})]).value.mean is None


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
    tmp_path, better, path, other, interval, count
):
    stored = Contrast(better, "fake.cls", tuple((task, path) for task in SEVEN[:count]))
    every = fixed("fake.mean", *[60.0] * 7), fixed("fake.cls", *[other] * 7)
    claim = world(tmp_path).resolved[0]
    intervals = {stored: Interval(stored, 1.0, -0.5, 2.5, 9, 0)}
    found = judge(*every, intervals=intervals).test(claim)
    decision = (found.findings[0] if count == 1 else found.average).decision
    assert (decision.interval, decision.by) == (interval, "items" if interval else "sign")
    assert decision.outcome is (ClaimOutcome.UNDECIDED if interval else ClaimOutcome.HOLDS)
    others = [one.decision.by for one in found.every if one.decision is not decision]
    assert set(others) == {"sign"}


# The order of rows

TENTHS = st.integers(-20, 20).map(lambda x: x / 10)


@settings(max_examples=40)
@given(st.lists(st.tuples(TENTHS, TENTHS), min_size=2, max_size=8))
def test_the_order_of_rows_is_kendalls(rows):
    published, ours = map(list, zip(*rows, strict=True))
    found = rank_order(published, ours)
    pairs = sum(a != b for a, b in combinations(published, 2))
    if len(set(published)) == len(rows) == len(set(ours)):
        tau = stats.kendalltau(published, ours).statistic
        assert found == f"{round(tau, 9) + 0.0:+.2f} ({round((tau + 1) * pairs / 2)} of {pairs})"
    assert found.endswith(f" of {pairs})" if pairs else NOT_MEASURED)


IN_WORDS = CLAIM.replace('"low"', '"after it"\nmethods = ["fake.mean", "fake.cls"]')


def test_a_claim_in_words_names_its_methods_and_has_no_published_numbers(tmp_path):
    claims = world(tmp_path, f'about = "About."\n[rows]\n{IN_WORDS}')
    asked = judge(fixed("fake.mean", *[60.0] * 7), fixed("fake.cls", *[50.0] * 7))
    [found] = [asked.test(claim) for claim in claims.resolved]
    assert (found.outcome, found.in_paper) == (ClaimOutcome.HOLDS, 0)
    assert found.average is not None
    assert found.average.published is None
    page = claims_page(claims, asked)
    assert "the paper says it in words and prints no numbers." in page
    [cells] = rows_of(page, "Avg")
    assert cells == ["Avg.", "–", "–", "–", "60.00", "50.00", "+10.00", "", "holds", "sign"]


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
        world(tmp_path, CLAIMS.replace(old, new))


@pytest.fixture(scope="module")
def committed():
    return read_claims(COMMITTED / "questions" / "claims.toml", load_tables(COMMITTED / "papers"))


def test_the_committed_claims_are_those_of_the_papers(committed):
    """Each stands in a paper that can be cited, and the paper's own numbers show it."""
    bib, asked = entries(), judge()
    for claim in committed.resolved:
        assert claim.table.cite in bib, claim.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
        findings = asked.test(claim).findings
        in_words = all(finding.published is None for finding in findings)
        assert in_words or 2 * asked.test(claim).in_paper > len(findings), claim.id
        assert all(column.label for column in claim.columns)


# The page
