"""The loss of a flow inside an autoencoder is the authors', and a bound."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from baselines.flow import FLOW
from baselines.other_flows import FVAE
from harness.transforms.flow_vae import Autoencoder
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
    made = model(spread=0.0)
    made.log_noise += log_noise
    made.log_precision += log_precision
    x = rows(20_000)
    scale = math.sqrt(1 + math.exp(-6 * log_precision))
    exact = -scipy.stats.norm(scale=scale).logpdf(x.numpy()).mean() / math.log(2)
    assert made.bits_per_dimension(x).item() > exact
    posterior = 1 / (1 + math.exp(6 * log_precision))  # variance of y given x
    divergence = _divergence(x.numpy(), math.exp(6 * log_noise), posterior, log_precision)
    found = made.bits_per_dimension(x).item()
    assert found == pytest.approx(exact + divergence / math.log(2), rel=0.01)


def _divergence(x: np.ndarray, noise: float, posterior: float, log_precision: float) -> float:
    """KL(N(x, noise) || p(y | x)), which the bound lies above the likelihood by, per coordinate."""
    gap = np.square(x * posterior).mean()  # the posterior mean is x (1 - posterior)
    return 0.5 * (math.log(posterior / noise) + (noise + gap) / posterior - 1)


def test_a_latent_vector_has_no_noise():
    made, x = model(), rows(7)
    shifted, _ = made.standard(x)
    torch.testing.assert_close(made.latent(x), made.prior(shifted + made.encoder(shifted))[0])
    assert torch.equal(made.latent(x), made.latent(x))


def test_noise_and_precision_are_learned():
    x = np.random.default_rng(0).normal(size=(3000, SIZE)).astype(np.float32)
    fitted = FVAE.fit(x, np.random.default_rng(0)).model
    assert (fitted.log_noise < -0.01).all()
    assert (fitted.log_precision > 0.01).all()
