"""The page of claims: each word from its numbers, holes as holes, nothing typed that is data."""

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import FakeConfig, FakeFamily, made_record, results_of
from fakes import registry as fake_registry

from harness.core.errors import DataError
from harness.core.types import Record
from harness.report.bibtex import entries
from harness.report.claims import claims_page
from harness.results.claims import (
    Claim,
    Claims,
    claim_result,
    read_claims,
    score_columns,
    score_of_column,
)
from harness.results.differences import (
    ITEMS,
    NO_FLOORS,
    SEEDS_ALONE,
    Contrast,
    Difference,
    Outcome,
)
from harness.results.encoder_sizes import sizes_of_encoders
from harness.results.index import Results, SeedScores
from harness.results.published import Column, Row, Table
from harness.results.published_tables import load_table, load_tables

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


def result_of(claim: Claim, *every: list[Record], stored=None):
    return claim_result(claim, results_of(*chain(*every)), REGISTRY, stored or {})


def page_of(claims, results: Results, floors=NO_FLOORS) -> str:
    """The text of the page of these claims."""
    folder = SimpleNamespace(
        claims=claims,
        claim_results=[
            claim_result(claim, results, REGISTRY, {}, floors)
            for claim in claims.resolved
        ],
        encoder_sizes=sizes_of_encoders(results, REGISTRY),
        records=results,
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


# The records behind it


def test_a_column_may_have_a_metric_of_its_own():
    lexical = load_table(COMMITTED / "papers" / "bert-flow.t6.toml")
    assert [score_of_column(lexical, column) for column in score_columns(lexical)] == [
        ("lexical", ("edit_distance",)),
        ("lexical", ("gold_similarity",)),
    ]


def test_a_claim_of_which_nothing_was_measured_is_not_undecided(claim):
    result = result_of(claim)
    assert {result.outcome, *result.outcomes} == {Outcome.NOT_MEASURED}


def test_a_record_of_other_settings_is_a_hole(claim):
    older = records("fake.cls", "sts12", 10.0, written="older")
    first = result_of(claim, records_on_seven_tasks("fake.mean", 90.0), older).findings[
        0
    ]
    assert str(first.difference.sides[1]) == "stale"
    assert first.difference.outcome is Outcome.NOT_MEASURED


# The word on a whole claim, and its average


def judged_by(
    tmp_path, ps: dict[str, float], differences: dict[str, float], more: str = ""
):
    """A claim on some tasks, each with a stored difference of this p."""
    columns = f"columns = {[*ps]}\n".replace("'", '"')
    claim = claims_over_table(tmp_path, CLAIMS + columns + more).resolved[0]
    every, stored = [], {}
    for task, p in ps.items():
        contrast = Contrast("fake.mean", "fake.cls", ((task, WMEAN),))
        points = differences[task]
        stored[contrast] = Difference(
            contrast=contrast, points=points, low=points, high=points, p=p, by=ITEMS
        )
        for method, score in (("fake.mean", 50 + points), ("fake.cls", 50.0)):
            written = REGISTRY.parse(method).identity
            every.append(records(method, task, score, written=written))
    return result_of(claim, *every, stored=stored)


HIGHER, LOWER, UNDECIDED = Outcome.HIGHER, Outcome.LOWER, Outcome.UNDECIDED
EVERY = "conjunction = true\n"


@pytest.mark.parametrize(
    ("points", "ps", "more", "outcomes", "outcome"),
    [
        ((10.0, -10.0), (0.001, 0.001), "", [HIGHER, LOWER], UNDECIDED),
        # Two of three p are below 0.05, one of them by Holm's procedure as well.
        ((1.0, 1.0, 1.0), (0.01, 0.04, 0.5), "", [HIGHER, UNDECIDED, UNDECIDED], UNDECIDED),
        ((1.0,), (0.04,), "", [HIGHER], HIGHER),
        ((1.0, 1.0), (0.001, 0.001), EVERY, [HIGHER, HIGHER], HIGHER),
        ((1.0, 1.0), (0.001, 0.5), EVERY, [HIGHER, UNDECIDED], UNDECIDED),
        ((1.0, -1.0), (0.001, 0.001), EVERY, [HIGHER, LOWER], LOWER),
        ((1.0, -1.0), (0.001, 0.5), EVERY, [HIGHER, UNDECIDED], UNDECIDED),
    ],
)  # fmt: skip
def test_a_claim_holds_on_most_of_its_tasks_or_a_conjunction_on_all(
    tmp_path, points, ps, more, outcomes, outcome
):
    tasks = SEVEN[: len(ps)]
    found = judged_by(
        tmp_path,
        dict(zip(tasks, ps, strict=True)),
        dict(zip(tasks, points, strict=True)),
        more,
    )
    assert (found.outcomes, found.outcome) == (outcomes, outcome)


@pytest.mark.parametrize(
    ("other", "outcome"), [(65.0, Outcome.HIGHER), (55.0, Outcome.UNDECIDED)]
)
def test_a_task_is_undecided_if_the_floors_of_a_flow_disagree(tmp_path, other, outcome):
    claims = claims_over_table(tmp_path, CLAIMS + 'columns = ["sts12"]\n')
    written = REGISTRY.parse("fake.mean").identity
    results = results_of(
        *records_on_seven_tasks("fake.cls", 60.0),
        *records("fake.mean", "sts12", *[70.0] * 5, written=written),
    )
    scores = SeedScores(dict(enumerate([other] * 5)), seeded=True)
    floors = {("fake.mean", "sts12", WMEAN): scores}
    result = claim_result(claims.resolved[0], results, REGISTRY, {}, floors)
    [finding] = result.findings
    assert finding.difference.outcome is Outcome.HIGHER
    assert (finding.outcome, result.outcome) == (outcome, outcome)
    words = f"(docs/flows.md): STS12 {other:.2f}"
    assert words in page_of(claims, results, floors)


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
    stray = records("other.cls", "sts12", 65.0)
    page = page_of(claims, results_of(*better, *worse, *stray))
    assert page == approved("golden/claims.md")


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
    tables, bibliography = load_tables(COMMITTED / "papers"), entries()
    for claim in read_claims(COMMITTED / "questions" / "claims.toml", tables).resolved:
        assert claim.table.cite in bibliography, claim.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
        result = result_of(claim)
        assert not claim.is_printed or 2 * result.in_paper > len(result.findings), (
            claim.id
        )


@pytest.mark.parametrize(
    ("bases", "rests"),
    [([SEEDS_ALONE] * 4 + [ITEMS] * 3, True), ([SEEDS_ALONE] * 3 + [ITEMS] * 4, False)],
)
def test_a_claim_that_only_seeds_decide_is_named_as_such(claim, bases, rests):
    result = result_of(claim)
    findings = []
    for finding, by in zip(result.findings, bases, strict=True):
        decided = replace(finding.difference, points=-1.0, by=by, p_holm=0.0)
        findings.append(replace(finding, difference=decided))
    decided = replace(result, findings=tuple(findings), average=())
    assert (decided.outcome, decided.rests_on_seeds_alone) == (Outcome.LOWER, rests)
