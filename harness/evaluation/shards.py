"""Parts of a plan: units of cells that share work, and shards, which are some of the units each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from harness.core.digests import sentence_key
from harness.core.errors import UsageError
from harness.results.planned import PlannedCell
from harness.tasks.loader import TARGETS

DIGITS = 9  # of the number of shards


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 0) of a plan that is split into `count` parts, always in one way."""

    number: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """`2/8` is the second of eight, None the whole. Raises UsageError."""
        if text is None:
            return WHOLE
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal()):
            raise UsageError(f"--shard {text}: wanted I/N, as in 2/8")
        if max(len(number), len(count)) > DIGITS:
            raise UsageError(
                f"--shard: wanted numbers of {DIGITS} digits at most, found longer ones"
            )
        if not 1 <= int(number) <= int(count):
            raise UsageError(f"--shard {text}: wanted 1 <= I <= N")
        return cls(int(number) - 1, int(count))

    def cells(self, cells: Sequence[PlannedCell]) -> tuple[PlannedCell, ...]:
        """The cells of every `count`-th unit, in the plan's order."""
        if self.count == 1:
            return tuple(cells)
        chosen = set(chain(*units(cells)[self.number :: self.count]))
        return tuple(cell for cell in cells if cell in chosen)

    def texts(self, texts: Sequence[str]) -> list[str]:
        """The sentences of this part, by their digests: others' progress moves none."""
        first = (int.from_bytes(sentence_key(text)[:8]) for text in texts)
        return [t for t, key in zip(texts, first, strict=True) if key % self.count == self.number]


WHOLE = Shard()


def units(
    cells: Sequence[PlannedCell], corpora_apart: bool = False
) -> list[tuple[PlannedCell, ...]]:
    """Cells that one worker measures after another, since they share embeddings or a fit corpus.

    Those are the cells of an encoder under one pooling, a seeded method's of each seed apart; of
    fits on a corpus all of an encoder, whose one pass over the corpus serves all poolings, unless
    `corpora_apart` says that the passes are made before.
    """
    found: dict[tuple[object, ...], list[PlannedCell]] = {}
    for cell in cells:
        method = cell.method
        own = corpora_apart or method.fit_on is None or method.fit_on in TARGETS
        seeded = (method.id, cell.seed) if method.seeded else None
        key = (method.pooling, seeded) if own else (method.fit_on,)
        found.setdefault((cell.encoder.name, *key), []).append(cell)
    return [tuple(unit) for unit in found.values()]
