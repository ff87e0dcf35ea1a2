"""What a search for the protocol of a row found, in sentences and as facts."""

from __future__ import annotations

from typing import Any

from harness.conclusions.found_protocols import Finding, RowSearch
from harness.core.terminal import counted

MOST_SHOWN = 3  # protocols of an answer
FEWEST = 0.001  # protocols by chance, below which their number is not told


def row_search_lines(subject: str, search: RowSearch) -> list[str]:
    """The answer to a search: what gives the numbers, and how many protocols would by chance."""
    numbers = "this number" if search.columns == 1 else f"all {search.columns} numbers"
    given = search.given
    gives = "gives" if len(given) == 1 else "give"
    count = (
        f"{len(given)} of {counted(search.tried, 'protocol')} {gives} {numbers}; "
        f"by chance {_expected(search.by_chance)} would"
    )
    lines = []
    if search.is_found:
        said = "the digits of" if search.state == "exact" else "a match of"
        lines.append(
            f"{subject}: {given[0].words} gives {said} {numbers} ({_scores(given[0])})."
        )
        for other in given[1:MOST_SHOWN]:
            lines.append(f"So does {other.words} ({_scores(other)}).")
        lines.append(f"{count}.")
    elif given:
        which = "a single column" if search.columns == 1 else "so few columns"
        lines.append(f"{subject}: {count}: {which} cannot decide.")
        lines += [f"One of them: {each.words}." for each in given[:MOST_SHOWN]]
    else:
        tried = counted(search.tried, "protocol")
        lines.append(f"{subject}: none of {tried} gives {numbers}.")
        for each in search.nearly[:MOST_SHOWN]:
            [column] = each.missed
            lines.append(
                f"All but {column} are given by {each.words}, which has "
                f"{each.scores[column]:.2f} there."
            )
    if search.left_out and not search.is_found:
        lines.append(
            f"{counted(search.left_out, 'protocol')} were left out, whose texts are not "
            "encoded yet."
        )
    return lines


def _expected(by_chance: float) -> str:
    """`about 1.4`, or that it is next to none."""
    return f"about {by_chance:.2g}" if by_chance >= FEWEST else f"fewer than {FEWEST}"


def _scores(finding: Finding) -> str:
    """`sts12 42.88, sts13 77.77`."""
    return ", ".join(f"{name} {score:.2f}" for name, score in finding.scores.items())


def row_search_facts(search: RowSearch) -> dict[str, Any]:
    """A search as JSON has it."""
    return {
        "found": search.is_found,
        "columns": search.columns,
        "tried": search.tried,
        "by_chance": search.by_chance,
        "state": search.state,
        "given": [_facts(each) for each in search.given],
        "nearly": [_facts(each) for each in search.nearly],
        "left_out": search.left_out,
    }


def _facts(finding: Finding) -> dict[str, Any]:
    """A protocol with its scores."""
    return {
        "choices": [choice.words for choice in finding.choices],
        "scores": dict(finding.scores),
        "missed": list(finding.missed),
    }
