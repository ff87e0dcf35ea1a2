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
from harness.core.errors import ScoreError, UsageError
from harness.transforms import flow_layers as layers

CHECKED_ROWS = 4096  # rows that are checked at a time
# Rows that are mapped at a time, so that the output of a layer stays in the cache.
MAPPED_ROWS = 256

# As a share of the widest range. The widest coordinates themselves move by up to half
# as much when an encoding is computed by another processor or in other batches
# (`benchmarks/encoding_noise.py`).
LEAST_RANGE = 1e-6

# How actnorm starts: standardising the first batch, or drawn from Glorot's uniform
# distribution.
Start = Literal["data", "glorot"]


@dataclass(frozen=True)
class Architecture:
    """A multi-scale flow: `levels` of `depth` steps, each of the layers named in `step`.

    `first` names layers that come once, before all steps; `width` is the size of the
    couplings' hidden layers. Layer names: actnorm, reversal, mixing (an invertible
    linear map), additive and scaled (couplings).
    """

    levels: int
    depth: int
    width: int
    step: tuple[str, ...]
    first: tuple[str, ...] = ()

    def build(self, size: int, rng: np.random.Generator) -> layers.Bijection:
        """An unfitted flow of vectors of this size. Raises UsageError for an unknown layer."""
        if unknown := {*self.first, *self.step} - {*LAYER_KINDS}:
            raise UsageError(
                f"no layers: {', '.join(unknown)}; wanted some of {', '.join(LAYER_KINDS)}"
            )
        levels, coordinates = [], size
        for number in range(self.levels):
            names = (() if number else self.first) + self.step * self.depth
            levels.append(
                layers.Chain(
                    [LAYER_KINDS[name](coordinates, self.width, rng) for name in names]
                )
            )
            coordinates -= coordinates // 2
        return layers.MultiScale(levels)


# By the name of a layer: from the size of its vectors, the width of hidden layers and a
# generator.
LAYER_KINDS: Mapping[
    str, Callable[[int, int, np.random.Generator], layers.Bijection]
] = {
    "actnorm": lambda size, *_: layers.Actnorm(size),
    "reversal": lambda *_: layers.Reversal(),
    "mixing": lambda size, _, rng: layers.InvertibleLinear(size, rng),
    "additive": layers.AdditiveCoupling,
    "scaled": layers.AffineCoupling,
}


@dataclass(frozen=True)
class FitSettings:
    """How a flow is fitted; betas, epsilon, weight decay and clipping are BERT's own optimiser's.

    The released code takes 32 pairs a step and adds the losses of their two sides.
    Which sentences share a batch makes no difference that 12 seeds show, so `rows` are
    drawn one by one.
    """

    epochs: float = 1.0
    learning_rate: float = 1e-3
    rows: int = 64
    sides: int = 2
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    clip: float = 1.0
    start: Start = "data"

    def batches(
        self, count: int, rng: np.random.Generator
    ) -> Int[np.ndarray, "steps rows"]:
        """Row numbers of each step's batch: shuffled every epoch, an incomplete batch dropped."""
        size = min(self.rows, count)
        steps = max(1, int(self.epochs * count / size))
        epochs = math.ceil(steps * size / count)
        order = np.concatenate([rng.permutation(count) for _ in range(epochs)])
        return order[: steps * size].reshape(steps, size)


class AdamW:
    """BERT's AdamW: no bias correction, every weight decays, one clipped norm for all gradients.

    The parameters become views of one vector `values`, so that a step is a handful of
    operations however many parameters there are.
    """

    def __init__(self, model: nn.Module, settings: FitSettings) -> None:
        self.settings = settings
        self.parameters = list(model.parameters())
        self.values = parameters_to_vector(self.parameters).detach()
        vector_to_parameters(self.values, self.parameters)
        self.mean, self.square = (
            torch.zeros_like(self.values),
            torch.zeros_like(self.values),
        )

    @torch.no_grad()
    def step(self, loss: Float64[Tensor, ""]) -> None:
        """Move the parameters against the gradient of the loss."""
        settings, (b1, b2) = self.settings, self.settings.betas
        gradients = torch.autograd.grad(loss, self.parameters)
        gradient = torch.cat([part.reshape(-1) for part in gradients])
        if (norm := float(gradient.norm())) > settings.clip:
            gradient *= settings.clip / norm
        self.mean.lerp_(gradient, 1 - b1)
        self.square.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        root = self.square.sqrt().add_(settings.epsilon)
        self.values.mul_(1 - settings.learning_rate * settings.weight_decay)
        self.values.addcdiv_(self.mean, root, value=-settings.learning_rate)


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
    """A fitted flow: x -> f(x), in float64. `losses` are the bits per dimension at each step.

    Coordinates that hardly vary in the rows of the fit (`kept` is False) are left out.
    """

    architecture: Architecture
    kept: Bool[np.ndarray, " D"]
    model: layers.Bijection
    losses: tuple[float, ...]

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        """The rows under the flow. Raises ScoreError for a row whose image is not finite."""
        rows = torch.from_numpy(x[:, self.kept].astype(np.float64))
        with torch.inference_mode(), one_thread():
            z = torch.cat(
                [self.model(block)[0] for block in torch.split(rows, MAPPED_ROWS)]
            ).numpy()
        finite = np.isfinite(z).all(axis=1)
        if not finite.all():
            raise ScoreError(
                f"row {finite.argmin()} of the vectors is not finite after the map"
            )
        return z


@one_thread()
def fit_flow(
    x: Float[np.ndarray, "n D"],
    architecture: Architecture,
    settings: FitSettings,
    rng: np.random.Generator,
) -> FittedFlow:
    """Fit a flow to rows, in shuffled order.

    The order matters: files are sorted by source, and a fit forgets what it saw first.
    `x` may be memory-mapped, since no more than a batch is read at a time. Raises
    ScoreError for rows that are all equal or not finite, and for a loss that is not
    finite.
    """
    kept = varying(x)
    columns = np.flatnonzero(kept)
    batches = settings.batches(len(x), rng)
    model = architecture.build(len(columns), rng)
    if settings.start == "data":
        layers.initialise_from_data(
            model, torch.from_numpy(x[batches[0]].take(columns, axis=1)).double()
        )
    else:
        layers.initialise_at_random(model, rng)
    optimiser = AdamW(model, settings)
    losses = []
    for step, batch in enumerate(batches):
        rows = torch.from_numpy(x[batch].take(columns, axis=1)).double()
        loss = model.bits_per_dimension(rows)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise ScoreError(
                f"the fit diverged: its loss is {losses[-1]} at step {step} of {len(batches)}; "
                "take a lower learning rate"
            )
        optimiser.step(settings.sides * loss)
    return FittedFlow(
        architecture, kept, model.requires_grad_(False).eval(), tuple(losses)
    )


def varying(x: Float[np.ndarray, "n D"]) -> Bool[np.ndarray, " D"]:
    """The coordinates whose range is above `LEAST_RANGE` of the widest."""
    if len(x) == 0:
        raise ScoreError("no sentences to fit on")
    low = high = x[0]
    for start in range(0, len(x), CHECKED_ROWS):
        block = x[start : start + CHECKED_ROWS]
        finite = np.isfinite(block).all(axis=1)
        if not finite.all():
            row = start + int(finite.argmin())
            raise ScoreError(
                f"row {row} of the vectors to fit on holds a value that is not finite"
            )
        low, high = (
            np.minimum(low, block.min(axis=0)),
            np.maximum(high, block.max(axis=0)),
        )
    spread = high.astype(np.float64) - low
    kept = spread > LEAST_RANGE * spread.max()
    if not kept.any():
        raise ScoreError(
            "all vectors to fit on are equal: they have no direction to learn from"
        )
    return kept
