"""Models of rows (n, D) that have a latent vector of each row and a likelihood, or a bound on it.

A flow is an invertible map f whose Jacobian's log |det| is known, and thereby a density:
log p(x) = log N(f(x); 0, I) + log |det df/dx|. Everything is float64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.arrays import Float64
from harness.core.provenance import extra
from harness.transforms.affine import LEAST_SPREAD

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


class MultiScale(Bijection):
    """Levels of a multi-scale architecture (RealNVP, section 3.6).

    Behind each level but the last, half of its coordinates is final and the other half, the larger
    one if their number is odd, goes on to the next level.
    """

    def __init__(self, levels: Sequence[Bijection]) -> None:
        super().__init__()
        self.levels = cast(Sequence[Bijection], nn.ModuleList(levels))

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        final, log_det = [], cast(LogDet, 0.0)
        for number, level in enumerate(self.levels, start=1):
            x, level_log_det = level(x)
            log_det = log_det + level_log_det
            if number < len(self.levels):
                half = x.shape[1] // 2
                x, finished = torch.split(x, [x.shape[1] - half, half], dim=1)
                final.append(finished)
        return torch.cat([*final, x], dim=1), log_det


# Scales are learned as exp(3 s), in actnorm and behind a conditioner (Glow's released code).
SCALE_FACTOR = 3.0
INITIAL_STD = 0.05  # of a conditioner's weights; the actnorm behind them takes it out again


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

        TensorFlow's default for a variable of shape (1, 1, 1, D), which is a convolution of 1 input
        and D outputs to it: +-sqrt(6 / (1 + D)).
        """
        limit = math.sqrt(6 / (1 + len(self.shift)))
        for parameter in (self.shift, self.log_scale):
            parameter.copy_(torch.from_numpy(rng.uniform(-limit, limit, len(parameter))))


class Actnorm(Norm, Bijection):
    """y = (x + shift) exp(3 s) in each coordinate (Glow, section 3.1)."""

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        logs = SCALE_FACTOR * self.log_scale
        return (x + self.shift) * logs.exp(), logs.sum()


class LinearNorm(Norm):
    """y = (x W + shift) exp(3 s): actnorm behind a linear map."""

    def forward(
        self, x: Float64[Tensor, "n d"], weight: Float64[Tensor, "d k"]
    ) -> Float64[Tensor, "n k"]:
        return torch.addmm(self.shift, x, weight) * (SCALE_FACTOR * self.log_scale).exp()


class Reversal(Bijection):
    """The coordinates in reverse order."""

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        return x.flip(1), 0.0


class InvertibleLinear(Bijection):
    """y = x P L U, a learned linear map that starts as a random rotation.

    Glow's "invertible 1x1 convolution" in its LU decomposition (section 3.2): P is a fixed
    permutation, L has a unit diagonal, U has +-exp(s) on its diagonal, and log |det| = sum(s).
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

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        diagonal = self.sign * self.log_scale.exp()
        lower = self.lower.tril(-1) + torch.ones_like(diagonal).diag()
        upper = self.upper.triu(1) + diagonal.diag()
        return x[:, self.order] @ lower @ upper, self.log_scale.sum()


class Conditioner(nn.Module):
    """The network inside a coupling: (linear, actnorm, ReLU) twice, then linear and a scale.

    The last linear map starts at zero, so that a coupling starts as the identity.
    """

    def __init__(self, inputs: int, outputs: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.first, self.second = normal(rng, inputs, width), normal(rng, width, width)
        self.norms = nn.ModuleList([LinearNorm(width), LinearNorm(width)])
        self.last, self.bias, self.log_scale = zeros(width, outputs), zeros(outputs), zeros(outputs)

    def forward(self, x: Float64[Tensor, "n d"]) -> Float64[Tensor, "n k"]:
        for weight, norm in zip((self.first, self.second), self.norms, strict=True):
            x = functional.relu(norm(x, weight))
        return torch.addmm(self.bias, x, self.last) * (SCALE_FACTOR * self.log_scale).exp()


class AdditiveCoupling(Bijection):
    """y = (x1, x2 + m(x1)) over two halves of the coordinates (NICE, section 3.2); |det| = 1."""

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.halves = [size // 2, size - size // 2]
        self.shift = Conditioner(self.halves[0], self.halves[1], width, rng)

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        stays, moves = torch.split(x, self.halves, dim=1)
        return torch.cat([stays, moves + self.shift(stays)], dim=1), 0.0


class AffineCoupling(Bijection):
    """y = (x1, (x2 + m(x1)) exp(tanh s(x1))) over two halves (RealNVP, section 3.2).

    The log-scale is a tanh, as in RealNVP, so that it cannot overflow.
    """

    def __init__(self, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.halves = [size // 2, size - size // 2]
        self.shift_and_scale = Conditioner(self.halves[0], 2 * self.halves[1], width, rng)

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        stays, moves = torch.split(x, self.halves, dim=1)
        shift, log_scale = self.shift_and_scale(stays).chunk(2, dim=1)
        log_scale = log_scale.tanh()
        return torch.cat([stays, (moves + shift) * log_scale.exp()], dim=1), log_scale.sum(dim=1)


# The authors' settings (jhjacobsen/invertible-resnet, scripts/dens_est_cifar.sh and its defaults).
SPECTRAL_NORM = 0.9
POWER_ITERATIONS = 5
SERIES_TERMS = 5


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
    """The invertible residual block y = x + g(x), where g contracts (Behrmann et al. 2019).

    "Invertible Residual Networks", arXiv 1811.00995. g is a network of two hidden layers of ELU,
    each of its linear maps held to a spectral norm of at most 0.9, so that its Lipschitz constant
    is at most 0.9^3 and y has one x. log |det dy/dx| is the trace of a logarithm,
    sum_k (-1)^(k+1) tr(J^k) / k with J = dg/dx.

    As in the paper, a fit takes the first five terms of that series, their traces by Hutchinson's
    estimate from one Gaussian vector a row, and spectral norms by power iteration. Unlike there, a
    fitted block is exact: spectral norms by singular values, and the log-determinant in closed
    form, since the hidden layers are narrow: det(I + A B) = det(I + B A).
    """

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


ZUKO_TRANSFORMS = 3  # of a flow, each in the reverse order of coordinates of the one before


class ZukoBijection(Bijection):
    """An unconditional flow of the library zuko (Rozet et al., extra `zuko`), in float64."""

    def __init__(self, lazy: Any) -> None:
        super().__init__()
        self.lazy = lazy.transform.double()

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        if len(x) == 0:  # which torch cannot sum over
            return x, x.new_zeros(0)
        return self.lazy().call_and_ladj(x)


def masked_autoregressive(size: int, rng: np.random.Generator) -> ZukoBijection:
    """Affine transforms of each coordinate given those before it (Papamakarios et al. 2017).

    One hidden layer, as wide as the rows: units of a narrower one see the first coordinates alone.
    """
    return _zuko("MAF", rng, size, hidden_features=(size,))


def neural_spline(size: int, width: int, rng: np.random.Generator) -> ZukoBijection:
    """Monotonic rational-quadratic splines of one half given the other (Durkan et al. 2019)."""
    return _zuko("NSF", rng, size, passes=2, hidden_features=(width, width))


def _zuko(kind: str, rng: np.random.Generator, size: int, **settings: Any) -> ZukoBijection:
    """A flow whose first weights are drawn from the generator. Raises UsageError without zuko."""
    with extra("zuko"):
        from zuko import flows
    # zuko draws from torch's global generator alone, which is put back behind it.
    with torch.random.fork_rng(devices=()):
        torch.random.manual_seed(int(rng.integers(2**63)))
        return ZukoBijection(getattr(flows, kind)(size, transforms=ZUKO_TRANSFORMS, **settings))


class Autoencoder(LatentModel):
    """A flow inside a variational autoencoder; each loss draws noise from the seed.

    Su & Wu 2018, "f-VAEs: Improve VAEs with Conditional Flows", arXiv 1809.05861. An encoder E
    gives a row x the code y = E(x) + s u with Gaussian noise u, a decoder G reads x back from y,
    and a flow F maps codes to a standard Gaussian. The loss bounds the negative log-likelihood:

        -log N(x; G(y), t^2) + log q(y | x) - log N(F(y); 0, I) - log |det dF/dy|.

    The latent vector of a row is F(E(x)), without noise. s and t are learned for each coordinate.
    As in the authors' program (bojone/flow, f-VAEs.py) E and G are residual networks that start as
    the identity, and a code has as many coordinates as a row. Unlike there they have one block of
    linear maps instead of 36 of convolutions, G ends without a tanh, and rows pass an actnorm
    first.
    """

    def __init__(self, prior: Bijection, size: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        self.standard = Actnorm(size)
        self.encoder, self.decoder = (Conditioner(size, size, width, rng) for _ in range(2))
        self.log_noise, self.log_precision = zeros(size), zeros(size)
        self.prior = prior
        (self.noise,) = rng.spawn(1)

    def latent(self, x: Rows) -> Rows:
        """F(E(x))."""
        x, _ = self.standard(x)
        return self.prior.latent(x + self.encoder(x))

    def bits_per_dimension(self, x: Rows) -> Float64[Tensor, ""]:
        """The bound, its expectation over the noise estimated from one draw for each row."""
        x, log_det = self.standard(x)
        noise = torch.from_numpy(self.noise.normal(size=tuple(x.shape)))
        log_noise, log_precision = (SCALE_FACTOR * s for s in (self.log_noise, self.log_precision))
        code = x + self.encoder(x) + log_noise.exp() * noise
        z, prior_log_det = self.prior(code)
        error = (code + self.decoder(code) - x) * log_precision.exp()
        reconstruction = gaussian_nats(error) - log_precision.sum()
        divergence = gaussian_nats(z) - prior_log_det - gaussian_nats(noise) - log_noise.sum()
        nats = reconstruction + divergence - log_det
        return nats.mean() / (x.shape[1] * math.log(2))


@torch.no_grad()
def initialise_from_data(model: LatentModel, x: Rows) -> None:
    """Initialise every actnorm from the data that reach it of these rows (Glow, section 3.1)."""
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
    """Every actnorm, those inside the couplings among them, in the order of the layers."""
    return [module for module in model.modules() if isinstance(module, Norm)]


def _standardise(norm: Norm, inputs: tuple[Tensor, ...]) -> None:
    x, *weight = inputs
    norm.standardise(x @ weight[0] if weight else x)
