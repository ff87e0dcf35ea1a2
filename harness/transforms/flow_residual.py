"""The invertible residual block y = x + g(x), where g contracts (Behrmann et al. 2019).

"Invertible Residual Networks", arXiv 1811.00995. g is a network of two hidden layers of ELU, each
of its linear maps held to a spectral norm of at most 0.9, so that its Lipschitz constant is at most
0.9^3 and y has one x, which a fixed-point iteration finds. log |det dy/dx| is the trace of a
logarithm, sum_k (-1)^(k+1) tr(J^k) / k with J = dg/dx.

As in the paper, a fit takes the first five terms of that series, their traces by Hutchinson's
estimate from one Gaussian vector a row, and spectral norms by power iteration. Unlike there, a
fitted block is exact: spectral norms by singular values, and the log-determinant in closed form,
since the hidden layers are narrow: det(I + A B) = det(I + B A).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.arrays import Float64
from harness.core.errors import ScoreError
from harness.transforms.flow_layers import Bijection, LogDet, Rows, normal, zeros

# The authors' settings (jhjacobsen/invertible-resnet, scripts/dens_est_cifar.sh and its defaults).
SPECTRAL_NORM = 0.9
POWER_ITERATIONS = 5
SERIES_TERMS = 5

FIXED_POINT_STEPS = 200  # 0.729^200 is 1e-28
FIXED_POINT_CHANGE = 1e-14  # of the largest coordinate: float64 rounding


class ContractiveLinear(nn.Module):
    """x W + b, where W is divided by what its spectral norm exceeds `SPECTRAL_NORM` by."""

    direction: Tensor

    def __init__(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.unbounded, self.bias = normal(rng, inputs, outputs), zeros(outputs)
        self.register_buffer("direction", torch.from_numpy(rng.normal(size=outputs)))

    @property
    def weight(self) -> Float64[Tensor, "d k"]:
        """W, by a power iteration that goes on at each step of a fit; behind it exactly."""
        norm = self._iterated() if self.training else torch.linalg.matrix_norm(self.unbounded, 2)
        return self.unbounded / (norm / SPECTRAL_NORM).clamp(min=1.0)

    def _iterated(self) -> Float64[Tensor, ""]:
        with torch.no_grad():
            for _ in range(POWER_ITERATIONS):
                left = functional.normalize(self.unbounded @ self.direction, dim=0)
                self.direction.copy_(functional.normalize(left @ self.unbounded, dim=0))
        # Both vectors are constants of the derivative, which is then that of the spectral norm.
        return left @ self.unbounded @ self.direction.clone()


class ResidualBlock(Bijection):
    """y = x + g(x); while it is fitted its log-determinant is an estimate, drawn from the seed."""

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        pairs = pairwise((size, width, width, size))
        linear = [ContractiveLinear(*pair, rng) for pair in pairs]
        self.linear = cast(Sequence[ContractiveLinear], nn.ModuleList(linear))
        (self.noise,) = rng.spawn(1)

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        weights = [linear.weight for linear in self.linear]
        residual, slopes = self._residual(x, weights)
        log_det = self._estimated if self.training else _log_det
        return x + residual, log_det(weights, slopes)

    def inverse(self, y: Rows) -> Rows:
        """x with x + g(x) = y. Raises ScoreError if the iteration does not end."""
        weights = [linear.weight for linear in self.linear]
        x = y
        for _ in range(FIXED_POINT_STEPS):
            before, x = x, y - self._residual(x, weights)[0]
            if not (x - before).abs().max() > FIXED_POINT_CHANGE * x.abs().max():
                return x
        raise ScoreError(
            f"the inverse of a residual block did not settle in {FIXED_POINT_STEPS} steps"
        )

    def _residual(self, x: Rows, weights: list[Tensor]) -> tuple[Rows, list[Tensor]]:
        """g(x), and the derivatives of both hidden layers' ELUs."""
        slopes = []
        for linear, weight in zip(self.linear[:2], weights[:2], strict=True):
            before = torch.addmm(linear.bias, x, weight)
            x = functional.elu(before)
            slopes.append(before.clamp(max=0.0).exp())
        return torch.addmm(self.linear[2].bias, x, weights[2]), slopes

    def _estimated(self, weights: list[Tensor], slopes: list[Tensor]) -> Float64[Tensor, " n"]:
        """Hutchinson's estimate of the series' first terms, E[v J^k v] = tr(J^k)."""
        count, size = len(slopes[0]), len(weights[0])
        vector = torch.from_numpy(self.noise.normal(size=(count, size)))
        (first, second, third), (slope, another) = weights, slopes
        product, log_det = vector, torch.zeros(count, dtype=torch.float64)
        for k in range(1, SERIES_TERMS + 1):
            product = ((product @ first * slope) @ second * another) @ third
            log_det = log_det - (-1) ** k / k * (product * vector).sum(dim=1)
        return log_det


def _log_det(weights: list[Tensor], slopes: list[Tensor]) -> Float64[Tensor, " n"]:
    """log det(I + W1 D1 W2 D2 W3) of each row, from a matrix of the hidden layers' width."""
    (first, second, third), (slope, another) = weights, slopes
    inner = (slope[:, :, None] * second) @ (another[:, :, None] * (third @ first))
    identity = torch.eye(inner.shape[1], dtype=torch.float64)
    return torch.linalg.slogdet(identity + inner).logabsdet
