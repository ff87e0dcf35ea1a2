"""The layer of i-ResNet: an invertible residual block.

Behrmann et al. 2019, arXiv 1811.00995: y = x + g(x) has one x for each y where g
contracts. Its log |det dy/dx| is the series sum_k (-1)^(k+1) tr(J^k) / k with J = dg/dx.
Chen et al. 2019, arXiv 1906.02735, estimate that series without bias.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.arrays import Float64
from harness.transforms.flow_layers import Bijection, LogDet, Rows, normal, zeros

# The largest spectral norm of each of the three linear maps of g: its Lipschitz constant
# is at most 0.9^3 = 0.73.
SPECTRAL_NORM = 0.9
# Terms of the series that are always computed, and the probability of each further one
# given the one before. It is above the square of the Lipschitz constant, 0.53, so that
# the estimate has a variance; Chen et al. have 1/2.
SURE_TERMS = 2
CONTINUE = 0.6

Weights = list[Float64[Tensor, "_ _"]]
Slopes = list[Float64[Tensor, "n _"]]


class ResidualBlock(Bijection):
    """y = x + g(x), where g has two hidden layers of ELU and contracts.

    While it is fitted, its log-determinant is the unbiased estimate of the series, for
    which it draws from a generator of its own. Fitted, it is exact.
    """

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        sizes = (size, width, width, size)
        self.weights = nn.ParameterList(normal(rng, *pair) for pair in pairwise(sizes))
        self.biases = nn.ParameterList(zeros(outputs) for outputs in sizes[1:])
        [self.rng] = rng.spawn(1)

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        weights = self.contracting_weights()
        residual, slopes = self.residual(x, weights)
        log_det = self.estimated_log_det if self.training else exact_log_det
        return x + residual, log_det(weights, slopes)

    def contracting_weights(self) -> Weights:
        """The linear maps, each scaled down to the spectral norm that it may have."""
        weights = []
        for weight in self.weights:
            norm = torch.linalg.matrix_norm(weight, 2)
            weights.append(weight * (SPECTRAL_NORM / norm).clamp(max=1.0))
        return weights

    def residual(self, x: Rows, weights: Weights) -> tuple[Rows, Slopes]:
        """g(x), and the derivatives of the ELUs of both hidden layers."""
        slopes = []
        for weight, bias in zip(weights[:-1], self.biases[:-1], strict=True):
            linear = torch.addmm(bias, x, weight)
            slopes.append(linear.clamp(max=0.0).exp())
            x = functional.elu(linear)
        return torch.addmm(self.biases[-1], x, weights[-1]), slopes

    def estimated_log_det(
        self, weights: Weights, slopes: Slopes
    ) -> Float64[Tensor, " n"]:
        """The series of each row up to a random term, without bias (Chen et al., theorem 1).

        A trace is that of one Gaussian vector v a row, E[v J^k v^T] = tr(J^k), after
        Hutchinson. A term counts 1 / P(it is computed) times.
        """
        first, second, third = weights
        slope, next_slope = slopes
        shape = (len(slope), len(first))
        vector = torch.from_numpy(self.rng.normal(size=shape))
        term_count = SURE_TERMS - 1 + self.rng.geometric(1 - CONTINUE)
        product = vector
        log_det = torch.zeros(len(slope), dtype=torch.float64)
        for k in range(1, term_count + 1):
            product = (((product @ first) * slope) @ second * next_slope) @ third
            trace = (product * vector).sum(dim=1)
            probability = CONTINUE ** max(0, k - SURE_TERMS)
            log_det = log_det - (-1) ** k / (k * probability) * trace
        return log_det


def exact_log_det(weights: Weights, slopes: Slopes) -> Float64[Tensor, " n"]:
    """log det(I + J) of each row, as a determinant of the width of the hidden layers.

    J = W1 D1 W2 D2 W3, and det(I + A B) = det(I + B A).
    """
    first, second, third = weights
    slope, next_slope = slopes
    outer = next_slope[:, :, None] * (third @ first)
    inner = slope[:, :, None] * second @ outer
    return torch.linalg.slogdet(torch.eye(len(second)) + inner).logabsdet
