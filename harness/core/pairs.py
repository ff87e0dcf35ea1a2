"""The pairs of sentences of a task with their gold scores, and their digests.

A task, a built-in one or a plug-in's, gives its pairs to `Pairs`, which checks them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import chain

import numpy as np

from harness.core.arrays import Float64, read_only
from harness.core.digests import text_digest, text_fault
from harness.core.errors import DataError


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
            texts = getattr(self, name)
            if isinstance(texts, str | bytes | Set) or not isinstance(texts, Iterable):
                raise DataError(
                    f"column {name}: wanted a list of texts, found {type(texts).__name__}; make a "
                    "tuple of them, in the order of the pairs"
                )
            object.__setattr__(self, name, tuple(texts))
        try:
            gold = np.array(self.gold, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            gold = np.empty(())
        if gold.ndim != 1:
            raise DataError(
                f"gold: wanted a number a pair, found {type(self.gold).__name__} of something "
                "else; convert it, as in np.array([float(score) for score in scores])"
            )
        object.__setattr__(self, "gold", read_only(gold))
        lengths = {len(column) for column in (*self.columns, gold, self.group)}
        if len(lengths) != 1:
            raise DataError(
                f"wanted columns of one length, found {', '.join(map(str, sorted(lengths)))} rows; "
                "give each pair its sentences, gold and group"
            )
        for name in ("a", "b", "group"):
            for number, text in enumerate(getattr(self, name), start=1):
                fault = text_fault(text)
                if fault is not None:
                    raise DataError(
                        f"pair {number}, {name}: wanted a text, {fault}; mend it, or leave it out"
                    )
        is_finite = np.isfinite(gold)
        if not is_finite.all():
            index = int(is_finite.argmin())
            raise DataError(
                f"pair {index + 1}: wanted a finite number as gold, found {gold[index]}; mend it, "
                "or leave the pair out"
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
    lines = []
    for row in zip(*pairs.columns, gold, *further_columns, strict=True):
        line = "\t".join(row)
        is_plain = line.count("\t") == len(row) - 1 and "\n" not in line
        lines.append(line if is_plain else json.dumps(row))
    return text_digest(lines)
