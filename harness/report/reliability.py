"""The page of reliability: each attack, how often it was tried, and what came of it."""

from __future__ import annotations

from pathlib import Path

from harness.report.markdown import page, table
from harness.results.index import NOT_MEASURED
from harness.results.reliability import COUNTS, digest, read_tallies

INTRODUCTION = (
    "What was done to the harness, and what it did. `right`: nothing was wrong; `rebuilt`: what "
    "was damaged was noticed and made again; `refused`: one line and a status; `silent`: a wrong "
    "number, a lost or stray file, or a traceback. `make soak` tries all of it anew; what is "
    "promised is in [security](../../docs/security.md)."
)


def reliability_page(path: Path) -> str:
    """All rows of a file of attacks with their tallies; one without says so. Raises DataError."""
    tallies = read_tallies(path)
    lines = [
        [
            row.what,
            row.right,
            *([NOT_MEASURED, *[""] * 4] if of is None else (of.total(n) for n in COUNTS)),
        ]
        for row, of in tallies.items()
    ]
    parts = [INTRODUCTION, table(["what is tried", "what is right", *COUNTS], lines, words=2)]
    parts_tried = [part for of in tallies.values() if of for part in of.parts.values()]
    if commits := sorted({part.commit for part in parts_tried if part.commit}):
        parts.append(f"Commit {', '.join(commit[:12] for commit in commits)}.")
    return page("Reliability", parts, digest(path))
