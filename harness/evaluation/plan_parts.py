"""How a plan is divided: into parts, for several machines, and into units, for workers.

A part is what one command runs of a plan (`--shard 2/8`). A unit is what one worker
measures: cells that share work, so that they cost little more than one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.texts import sentence_key
from harness.evaluation.select import PlannedCell
from harness.tasks.loader import TARGETS

POSITIVE_NUMBER = "([1-9][0-9]{0,8})"


@dataclass(frozen=True)
class Part:
    """A part of a plan. The same plan is always split in the same way.

    Attributes:
        number: Which part it is, from 0.
        count: How many parts the plan is split into.
    """

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Part:
        """Read `2/8`, the second of eight parts; None is the whole plan. Raises UsageError."""
        if text is None:
            return cls()
        match = re.fullmatch(f"{POSITIVE_NUMBER}/{POSITIVE_NUMBER}", text)
        if match is None or int(match[1]) > int(match[2]):
            raise UsageError(
                f"--shard {text:.40}: wanted I/N with 1 <= I <= N, as in 2/8"
            )
        return cls(number=int(match[1]) - 1, count=int(match[2]))

    def cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells of this part, in the plan's order: the units are dealt out in turn."""
        if self.count == 1:
            return tuple(cells)
        units_of_part = units(cells)[self.number :: self.count]
        cells_of_part = {cell for unit in units_of_part for cell in unit}
        return tuple(cell for cell in cells if cell in cells_of_part)

    def texts(self, texts: Iterable[str]) -> list[str]:
        """The sentences that this part encodes before it measures.

        They are chosen by the digest of each sentence, and so do not depend on how many
        of them other parts have encoded already.
        """
        if self.count == 1:
            return list(texts)
        return [text for text in texts if self._encodes(text)]

    def _encodes(self, text: str) -> bool:
        """Whether a sentence is one that this part encodes, by a number made of its digest."""
        sentence_number = int.from_bytes(sentence_key(text)[:8])
        return sentence_number % self.count == self.number


WHOLE_PLAN = Part()


def units(
    cells: Sequence[PlannedCell], passes_made: bool = False
) -> list[tuple[PlannedCell, ...]]:
    """Group cells that share work: one worker measures a unit, a cell after the other.

    `passes_made` says that the passes over fit corpora are made before the units are
    measured.
    """
    cells_by_work: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        work = _shared_work(cell, passes_made)
        cells_by_work.setdefault(work, []).append(cell)
    return [tuple(unit) for unit in cells_by_work.values()]


def _shared_work(cell: PlannedCell, passes_made: bool) -> tuple[object, ...]:
    """The work that the cells of a unit share, as a key for grouping.

    Cells that are fitted on a corpus share the encoder's one pass over it, which serves
    all poolings. Other cells share the embeddings of an encoder under a pooling, but each
    seed of a method with randomness is a unit of its own.
    """
    method = cell.method
    reads_corpus = method.fit_on is not None and method.fit_on not in TARGETS
    if reads_corpus and not passes_made:
        return cell.encoder.name, method.fit_on
    if method.seeded:
        return cell.encoder.name, method.pooling, method.id, cell.seed
    return cell.encoder.name, method.pooling
