"""Invertible pieces over vectors, and their stack over several scales.

A piece maps rows (n, D) to rows (n, D) and knows the log |det| of its Jacobian, so a stack of them
is a density: that of a standard Gaussian, times |det|. NICE (Dinh et al. 2014, arXiv 1410.8516),
RealNVP (Dinh et al. 2016, arXiv 1605.08803) and Glow (Kingma & Dhariwal 2018, arXiv 1807.03039)
put the same pieces together in different orders. Numbers are float64, and whatever is random comes
from the given generator.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import chain, repeat
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.arrays import Float64
from harness.transforms.affine import LEAST_SPREAD

# Scales are learned as exp(3 s), in actnorm and behind a conditioner (Glow's released code).
SCALE_FACTOR = 3.0
FIRST_WEIGHTS = 0.05  # their standard deviation; actnorm takes it out again

Rows = Float64[Tensor, "n D"]
LogDet = Float64[Tensor, "..."] | float  # one a row, or one for all


def zeros(*shape: int) -> nn.Parameter:
    """A parameter that starts at zero."""
    return nn.Parameter(torch.zeros(shape, dtype=torch.float64))


def drawn(rng: np.random.Generator, *shape: int) -> nn.Parameter:
    """A parameter that starts small and random."""
    return nn.Parameter(torch.from_numpy(rng.normal(scale=FIRST_WEIGHTS, size=shape)))


class Bijection(nn.Module, ABC):
    """An invertible piece."""

    @abstractmethod
    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        """y and log |det dy/dx|."""

    @abstractmethod
    def inverse(self, y: Rows) -> Rows:
        """x."""


class Scaling(nn.Module):
    """What learns a scale exp(3 s) for each coordinate.

    `made` holds the scales, and for an Actnorm its log |det|, while `AtOnce` has them ready.
    """

    log_scale: nn.Parameter
    made: tuple[Tensor, LogDet] | None = None

    @property
    def logs(self) -> Float64[Tensor, " D"]:
        """3 s."""
        return SCALE_FACTOR * self.log_scale

    @property
    def scales(self) -> Float64[Tensor, " D"]:
        """exp(3 s)."""
        return self.made[0] if self.made else self.logs.exp()


class AtOnce:
    """Inside it, all scales of a model are those of its parameters on entering.

    A step on a few rows takes as long as it has operations, and scales that are made one by one are
    a sixth of them. Nor is log |det| summed one by one: one Actnorm has it of all.
    """

    def __init__(self, model: nn.Module) -> None:
        parts = [part for part in model.modules() if isinstance(part, Scaling)]
        pieces = [part for part in parts if isinstance(part, Actnorm)]
        self.parts = pieces + [part for part in parts if not isinstance(part, Actnorm)]
        self.sizes = [len(part.log_scale) for part in self.parts]
        self.of_pieces = sum(self.sizes[: len(pieces)])

    def __enter__(self) -> None:
        if not self.parts:
            return
        logs = SCALE_FACTOR * torch.cat([part.log_scale for part in self.parts])
        scales = torch.split(logs.exp(), self.sizes)
        log_dets = chain([logs[: self.of_pieces].sum()], repeat(0.0))
        for part, made in zip(self.parts, zip(scales, log_dets, strict=False), strict=True):
            vars(part)["made"] = made  # past nn.Module's own way, which takes as long as a scale

    def __exit__(self, *_: object) -> None:
        for part in self.parts:
            del vars(part)["made"]


class Norm(Scaling):
    """y = (x + shift) exp(3 s) in each coordinate; behind a linear map, of x times its weight."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift, self.log_scale = zeros(size), zeros(size)

    def forward(
        self, x: Float64[Tensor, "n d"], weight: Float64[Tensor, "d k"] | None = None
    ) -> Float64[Tensor, "n K"]:
        """y."""
        shifted = x + self.shift if weight is None else torch.addmm(self.shift, x, weight)
        return shifted * self.scales

    def standardise(self, x: Rows) -> None:
        """Make these rows come out with mean 0 and variance 1.

        A coordinate in which they do not differ is centred and keeps its scale.
        """
        spread = x.std(dim=0, correction=0)
        spread = torch.where(spread > LEAST_SPREAD * spread.max(), spread, 1.0)
        self.shift.copy_(-x.mean(dim=0))
        self.log_scale.copy_(-spread.log() / SCALE_FACTOR)


class Actnorm(Norm, Bijection):
    """The same as a piece."""

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:  # type: ignore[override]
        return super().forward(x), self.made[1] if self.made else self.logs.sum()

    def inverse(self, y: Rows) -> Rows:
        return y * (-self.logs).exp() - self.shift


class Reversal(Bijection):
    """The coordinates in reverse order."""

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        return x.flip(1), 0.0

    def inverse(self, y: Rows) -> Rows:
        return y.flip(1)


class InvertibleLinear(Bijection):
    """y = x P L U: a learned linear map that starts as a rotation (Glow's "1x1 convolution").

    P permutes and stays, L has a unit diagonal, U has +-exp(s) on its own.
    """

    order: Tensor
    sign: Tensor

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        super().__init__()
        rotation, _ = torch.linalg.qr(torch.from_numpy(rng.normal(size=(size, size))))
        permutation, lower, upper = torch.linalg.lu(rotation)
        self.register_buffer("order", permutation.argmax(dim=0))
        self.register_buffer("sign", upper.diagonal().sign())
        self.lower, self.upper = nn.Parameter(lower.tril(-1)), nn.Parameter(upper.triu(1))
        self.log_scale = nn.Parameter(upper.diagonal().abs().log())

    def factors(self) -> tuple[Float64[Tensor, "D D"], Float64[Tensor, "D D"]]:
        """L and U."""
        diagonal = self.sign * self.log_scale.exp()
        lower = self.lower.tril(-1) + torch.ones_like(diagonal).diag()
        return lower, self.upper.triu(1) + diagonal.diag()

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        lower, upper = self.factors()
        return x[:, self.order] @ lower @ upper, self.log_scale.sum()

    def inverse(self, y: Rows) -> Rows:
        lower, upper = self.factors()
        y = torch.linalg.solve_triangular(upper, y, upper=True, left=False)
        y = torch.linalg.solve_triangular(lower, y, upper=False, left=False, unitriangular=True)
        return y[:, self.order.argsort()]


class Conditioner(Scaling):
    """Linear, actnorm and ReLU, twice; then a linear map and a scale, zero at first."""

    def __init__(self, inputs: int, outputs: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.first, self.second = drawn(rng, inputs, width), drawn(rng, width, width)
        self.norms = nn.ModuleList([Norm(width), Norm(width)])
        self.last, self.bias, self.log_scale = zeros(width, outputs), zeros(outputs), zeros(outputs)

    def forward(self, x: Float64[Tensor, "n d"]) -> Float64[Tensor, "n k"]:
        for weight, norm in zip((self.first, self.second), self.norms, strict=True):
            x = functional.relu(norm(x, weight))
        return torch.addmm(self.bias, x, self.last) * self.scales


class AdditiveCoupling(Bijection):
    """One half of the coordinates stays; the other is shifted by a function of it."""

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.halves = [size // 2, size - size // 2]
        self.shift = Conditioner(self.halves[0], self.halves[1], width, rng)

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        stays, moves = torch.split(x, self.halves, dim=1)
        return torch.cat([stays, moves + self.shift(stays)], dim=1), 0.0

    def inverse(self, y: Rows) -> Rows:
        stays, moved = torch.split(y, self.halves, dim=1)
        return torch.cat([stays, moved - self.shift(stays)], dim=1)


class AffineCoupling(Bijection):
    """One half stays; the other is shifted and scaled by functions of it ("affine coupling").

    The log-scale is a tanh, as in RealNVP, so that neither direction can overflow.
    """

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.halves = [size // 2, size - size // 2]
        self.shift_and_scale = Conditioner(self.halves[0], 2 * self.halves[1], width, rng)

    def given(self, stays: Float64[Tensor, "n d"]) -> tuple[Float64[Tensor, "n k"], ...]:
        """Shift and log-scale."""
        shift, log_scale = self.shift_and_scale(stays).chunk(2, dim=1)
        return shift, log_scale.tanh()

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        stays, moves = torch.split(x, self.halves, dim=1)
        shift, log_scale = self.given(stays)
        return torch.cat([stays, (moves + shift) * log_scale.exp()], dim=1), log_scale.sum(dim=1)

    def inverse(self, y: Rows) -> Rows:
        stays, moved = torch.split(y, self.halves, dim=1)
        shift, log_scale = self.given(stays)
        return torch.cat([stays, moved * (-log_scale).exp() - shift], dim=1)


class Chain(Bijection):
    """One piece after another."""

    def __init__(self, pieces: Sequence[Bijection]) -> None:
        super().__init__()
        self.pieces = cast(Sequence[Bijection], nn.ModuleList(pieces))

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        log_det: LogDet = 0.0
        for piece in self.pieces:
            x, gained = piece(x)
            log_det = _added(log_det, gained)
        return x, log_det

    def inverse(self, y: Rows) -> Rows:
        for piece in reversed(self.pieces):
            y = piece.inverse(y)
        return y


class MultiScale(Bijection):
    """Levels; behind each but the last, half of its coordinates is finished, one more stays if odd.

    `sizes` are how many coordinates each level takes.
    """

    def __init__(self, levels: Sequence[Bijection], sizes: Sequence[int]) -> None:
        super().__init__()
        self.levels = cast(Sequence[Bijection], nn.ModuleList(levels))
        self.goes_on = (*sizes[1:], sizes[-1])
        self.finished = [size - on for size, on in zip(sizes, self.goes_on, strict=True)]

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        finished, log_det = [], cast(LogDet, 0.0)
        for level, on, done in zip(self.levels, self.goes_on, self.finished, strict=True):
            x, gained = level(x)
            log_det = _added(log_det, gained)
            if done:
                x, found = torch.split(x, [on, done], dim=1)
                finished.append(found)
        return torch.cat([*finished, x], dim=1), log_det

    def inverse(self, y: Rows) -> Rows:
        *finished, y = torch.split(y, [*self.finished, self.goes_on[-1]], dim=1)
        for level, done in zip(reversed(self.levels), reversed(finished), strict=True):
            y = level.inverse(torch.cat([y, done], dim=1))
        return y


def _added(one: LogDet, other: LogDet) -> LogDet:
    """Their sum; adding a plain 0 is no operation."""
    if isinstance(other, float) and other == 0.0:
        return one
    return other if isinstance(one, float) and one == 0.0 else one + other


@torch.no_grad()
def initialise(model: Bijection, x: Rows) -> None:
    """Let every actnorm standardise what reaches it of these rows."""
    norms = [piece for piece in model.modules() if isinstance(piece, Norm)]
    hooks = [norm.register_forward_pre_hook(_standardise) for norm in norms]
    model(x)
    for hook in hooks:
        hook.remove()


def _standardise(norm: Norm, given: tuple[Tensor, ...]) -> None:
    x, *weight = given
    norm.standardise(x @ weight[0] if weight else x)


def bits_per_dimension(model: Bijection, x: Rows) -> Float64[Tensor, ""]:
    """Mean negative log2-likelihood of the rows, per coordinate."""
    z, log_det = model(x)
    size = x.shape[1]
    nats = 0.5 * (z.square().sum(dim=1) + size * math.log(2 * math.pi)) - log_det
    return nats.mean() / (size * math.log(2))
