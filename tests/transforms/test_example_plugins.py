"""The published methods of examples/plugins against their formulas, in float64."""

import importlib.util

import numpy as np
from processes import ROOT

from harness.contracts.samples import rows

EXAMPLES = ROOT / "examples" / "plugins"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_but_the_top_is_algorithm_1():
    x = rows(200, 24).astype(np.float64)
    module = example("all_but_the_top")
    fitted = module.AllButTheTop(3).fit(x, np.random.default_rng(0))
    centred = x - x.mean(axis=0)
    top = np.linalg.svd(centred, full_matrices=False)[2][:3]
    np.testing.assert_allclose(fitted(x), centred - centred @ top.T @ top, atol=1e-9)


def test_soft_zca_is_its_formula():
    x = rows(200, 24).astype(np.float64)
    post = example("soft_zca").soft_zca("0.01")
    assert post.name == "soft-zca:0.01"
    values, vectors = np.linalg.eigh(np.cov(x.T, bias=True))
    weight = vectors @ np.diag((values + 0.01) ** -0.5) @ vectors.T
    fitted = post.fit(x, np.random.default_rng(0))
    np.testing.assert_allclose(fitted(x), (x - x.mean(axis=0)) @ weight, atol=1e-9)
