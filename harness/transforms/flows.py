"""Fit a normalising flow to vectors by maximum likelihood, and map vectors to its Gaussian.

`fit_flow` is BERT-flow's released procedure (Li et al. 2020, arXiv 2011.05864): AdamW
without bias correction minimises the bits per dimension at a constant learning rate.
Actnorm starts from the first batch, as in Glow and in the PyTorch port
(UKPLab/pytorch-bertflow), or at random, as in the released TensorFlow program, which
defines Glow's initialisation and never runs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from harness.core.arrays import Bool, Float, Float64, Int
from harness.core.errors import ScoreError
from harness.core.types import Progress
from harness.transforms import flow_layers as layers

CHECKED_ROWS = 4096  # rows that are checked at a time
# Rows that are mapped at a time, so that the output of a layer stays in the cache.
MAPPED_ROWS = 256

# The share of the widest coordinate's range below which a coordinate is left out. An
# encoding by another processor or in other batches moves the widest coordinates by up to
# half of this (docs/flows.md).
LEAST_RANGE = 1e-6

# How actnorm starts: standardising the first batch, or drawn from Glorot's uniform
# distribution.
Start = Literal["data", "glorot"]


# The functions that make layers, by name. Their arguments are the size of the vectors, the
# width of hidden layers and a generator.
LAYER_KINDS: Mapping[
    str, Callable[[int, int, np.random.Generator], layers.Bijection]
] = {
    "actnorm": lambda size, *_: layers.Actnorm(size),
    "reversal": lambda *_: layers.Reversal(),
    "mixing": lambda size, _, rng: layers.InvertibleLinear(size, rng),
    "additive": layers.AdditiveCoupling,
    "scaled": layers.AffineCoupling,
    "residual": layers.ResidualBlock,
}


def build_flow(
    size: int,
    rng: np.random.Generator,
    *,
    levels: int,
    depth: int,
    width: int,
    step: tuple[str, ...],
    first: tuple[str, ...] = (),
) -> layers.Bijection:
    """An unfitted multi-scale flow of vectors of a size.

    Args:
        size: The size of the vectors.
        rng: Draws the first weights.
        levels: The number of levels; half of the coordinates leave after each.
        depth: The number of steps in a level.
        width: The size of the hidden layers of couplings.
        step: The layers of a step: actnorm, reversal, mixing (an invertible linear map),
            additive and scaled (couplings), residual (an invertible residual block).
        first: The layers that come once, before all steps.
    """
    chains = []
    for level in range(levels):
        names = step * depth if level else first + step * depth
        pieces = [LAYER_KINDS[name](size, width, rng) for name in names]
        chains.append(layers.Chain(pieces))
        size -= size // 2
    return layers.MultiScale(chains)


# BERT's own optimiser: no bias correction, every weight decays, one clipped norm for all
# gradients.
BETAS = (0.9, 0.999)
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
CLIP = 1.0

# The released code takes 32 pairs a step and adds the losses of their two sides. Which
# sentences share a batch makes no difference that 12 seeds show, so that rows are drawn
# one by one.
BATCH_ROWS = 64
SIDES = 2


def batches(
    count: int, epochs: float, rng: np.random.Generator
) -> Int[np.ndarray, "steps rows"]:
    """Row numbers of each step's batch: shuffled every epoch, an incomplete batch dropped."""
    size = min(BATCH_ROWS, count)
    steps = max(1, int(epochs * count / size))
    shuffles = math.ceil(steps * size / count)
    order = np.concatenate([rng.permutation(count) for _ in range(shuffles)])
    return order[: steps * size].reshape(steps, size)


class AdamW:
    """BERT's AdamW over the parameters of a model.

    The parameters become views of one vector `values`, so that a step is a handful of
    operations however many parameters there are.
    """

    def __init__(self, model: nn.Module, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self.parameters = list(model.parameters())
        self.values = parameters_to_vector(self.parameters).detach()
        vector_to_parameters(self.values, self.parameters)
        # The running means of the gradient and of its square.
        self.mean = torch.zeros_like(self.values)
        self.square = torch.zeros_like(self.values)

    @torch.no_grad()
    def step(self, loss: Float64[Tensor, ""]) -> None:
        """Move the parameters against the gradient of the loss."""
        b1, b2 = BETAS
        gradients = torch.autograd.grad(loss, self.parameters)
        gradient = torch.cat([part.reshape(-1) for part in gradients])
        norm = float(gradient.norm())
        if norm > CLIP:
            gradient *= CLIP / norm
        self.mean.lerp_(gradient, 1 - b1)
        self.square.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        root = self.square.sqrt().add_(EPSILON)
        self.values.mul_(1 - self.learning_rate * WEIGHT_DECAY)
        self.values.addcdiv_(self.mean, root, value=-self.learning_rate)


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread inside: small steps gain nothing from more, and sums get one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True, eq=False)
class FittedFlow:
    """A fitted flow: x -> f(x), in float64.

    Attributes:
        is_kept: (D,) False for coordinates that are left out, since they hardly vary in
            the rows of the fit.
        model: The flow of the other coordinates.
        losses: The bits per dimension at each step of the fit.
    """

    is_kept: Bool[np.ndarray, " D"]
    model: layers.LatentModel
    losses: tuple[float, ...]

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        """The rows under the flow."""
        rows = torch.from_numpy(x[:, self.is_kept].astype(np.float64))
        images = []
        with torch.inference_mode(), one_thread():
            for block in torch.split(rows, MAPPED_ROWS):
                images.append(self.model.latent(block))
            return torch.cat(images).numpy()


@one_thread()
def fit_flow(
    x: Float[np.ndarray, "n D"],
    build: Callable[[int, np.random.Generator], layers.LatentModel],
    rng: np.random.Generator,
    *,
    epochs: float,
    learning_rate: float,
    start: Start,
    progress: Progress | None = None,
) -> FittedFlow:
    """Fit a flow to rows, which are shuffled.

    The rows are shuffled since files are sorted by source, and a fit forgets the rows
    that it saw first.

    Args:
        x: The rows; they may be memory-mapped, since no more than a batch is read at a
            time.
        build: Makes the unfitted model of vectors of a size.
        rng: Draws the first weights and the order of the rows.
        epochs: How often the fit sees each row.
        learning_rate: The constant learning rate.
        start: How actnorm starts.
        progress: Counts the steps.

    Raises:
        ScoreError: Rows are all equal or not finite, or a loss is not finite.
    """
    is_kept = varies(x)
    columns = np.flatnonzero(is_kept)
    batches_of_rows = batches(len(x), epochs, rng)
    model = build(len(columns), rng)
    if start == "data":
        first_rows = x[batches_of_rows[0]].take(columns, axis=1)
        layers.initialise_from_data(model, torch.from_numpy(first_rows).double())
    else:
        layers.initialise_at_random(model, rng)
    optimiser = AdamW(model, learning_rate)
    losses: list[float] = []
    progress = progress or Progress()
    progress.phase("steps", len(batches_of_rows))
    for batch in batches_of_rows:
        rows = torch.from_numpy(x[batch].take(columns, axis=1)).double()
        loss = model.bits_per_dimension(rows)
        if not math.isfinite(loss.item()):
            raise ScoreError(
                f"the fit diverged: its loss is {loss.item()} at step {len(losses)} of "
                f"{len(batches_of_rows)}; take a lower learning rate"
            )
        losses.append(loss.item())
        optimiser.step(SIDES * loss)
        progress.step(1)
    return FittedFlow(
        is_kept=is_kept, model=model.requires_grad_(False).eval(), losses=tuple(losses)
    )


def varies(x: Float[np.ndarray, "n D"]) -> Bool[np.ndarray, " D"]:
    """Whether the range of each coordinate is above `LEAST_RANGE` of the widest range.

    Raises ScoreError for rows that are all equal or not finite.
    """
    if len(x) == 0:
        raise ScoreError("no sentences to fit on")
    low, high = x[0], x[0]
    for start in range(0, len(x), CHECKED_ROWS):
        block = x[start : start + CHECKED_ROWS]
        low = np.minimum(low, block.min(axis=0))
        high = np.maximum(high, block.max(axis=0))
    ranges = high.astype(np.float64) - low
    is_wide = ranges > LEAST_RANGE * ranges.max()
    if not is_wide.any():
        raise ScoreError(
            "all vectors to fit on are equal, or one is not finite: there is nothing to learn"
        )
    return is_wide
