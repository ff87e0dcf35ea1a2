"""The page of scores in mteb's public results that contradict each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from harness.results.contradictions import (
    AGREEMENT,
    CONTRADICTION_KINDS,
    Contradiction,
    PublicScores,
)
from harness.results.stored_scores import StoredScore

HEAD = """# Contradictions in mteb's public results

Cosine Spearman correlations of STS tasks in `embeddings-benchmark/results` at {commit}
({date}), with its history, {files:,} files of today among them, compared with each
other by `harness check --published FOLDER`. No model was run: what is listed are two
numbers that cannot both be right within {tolerance} points, or one that cannot be right
alone. What differs between two files beside the number is named, which is not always
the cause; a prompt that was left out is seen in no file. Each finding can be sent to a
maintainer as it is, and checked by its commands in a clone.

| | findings |
|:--|--:|
{counts}
"""


# What the last line of a finding begins with: of two files, or of one (True).
SEEN = {False: "beside the number the files differ in", True: "it is wrong alone"}


def contradictions_page(store: PublicScores, findings: Sequence[Contradiction]) -> str:
    """The page as Markdown: the store that was read, and its findings by kind."""
    count_of_kind = Counter(finding.kind for finding in findings)
    counts = "\n".join(
        f"| {title} | {count_of_kind[kind]} |"
        for kind, title in CONTRADICTION_KINDS.items()
    )
    parts = [
        HEAD.format(
            commit=store.commit[:9],
            date=store.date,
            files=store.file_count,
            tolerance=AGREEMENT,
            counts=counts,
        )
    ]
    for kind, title in CONTRADICTION_KINDS.items():
        of_kind = [finding for finding in findings if finding.kind == kind]
        if of_kind:
            parts.append(f"## {title}\n")
            parts += [_finding(finding) for finding in of_kind]
    return "\n".join(parts)


def _finding(finding: Contradiction) -> str:
    """One finding: what it is, its files with their numbers, and how to look at them."""
    first, second = finding.first, finding.second
    title = f"{_model(first)}, {first.cell}: {first.points:.2f}"
    if second is not None and finding.kind == "models":
        title = f"{_model(first)} and {_model(second)}: {finding.seen}"
    elif second is not None:
        title += f", and {second.points:.2f} ({finding.difference:+.2f})"
    lines = [f"### {title}", ""]
    lines += [_place(score) for score in (first, second) if score is not None]
    if finding.kind != "models":
        lines.append(f"- {SEEN[finding.second is None]}: {finding.seen}")
    if finding.kind == "sources" and finding.others:
        lines.append(f"- {finding.others} more scores of these files differ")
    return "\n".join(lines) + "\n"


def _place(score: StoredScore) -> str:
    """A file, its number, when it was written, and the command that shows it."""
    period = f"since {score.since_date} ({score.since[:9]})"
    if score.until:
        period += f" until {score.until[:9]}"
    return f"- {score.cell} {score.points:.4f}, {period}: `{score.command}`"


def _model(score: StoredScore) -> str:
    return score.cell.model.replace("__", "/")
