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
from harness.transforms import flow_layers as layers
from harness.transforms.residual_layers import ResidualBlock

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


@dataclass(frozen=True)
class Architecture:
    """A multi-scale flow: `levels` of `depth` steps, each of the layers named in `step`.

    `first` names layers that come once, before all steps; `width` is the size of the
    couplings' hidden layers. Layer names: actnorm, reversal, mixing (an invertible
    linear map), additive and scaled (couplings), residual (an invertible residual block).
    """

    levels: int
    depth: int
    width: int
    step: tuple[str, ...]
    first: tuple[str, ...] = ()

    def build(self, size: int, rng: np.random.Generator) -> layers.Bijection:
        """An unfitted flow of vectors of this size."""
        levels = []
        coordinates = size  # of the level that is built
        for level_number in range(self.levels):
            names = self.step * self.depth
            if level_number == 0:
                names = self.first + names
            pieces = []
            for name in names:
                make_layer = LAYER_KINDS[name]
                pieces.append(make_layer(coordinates, self.width, rng))
            levels.append(layers.Chain(pieces))
            coordinates -= coordinates // 2
        return layers.MultiScale(levels)


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
    "residual": ResidualBlock,
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
        # The running means of the gradient and of its square.
        self.mean = torch.zeros_like(self.values)
        self.square = torch.zeros_like(self.values)

    @torch.no_grad()
    def step(self, loss: Float64[Tensor, ""]) -> None:
        """Move the parameters against the gradient of the loss."""
        settings = self.settings
        b1, b2 = settings.betas
        gradients = torch.autograd.grad(loss, self.parameters)
        gradient = torch.cat([part.reshape(-1) for part in gradients])
        norm = float(gradient.norm())
        if norm > settings.clip:
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
    settings: FitSettings,
    rng: np.random.Generator,
) -> FittedFlow:
    """Fit a flow to rows, which are shuffled.

    `build` makes the unfitted model of vectors of a size, as `Architecture.build` does.
    The rows are shuffled since files are sorted by source, and a fit forgets the rows
    that it saw first. `x` may be memory-mapped, since no more than a batch is read at a
    time. Raises ScoreError for rows that are all equal or not finite, and for a loss that
    is not finite.
    """
    is_kept = varies(x)
    columns = np.flatnonzero(is_kept)
    batches = settings.batches(len(x), rng)
    model = build(len(columns), rng)
    if settings.start == "data":
        first_rows = torch.from_numpy(x[batches[0]].take(columns, axis=1)).double()
        layers.initialise_from_data(model, first_rows)
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
