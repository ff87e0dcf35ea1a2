"""The gradient of a batch that does not fit in memory, or that underflows in 16 bits.

A batch is taken in chunks by GradCache (Gao et al. 2021, arXiv 2101.06983): all vectors without a
graph, the loss over all of them and its gradient with respect to the vectors, then each chunk once
more, under the same dropout masks, with that gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Float32
from harness.core.errors import ScoreError
from harness.training.encoder import SentenceEncoder, TokenIds, token_chunks

Loss = Callable[[Float32[Tensor, "N D"]], Float[Tensor, ""]]

# What a loss in 16 bits is multiplied by: powers of two, which change no digit.
LOSS_SCALES = (4096.0, 256.0, 16.0, 1.0)


def backward_in_chunks(
    encoder: SentenceEncoder, rows: TokenIds, loss_of: Loss, chunk_tokens: int
) -> float:
    """Add the gradient of loss_of(encoder(rows)) to the parameters' gradients; return the loss.

    Activations of at most `chunk_tokens` tokens are held at a time.
    """
    order = np.argsort([len(row) for row in rows], kind="stable")
    chunks = [order[chunk] for chunk in token_chunks([rows[i] for i in order], chunk_tokens)]
    if len(chunks) == 1:
        loss = loss_of(encoder(rows))
        torch.autograd.backward(loss)
        return loss.item()
    states, vectors = [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(torch.get_rng_state())
            vectors.append(encoder([rows[i] for i in chunk]))
    final_state = torch.get_rng_state()
    places = torch.from_numpy(np.argsort(np.concatenate(chunks))).to(vectors[0].device)
    z = torch.cat(vectors)[places].requires_grad_()
    loss = loss_of(z)
    torch.autograd.backward(loss)
    gradient = cast(Tensor, z.grad)
    for chunk, state in zip(chunks, states, strict=True):
        torch.set_rng_state(state)
        recomputed = encoder([rows[i] for i in chunk])
        torch.autograd.backward(recomputed, gradient[torch.from_numpy(chunk).to(z.device)])
    torch.set_rng_state(final_state)
    return loss.item()


def with_loss_scaling(
    backward: Callable[[float], float], parameters: Iterable[nn.Parameter], half: bool
) -> float:
    """Run a backward pass with its loss scaled up, so that 16-bit gradients do not underflow.

    `backward` takes the scale, adds the gradient of the scaled loss and returns that loss. Where a
    gradient overflows, the pass is repeated at a smaller scale under the same dropout: unlike with
    a dynamic scale, no step is skipped and none depends on those before it. Raises ScoreError
    where a gradient overflows at every scale.
    """
    if not half:
        return backward(1.0)
    trained, state = list(parameters), torch.get_rng_state()
    for scale in LOSS_SCALES:
        torch.set_rng_state(state)
        loss = backward(scale)
        gradients = [p.grad for p in trained if p.grad is not None]
        if all(torch.isfinite(gradient).all() for gradient in gradients):
            torch._foreach_mul_(gradients, 1 / scale)
            return loss / scale
        torch._foreach_zero_(gradients)
    raise ScoreError("a gradient overflows 16 bits at any scale; take bf16 or float32")
