"""The pairs of sentences of a task with their gold scores, and their digests.

A task, a built-in one or a plug-in's, gives its pairs to `Pairs`, which checks them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from harness.core.arrays import Float64, read_only
from harness.core.errors import DataError
from harness.core.texts import text_digest, text_fault


@dataclass(frozen=True, eq=False)
class Pairs:
    """P pairs of sentences with their gold scores, or P labelled sentences.

    All cells of a task share them, so that nothing can be changed: the columns are
    tuples, and gold is a read-only copy.

    Attributes:
        a: The first sentences, as in their file but without the line ends.
        b: The second sentences; empty for labelled sentences.
        gold: Graded similarity on the task's own scale, or a class: 1 and 0 for a
            binary decision.
        group: The group of each pair: its subset in STS12 to STS16, else the task's
            name.

    Raises:
        DataError: The columns differ in length, a sentence or group is no text (None,
            or one half of a character), or a gold score is not a finite number. It
            names the pair, from 1.

    Examples:
        >>> import numpy as np
        >>> from harness import Pairs
        >>> pairs = Pairs(("A man eats.",), ("Someone is eating.",), np.array([4.2]), ("made up",))
        >>> pairs.concatenate(pairs).sentences[1:3]
        ('A man eats.', 'Someone is eating.')
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    gold: Float64[np.ndarray, " P"]
    group: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in ("a", "b", "group"):
            object.__setattr__(self, name, _column(name, getattr(self, name)))
        object.__setattr__(self, "gold", _gold_scores(self.gold))
        columns = (*self.columns, self.gold, self.group)
        lengths = {len(column) for column in columns}
        if len(lengths) != 1:
            raise DataError(
                f"wanted columns of one length, found {', '.join(map(str, sorted(lengths)))} rows; "
                "give each pair its sentences, gold and group"
            )
        self._require_texts("first sentence", self.a)
        self._require_texts("second sentence", self.b)
        self._require_texts("group", self.group)

    def _require_texts(self, column: str, texts: tuple[str, ...]) -> None:
        """Raise DataError for a sentence or group that is no text."""
        for number, text in enumerate(texts, start=1):
            fault = text_fault(text)
            if fault is None:
                continue
            place = f"pair {number}, {column}"
            if not self.b:
                place = f"sentence {number}" + (", group" if column == "group" else "")
            raise DataError(
                f"{place}: wanted a text, {fault}; mend it, or leave it out"
            )

    def __len__(self) -> int:
        return len(self.a)

    @property
    def columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns of sentences: a and b, or a alone."""
        return (self.a, self.b) if self.b else (self.a,)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All sentences, first the ones of a, then the ones of b, with repetitions.

        The papers fit post-processors on them in this form.
        """
        return self.a + self.b

    def concatenate(self, *others: Pairs) -> Pairs:
        """These pairs and others, in order."""
        parts = (self, *others)
        return Pairs(
            a=tuple(chain.from_iterable(part.a for part in parts)),
            b=tuple(chain.from_iterable(part.b for part in parts)),
            gold=np.concatenate([part.gold for part in parts]),
            group=tuple(chain.from_iterable(part.group for part in parts)),
        )


def pairs_digest(pairs: Pairs) -> str:
    """The digest of scored pairs: the sentences, gold and group of each."""
    return rows_digest(pairs, pairs.group)


def rows_digest(pairs: Pairs, *further_columns: Iterable[str]) -> str:
    """The digest of pairs as lines, with tabs between their columns.

    These are the sentences, gold as Python prints it, and further columns of text. Where
    one of these has a tab or a line feed, as no file of lines does, the row is written as
    JSON, so that no two rows have one line.
    """
    gold = [repr(score) for score in pairs.gold.tolist()]
    rows = zip(*pairs.columns, gold, *further_columns, strict=True)
    return text_digest(_line(row) for row in rows)


def _line(row: tuple[str, ...]) -> str:
    """The line of a row's columns; it has a tab only if no column has one."""
    line = "\t".join(row)
    is_plain = line.count("\t") == len(row) - 1 and "\n" not in line
    return line if is_plain else json.dumps(row)


def _column(name: str, texts: Any) -> tuple[Any, ...]:
    """A column as a tuple. Raises DataError for a single text, and for texts without an order."""
    if isinstance(texts, str | bytes | Set) or not isinstance(texts, Iterable):
        raise DataError(
            f"column {name}: wanted a list of texts, found {type(texts).__name__}; make a tuple of "
            "them, in the order of the pairs"
        )
    return tuple(texts)


def _gold_scores(gold: Any) -> Float64[np.ndarray, " P"]:
    """A read-only copy of gold scores. Raises DataError unless they are finite numbers."""
    try:
        scores = np.ma.filled(gold, np.nan).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError, RuntimeError):
        scores = np.empty(())
    if scores.ndim != 1:
        raise DataError(
            f"gold: wanted a number a pair, found {type(gold).__name__} of something else; convert "
            "it, as in np.array([float(score) for score in scores])"
        )
    is_finite = np.isfinite(scores)
    if not is_finite.all():
        index = int(is_finite.argmin())
        raise DataError(
            f"pair {index + 1}: wanted a finite number as gold, found {scores[index]}; mend it, or "
            "leave the pair out"
        )
    return read_only(scores)
