"""f-VAE: a flow between the codes of a variational autoencoder and a Gaussian.

Su and Wu 2018, "f-VAEs: Improve VAEs with Conditional Flows", arXiv 1809.05861. The
posterior of a row x is the conditional flow z = F(E(x) + s u) of Gaussian noise u, and
the likelihood of a latent vector is N(x; G(F^-1(z)), t^2).
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Float64
from harness.transforms.flow_layers import (
    SCALE_FACTOR,
    Actnorm,
    Conditioner,
    LatentModel,
    Rows,
    gaussian_nats,
    zeros,
)


class Autoencoder(LatentModel):
    """An encoder E, a decoder G and a flow F, which are fitted together.

    E and G are residual networks that start as the identity, and s and t are numbers
    that start at 1. A code has as many coordinates as a row. Rows are standardised by an
    actnorm first.
    """

    def __init__(
        self, flow: LatentModel, size: int, width: int, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.standard = Actnorm(size)
        self.encoder_residual = Conditioner(size, size, width, rng)
        self.decoder_residual = Conditioner(size, size, width, rng)
        self.log_s, self.log_t = zeros(1), zeros(1)
        self.flow = flow
        [self.rng] = rng.spawn(1)

    def latent(self, x: Rows) -> Rows:
        """F(E(x)), without noise."""
        x, _ = self.standard(x)
        return self.flow.latent(x + self.encoder_residual(x))

    def nats(self, x: Rows) -> Float64[Tensor, " n"]:
        """The bound of each row for one draw of the noise."""
        noise = self.rng.normal(size=tuple(x.shape))
        return self.bound(x, torch.from_numpy(noise))

    def bound(self, x: Rows, u: Rows) -> Float64[Tensor, " n"]:
        """Nats whose mean over Gaussian u is no less than the negative log-likelihood of x.

        With y = E(x) + s u they are

            -log N(x; G(y), t^2) + log N(y; E(x), s^2) - log N(F(y); 0, I) - log |det dF/dy|.

        The authors' equivalence: where E and G are the identity and s = t, the first two
        terms cancel. What is left is the flow's own negative log-likelihood of x + s u,
        and as s goes to 0 that of x.
        """
        x, log_det = self.standard(x)
        log_s = SCALE_FACTOR * self.log_s
        log_t = SCALE_FACTOR * self.log_t
        y = x + self.encoder_residual(x) + log_s.exp() * u
        error = y + self.decoder_residual(y) - x
        size = x.shape[1]
        reconstruction = gaussian_nats(error * (-log_t).exp()) + size * log_t
        posterior = gaussian_nats(u) + size * log_s
        return reconstruction - posterior + self.flow.nats(y) - log_det
