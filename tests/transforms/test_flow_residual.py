"""A residual block contracts, its estimate is the paper's series, and a fitted one is exact."""

import numpy as np
import pytest
import torch

from harness.transforms.flow_layers import SERIES_TERMS, SPECTRAL_NORM, ResidualBlock

SIZE, WIDTH = 6, 4


def block(scale: float = 1.0, seed: int = 0) -> ResidualBlock:
    """A block whose weights are large enough for the bound to matter, and no gradients."""
    made = ResidualBlock(SIZE, WIDTH, np.random.default_rng(seed)).requires_grad_(False)
    for linear in made.linear:
        linear.unbounded *= 40 * scale
        linear.bias += 0.3
    return made


def rows(count: int, seed: int = 1) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, SIZE)))


def jacobians(made: ResidualBlock, x: torch.Tensor) -> list[torch.Tensor]:
    """dg/dx of each row, by autograd."""
    made.eval()
    return [
        torch.autograd.functional.jacobian(lambda one: made(one[None])[0][0] - one, row)
        for row in x
    ]


def test_every_linear_map_has_a_spectral_norm_of_at_most_the_bound():
    for linear in block().eval().linear:
        assert torch.linalg.matrix_norm(linear.unbounded, 2) > 1
        assert torch.linalg.matrix_norm(linear.weight, 2) == pytest.approx(SPECTRAL_NORM)


def test_the_power_iteration_goes_on_until_it_is_exact():
    linear = block().linear[0]
    exact = linear.eval().weight
    errors = [(linear.train().weight - exact).abs().max() for _ in range(51)]
    assert errors[-1] < errors[0]
    assert errors[-1] < 1e-12


def test_the_derivative_of_the_iterated_norm_is_that_of_the_spectral_norm():
    linear = block().linear[0].requires_grad_(True)
    for _ in range(50):
        iterated = linear.weight
    target = torch.arange(SIZE * WIDTH).reshape(SIZE, WIDTH).double()
    (found,) = torch.autograd.grad((iterated * target).sum(), linear.unbounded)
    (wanted,) = torch.autograd.grad((linear.eval().weight * target).sum(), linear.unbounded)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_the_residual_contracts():
    made, x, y = block().eval(), rows(200), rows(200, seed=2)
    moved = (made(x)[0] - x) - (made(y)[0] - y)
    assert (moved.norm(dim=1) <= SPECTRAL_NORM**3 * (x - y).norm(dim=1)).all()


def test_the_estimate_is_on_average_the_first_terms_of_the_series():
    made, x = block(), rows(2)
    series = torch.zeros(2, dtype=torch.float64)
    for k in range(1, SERIES_TERMS + 1):
        traces = [torch.linalg.matrix_power(j, k).trace() for j in jacobians(made, x)]
        series += (-1) ** (k + 1) / k * torch.stack(traces)
    for linear in made.train().linear:
        for _ in range(50):
            linear.weight  # noqa: B018 - its iteration goes on
    draws = 20_000
    estimates = made(x.repeat(draws, 1))[1].reshape(draws, 2)
    error = estimates.std(dim=0) / draws**0.5
    assert error.max() < 0.01
    assert ((estimates.mean(dim=0) - series).abs() < 4 * error).all()
    assert not torch.equal(made(x)[1], made(x)[1])  # each step draws anew
