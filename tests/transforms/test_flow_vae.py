"""The loss of a flow inside an autoencoder is the authors', and a bound."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from baselines.flow import FLOW
from harness.transforms.flow_layers import Autoencoder
from harness.transforms.flows import Architecture

SIZE = 5


def model(seed: int = 0, spread: float = 0.1) -> Autoencoder:
    """Every parameter away from its start."""
    architecture = Architecture(2, 1, 4, FLOW.step, autoencoder=True)
    made = architecture.build(SIZE, np.random.default_rng(seed)).requires_grad_(False)
    noise = np.random.default_rng(seed + 1)
    for parameter in made.parameters():
        parameter += torch.from_numpy(noise.normal(scale=spread, size=parameter.shape))
    return made


def rows(count: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(2).normal(size=(count, SIZE)))


def test_the_loss_is_the_authors_sum():
    """f-VAEs.py: 0.5 |r|^2 + 0.5 D log 2 pi + 0.5 |z|^2 - 0.5 |u|^2, less each log-determinant."""
    made, x = model(), rows(7)
    (noise,) = np.random.default_rng(0).spawn(1)
    u = noise.normal(size=(7, SIZE))
    shifted, log_det = made.standard(x)
    code = shifted + made.encoder(shifted) + (3 * made.log_noise).exp() * torch.from_numpy(u)
    error = (code + made.decoder(code) - shifted) * (3 * made.log_precision).exp()
    z, flow_log_det = made.prior(code)
    sums = [part.square().sum(dim=1) for part in (error, z, torch.from_numpy(u))]
    nats = 0.5 * (sums[0] + sums[1] - sums[2]) + 0.5 * SIZE * math.log(2 * math.pi)
    nats = nats - 3 * made.log_precision.sum() - 3 * made.log_noise.sum() - flow_log_det - log_det
    expected = nats.mean().item() / SIZE / math.log(2)
    assert made.bits_per_dimension(x).item() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("log_noise", "log_precision"), [(0.0, 0.0), (-0.3, 0.2), (-1.0, 0.5)])
def test_the_loss_bounds_the_negative_log_likelihood(log_noise, log_precision):
    """With identities for E, G and F, rows are Gaussian of variance 1 + exp(-6 t)."""
    made, x = model(spread=0.0), rows(20_000)
    made.log_noise += log_noise
    made.log_precision += log_precision
    density = scipy.stats.norm(scale=math.sqrt(1 + math.exp(-6 * log_precision)))
    assert made.bits_per_dimension(x).item() > -density.logpdf(x.numpy()).mean() / math.log(2)


def test_a_latent_vector_has_no_noise():
    made, x = model(), rows(7)
    shifted, _ = made.standard(x)
    torch.testing.assert_close(made.latent(x), made.prior(shifted + made.encoder(shifted))[0])
    assert torch.equal(made.latent(x), made.latent(x))
