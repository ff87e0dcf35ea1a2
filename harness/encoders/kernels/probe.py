"""What the forward pass of a checkpoint does, found by trying it on one sentence as it is loaded.

An architecture that nobody compared must not give wrong vectors in silence: its states have to
stand for the tokens, and padding must not show in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from harness.core.errors import DataError
from harness.core.interfaces import Encoding
from harness.encoders.families import WITHOUT_PADDING

Batch = Sequence[Sequence[int]]
# Of the largest coordinate: sums in another order differ by 1e-6 in deep models, tokens that are
# seen where none are by a hundred times as much.
TRACE = 1e-4
UNMOVED = 1e-6


def require_states(name: str, kind: str, states: Sequence[torch.Tensor], length: int) -> None:
    """Refuse a model whose states are not one vector of one size for each token in every layer."""
    shapes = [tuple(state.shape) for state in states]
    unlike = [shape for shape in shapes if shape != (1, length, *shapes[-1][2:]) or len(shape) != 3]
    if unlike or len(shapes) < 2:
        found = f"{unlike[0]}" if unlike else f"{len(shapes)} of them"
        raise DataError(
            f"{name}: wanted states of the shape (1, {length}, D) from every layer of a {kind} "
            f"model for {length} tokens, found {found}; take an encoder that keeps all tokens"
        )


def sees_padding(kind: str, encode: Callable[[Batch], Encoding], ids: Sequence[int]) -> bool:
    """Whether padding changes a text's encoding: known of its architecture, or found by a trial."""
    if kind in WITHOUT_PADDING:
        return True
    short = piece(ids)
    alone, beside = encode([short]).mean[0], encode([ids, short]).mean[1]
    return not np.abs(alone - beside).max() <= TRACE * max(1.0, float(np.abs(alone).max()))


def is_causal(states: Callable[[Batch], Any], ids: Sequence[int]) -> bool:
    """Whether attention is causal: the states of a prefix are those of the prefix alone."""
    short = piece(ids)  # the last of these has neighbours behind it in the whole, however near
    whole, part = (states([row])[0][-1][0, len(short) - 1].float() for row in (ids, short))
    return bool((whole - part).abs().max() <= UNMOVED * max(1.0, float(whole.abs().max())))


def piece(ids: Sequence[int]) -> list[int]:
    """The first tokens of a sentence: fewer than all, one at least."""
    return list(ids[: max(1, len(ids) // 2)])


def by_length(encode: Callable[[Batch], Encoding], batch: Batch) -> Encoding:
    """The encoding of a batch from those of its sentences of each length."""
    lengths = np.array([len(ids) for ids in batch])
    groups = [np.flatnonzero(lengths == length).tolist() for length in np.unique(lengths)]
    parts = [encode([batch[row] for row in rows]) for rows in groups]
    back = np.argsort(np.concatenate(groups))

    def joined(name: str) -> Any:
        found = [getattr(part, name) for part in parts]
        return None if found[0] is None else np.concatenate(found)[back]

    kept = {name: joined(name) for name in ("mean", "cls", "pooler")}
    return replace(parts[0], **kept)
