"""An explanation of a published number for people: the neighbouring protocols, nearest first."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.terminal import table, wrapped
from harness.report.sentences import signed
from harness.results.coverage import coverage_note
from harness.results.explain import Explanation, Neighbour

# How the protocol of a row is known, by its `evidence`.
EVIDENCE_WORDS: Mapping[str, str] = {
    "confirmed": "confirmed against the authors' code",
    "code": "read from code",
    "paper": "stated in the paper",
    "inferred": "inferred",
}


def render(found: Explanation, most: int = 25, width: int | None = None) -> str:
    """The published cell, what it needs and what was measured, then its nearest neighbours."""
    cell = found.cell
    lines = [
        f"{cell.id}: {cell.row.name}, {cell.column.label}, published {cell.value}",
        f"source: {cell.source}",
        *(f"note: {note}" for note in cell.notes),
    ]
    if cell.why_not:
        lines.append(f"no method here reproduces it: {cell.why_not.explanation}")
        return "\n".join(wrapped(line, width) for line in lines)
    lines.append(f"needs: {cell.method} on {cell.task or ', '.join(cell.average_of)}")
    if cell.evidence:
        words = [EVIDENCE_WORDS[cell.evidence]]
        if cell.evidence == "confirmed":
            words.append(found.confirmed_by or "by no reference that was measured here")
        lines.append(f"evidence: {', '.join(words)}")
    if found.wanted:
        lines.append(
            f"protocol: {found.wanted.text} text, split {found.wanted.split}, "
            f"{found.wanted.metric} {found.wanted.aggregation}".rstrip()
        )
    measured, difference = found.reproduction.measured, found.reproduction.verdict.difference
    if measured is None:
        lines += [f"measured: {found.reproduction.state}", f"run: {found.command}"]
    else:
        lines.append(f"measured: {measured:.4f} ({difference:+.4f}, {found.reproduction.state})")
        share = found.reproduction.coverage
        covered = "" if share is None else coverage_note({cell.column.label: share})
        lines += [f"word vectors: {covered}"] if covered else []
    if not found.neighbours:
        lines.append("no neighbouring protocol was run")
        return "\n".join(wrapped(line, width) for line in lines)
    if found.wanted and found.shown_on != found.wanted.encoder:
        lines.append(f"{found.wanted.encoder} was not run{_reference(found)}")
    rows = [[change(n), f"{n.value:.2f}", signed(n.difference)] for n in found.neighbours[:most]]
    head = ["but with", "measured", "difference"]
    lines = [*(wrapped(line, width) for line in lines), "", table(rows, head, width), ""]
    nearest = found.base or min(found.neighbours, key=lambda n: abs(n.difference))
    lines.append(
        f"{len(found.neighbours)} neighbouring protocols were tried; nearest is "
        f"{nearest.value:.2f} ({signed(nearest.difference)})"
    )
    lines.append(f"  with {change(nearest)}: {nearest.command}")
    return "\n".join(lines)


def _reference(found: Explanation) -> str:
    """What differences are taken against, where the encoder itself was not run."""
    if found.base is None:
        return (
            f"; on {found.shown_on}, the same protocol gives {found.reference:.2f}, and each "
            "choice moves that"
        )
    return (
        ", nor this protocol on any other encoder; differences are from the nearest row that was "
        f"run: {found.shown_on} with {change(found.base)}, {found.base.value:.2f}"
    )


def change(neighbour: Neighbour) -> str:
    """The fields that differ, with their values here."""
    return ", ".join(
        f"{name.replace('_', ' ')} {getattr(neighbour.protocol, name) or 'none'}"
        for name in neighbour.differs_in
    )
