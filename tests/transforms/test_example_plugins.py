"""The published methods of examples/plugins against their formulas, in float64."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from harness.contracts.samples import rows

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("directions", [1, 3])
def test_all_but_the_top_is_algorithm_1(directions):
    x = rows(200, 24).astype(np.float64)
    module = example("all_but_the_top")
    fitted = module.AllButTheTop(directions).fit(x, np.random.default_rng(0))
    centred = x - x.mean(axis=0)
    _, _, components = np.linalg.svd(centred, full_matrices=False)
    wanted = centred - sum(np.outer(centred @ u, u) for u in components[:directions])
    np.testing.assert_allclose(
        fitted(x), wanted, rtol=0, atol=1e-10 * np.abs(centred).max()
    )


@pytest.mark.parametrize("epsilon", ["1", "0.01"])
def test_soft_zca_is_its_formula(epsilon):
    x = rows(200, 24).astype(np.float64)
    post = example("soft_zca").soft_zca(epsilon)
    assert post.name == f"soft-zca:{epsilon}"
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    weight = vectors @ np.diag((values + float(epsilon)) ** -0.5) @ vectors.T
    wanted = (x - x.mean(axis=0)) @ weight
    fitted = post.fit(x, np.random.default_rng(0))
    np.testing.assert_allclose(
        fitted(x), wanted, rtol=0, atol=1e-10 * np.abs(wanted).max()
    )
