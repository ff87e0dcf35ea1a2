"""The page of moved pairs: which pairs change their rank most with a choice of the method.

`results/questions/moved_pairs.toml` lists the choices, each as two methods.
`benchmarks/moved_pairs.py` ranks the pairs of tasks by both, and stores the pairs that
moved most in `results/records/moved_pairs.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.toml import read_rows, read_sealed
from harness.report.markdown import escape, page_text, table
from harness.results.index import DIGEST_DIGITS_SHOWN, encoder_of_method
from harness.results.layout import digest_of_measured, measured_for

MOVED_INTRODUCTION = (
    "The ten pairs of each task whose rank by similarity differs most between two methods. Rank 1 "
    "is the least similar pair; pairs are numbered from 1, in the order of the data set. Sentences "
    "are printed of the tasks that come with the harness. For any other: `harness run -m BEFORE "
    "AFTER -t TASK`, then `harness compare BEFORE AFTER -t TASK --pairs 10`."
)


@dataclass(frozen=True)
class MethodChoice:
    """A choice between two methods.

    Attributes:
        what: What the choice is, for a heading.
        before: The id of the first method.
        after: The id of the second method.
        tasks: The tasks whose pairs both methods rank.
        sentences: Whether the page prints the sentences of the pairs.
    """

    what: str
    before: str
    after: str
    tasks: tuple[str, ...]
    sentences: bool = False


@dataclass(frozen=True)
class MovedPair:
    """A pair whose rank differs between two methods.

    Attributes:
        pair: Its number in the data set, from 1.
        gold: Its gold score.
        before: Its rank by similarity under the first method; 1 is the least similar.
        after: Its rank under the second method.
        sentences: Its sentences, where the page may print them.
    """

    pair: int
    gold: float
    before: float
    after: float
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskMoves:
    """What a choice moves on one task.

    Attributes:
        pairs: How many pairs the task has.
        moved: The pairs that moved most, the most moved first.
    """

    pairs: int
    moved: tuple[MovedPair, ...]


@dataclass(frozen=True)
class MeasuredMoves:
    """The content of `moved_pairs.json`.

    Attributes:
        environment: The machine, the commit and the versions of packages.
        moved: What each choice moves on each of its tasks, by their `move_key`.
    """

    environment: Mapping[str, Any]
    moved: Mapping[str, TaskMoves]


def read_moves(questions: Path) -> MeasuredMoves:
    """What was measured of the choices of a file. Raises DataError for a damaged file."""
    return read_sealed(MeasuredMoves, measured_for(questions).with_suffix(".json"))


def move_key(choice: MethodChoice, task: str) -> str:
    """The name under which a choice is stored: `bert-mini.mean > bert-mini.cls, mini-sts`."""
    return f"{choice.before} > {choice.after}, {task}"


# The page


def moved_pairs_page(questions: Path) -> str:
    """The page: a table for each choice and task. Raises DataError for a damaged file."""
    choices = read_rows(MethodChoice, questions)
    measured = read_moves(questions)
    commit = measured.environment["commit"][:DIGEST_DIGITS_SHOWN]
    torch = measured.environment["packages"]["torch"]
    parts = [MOVED_INTRODUCTION, f"Measured at commit {commit}, torch {torch}."]
    for choice in choices:
        encoder = encoder_of_method(choice.before)
        parts.append(f"## {escape(choice.what)}, {encoder}")
        parts.append(f"From `{choice.before}` to `{choice.after}`.")
        for task in choice.tasks:
            moves = measured.moved[move_key(choice, task)]
            parts.append(f"### {task}: {moves.pairs:,} pairs")
            parts.append(_moved_pairs_table(moves.moved, choice.sentences))
    title = "Pairs that a choice moves most"
    return page_text(title, parts, digest_of_measured(questions))


def _moved_pairs_table(pairs: Sequence[MovedPair], has_sentences: bool) -> str:
    """A line for each pair: its number, its sentences if they are shown, gold and ranks."""
    word_headings = ["pair"]
    if has_sentences:
        word_headings += ["first sentence", "second sentence"]
    head = [*word_headings, "gold", "rank before", "rank after"]
    lines = []
    for pair in pairs:
        sentences = [escape(sentence) for sentence in pair.sentences]
        numbers = [f"{pair.gold:g}", f"{pair.before:g}", f"{pair.after:g}"]
        lines.append([pair.pair, *sentences, *numbers])
    return table(head, lines, word_columns=len(word_headings))
