"""Flows of the library zuko (Rozet et al., extra `zuko`) as layers: no mathematics of our own."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from harness.core.provenance import extra
from harness.transforms.flow_layers import Bijection, LogDet, Rows

TRANSFORMS = 3  # of a flow, each in the reverse order of coordinates of the one before


class ZukoBijection(Bijection):
    """One of zuko's unconditional flows, in float64."""

    def __init__(self, lazy: Any) -> None:
        super().__init__()
        self.lazy = lazy.transform.double()

    def forward(self, x: Rows) -> tuple[Rows, LogDet]:
        if len(x) == 0:  # which torch cannot sum over
            return x, x.new_zeros(0)
        return self.lazy().call_and_ladj(x)

    def inverse(self, y: Rows) -> Rows:
        return self.lazy().inv(y)


def masked_autoregressive(size: int, rng: np.random.Generator) -> ZukoBijection:
    """Affine transforms of each coordinate given those before it (Papamakarios et al. 2017).

    One hidden layer, as wide as the rows: units of a narrower one see the first coordinates alone.
    """
    return _drawn("MAF", rng, size, hidden_features=(size,))


def neural_spline(size: int, width: int, rng: np.random.Generator) -> ZukoBijection:
    """Monotonic rational-quadratic splines of one half given the other (Durkan et al. 2019)."""
    return _drawn("NSF", rng, size, passes=2, hidden_features=(width, width))


def _drawn(kind: str, rng: np.random.Generator, size: int, **settings: Any) -> ZukoBijection:
    """A flow whose first weights are drawn from the generator. Raises UsageError without zuko."""
    with extra("zuko"):
        from zuko import flows
    # zuko draws from torch's global generator alone, which is put back behind it.
    with torch.random.fork_rng(devices=()):
        torch.random.manual_seed(int(rng.integers(2**63)))
        return ZukoBijection(getattr(flows, kind)(size, transforms=TRANSFORMS, **settings))
