"""The gradient of a loss over a whole batch, whatever part of the batch fits in memory.

GradCache (Gao et al. 2021, arXiv 2101.06983): all vectors without a graph, the loss over all of
them and its gradient by the vectors, then one portion after the other again, under the same
dropout. So a batch that is taken in portions has all its negatives, and the same gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Float32
from harness.core.errors import ScoreError
from harness.training.encoder import SentenceEncoder, portions
from harness.training.packing import Rows

Loss = Callable[[Float32[Tensor, "N D"]], Float[Tensor, ""]]

# Powers of two, since those change no digit: what a loss in 16 bits is multiplied by.
SCALES = (4096.0, 256.0, 16.0, 1.0)


def gradient(tower: SentenceEncoder, rows: Rows, loss_of: Loss, at_once: int) -> float:
    """Add the gradient of loss_of(tower(rows)) to the parameters; returns the loss.

    `at_once` is the number of tokens whose activations are held at a time.
    """
    order = np.argsort([len(row) for row in rows], kind="stable")
    parts = [order[part] for part in portions([rows[i] for i in order], at_once)]
    if len(parts) == 1:
        loss = loss_of(tower(rows))
        torch.autograd.backward(loss)
        return loss.item()
    states, found = [], []
    with torch.no_grad():
        for part in parts:
            states.append(torch.get_rng_state())
            found.append(tower([rows[i] for i in part]))
    after = torch.get_rng_state()
    places = torch.from_numpy(np.argsort(np.concatenate(parts))).to(found[0].device)
    z = torch.cat(found)[places].requires_grad_()
    loss = loss_of(z)
    torch.autograd.backward(loss)
    wanted = cast(Tensor, z.grad)
    for part, state in zip(parts, states, strict=True):
        torch.set_rng_state(state)
        again = tower([rows[i] for i in part])
        torch.autograd.backward(again, wanted[torch.from_numpy(part).to(z.device)])
    torch.set_rng_state(after)
    return loss.item()


def scaled(run: Callable[[float], float], parameters: Iterable[nn.Parameter], half: bool) -> float:
    """Run a backward pass whose loss is multiplied so that 16-bit gradients do not vanish.

    `run` takes the factor and adds its gradient, which is then divided by it. Where a number
    overflows, the pass is repeated with a smaller factor and the same dropout: no step is skipped,
    and none depends on those before. Raises ScoreError where it overflows at any.
    """
    if not half:
        return run(1.0)
    held, state = list(parameters), torch.get_rng_state()
    for scale in SCALES:
        torch.set_rng_state(state)
        loss = run(scale)
        gradients = [p.grad for p in held if p.grad is not None]
        if all(torch.isfinite(g).all() for g in gradients):
            torch._foreach_mul_(gradients, 1 / scale)
            return loss / scale
        torch._foreach_zero_(gradients)
    raise ScoreError("a gradient overflows 16 bits at any scale; take bf16 or float32")
