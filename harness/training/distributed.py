"""Training on several processes: each holds its share of a batch and gathers the others' vectors.

Every sentence then has the sentences of all processes as in-batch negatives. The gradient flows
through a process's own vectors only and is summed over the processes, which makes it the gradient
of the one-process loss. (SimCSE's released code gathers likewise and takes the mean, which is that
gradient divided by the number of processes.)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Int64
from harness.core.errors import UsageError


@dataclass(frozen=True)
class ProcessGroup:
    """The processes of a training, as one of them sees them; by default there is no other.

    `rank` is the number of this process, `count` how many there are, `device` the one that a
    launcher chose for this process, if any.
    """

    rank: int = 0
    count: int = 1
    device: str | None = None

    def gather(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "count n D"]:
        """The values of all processes in the order of ranks, without gradient (all-gather)."""
        return x[None]

    def total(self, x: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        """The sum over all processes (all-reduce)."""
        return x

    def local_rows(self, rows: Int64[np.ndarray, " B"]) -> Int64[np.ndarray, " n"]:
        """This process's share of a batch; what does not divide by the processes is dropped."""
        size = len(rows) // self.count
        return rows[self.rank * size : (self.rank + 1) * size]

    def gather_embeddings(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "all D"]:
        """The vectors of all processes; gradients reach those of this process only."""
        if self.count == 1:
            return x
        shares = list(self.gather(x.detach()))
        shares[self.rank] = x
        return torch.cat(shares)

    def sum_over_processes(self, value: float, device: str) -> float:
        """The sum of one number over all processes."""
        return float(self.total(torch.tensor([value], device=device)))

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over the processes."""
        if self.count == 1:
            return
        trained = [p for p in parameters if p.requires_grad]
        flat = [(torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in trained]
        sums = torch.split(self.total(torch.cat(flat)), [len(gradient) for gradient in flat])
        for p, total in zip(trained, sums, strict=True):
            p.grad = total.view_as(p).clone()


@dataclass(frozen=True)
class Accelerated(ProcessGroup):
    """The processes that `accelerate launch` or `torchrun` started."""

    accelerator: Any = None

    def gather(self, x: Float[Tensor, "n D"]) -> Float[Tensor, "count n D"]:
        return self.accelerator.gather(x[None].contiguous())

    def total(self, x: Float[Tensor, " P"]) -> Float[Tensor, " P"]:
        return self.accelerator.reduce(x, reduction="sum")


def current_group(environment: Mapping[str, str]) -> ProcessGroup:
    """The group that a launcher describes in the environment; without one, a single process."""
    return launched_group() if int(environment.get("WORLD_SIZE") or 1) > 1 else ProcessGroup()


def launched_group() -> Accelerated:
    """The processes of accelerate. Raises UsageError where that is not installed."""
    try:
        accelerate = importlib.import_module("accelerate")
    except ImportError as error:
        raise UsageError(
            f"several processes need accelerate, which is not there ({error}); "
            "pip install accelerate"
        ) from None
    own = accelerate.Accelerator()
    return Accelerated(own.process_index, own.num_processes, str(own.device), own)
