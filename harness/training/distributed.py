"""Several processes as one: what a step asks the others for.

Each process holds its share of a batch. Vectors are gathered, so that every sentence has all the
others as negatives; the gradient flows through the own share only and is then summed over the
processes, which makes it the gradient of the one-process loss. (SimCSE's released code gathers the
same way and takes the mean, which is that gradient over the number of processes.)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Int64
from harness.core.errors import UsageError


@runtime_checkable
class ProcessGroup(Protocol):
    """The processes of a training, as one of them sees them."""

    @property
    def rank(self) -> int: ...

    @property
    def count(self) -> int: ...

    @property
    def device(self) -> str | None:
        """Of this process, if a launcher chose it."""
        ...

    def gather(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "count n D"]:
        """Everybody's values, without gradient, in the order of ranks."""
        ...

    def total(self, x: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """The sum of everybody's values."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """One process."""

    rank: int = 0
    count: int = 1
    device: str | None = None

    def gather(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "1 n D"]:
        return x[None]

    def total(self, x: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        return x


class Accelerated:
    """The processes that `accelerate launch` or `torchrun` started."""

    def __init__(self) -> None:
        try:
            accelerate = importlib.import_module("accelerate")
        except ImportError as error:
            raise UsageError(
                f"several processes need accelerate, which is not there ({error}); "
                "pip install accelerate"
            ) from None
        self.accelerator: Any = accelerate.Accelerator()
        self.rank: int = self.accelerator.process_index
        self.count: int = self.accelerator.num_processes
        self.device: str | None = str(self.accelerator.device)

    def gather(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "count n D"]:
        return self.accelerator.gather(x[None].contiguous())

    def total(self, x: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        return self.accelerator.reduce(x, reduction="sum")


def started(environment: Mapping[str, str]) -> ProcessGroup:
    """The processes that were started together, by what a launcher leaves in the environment."""
    return Accelerated() if int(environment.get("WORLD_SIZE") or 1) > 1 else SingleProcess()


def share_of(rows: Int64[np.ndarray, " B"], together: ProcessGroup) -> Int64[np.ndarray, " n"]:
    """This process's share of a batch; what cannot be shared equally is left out."""
    size = len(rows) // together.count
    return rows[together.rank * size : (together.rank + 1) * size]


def gather_embeddings(x: Float[Tensor, "n D"], together: ProcessGroup) -> Float[Tensor, "all D"]:
    """The vectors of all processes; a gradient reaches the own ones."""
    if together.count == 1:
        return x
    parts = list(together.gather(x.detach()))
    parts[together.rank] = x
    return torch.cat(parts)


def total_of(value: float, together: ProcessGroup, device: str) -> float:
    """The sum of one number over the processes."""
    return float(together.total(torch.tensor([value], device=device)))


def add_gradients(parameters: Iterable[nn.Parameter], together: ProcessGroup) -> None:
    """Replace every gradient by its sum over the processes."""
    if together.count == 1:
        return
    held = [p for p in parameters if p.requires_grad]
    flat = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in held]
    sums = torch.split(together.total(torch.cat(flat)), [len(part) for part in flat])
    for p, total in zip(held, sums, strict=True):
        p.grad = total.view_as(p).clone()
