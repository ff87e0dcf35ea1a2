"""The estimate of i-ResNet has no bias, its blocks contract, and f-VAE's bound is one."""

import math

import numpy as np
import pytest
import torch

from baselines.fvae import FVAE
from baselines.iresnet import IRESNET
from harness.contracts.samples import rows
from harness.transforms.flow_layers import initialise_from_data
from harness.transforms.residual_layers import ResidualBlock


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def block():
    """A block that contracts no more than it must, so that its series is long."""
    made = ResidualBlock(4, 4, rng()).requires_grad_(False)
    for weight in made.weights:
        weight += 50 * torch.eye(4)
    return made


def jacobian(model, row):
    return torch.autograd.functional.jacobian(lambda x: model(x[None])[0][0], row)


def test_the_estimated_log_determinant_has_no_bias(block):
    x = torch.from_numpy(rows(3, 4)).double()
    block.eval()
    exact = [torch.linalg.slogdet(jacobian(block, row)).logabsdet for row in x]
    block.train()
    many = x.repeat(20, 1)
    draws = [block(many)[1].view(20, 3).mean(dim=0) for _ in range(4000)]
    estimates = torch.stack(draws)
    error = estimates.std(dim=0) / math.sqrt(len(estimates))
    bias = estimates.mean(dim=0) - torch.stack(exact)
    assert (bias.abs() < 4 * error).all()
    assert error.max() < 0.02


# f-VAE


def test_the_bound_is_above_the_likelihood_by_the_divergence_of_the_posterior():
    """In one dimension, by numerical integration over the code y, in float64."""
    x = torch.from_numpy(rows(40, 1)).double()
    model, noise = FVAE.build(1, rng()), rng(1)
    initialise_from_data(model, x)
    with torch.no_grad():
        for parameter in model.parameters():
            step = noise.normal(scale=0.03, size=parameter.shape)
            parameter += torch.from_numpy(step)
        model.log_s -= 0.2
        model.log_t -= 0.1
        row = x[:1]
        inner, log_det = model.standard(row)
        s, t = (torch.exp(3 * p) for p in (model.log_s, model.log_t))
        mean = inner + model.encoder_residual(inner)
        u = torch.linspace(-10, 10, 20_001, dtype=torch.float64)[:, None]
        y = mean + s * u
        step = float(y[1] - y[0])
        decoded = y + model.decoder_residual(y)
        joint = gaussian(inner, decoded, t) * (-model.flow.nats(y)).exp()[:, None]
        posterior = gaussian(y, mean, s)
        evidence = joint.sum() * step
        likelihood = -evidence.log() - log_det
        ratio = posterior / (joint / evidence)
        divergence = (posterior * ratio.log()).sum() * step
        bounds = model.bound(row.expand(len(u), 1), u)
        bound = (bounds * posterior[:, 0]).sum() * step
    assert divergence > 1e-3
    assert float(bound) == pytest.approx(float(likelihood + divergence), rel=1e-9)


def gaussian(x, mean, scale):
    return torch.exp(-(((x - mean) / scale) ** 2) / 2) / (
        scale * math.sqrt(2 * math.pi)
    )


@pytest.mark.parametrize("post", [IRESNET, FVAE])
def test_a_fit_lowers_the_loss(post):
    losses = post.fit(rows(6400, 8), rng()).losses
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.01
