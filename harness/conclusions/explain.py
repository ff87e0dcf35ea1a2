"""The explanation of a published number.

It has what the number depends on, its reproduction by a method here, and how far other
choices move the score. `harness.conclusions.effects` computes these effects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.conclusions.conformance import Confirmations, Reference, confirmed_by
from harness.conclusions.effects import (
    Effect,
    RowGroups,
    Scores,
    measured_effects,
    measured_scores,
    nearest_rows,
)
from harness.conclusions.traps import Trap
from harness.registry import Registry
from harness.results.index import Results
from harness.results.protocols import Protocol
from harness.results.published import PublishedNumber
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
        effects: The effects of other choices.
    """

    reproduction: Reproduction
    protocol: Protocol | None
    confirmed_by: Reference | None
    nearest: Scores = field(default_factory=dict)
    effects: Sequence[Effect] = ()


def explain(
    number: PublishedNumber,
    results: Results,
    registry: Registry,
    confirmations: Confirmations,
    traps: Sequence[Trap] = (),
) -> Explanation:
    """Explain a published number by what was measured under other choices.

    Args:
        number: The published number.
        results: The records.
        registry: Methods and tasks by name.
        confirmations: The references that confirm protocols.
        traps: What papers have confused.
    """
    reproduction = reproduce(number, results, registry)
    reference = confirmed_by(number, confirmations, results)
    protocol = protocol_of_task(number)
    if protocol is None:
        return Explanation(
            reproduction=reproduction, protocol=None, confirmed_by=reference
        )
    scores = measured_scores(results, registry, protocol)
    return Explanation(
        reproduction=reproduction,
        protocol=protocol,
        confirmed_by=reference,
        nearest=nearest_rows(protocol, scores),
        effects=measured_effects(protocol, RowGroups(scores), registry, traps),
    )


def protocol_of_task(number: PublishedNumber) -> Protocol | None:
    """The protocol of a published number on one task; None for an average and other numbers."""
    return number.protocols[0] if number.task and number.protocols else None
