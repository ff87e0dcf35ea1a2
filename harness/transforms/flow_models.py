"""Models of rows (n, D) that have a latent vector of each row and a likelihood, or a bound on it.

A flow is an invertible map f whose Jacobian's log |det| is known, and thereby a density:
log p(x) = log N(f(x); 0, I) + log |det df/dx|. Everything is float64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from harness.core.arrays import Float64

Rows = Float64[Tensor, "n D"]
LogDet = Float64[Tensor, "..."] | float  # one for each row, or one for all rows


def gaussian_nats(z: Rows) -> Float64[Tensor, " n"]:
    """-log N(z; 0, I) of each row."""
    return 0.5 * (z.square().sum(dim=1) + z.shape[1] * math.log(2 * math.pi))


class LatentModel(nn.Module, ABC):
    """What a fit minimises the bits per dimension of, and maps rows with."""

    @abstractmethod
    def latent(self, x: Rows) -> Rows:
        """The latent vector of each row."""

    @abstractmethod
    def bits_per_dimension(self, x: Rows) -> Float64[Tensor, ""]:
        """The mean negative log2-likelihood of the rows, or a bound above it, divided by D."""


class Bijection(LatentModel):
    """An invertible map y = f(x): a layer of a flow, or a whole flow."""

    @abstractmethod
    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        """y = f(x) and log |det dy/dx|."""

    @abstractmethod
    def inverse(self, y: Rows) -> Rows:
        """x with f(x) = y."""

    def latent(self, x: Rows) -> Rows:
        return self(x)[0]

    def bits_per_dimension(self, x: Rows) -> Float64[Tensor, ""]:
        z, log_det = self(x)
        return (gaussian_nats(z) - log_det).mean() / (x.shape[1] * math.log(2))


class Chain(Bijection):
    """The composition of bijections, the first one applied first."""

    def __init__(self, pieces: Sequence[Bijection]) -> None:
        super().__init__()
        self.pieces = cast(Sequence[Bijection], nn.ModuleList(pieces))

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        log_det: LogDet = 0.0
        for piece in self.pieces:
            x, piece_log_det = piece(x)
            log_det = log_det + piece_log_det
        return x, log_det

    def inverse(self, y: Rows) -> Rows:
        for piece in reversed(self.pieces):
            y = piece.inverse(y)
        return y


class MultiScale(Bijection):
    """Levels of a multi-scale architecture (RealNVP, section 3.6).

    Behind each level but the last, half of its coordinates is final and the other half, the larger
    one if their number is odd, goes on to the next level. `sizes` are the coordinates that enter
    each level.
    """

    def __init__(self, levels: Sequence[Bijection], sizes: Sequence[int]) -> None:
        super().__init__()
        self.levels = cast(Sequence[Bijection], nn.ModuleList(levels))
        self.goes_on = (*sizes[1:], sizes[-1])
        self.finished = [size - on for size, on in zip(sizes, self.goes_on, strict=True)]

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        finished, log_det = [], cast(LogDet, 0.0)
        for level, on, done in zip(self.levels, self.goes_on, self.finished, strict=True):
            x, level_log_det = level(x)
            log_det = log_det + level_log_det
            if done:
                x, final = torch.split(x, [on, done], dim=1)
                finished.append(final)
        return torch.cat([*finished, x], dim=1), log_det

    def inverse(self, y: Rows) -> Rows:
        *finished, y = torch.split(y, [*self.finished, self.goes_on[-1]], dim=1)
        for level, final in zip(reversed(self.levels), reversed(finished), strict=True):
            y = level.inverse(torch.cat([y, final], dim=1))
        return y
