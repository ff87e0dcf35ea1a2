"""The cells that a run is to measure. Importing this costs nothing that measures them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.core.errors import UsageError
from harness.core.hardware import Hardware, precision_of
from harness.core.interfaces import EncoderConfig
from harness.core.types import Method, Task
from harness.results.records import Cell


@dataclass(frozen=True)
class PlannedCell:
    """A cell to run: a method on a task with a seed."""

    method: Method
    task: Task
    seed: int

    @property
    def address(self) -> Cell:
        """Method id, task name, seed."""
        return Cell(self.method.id, self.task.name, self.seed)

    @property
    def encoder(self) -> EncoderConfig:
        """The encoder of its sentences: of a family, the seed's own."""
        return self.method.encoder.member(self.seed)


def on_hardware(
    cells: Iterable[PlannedCell], device: str, dtype: str | None, batch_tokens: int | None
) -> tuple[PlannedCell, ...]:
    """The cells with their encoders so; without a precision each keeps the one that its id names.

    Raises UsageError for an encoder that has no precision to choose.
    """
    placed = []
    for cell in cells:
        encoder = cell.method.encoder
        hardware = Hardware(device, dtype or precision_of(encoder.name)[1], batch_tokens)
        method = replace(cell.method, encoder=encoder.on(hardware))
        placed.append(replace(cell, method=method))
    return tuple(placed)


def cells(methods: Iterable[Method], tasks: Sequence[Task], seeds: int) -> tuple[PlannedCell, ...]:
    """Every method on every task; a method without randomness has one seed, 0.

    Grouped by encoder and pooling. Raises UsageError for `@target-train` on a task without a
    training split.
    """
    planned = []
    for method in methods:
        for task in tasks:
            if method.fit_on == "target-train" and task.train is None:
                raise UsageError(
                    f"{method.id} on {task.name}: the task has no training split; use @target"
                )
            planned += [PlannedCell(method, task, s) for s in range(seeds if method.seeded else 1)]
    return tuple(sorted(planned, key=by_encoder))


def by_encoder(cell: PlannedCell) -> tuple[str, str, str]:
    """The order in which cells share work: encoder, with its own modules or not, then pooling."""
    return cell.encoder.name, type(cell.encoder).__name__, cell.method.pooling.name
