"""Residual blocks are the paper's, the autoencoder's loss the authors', zuko's flows zuko's."""

import math
import sys

import numpy as np
import pytest
import scipy.stats
import torch

from baselines.flow import FLOW
from baselines.other_flows import MAF, NSF
from harness.core.errors import UsageError
from harness.transforms.flow_layers import (
    SERIES_TERMS,
    SPECTRAL_NORM,
    Autoencoder,
    ResidualBlock,
    masked_autoregressive,
    neural_spline,
)
from harness.transforms.flows import Architecture

SIZE, WIDTH = 6, 4
rng = np.random.default_rng


def rows(count: int) -> torch.Tensor:
    return torch.from_numpy(rng(1).normal(size=(count, SIZE)))


# Residual blocks: they contract, and the estimate is the paper's series


def block() -> ResidualBlock:
    """A block whose weights are large enough for the bound to matter, and no gradients."""
    made = ResidualBlock(SIZE, WIDTH, rng(0)).requires_grad_(False)
    for linear in made.linear:
        linear.unbounded *= 40
        linear.bias += 0.3
    return made


def test_every_linear_map_has_a_spectral_norm_of_at_most_the_bound():
    for linear in block().eval().linear:
        assert torch.linalg.matrix_norm(linear.unbounded, 2) > 1
        assert torch.linalg.matrix_norm(linear.weight, 2) == pytest.approx(SPECTRAL_NORM)


def test_the_power_iteration_goes_on_until_it_and_its_derivative_are_exact():
    linear = block().linear[0].requires_grad_(True)
    exact = linear.eval().weight
    iterated = [linear.train().weight for _ in range(51)]
    errors = [(weight - exact).abs().max() for weight in iterated]
    assert errors[-1] < errors[0]
    assert errors[-1] < 1e-12
    target = torch.arange(SIZE * WIDTH).reshape(SIZE, WIDTH).double()
    derivatives = [
        torch.autograd.grad((weight * target).sum(), linear.unbounded)[0]
        for weight in (iterated[-1], exact)
    ]
    torch.testing.assert_close(*derivatives, rtol=0, atol=1e-10)


def test_the_estimate_is_on_average_the_first_terms_of_the_series():
    made, x = block().eval(), rows(2)
    series = torch.zeros(2, dtype=torch.float64)
    for number, row in enumerate(x):
        jacobian = torch.autograd.functional.jacobian(lambda one: made(one[None])[0][0] - one, row)
        for k in range(1, SERIES_TERMS + 1):
            trace = torch.linalg.matrix_power(jacobian, k).trace()
            series[number] += (-1) ** (k + 1) / k * trace
    for linear in made.train().linear:
        for _ in range(50):
            linear.weight  # noqa: B018 - its iteration goes on
    draws = 20_000
    estimates = made(x.repeat(draws, 1))[1].reshape(draws, 2)
    error = estimates.std(dim=0) / draws**0.5
    assert error.max() < 0.01
    assert ((estimates.mean(dim=0) - series).abs() < 4 * error).all()
    assert not torch.equal(made(x)[1], made(x)[1])  # each step draws anew


# A flow inside an autoencoder


def autoencoder(spread: float = 0.1) -> Autoencoder:
    """Every parameter away from its start."""
    architecture = Architecture(2, 1, WIDTH, FLOW.step, autoencoder=True)
    made = architecture.build(SIZE, rng(0)).requires_grad_(False)
    noise = rng(1)
    for parameter in made.parameters():
        parameter += torch.from_numpy(noise.normal(scale=spread, size=parameter.shape))
    return made


def test_the_loss_is_the_authors_sum():
    """f-VAEs.py: 0.5 |r|^2 + 0.5 D log 2 pi + 0.5 |z|^2 - 0.5 |u|^2, less each log-determinant."""
    made, x = autoencoder(), rows(7)
    (noise,) = rng(0).spawn(1)
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
    made, x = autoencoder(spread=0.0), rows(20_000)
    made.log_noise += log_noise
    made.log_precision += log_precision
    density = scipy.stats.norm(scale=math.sqrt(1 + math.exp(-6 * log_precision)))
    assert made.bits_per_dimension(x).item() > -density.logpdf(x.numpy()).mean() / math.log(2)


def test_a_latent_vector_has_no_noise():
    made, x = autoencoder(), rows(7)
    shifted, _ = made.standard(x)
    torch.testing.assert_close(made.latent(x), made.prior(shifted + made.encoder(shifted))[0])
    assert torch.equal(made.latent(x), made.latent(x))


# zuko's flows


def test_the_density_is_zukos():
    zuko = pytest.importorskip("zuko", reason="zuko is not installed: pip install zuko")
    coupling = {"bins": 8, "passes": 2, "hidden_features": (WIDTH, WIDTH)}
    x = rows(9)
    for ours, theirs in (
        (masked_autoregressive(SIZE, rng(0)), zuko.flows.MAF(SIZE, 0, 3, hidden_features=(SIZE,))),
        (neural_spline(SIZE, WIDTH, rng(0)), zuko.flows.NSF(SIZE, 0, transforms=3, **coupling)),
    ):
        theirs = theirs.double()
        theirs.transform.load_state_dict(ours.lazy.state_dict())
        expected = -theirs().log_prob(x).mean() / SIZE / np.log(2)
        torch.testing.assert_close(ours.bits_per_dimension(x), expected)


@pytest.mark.parametrize("post", [MAF, NSF], ids=["maf", "nsf"])
def test_without_zuko_the_error_names_the_extra(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "zuko", None)
    with pytest.raises(UsageError, match=r"zuko is not installed.*harness\[zuko\]'$"):
        post.fit(rng(0).normal(size=(20, 4)), rng(0))
