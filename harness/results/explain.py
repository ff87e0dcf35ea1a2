"""The explanation of a published number.

It has what the number depends on, its reproduction by a method here, and how far other
choices move the score. `harness.results.choices` computes these effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.core.errors import UsageError
from harness.registry import Registry
from harness.results.choices import (
    OtherChoice,
    Scores,
    choices_near,
    measured_scores,
    nearest_rows,
    pairs_of_choices,
    single_choices,
)
from harness.results.conformance import Confirmations, Reference, confirmed_by
from harness.results.index import Results
from harness.results.protocols import Protocol, protocols_of
from harness.results.published import PublishedCell
from harness.results.questions import Trap
from harness.results.reproduction import Reproduction, reproduce


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A published number, its reproduction, and the effects of other choices of its protocol.

    Attributes:
        reproduction: The published number against the records.
        protocol: Its protocol; None for an average and where no method reproduces it.
        confirmed_by: A program of others that gives the same scores as ours under the
            protocol.
        nearest: The measured rows that are nearest to the protocol; none if there are
            measured scores under the protocol itself.
        choices: The other choices with their effects; if there is a gap, only those
            whose effect is about as large.
        pairs: Pairs of choices whose effect is about as large as the gap.
        gap: By how many points a reader's number is above the published one.
    """

    reproduction: Reproduction
    protocol: Protocol | None
    confirmed_by: Reference | None
    nearest: Scores = field(default_factory=dict)
    choices: Sequence[OtherChoice] = ()
    pairs: Sequence[OtherChoice] = ()
    gap: float | None = None


def explain(
    cell: PublishedCell,
    results: Results,
    registry: Registry,
    confirmations: Confirmations,
    traps: Sequence[Trap] = (),
    mine: float | None = None,
) -> Explanation:
    """Explain a published number by what was measured under other choices.

    Args:
        cell: The published number.
        results: The records.
        registry: Methods and tasks by name.
        confirmations: The references that confirm protocols.
        traps: What papers have confused.
        mine: A reader's number, in points; choices are then those that lead to it.

    Raises:
        UsageError: `mine` is no score, or the cell has no choices to rank.
    """
    gap = None if mine is None else gap_of(cell, mine)
    reproduction = reproduce(cell, results, registry)
    reference = confirmed_by(cell, confirmations, results, registry)
    protocol = protocol_of_task(cell, registry)
    if protocol is None:
        return Explanation(
            reproduction=reproduction, protocol=None, confirmed_by=reference
        )
    scores = measured_scores(results, registry, protocol)
    choices = single_choices(protocol, scores, registry, traps)
    pairs: Sequence[OtherChoice] = ()
    if gap is not None:
        all_pairs = pairs_of_choices(protocol, choices, scores, registry)
        pairs = choices_near(gap, all_pairs)
        choices = choices_near(gap, choices)
    return Explanation(
        reproduction=reproduction,
        protocol=protocol,
        confirmed_by=reference,
        nearest=nearest_rows(protocol, scores),
        choices=choices,
        pairs=pairs,
        gap=gap,
    )


def gap_of(cell: PublishedCell, mine: float) -> float:
    """By how many points a number is above a published one.

    Raises:
        UsageError: No score of the metric can be `mine`, or the cell has no choices to
            rank.
    """
    lowest = 0 if cell.metric in ("accuracy", "auc") else -100
    if not lowest <= mine <= 100:
        raise UsageError(f"--mine {mine:g}: wanted a score x100, from {lowest} to 100")
    if cell.points is None or cell.why_not or not cell.task:
        raise UsageError(
            f"--mine: {cell.id} is not a score of one task with a method here"
        )
    return mine - cell.points


def protocol_of_task(cell: PublishedCell, registry: Registry) -> Protocol | None:
    """The protocol of a published number on one task; None for an average and other numbers."""
    protocols = protocols_of(cell, registry)
    if not cell.task or not protocols:
        return None
    return protocols[0]
