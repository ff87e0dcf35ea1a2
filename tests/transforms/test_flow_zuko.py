"""zuko's flows are zuko's: its own density, its own transforms; without it the extra is named."""

import sys

import numpy as np
import pytest
import torch

from baselines.other_flows import MAF, NSF
from harness.core.errors import UsageError
from harness.transforms.flow_layers import masked_autoregressive, neural_spline

zuko = pytest.importorskip("zuko", reason="zuko is not installed: pip install zuko")


def flows(size: int = 6):
    """Ours, and zuko's own with equal weights."""
    rng = np.random.default_rng
    theirs = zuko.flows.MAF(size, transforms=3, hidden_features=(size,))
    yield masked_autoregressive(size, rng(0)), theirs
    coupling = {"bins": 8, "passes": 2, "hidden_features": (4, 4)}
    yield neural_spline(size, 4, rng(0)), zuko.flows.NSF(size, transforms=3, **coupling)


def test_the_density_is_zukos():
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(9, 6)))
    for ours, theirs in flows():
        theirs = theirs.double()
        theirs.transform.load_state_dict(ours.lazy.state_dict())
        expected = -theirs().log_prob(x).mean() / 6 / np.log(2)
        torch.testing.assert_close(ours.bits_per_dimension(x), expected)


@pytest.mark.parametrize("post", [MAF, NSF], ids=["maf", "nsf"])
def test_without_zuko_the_error_names_the_extra(post, monkeypatch):
    monkeypatch.setitem(sys.modules, "zuko", None)
    x = np.random.default_rng(0).normal(size=(20, 4))
    with pytest.raises(UsageError, match=r"zuko is not installed.*harness\[zuko\]'$"):
        post.fit(x, np.random.default_rng(0))
