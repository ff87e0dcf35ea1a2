"""Gradients of batches that do not fit in memory, or whose values underflow in 16 bits.

`backward_in_chunks` holds the activations of a part of the batch at a time, and
`with_loss_scaling` scales the loss up. Both give the same gradients as a single pass, but
for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from harness.core.arrays import Float, Float32
from harness.core.errors import ScoreError
from harness.encoders.kernels.padded import TokenIds

# From the token ids of N sentences to their vectors, with a graph for gradients.
Encode = Callable[[TokenIds], Float32[Tensor, "N D"]]
# From the vectors of a batch to its loss.
Loss = Callable[[Float32[Tensor, "N D"]], Float[Tensor, ""]]

# The numbers that a loss in 16 bits is multiplied by: powers of two, which round nothing.
LOSS_SCALES = (4096.0, 256.0, 16.0, 1.0)


def backward_in_chunks(
    encode: Encode, token_ids: TokenIds, loss_of: Loss, chunk_tokens: int
) -> float:
    """Add the gradient of loss_of(encode(token_ids)) to the parameters; return the loss.

    Activations of at most `chunk_tokens` tokens are held at a time, by GradCache (Gao
    et al. 2021, arXiv 2101.06983): all vectors are computed without a graph, then the loss
    over them and its gradient, and then each chunk once more, under the same dropout
    masks, with that gradient.

    Args:
        encode: Computes the vectors of sentences, with a graph for gradients.
        token_ids: The token ids of the sentences of a batch.
        loss_of: Computes the loss of the vectors.
        chunk_tokens: The number of tokens of a chunk, at most.
    """
    order = np.argsort([len(ids) for ids in token_ids], kind="stable")
    slices = token_chunks([token_ids[row] for row in order], chunk_tokens)
    chunks = [order[rows] for rows in slices]
    if len(chunks) == 1:
        loss = loss_of(encode(token_ids))
        torch.autograd.backward(loss)
        return loss.item()

    generator_states = []
    chunk_vectors = []
    with torch.no_grad():
        for chunk in chunks:
            generator_states.append(torch.get_rng_state())
            chunk_vectors.append(encode([token_ids[row] for row in chunk]))
    final_state = torch.get_rng_state()

    device = chunk_vectors[0].device
    original_order = torch.from_numpy(np.argsort(np.concatenate(chunks))).to(device)
    vectors = torch.cat(chunk_vectors)[original_order].requires_grad_()
    loss = loss_of(vectors)
    torch.autograd.backward(loss)
    gradient = cast(Tensor, vectors.grad)

    for chunk, generator_state in zip(chunks, generator_states, strict=True):
        torch.set_rng_state(generator_state)
        recomputed = encode([token_ids[row] for row in chunk])
        rows = torch.from_numpy(chunk).to(device)
        torch.autograd.backward(recomputed, gradient[rows])
    torch.set_rng_state(final_state)
    return loss.item()


def token_chunks(token_ids: TokenIds, max_tokens: int) -> list[slice]:
    """Slices of neighbouring sentences that have at most `max_tokens` tokens in all.

    A sentence with more tokens is alone in its slice.
    """
    slices = []
    start = 0
    tokens = 0
    for row, ids in enumerate(token_ids):
        if tokens and tokens + len(ids) > max_tokens:
            slices.append(slice(start, row))
            start, tokens = row, 0
        tokens += len(ids)
    if start < len(token_ids):
        slices.append(slice(start, len(token_ids)))
    return slices


def with_loss_scaling(
    backward: Callable[[float], float],
    parameters: Iterable[nn.Parameter],
    is_half: bool,
) -> float:
    """Run a backward pass with its loss scaled up, so that 16-bit gradients do not underflow.

    If a gradient overflows, the pass is repeated at a smaller scale under the same
    dropout. So no step is skipped, and no step depends on the ones before it, as with a
    dynamic scale.

    Args:
        backward: Takes the scale, adds the gradient of the scaled loss and returns that
            loss.
        parameters: The parameters whose gradients it adds to.
        is_half: Whether it computes in 16 bits; otherwise nothing is scaled.

    Returns:
        The loss, not scaled.

    Raises:
        ScoreError: A gradient overflows at every scale.
    """
    if not is_half:
        return backward(1.0)
    trained_parameters = list(parameters)
    generator_state = torch.get_rng_state()
    for scale in LOSS_SCALES:
        torch.set_rng_state(generator_state)
        loss = backward(scale)
        gradients = [
            parameter.grad
            for parameter in trained_parameters
            if parameter.grad is not None
        ]
        if all(torch.isfinite(gradient).all() for gradient in gradients):
            torch._foreach_mul_(gradients, 1 / scale)
            return loss / scale
        torch._foreach_zero_(gradients)
    raise ScoreError("a gradient overflows 16 bits at any scale; take bf16 or float32")
