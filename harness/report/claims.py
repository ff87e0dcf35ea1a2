"""The page of the papers' claims, tested on other encoders.

A claim says that one row of a published table is above another. Claims are in groups by
the size of the encoders that they were tested on; each has a section with a row for each
task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.conclusions.claims import Claim, ClaimResult, Finding
from harness.conclusions.encoder_sizes import EncoderSize
from harness.conclusions.folder import Conclusions
from harness.core.hardware import base_name
from harness.core.terminal import counted, signed
from harness.report.sentences import aggregation_in_words, metric_in_words
from harness.report.table import ShownCell, rendered
from harness.results.differences import Outcome
from harness.results.index import MISSING, NOT_MEASURED

# What pages say of an outcome; the claimed row is `higher` or `lower` in the records.
OUTCOME_WORDS = {
    Outcome.HIGHER: "as claimed",
    Outcome.LOWER: "opposite",
    Outcome.UNDECIDED: "undecided",
    Outcome.NOT_MEASURED: NOT_MEASURED,
}
LEAST_P = 0.001  # that a table prints


def claims_page(folder: Conclusions) -> str:
    """All claims with their tests."""
    if folder.claims is None:
        return ""
    groups = claims_by_size(folder.claim_results, folder.encoder_sizes)
    results = [result for group in groups.values() for result in group]
    cells = [cell for result in results for cell in result.cells]
    return rendered(
        "claims.md",
        title="Claims of the papers, tested",
        about=folder.claims.about,
        groups=[_group(title, group) for title, group in groups.items()],
        on_seeds_alone=[each.claim.id for each in results if each.rests_on_seeds_alone],
        sections=[_section(result) for result in results],
        counted=counted,
        signed=signed,
        in_words=outcomes_in_words,
        word_of=OUTCOME_WORDS,
        digest=folder.records.select(cells).digest,
    )


# Groups of claims


OWN_ENCODERS = "The papers' own encoders"
NOT_TESTED = "Not measured"


def claims_by_size(
    results: Sequence[ClaimResult], sizes: Mapping[str, EncoderSize]
) -> dict[str, list[ClaimResult]]:
    """The claims by the smallest encoder that each was tested on, the papers' own first.

    Args:
        results: The claims.
        sizes: The size of each measured encoder.

    Returns:
        The claims by the titles of their groups; claims without a score are the last
        group.
    """
    titles = [OWN_ENCODERS, *(size.heading for size in EncoderSize), NOT_TESTED]
    groups: dict[str, list[ClaimResult]] = {title: [] for title in titles}
    largest_first = list(EncoderSize)
    for result in results:
        title = NOT_TESTED
        if result.outcome == Outcome.NOT_MEASURED:
            pass
        elif result.claim.is_of_own_encoder:
            title = OWN_ENCODERS
        else:
            encoder_sizes = [sizes[base_name(name)] for name in result.claim.encoders]
            title = max(encoder_sizes, key=largest_first.index).heading
        groups[title].append(result)
    return {title: group for title, group in groups.items() if group}


def encoders_of(results: Iterable[ClaimResult]) -> str:
    """The encoders that claims were tested on, as code."""
    names = dict.fromkeys(name for result in results for name in result.claim.encoders)
    return ", ".join(f"`{name}`" for name in names)


def outcomes_in_words(outcomes: Iterable[Outcome]) -> str:
    """`2 as claimed, 6 opposite, 4 undecided`; `not measured` only if there are any."""
    counts = Counter(outcomes)
    return ", ".join(
        f"{counts[outcome]} {word}"
        for outcome, word in OUTCOME_WORDS.items()
        if counts[outcome] or outcome != Outcome.NOT_MEASURED
    )


def _group(title: str, results: Sequence[ClaimResult]) -> dict[str, Any]:
    """What the template says of the claims of encoders of one size."""
    parts: dict[str, list[Outcome]] = {}  # the outcomes of a claim in several parts
    by_task: list[Outcome] = []
    rows = []
    for result in results:
        claim, table = result.claim, result.claim.table
        if claim.entry.part_of:
            parts.setdefault(claim.entry.part_of, []).append(result.outcome)
        by_task += result.outcomes
        paper = ShownCell(f"{table.paper}, {table.table}", link=f"papers/{table.id}.md")
        rows.append(
            [
                ShownCell(claim.id, link=f"#{claim.id}"),
                claim.entry.claim,
                " and ".join(f"`{name}`" for name in claim.encoders),
                paper,
                *(result.outcomes.count(outcome) for outcome in OUTCOME_WORDS),
                len(result.findings),
                result.in_paper if claim.is_printed else MISSING,
                ShownCell(OUTCOME_WORDS[result.outcome], bold=True),
            ]
        )
    return {
        "title": title,
        "encoders": encoders_of(results),
        "outcomes": [result.outcome for result in results],
        "by_task": by_task,
        "parts": parts,
        "rows": rows,
    }


# The section of a claim


def _section(result: ClaimResult) -> dict[str, Any]:
    """What the template says of a claim, with a row for each task."""
    claim = result.claim
    metrics = [column.metric or claim.table.metric for column in claim.columns]
    protocol = list(map(metric_in_words, dict.fromkeys(metrics)))
    if claim.table.aggregation:
        protocol.append(aggregation_in_words(claim.table.aggregation))
    return {
        "result": result,
        "protocol": protocol,
        "tasks": list(dict.fromkeys(column.task for column in claim.columns)),
        "other_floors": [
            finding
            for finding in result.all_findings
            if finding.other is not None and finding.other.points is not None
        ],
        "differences": [*_differences_of_rows(claim)],
        "rows": map(_finding_row, result.all_findings),
    }


def _differences_of_rows(claim: Claim) -> Iterator[str]:
    """How the methods that are compared differ from the rows of the paper, a sentence each."""
    for row, method in zip(claim.rows, claim.methods, strict=True):
        in_paper, here = (
            f"`+{posts}`" if posts else "no post-processing"
            for _, _, posts in (
                name.partition("+") for name in (row.method or method, method)
            )
        )
        if in_paper != here:
            yield f"{row.label} is taken to have {in_paper} in the paper, and has {here} here."
        other_tasks = [
            f"`{row.tasks[column.id]}`"
            for column in claim.columns
            if row.tasks.get(column.id, column.task) != column.task
        ]
        if other_tasks:
            tasks = ", ".join(other_tasks)
            yield f"{row.label} is published on {tasks}, another text form than here."


def _finding_row(finding: Finding) -> list[str]:
    """A task of a claim: the published numbers, the measured ones, and the decision."""
    printed = [MISSING] * 3
    if finding.published is not None and finding.claimed is not None:
        better, worse = finding.published
        printed = [f"{better:.2f}", f"{worse:.2f}", signed(finding.claimed)]
    tested = finding.difference
    points = "" if tested.points is None else signed(tested.points)
    interval = p_holm = ""
    if tested.low is not None and tested.high is not None:
        interval = f"{signed(tested.low)} to {signed(tested.high)}"
    if tested.p_holm is not None:
        # Three digits, so that a p just below a level is not printed as that level.
        p_holm = f"{tested.p_holm:.3g}" if tested.p_holm >= LEAST_P else "<0.001"
    return [
        finding.label,
        *printed,
        *map(str, tested.sides),
        points,
        interval,
        p_holm,
        OUTCOME_WORDS[finding.outcome],
        tested.by,
    ]
