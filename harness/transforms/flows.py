"""Fit a stack of bijections to vectors by maximum likelihood, and map vectors to its Gaussian.

`fit` is BERT-flow's released recipe (Li et al. 2020, arXiv 2011.05864): one batch sets the scales,
then AdamW without bias correction lowers the bits per dimension at a constant rate.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from harness.core.arrays import Bool, Float, Float64, Int
from harness.core.errors import ScoreError, UsageError
from harness.core.files import write_atomically
from harness.transforms.affine import LEAST_SPREAD
from harness.transforms.flow_layers import (
    Actnorm,
    AdditiveCoupling,
    AffineCoupling,
    AtOnce,
    Bijection,
    Chain,
    InvertibleLinear,
    MultiScale,
    Reversal,
    bits_per_dimension,
    initialise,
)

ROWS = 4096  # at a time, where all are looked at


@dataclass(frozen=True)
class Architecture:
    """`levels` of `depth` steps; a step is pieces by name, `first` stands once before them."""

    levels: int
    depth: int
    width: int
    step: tuple[str, ...]
    first: tuple[str, ...] = ()

    def build(self, size: int, rng: np.random.Generator) -> MultiScale:
        """A model of vectors of this size, as it is before any fit."""
        sizes, levels = [size], []
        for number in range(self.levels):
            names = (() if number else self.first) + self.step * self.depth
            levels.append(Chain([self.piece(name, sizes[-1], rng) for name in names]))
            sizes.append(sizes[-1] - sizes[-1] // 2)
        return MultiScale(levels, sizes[:-1])

    def piece(self, name: str, size: int, rng: np.random.Generator) -> Bijection:
        """The piece of that name."""
        match name:
            case "actnorm":
                return Actnorm(size)
            case "reversal":
                return Reversal()
            case "mixing":
                return InvertibleLinear(size, rng)
            case "additive":
                return AdditiveCoupling(size, self.width, rng)
            case "scaled":
                return AffineCoupling(size, self.width, rng)
        raise UsageError(f"{name!r} is no piece: actnorm, reversal, mixing, additive or scaled")


@dataclass(frozen=True)
class Recipe:
    """How long and how fast; the rest is what BERT's own optimiser does.

    The released code takes 32 pairs a step and adds the losses of their two sides. Which sentences
    meet in a step makes no difference that 12 seeds show, so `rows` are drawn one by one.
    """

    epochs: float = 1.0
    learning_rate: float = 1e-3
    rows: int = 64
    sides: int = 2
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-6
    clip: float = 1.0

    def batches(self, count: int, rng: np.random.Generator) -> Int[np.ndarray, "steps rows"]:
        """Which of so many rows each step takes: shuffled anew each epoch, the last few left."""
        size = min(self.rows, count)
        steps = max(1, int(self.epochs * count / size))
        epochs = math.ceil(steps * size / count)
        order = np.concatenate([rng.permutation(count) for _ in range(epochs)])
        return order[: steps * size].reshape(steps, size)


class AdamW:
    """Adam without bias correction, decoupled decay of every weight, one clipped norm for all.

    It moves one buffer that the model's parameters become views of, so a step costs a handful of
    operations however many they are.
    """

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.recipe = recipe
        self.parameters = list(model.parameters())
        self.values = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self.mean, self.square, self.scratch = torch.zeros(3, len(self.values)).to(self.values)
        sizes = [p.numel() for p in self.parameters]
        for p, value in zip(self.parameters, torch.split(self.values, sizes), strict=True):
            p.data = value.view_as(p)

    def step(self, loss: Float64[Tensor, ""]) -> None:
        """Move against its gradient."""
        recipe, (b1, b2) = self.recipe, self.recipe.betas
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            gradient = torch.cat([part.reshape(-1) for part in gradients], out=self.scratch)
            if (norm := float(gradient.norm())) > recipe.clip:
                gradient *= recipe.clip / norm
            self.mean.lerp_(gradient, 1 - b1)
            self.square.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
            spread = torch.sqrt(self.square, out=self.scratch).add_(recipe.epsilon)
            self.values.mul_(1 - recipe.learning_rate * recipe.weight_decay)
            self.values.addcdiv_(self.mean, spread, value=-recipe.learning_rate)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The map to the Gaussian, in float64; `losses` are bits per dimension, one a step.

    Coordinates that were constant in the rows of the fit (`kept` is False) are left out.
    """

    architecture: Architecture
    kept: Bool[np.ndarray, " D"]
    model: MultiScale
    losses: tuple[float, ...]

    def __call__(self, x: Float[np.ndarray, "m D"]) -> Float64[np.ndarray, "m K"]:
        """Raises ScoreError for a row that comes out infinite or not a number."""
        rows = torch.from_numpy(x[:, self.kept].astype(np.float64))
        with torch.inference_mode():
            z = torch.cat([self.model(part)[0] for part in torch.split(rows, ROWS)]).numpy()
        finite = np.isfinite(z).all(axis=1)
        if not finite.all():
            raise ScoreError(f"row {finite.argmin()} of the vectors is not finite behind the map")
        return z

    def save(self, path: Path) -> None:
        """Write a safetensors file; `load` gives the same map."""
        tensors = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        tensors["kept"] = torch.from_numpy(self.kept)
        about = {"architecture": asdict(self.architecture), "losses": self.losses}
        metadata = {name: json.dumps(value) for name, value in about.items()}
        write_atomically(path, safetensors.torch.save(tensors, metadata))

    @classmethod
    def load(cls, path: Path) -> Fitted:
        """The map that was saved there."""
        with safe_open(path, framework="pt") as file:
            about = {name: json.loads(text) for name, text in file.metadata().items()}
        tensors = safetensors.torch.load_file(path)
        kept = tensors.pop("kept").numpy()
        shape = about["architecture"]
        shape |= {name: tuple(shape[name]) for name in ("step", "first")}
        architecture = Architecture(**shape)
        model = architecture.build(int(kept.sum()), np.random.default_rng(0))
        model.load_state_dict(tensors)
        return cls(architecture, kept, model, tuple(about["losses"]))


@contextmanager
def one_thread() -> Iterator[None]:
    """The steps of a fit are too small to share; and on one thread every machine sums alike."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@one_thread()
def fit(
    x: Float[np.ndarray, "n D"],
    architecture: Architecture,
    recipe: Recipe,
    rng: np.random.Generator,
) -> Fitted:
    """Fit on rows, in a shuffled order: files are sorted by source, and a fit forgets.

    They may be mapped from a file, since no more of them is read at a time than a batch. Raises
    ScoreError for rows that are all equal or not finite, and where the loss stops being a finite
    number.
    """
    kept = varying(x)
    columns = np.flatnonzero(kept)
    batches = recipe.batches(len(x), rng)
    model = architecture.build(len(columns), rng)
    initialise(model, torch.from_numpy(x[batches[0]].take(columns, axis=1)).double())
    optimiser = AdamW(model, recipe)
    scales = AtOnce(model)
    losses = []
    for step, batch in enumerate(batches):
        rows = torch.from_numpy(x[batch].take(columns, axis=1)).double()
        with scales:
            loss = bits_per_dimension(model, rows)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise ScoreError(
                f"the fit diverged: its loss is {losses[-1]} at step {step} of {len(batches)}; "
                "take a lower learning rate"
            )
        optimiser.step(recipe.sides * loss)
    return Fitted(architecture, kept, model.requires_grad_(False), tuple(losses))


def varying(x: Float[np.ndarray, "n D"]) -> Bool[np.ndarray, " D"]:
    """The coordinates in which the rows differ by more than rounding noise."""
    if len(x) == 0:
        raise ScoreError("no sentences to fit on")
    low = high = x[0]
    for start in range(0, len(x), ROWS):
        part = x[start : start + ROWS]
        finite = np.isfinite(part).all(axis=1)
        if not finite.all():
            row = start + int(finite.argmin())
            raise ScoreError(f"row {row} of the vectors to fit on holds a value that is not finite")
        low, high = np.minimum(low, part.min(axis=0)), np.maximum(high, part.max(axis=0))
    spread = high.astype(np.float64) - low
    kept = spread > LEAST_SPREAD * spread.max()
    if not kept.any():
        raise ScoreError("all vectors to fit on are equal: they have no direction to learn from")
    return kept
