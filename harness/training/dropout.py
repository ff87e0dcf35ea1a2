"""Dropout with masks from a fast generator, reproducible from the state of torch's generator.

On a CPU, torch draws masks from its Mersenne twister, which takes longer than the layer around
them. Here one number of torch's generator seeds an SFC64 generator for a whole forward pass, of
which every mask value takes 16 bits.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float
from harness.core.errors import UsageError

STEPS = 1 << 16  # a probability is rounded to a multiple of 1 / STEPS


class Noise:
    """The random bits of a forward pass, for all its masks in the order of their use.

    Processes whose torch generators share a state differ by their `stream`.
    """

    def __init__(self, stream: int = 0) -> None:
        self.stream, self.bits = stream, np.random.SFC64(0)

    def restart(self, device: str) -> None:
        """Reseed from one number of torch's generator, on a GPU its own generator too."""
        seed = int(torch.randint(1 << 62, ()))
        if torch.device(device).type == "cuda":
            torch.cuda.manual_seed(seed + self.stream)
        self.bits = np.random.SFC64((seed, self.stream))

    def mask(self, like: Float[Tensor, "..."], p: float) -> Float[Tensor, "..."]:
        """Independent values: 0 with probability p, else 1 / (1 - p)."""
        count, dropped = like.numel(), min(round(p * STEPS), STEPS - 1)
        words = self.bits.random_raw(-(-count // 4)).view(np.uint16)[:count]
        kept = torch.from_numpy((words >= dropped).view(np.uint8))  # converted faster than bool
        return kept.view(like.shape).to(like.dtype).mul_(STEPS / (STEPS - dropped))


class Dropout(nn.Module):
    """`nn.Dropout` whose masks on a CPU come from the noise of a forward pass."""

    def __init__(self, p: float, noise: Noise) -> None:
        super().__init__()
        self.p, self.noise = p, noise

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * self.noise.mask(x, self.p)


def use_dropout(model: nn.Module, p: float | None, noise: Noise) -> None:
    """Replace every dropout of the model, in place; p None keeps each module's own probability.

    Raises UsageError for a probability outside [0, 1).
    """
    if p is not None and not 0 <= p < 1:
        raise UsageError(f"wanted a dropout probability from 0 to below 1, found {p}")
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Dropout):
                setattr(module, name, Dropout(child.p if p is None else p, noise))
        for name, value in list(vars(module).items()):
            if "dropout" in name and isinstance(value, float):  # T5 and BART call the function
                setattr(module, name, value if p is None else p)
