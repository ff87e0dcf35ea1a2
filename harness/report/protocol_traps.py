"""The page of protocol traps: each with the measured numbers that show it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.markdown import page, table
from harness.results.index import Results
from harness.results.protocol_traps import Trap

INTRODUCTION = (
    "Why two honest measurements of one method differ: the traps of the papers' protocols, on "
    "encoders that anybody can run. Spearman x100 of cosine unless the row says otherwise; the "
    "last column is the difference from the first row of its trap and task."
)


def traps_page(results: Results, traps: Sequence[Trap]) -> str:
    """All traps with their numbers; a row whose cell was not run says so."""
    parts = [INTRODUCTION]
    for number, trap in enumerate(traps, start=1):
        rows = [
            [
                row.what,
                f"`{row.method}`",
                f"`{row.task}`",
                value,
                "" if gap is None else f"{gap:+.2f}",
            ]
            for row, value, gap in trap.values(results)
        ]
        shown = table(["", "method", "task", "score", "difference"], rows, words=3)
        parts += [f"## {number}. {trap.title}", trap.text, shown]
    return page("Protocol traps", parts, results.digest())
