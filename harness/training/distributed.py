"""The gradient of a batch that several processes share, or that does not fit in memory.

Each process holds its share of a batch and gathers the others' vectors, so that every sentence has
the sentences of all processes as in-batch negatives. The gradient flows through a process's own
vectors only and is summed over the processes, which makes it the gradient of the one-process loss.
(SimCSE's released code gathers likewise and takes the mean: that gradient divided by the number of
processes.)

A share is taken in chunks by GradCache (Gao et al. 2021, arXiv 2101.06983): all vectors without a
graph, the loss over all of them and its gradient with respect to the vectors, then each chunk once
more, under the same dropout masks, with that gradient.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Float32, Int64
from harness.core.errors import ScoreError, UsageError
from harness.training.encoder import SentenceEncoder, TokenIds, token_chunks

Loss = Callable[[Float32[Tensor, "N D"]], Float[Tensor, ""]]

# What a loss in 16 bits is multiplied by: powers of two, which change no digit.
LOSS_SCALES = (4096.0, 256.0, 16.0, 1.0)


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
    processes = accelerate.Accelerator()
    index, count = processes.process_index, processes.num_processes
    return Accelerated(index, count, str(processes.device), processes)


def backward_over_processes(
    model: nn.Module,
    encoder: SentenceEncoder,
    rows: TokenIds,
    loss_of: Loss,
    group: ProcessGroup,
    chunk_tokens: int,
    auxiliary: Callable[[float], float] | None = None,
) -> float:
    """Add the gradient of a batch that several processes share; return this process's loss.

    `auxiliary` takes a scale, adds the gradient of a further loss times it, and returns that.
    """

    def backward(scale: float) -> float:
        loss = backward_in_chunks(encoder, rows, lambda z: scale * loss_of(z), chunk_tokens)
        if auxiliary is not None:
            loss += auxiliary(scale)
        group.all_reduce_gradients(model.parameters())
        return loss

    return with_loss_scaling(backward, model.parameters(), encoder.setup.precision == "fp16")


def backward_in_chunks(
    encoder: SentenceEncoder, rows: TokenIds, loss_of: Loss, chunk_tokens: int
) -> float:
    """Add the gradient of loss_of(encoder(rows)) to the parameters' gradients; return the loss.

    Activations of at most `chunk_tokens` tokens are held at a time.
    """
    order = np.argsort([len(row) for row in rows], kind="stable")
    chunks = [order[chunk] for chunk in token_chunks([rows[i] for i in order], chunk_tokens)]
    if len(chunks) == 1:
        loss = loss_of(encoder(rows))
        torch.autograd.backward(loss)
        return loss.item()
    states, vectors = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(torch.get_rng_state())
            vectors.append(encoder([rows[i] for i in chunk]))
    final_state = torch.get_rng_state()
    places = torch.from_numpy(np.argsort(np.concatenate(chunks))).to(vectors[0].device)
    z = torch.cat(vectors)[places].requires_grad_()
    loss = loss_of(z)
    torch.autograd.backward(loss)
    gradient = cast(Tensor, z.grad)
    for chunk, state in zip(chunks, states, strict=True):
        torch.set_rng_state(state)
        recomputed = encoder([rows[i] for i in chunk])
        torch.autograd.backward(recomputed, gradient[torch.from_numpy(chunk).to(z.device)])
    torch.set_rng_state(final_state)
    return loss.item()


def with_loss_scaling(
    backward: Callable[[float], float], parameters: Iterable[nn.Parameter], half: bool
) -> float:
    """Run a backward pass with its loss scaled up, so that 16-bit gradients do not underflow.

    `backward` takes the scale, adds the gradient of the scaled loss and returns that loss. Where a
    gradient overflows, the pass is repeated at a smaller scale under the same dropout: unlike with
    a dynamic scale, no step is skipped and none depends on those before it. Raises ScoreError
    where a gradient overflows at every scale.
    """
    if not half:
        return backward(1.0)
    trained, state = list(parameters), torch.get_rng_state()
    for scale in LOSS_SCALES:
        torch.set_rng_state(state)
        loss = backward(scale)
        gradients = [p.grad for p in trained if p.grad is not None]
        if all(torch.isfinite(gradient).all() for gradient in gradients):
            torch._foreach_mul_(gradients, 1 / scale)
            return loss / scale
        torch._foreach_zero_(gradients)
    raise ScoreError("a gradient overflows 16 bits at any scale; take bf16 or float32")
