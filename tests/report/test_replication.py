"""The page of claims: each word from its numbers, holes as holes, nothing typed that is data."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from committed import RESULTS
from fakes import FakeConfig, made_record, results_of
from fakes import registry as fake_registry

from harness.conclusions.claims import (
    Claim,
    ClaimResult,
    Claims,
    Finding,
    claim_result,
    read_claims,
)
from harness.conclusions.encoder_sizes import EncoderSize, sizes_of_encoders
from harness.core.errors import DataError
from harness.core.types import Record
from harness.report.bibtex import entries
from harness.report.claims import claims_page
from harness.results.differences import (
    ITEMS,
    NO_FLOORS,
    SEEDS_ALONE,
    Contrast,
    Difference,
    Outcome,
)
from harness.results.index import Results, SeedScores
from harness.results.published import Column, Row, Table
from harness.results.published_tables import load_tables

REGISTRY = fake_registry(FakeConfig())
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


def test_a_record_of_other_settings_is_a_hole(claim):
    results = results_of(
        *records_on_seven_tasks("fake.mean", 90.0),
        *records("fake.cls", "sts12", 10.0, written="older"),
        found=REGISTRY,
    )
    difference = claim_result(claim, results, REGISTRY, {}).findings[0].difference
    assert str(difference.sides[1]) == "stale"
    assert difference.outcome is Outcome.NOT_MEASURED


# The word on a whole claim


def result_over(claim: Claim, signs, bases=(), conjunction=False) -> ClaimResult:
    """The result of a claim that is higher, lower, undecided or not measured on its tasks.

    These are 1, -1, 0 and None; a basis is what the test on a task rests on.
    """
    findings = []
    for sign, by in zip(signs, bases or [ITEMS] * len(signs), strict=True):
        difference = Difference(
            contrast=CONTRAST,
            points=sign or 1.0,
            by="" if sign is None else by,
            p_holm=0.0 if sign else 1.0,
        )
        findings.append(Finding(label="", published=None, difference=difference))
    claim = replace(claim, entry=replace(claim.entry, conjunction=conjunction))
    return ClaimResult(claim=claim, findings=tuple(findings))


CONTRAST = Contrast("fake.mean", "fake.cls", (("sts12", WMEAN),))
HIGHER, LOWER, UNDECIDED = Outcome.HIGHER, Outcome.LOWER, Outcome.UNDECIDED


@pytest.mark.parametrize(
    ("signs", "conjunction", "outcome"),
    [
        ((1,), False, HIGHER),
        ((1, 1, 0), False, HIGHER),
        ((1, -1), False, UNDECIDED),
        ((1, 0, 0), False, UNDECIDED),
        ((-1, None), False, UNDECIDED),
        ((None, None), False, Outcome.NOT_MEASURED),
        ((1, 1), True, HIGHER),
        ((1, 0), True, UNDECIDED),
        ((1, -1), True, LOWER),
    ],
)
def test_a_claim_holds_on_most_of_its_tasks_or_a_conjunction_on_all(
    claim, signs, conjunction, outcome
):
    assert result_over(claim, signs, conjunction=conjunction).outcome is outcome


@pytest.mark.parametrize(("seeds_alone", "rests"), [(4, True), (3, False)])
def test_a_claim_that_only_seeds_decide_is_named_as_such(claim, seeds_alone, rests):
    bases = [SEEDS_ALONE] * seeds_alone + [ITEMS] * (7 - seeds_alone)
    result = result_over(claim, [-1] * 7, bases)
    assert (result.outcome, result.rests_on_seeds_alone) == (LOWER, rests)


@pytest.mark.parametrize(("other", "outcome"), [(65.0, HIGHER), (55.0, UNDECIDED)])
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
    assert (finding.difference.outcome, result.outcome) == (HIGHER, outcome)
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
    tables, bibliography = load_tables(RESULTS / "papers"), entries()
    for claim in read_claims(RESULTS / "questions" / "claims.toml", tables).resolved:
        assert claim.table.cite in bibliography, claim.id
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.id)
        result = claim_result(claim, results_of(), REGISTRY, {})
        assert not claim.is_printed or 2 * result.in_paper > len(result.findings), (
            claim.id
        )


def test_word_vectors_that_somebody_brings_may_be_of_the_papers_size():
    facts = {"dimensions": 300, "coverage": 1.0}
    record = made_record("mine.mean", "sts-b", {}, facts=facts)
    sizes = sizes_of_encoders(results_of(record), REGISTRY)
    assert sizes == {"mine": EncoderSize.PAPERS}
