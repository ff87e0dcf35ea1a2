"""Layers of normalising flows over rows (n, D), in float64.

A flow is an invertible map f whose Jacobian's log |det| is known, and thereby a
density: log p(x) = log N(f(x); 0, I) + log |det df/dx|.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.arrays import Float64
from harness.transforms.affine import LEAST_SPREAD

Rows = Float64[Tensor, "n D"]
LogDet = Float64[Tensor, "..."] | float  # one for each row, or one for all rows


def gaussian_nats(z: Rows) -> Float64[Tensor, " n"]:
    """The negative log-density of each row under the standard Gaussian."""
    squares = z.square().sum(dim=1)
    return 0.5 * (squares + z.shape[1] * math.log(2 * math.pi))


class LatentModel(nn.Module, ABC):
    """A density of rows that is fitted by its likelihood, or by a bound on it."""

    @abstractmethod
    def latent(self, x: Rows) -> Rows:
        """The latent vector of each row, which the fitted map returns."""

    @abstractmethod
    def nats(self, x: Rows) -> Float64[Tensor, " n"]:
        """The negative log-likelihood of each row, or an upper bound on it."""

    def bits_per_dimension(self, x: Rows) -> Float64[Tensor, ""]:
        """The mean of `nats` over the rows in bits, divided by D."""
        return self.nats(x).mean() / (x.shape[1] * math.log(2))


class Bijection(LatentModel):
    """An invertible map y = f(x): a layer of a flow, or a whole flow.

    Only the direction to the Gaussian is computed, since nothing samples from a flow.
    """

    @abstractmethod
    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        """y = f(x) and log |det dy/dx|."""

    def latent(self, x: Rows) -> Rows:
        z, _ = self(x)
        return z

    def nats(self, x: Rows) -> Float64[Tensor, " n"]:
        z, log_det = self(x)
        return gaussian_nats(z) - log_det


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


class MultiScale(Bijection):
    """Levels of a multi-scale architecture (RealNVP, section 3.6).

    After each level but the last, half of its coordinates are output, and the other half,
    the larger one if their number is odd, is the input of the next level.
    """

    def __init__(self, levels: Sequence[Bijection]) -> None:
        super().__init__()
        self.levels = cast(Sequence[Bijection], nn.ModuleList(levels))

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        outputs: list[Rows] = []
        log_det: LogDet = 0.0
        for number, level in enumerate(self.levels, start=1):
            x, level_log_det = level(x)
            log_det = log_det + level_log_det
            if number < len(self.levels):
                half = x.shape[1] // 2
                x, output = torch.split(x, [x.shape[1] - half, half], dim=1)
                outputs.append(output)
        return torch.cat([*outputs, x], dim=1), log_det


# Scales are learned as exp(3 s), in actnorm and after a conditioner (Glow's released
# code).
SCALE_FACTOR = 3.0
# The standard deviation of a conditioner's initial weights; the actnorm after them
# divides it out.
INITIAL_STD = 0.05


def zeros(*shape: int) -> nn.Parameter:
    """A parameter that starts at zero."""
    return nn.Parameter(torch.zeros(shape, dtype=torch.float64))


def normal(rng: np.random.Generator, *shape: int) -> nn.Parameter:
    """A parameter that starts at small Gaussian values."""
    return nn.Parameter(torch.from_numpy(rng.normal(scale=INITIAL_STD, size=shape)))


class Norm(nn.Module):
    """A shift and a scale exp(3 s) of each coordinate, to be initialised in one of two ways."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.shift, self.log_scale = zeros(size), zeros(size)

    def standardise(self, x: Rows) -> None:
        """Set shift and scale so that these rows come out with mean 0 and variance 1.

        A coordinate that is constant in the rows is centred and keeps its scale.
        """
        spread = x.std(dim=0, correction=0)
        spread = torch.where(spread > LEAST_SPREAD * spread.max(), spread, 1.0)
        self.shift.copy_(-x.mean(dim=0))
        self.log_scale.copy_(-spread.log() / SCALE_FACTOR)

    def draw(self, rng: np.random.Generator) -> None:
        """Draw shift and s from Glorot's uniform distribution.

        TensorFlow's default for a variable of shape (1, 1, 1, D), which is a
        convolution of 1 input and D outputs to it: +-sqrt(6 / (1 + D)).
        """
        limit = math.sqrt(6 / (1 + len(self.shift)))
        for parameter in (self.shift, self.log_scale):
            numbers = rng.uniform(-limit, limit, len(parameter))
            parameter.copy_(torch.from_numpy(numbers))


class Actnorm(Norm, Bijection):
    """y = (x + shift) exp(3 s) in each coordinate (Glow, section 3.1)."""

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        logs = SCALE_FACTOR * self.log_scale
        return (x + self.shift) * logs.exp(), logs.sum()


class LinearNorm(Norm):
    """y = (x W + shift) exp(3 s): actnorm after a linear map."""

    def forward(
        self, x: Float64[Tensor, "n d"], weight: Float64[Tensor, "d k"]
    ) -> Float64[Tensor, "n k"]:
        scale = (SCALE_FACTOR * self.log_scale).exp()
        return torch.addmm(self.shift, x, weight) * scale


class Reversal(Bijection):
    """The coordinates in reverse order."""

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        return x.flip(1), 0.0


class InvertibleLinear(Bijection):
    """y = x P L U, a learned linear map that starts as a random rotation.

    Glow's "invertible 1x1 convolution" in its LU decomposition (section 3.2): P is a
    fixed permutation, L has a unit diagonal, U has +-exp(s) on its diagonal, and log
    |det| = sum(s).
    """

    order: Tensor
    sign: Tensor

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        super().__init__()
        rotation, _ = torch.linalg.qr(torch.from_numpy(rng.normal(size=(size, size))))
        permutation, lower, upper = torch.linalg.lu(rotation)
        self.register_buffer("order", permutation.argmax(dim=0))
        self.register_buffer("sign", upper.diagonal().sign())
        self.lower = nn.Parameter(lower.tril(-1))
        self.upper = nn.Parameter(upper.triu(1))
        self.log_scale = nn.Parameter(upper.diagonal().abs().log())

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        diagonal = self.sign * self.log_scale.exp()
        lower = self.lower.tril(-1) + torch.ones_like(diagonal).diag()
        upper = self.upper.triu(1) + diagonal.diag()
        return x[:, self.order] @ lower @ upper, self.log_scale.sum()


class Conditioner(nn.Module):
    """The network inside a coupling: (linear, actnorm, ReLU) twice, then linear and a scale.

    The last linear map starts at zero, so that a coupling starts as the identity.
    """

    def __init__(
        self, inputs: int, outputs: int, width: int, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.first_weight = normal(rng, inputs, width)
        self.second_weight = normal(rng, width, width)
        self.norms = nn.ModuleList([LinearNorm(width), LinearNorm(width)])
        self.last_weight = zeros(width, outputs)
        self.bias = zeros(outputs)
        self.log_scale = zeros(outputs)

    def forward(self, x: Float64[Tensor, "n d"]) -> Float64[Tensor, "n k"]:
        weights = (self.first_weight, self.second_weight)
        for weight, norm in zip(weights, self.norms, strict=True):
            x = functional.relu(norm(x, weight))
        scale = (SCALE_FACTOR * self.log_scale).exp()
        return torch.addmm(self.bias, x, self.last_weight) * scale


class AdditiveCoupling(Bijection):
    """y = (x1, x2 + m(x1)) over two halves of the coordinates (NICE, section 3.2); |det| = 1."""

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.halves = [size // 2, size - size // 2]
        self.shift = Conditioner(self.halves[0], self.halves[1], width, rng)

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        x1, x2 = torch.split(x, self.halves, dim=1)
        return torch.cat([x1, x2 + self.shift(x1)], dim=1), 0.0


class AffineCoupling(Bijection):
    """y = (x1, (x2 + m(x1)) exp(tanh s(x1))) over two halves (RealNVP, section 3.2).

    The log-scale is a tanh, as in RealNVP, so that it cannot overflow.
    """

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.halves = [size // 2, size - size // 2]
        self.shift_and_scale = Conditioner(
            self.halves[0], 2 * self.halves[1], width, rng
        )

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        x1, x2 = torch.split(x, self.halves, dim=1)
        shift, log_scale = self.shift_and_scale(x1).chunk(2, dim=1)
        log_scale = log_scale.tanh()
        y = torch.cat([x1, (x2 + shift) * log_scale.exp()], dim=1)
        return y, log_scale.sum(dim=1)


# Invertible residual blocks

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
    """The layer of i-ResNet: y = x + g(x), where g has two hidden layers of ELU and contracts.

    Behrmann et al. 2019, arXiv 1811.00995: there is one x for each y where g contracts.
    log |det dy/dx| is the series sum_k (-1)^(k+1) tr(J^k) / k with J = dg/dx, which Chen
    et al. 2019, arXiv 1906.02735, estimate without bias. While a block is fitted, it
    computes that estimate, for which it draws from a generator of its own. Fitted, its
    log-determinant is exact.
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


# Initialisation


@torch.no_grad()
def initialise_from_data(model: LatentModel, x: Rows) -> None:
    """Initialise every actnorm from its inputs for these rows (Glow, section 3.1)."""
    hooks = [norm.register_forward_pre_hook(_standardise) for norm in norms_of(model)]
    model.bits_per_dimension(x)
    for hook in hooks:
        hook.remove()


@torch.no_grad()
def initialise_at_random(model: LatentModel, rng: np.random.Generator) -> None:
    """Initialise every actnorm without data, as TensorFlow does where no initialiser is given."""
    for norm in norms_of(model):
        norm.draw(rng)


def norms_of(model: LatentModel) -> list[Norm]:
    """Every actnorm, also inside the couplings, in the order of the layers."""
    return [module for module in model.modules() if isinstance(module, Norm)]


def _standardise(norm: Norm, inputs: tuple[Tensor, ...]) -> None:
    """Initialise an actnorm before its first call; the inputs are x, or x and a weight."""
    if isinstance(norm, LinearNorm):
        x, weight = inputs
        norm.standardise(x @ weight)
    else:
        [x] = inputs
        norm.standardise(x)
