"""A flow inside a variational autoencoder (Su & Wu 2018, "f-VAEs: Improve VAEs with Conditional
Flows", arXiv 1809.05861).

An encoder E gives a row x the code y = E(x) + s u with Gaussian noise u, a decoder G reads x back
from y, and a flow F maps codes to a standard Gaussian. What is minimised bounds the negative
log-likelihood from above:

    -log N(x; G(y), t^2) + log q(y | x) - log N(F(y); 0, I) - log |det dF/dy|.

The latent vector of a row is F(E(x)), without noise. s and t are learned for each coordinate.

As in the authors' program (bojone/flow, f-VAEs.py) E and G are residual networks that start as the
identity, and a code has as many coordinates as a row. Unlike there they have one block of linear
maps instead of 36 of convolutions, G ends without a tanh, and rows pass an actnorm first.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Float64
from harness.transforms.flow_layers import (
    SCALE_FACTOR,
    Actnorm,
    Bijection,
    Conditioner,
    LatentModel,
    Rows,
    gaussian_nats,
    zeros,
)


class Autoencoder(LatentModel):
    """An autoencoder with a flow as the prior of its codes; each loss draws noise from the seed."""

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
