"""The losses and their gradients are the published formulas, here in NumPy."""

import numpy as np
import pytest
import torch

from harness.training.contrastive import info_nce, nt_xent
from harness.training.siamese import softmax_nli


def drawn(count, size=5, n=2, seed=0, dtype=torch.float64):
    """n matrices of rows, with gradients."""
    rng = np.random.default_rng(seed)
    matrices = [torch.tensor(rng.normal(size=(count, size))) for _ in range(n)]
    return [matrix.to(dtype).requires_grad_() for matrix in matrices]


def normalised(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def through_norm(x, gradient):
    """The gradient by x of something whose gradient by x / |x| is given."""
    unit = normalised(x)
    along = (gradient * unit).sum(axis=1, keepdims=True)
    return (gradient - along * unit) / np.linalg.norm(x, axis=1, keepdims=True)


def softmax(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def equation_5(rows, temperature, log_alpha):
    """-log e^(s_ii/t) / sum_j (e^(s_ij/t) + alpha^[i=j] e^(h_ij/t)), and its gradients.

    Rows are of the sentences and the positives; with the hard negatives, which equation
    1 has not.
    """
    count, (x, *others) = len(rows[0]), map(normalised, rows)
    logits = x @ np.concatenate(others).T / temperature
    logits += log_alpha * np.eye(
        *logits.shape, k=count
    )  # on the diagonal of the negatives
    shares = softmax(logits)
    pull = (shares - np.eye(*shares.shape)) / temperature / count
    gradients = [pull @ np.concatenate(others), *np.split(pull.T @ x, len(others))]
    return -np.log(shares.diagonal()).mean(), [*map(through_norm, rows, gradients)]


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("alpha", [None, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_info_nce_and_its_gradient_are_the_papers_equations_1_and_5(
    count, temperature, alpha, dtype
):
    rows = drawn(count, n=3 if alpha else 2, dtype=dtype)
    log_alpha = np.log(alpha or 1)
    loss = info_nce(
        rows[0], rows[1], temperature, *rows[2:], hard_weight=float(log_alpha)
    )
    loss.backward()
    in_numpy = [x.detach().double().numpy() for x in rows]
    expected, gradients = equation_5(in_numpy, temperature, log_alpha)
    # 1 / 0.05 multiplies what float32 rounds
    bound = 1e-6 if dtype == torch.float64 else 2e-5
    assert loss.item() == pytest.approx(expected, abs=bound)
    for x, gradient in zip(rows, gradients, strict=True):
        np.testing.assert_allclose(x.grad, gradient, atol=bound)


@pytest.mark.parametrize("count", [2, 3, 8])
def test_nt_xent_is_that_of_the_keras_version(count):
    """[a, a, b, b, ...], the diagonal pushed away, the labels [1, 0, 3, 2, ...]."""
    a, b = drawn(count)
    loss = nt_xent(a, b, 0.05)
    loss.backward()
    rows = np.stack([a.detach().numpy(), b.detach().numpy()], axis=1).reshape(
        2 * count, -1
    )
    y_pred = normalised(rows)
    idxs = np.arange(2 * count)
    y_true = idxs[None, :] == (idxs + 1 - idxs % 2 * 2)[:, None]
    shares = softmax((y_pred @ y_pred.T - np.eye(2 * count) * 1e12) * 20)
    assert loss.item() == pytest.approx(-np.log(shares[y_true]).mean(), abs=1e-6)
    pull = (shares - y_true) * 20 / (2 * count)
    gradient = through_norm(rows, (pull + pull.T) @ y_pred)
    np.testing.assert_allclose(a.grad, gradient[::2], atol=1e-6)
    np.testing.assert_allclose(b.grad, gradient[1::2], atol=1e-6)


@pytest.mark.parametrize("count", [1, 5])
def test_softmax_and_its_gradient_are_the_papers_formula(count):
    """o = softmax(W (u, v, |u - v|) + b), and minus its mean logarithm."""
    u, v = drawn(count, size=4)
    [weight], [bias] = drawn(3, size=12, n=1), drawn(1, size=3, n=1, seed=1)
    labels = torch.tensor([0, 2, 1, 1, 0][:count])
    loss = softmax_nli(u, v, labels, weight, bias[0])
    loss.backward()
    a, b, W = (x.detach().numpy() for x in (u, v, weight))
    x = np.concatenate([a, b, np.abs(a - b)], axis=1)
    shares = softmax(x @ W.T + bias.detach().numpy())
    assert loss.item() == pytest.approx(
        -np.log(shares[range(count), labels]).mean(), abs=1e-6
    )
    pull = (shares - np.eye(3)[labels]) / count
    into = pull @ W
    apart = np.sign(a - b) * into[:, 8:]
    np.testing.assert_allclose(u.grad, into[:, :4] + apart, atol=1e-6)
    np.testing.assert_allclose(v.grad, into[:, 4:8] - apart, atol=1e-6)
    np.testing.assert_allclose(weight.grad, pull.T @ x, atol=1e-6)
    np.testing.assert_allclose(bias.grad[0], pull.sum(axis=0), atol=1e-6)
