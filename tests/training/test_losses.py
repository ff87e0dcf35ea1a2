"""The losses are the published formulas, here in NumPy."""

import numpy as np
import pytest
import torch

from harness.training.objectives import info_nce, nt_xent, softmax_nli

# 1 / 0.05 multiplies what float32 rounds.
BOUNDS = {torch.float64: 1e-6, torch.float32: 2e-5}


def drawn(count, size=5, n=2, seed=0):
    """n matrices of rows."""
    return np.random.default_rng(seed).normal(size=(n, count, size))


def normalised(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def softmax(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("temperature", [0.05, 1.0])
@pytest.mark.parametrize("alpha", [None, 0.5, 1.0])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_info_nce_is_the_papers_equations_1_and_5(count, temperature, alpha, dtype):
    """-log e^(s_ii/t) / sum_j (e^(s_ij/t) + alpha^[i=j] e^(h_ij/t)); equation 1 has no h."""
    rows = drawn(count, n=3 if alpha else 2)
    x, *others = map(normalised, rows)
    logits = x @ np.concatenate(others).T / temperature
    # On the diagonal of the negatives.
    logits += np.log(alpha or 1) * np.eye(*logits.shape, k=count)
    expected = -np.log(softmax(logits).diagonal()).mean()
    a, b, *hard = torch.tensor(rows, dtype=dtype)
    loss = info_nce(a, b, temperature, *hard, hard_weight=float(np.log(alpha or 1)))
    assert loss.item() == pytest.approx(expected, abs=BOUNDS[dtype])


@pytest.mark.parametrize("count", [2, 3, 8])
def test_nt_xent_is_that_of_the_keras_version(count):
    """[a, a, b, b, ...], the diagonal pushed away, the labels [1, 0, 3, 2, ...]."""
    a, b = drawn(count)
    y_pred = normalised(np.stack([a, b], axis=1).reshape(2 * count, -1))
    idxs = np.arange(2 * count)
    y_true = idxs[None, :] == (idxs + 1 - idxs % 2 * 2)[:, None]
    shares = softmax((y_pred @ y_pred.T - np.eye(2 * count) * 1e12) * 20)
    loss = nt_xent(torch.tensor(a), torch.tensor(b), 0.05)
    assert loss.item() == pytest.approx(-np.log(shares[y_true]).mean(), abs=1e-6)


@pytest.mark.parametrize("count", [1, 5])
def test_softmax_is_the_papers_formula(count):
    """o = softmax(W (u, v, |u - v|) + b), and minus its mean logarithm."""
    u, v = drawn(count, size=4)
    [weight], [bias] = drawn(3, size=12, n=1), drawn(1, size=3, n=1, seed=1)
    labels = [0, 2, 1, 1, 0][:count]
    features = np.concatenate([u, v, np.abs(u - v)], axis=1)
    shares = softmax(features @ weight.T + bias)
    expected = -np.log(shares[range(count), labels]).mean()
    tensors = map(torch.tensor, (u, v, labels, weight, bias[0]))
    assert softmax_nli(*tensors).item() == pytest.approx(expected, abs=1e-6)
