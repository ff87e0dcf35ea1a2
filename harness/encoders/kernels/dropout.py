"""An encoder that leaves its dropout on, as in training: no two passes over a sentence are alike.

What some methods are fitted on: BERT-flow's released code (Li et al. 2020, arXiv 2011.05864) fits
beside an encoder that is frozen and yet in training mode. Which units are dropped depends on the
seed, on the passes before, and on which sentences share a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from harness.core.errors import UsageError
from harness.core.interfaces import Encoding
from harness.encoders.kernels.padded import PaddedKernel

# Who shares a batch is part of the draw, so this is the same on every machine; small, because the
# masks of a batch that no core's cache holds take twice the time.
TOKENS_PER_BATCH = 1024


@dataclass(frozen=True, eq=False)
class DroppingKernel:
    """The plain forward pass in training mode; each one draws a new seed from `draws`."""

    plain: PaddedKernel
    draws: np.random.Generator

    def __call__(self, batch: Sequence[Sequence[int]]) -> Encoding:
        model = self.plain.model
        # Dropout draws from the global generators alone, and these are put back behind it.
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            torch.random.manual_seed(self.draw())
            model.train()
            try:
                return self.plain(batch)
            finally:
                model.eval()

    def draw(self) -> int:
        """The seed of the next pass."""
        return int(self.draws.integers(2**63))


def dropping(name: str, plain: PaddedKernel, seed: int) -> DroppingKernel:
    """The plain pass with dropout on. Raises UsageError for a checkpoint that has none."""
    modules = plain.model.modules()
    if not any(isinstance(module, nn.Dropout) and module.p > 0 for module in modules):
        raise UsageError(
            f"{name}: wanted an encoder with dropout, found no probability above 0 in its "
            "configuration; its encodings with and without are the same"
        )
    return DroppingKernel(plain, np.random.default_rng(seed))
