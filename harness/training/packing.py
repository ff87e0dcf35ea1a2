"""Forward passes that keep hidden states by the token: packed without padding, or padded.

Both give the states of all tokens of a batch as one matrix (T, D), sentence after sentence.
`packed_states` goes through the modules of a BERT or RoBERTa itself: its matrix products then see
every token once, and no padding. `padded_states` takes any encoder's own forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int, Int64

Rows = Sequence[Sequence[int]]  # the token ids of sentences
Groups = list[tuple[int, int]]  # so many sentences of this length, in their order


def groups_of(lengths: Int[np.ndarray, " N"]) -> Groups:
    """Runs of equal lengths; ascending lengths make few of them."""
    return [(len(list(run)), int(length)) for length, run in groupby(lengths)]


def packed_states(
    model: Any, rows: Rows, layers: Sequence[int], places: Int64[Tensor, " N"] | None = None
) -> dict[int, Float[Tensor, "T D"]]:
    """The hidden states of these layers, 0 being the embedding layer's output.

    With `places`, one token of each sentence, the last layer holds those alone (N, D): nothing
    else of it is computed.
    """
    groups = groups_of(np.array([len(row) for row in rows]))
    ids = torch.tensor(list(chain.from_iterable(rows)))
    first = getattr(model.embeddings, "padding_idx", -1) + 1  # RoBERTa's positions start behind it
    positions = torch.cat([torch.arange(first, first + L).repeat(n) for n, L in groups])
    h = model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
    states, depth = {0: h}, len(model.encoder.layer)
    for number, layer in enumerate(model.encoder.layer, start=1):
        asked = h if places is None or number < depth else h[places]
        told = layer.attention.output(_attended(layer.attention.self, asked, h, groups), asked)
        h = layer.output(layer.intermediate(told), told)
        if number in layers:
            states[number] = h
    return {layer: states[layer] for layer in layers}


def _attended(
    attention: Any, asked: Float[Tensor, "Q D"], h: Float[Tensor, "T D"], groups: Groups
) -> Float[Tensor, "Q D"]:
    """Self-attention inside each sentence; every token asks, or one token of each sentence."""
    one = len(asked) < len(h)
    split = [n * L for n, L in groups]
    queries = torch.split(attention.query(asked), [n for n, _ in groups] if one else split)
    keys, values = torch.split(attention.key(h), split), torch.split(attention.value(h), split)
    found = []
    for (n, _), *parts in zip(groups, queries, keys, values, strict=True):
        heads = (n, -1, attention.num_attention_heads, attention.attention_head_size)
        q, k, v = (part.view(heads).transpose(1, 2) for part in parts)  # (n, heads, tokens, d)
        if attention.training and attention.dropout.p > 0:
            weights = torch.softmax(q @ k.transpose(2, 3) * attention.scaling, dim=-1)
            mixed = attention.dropout(weights) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        found.append(mixed.transpose(1, 2).reshape(len(parts[0]), -1))
    return torch.cat(found)


def padded_states(
    model: Any, rows: Rows, layers: Sequence[int], padding: int
) -> dict[int, Float[Tensor, "T D"]]:
    """The hidden states of these layers as the encoder's own forward pass makes them.

    The last one is as the model returns it: after a final norm, where there is one.
    """
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    ids = torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])
    mask = torch.arange(width) < lengths[:, None]
    ids, mask = ids.to(model.device), mask.to(model.device)
    out = model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True)
    states = (*out.hidden_states[:-1], out.last_hidden_state)
    return {layer: states[layer][mask] for layer in layers}


def token_means(
    states: Float[Tensor, "T D"], lengths: Int[np.ndarray, " N"]
) -> Float[Tensor, "N D"]:
    """The mean over each sentence's tokens."""
    groups = groups_of(lengths)
    runs = zip(groups, torch.split(states, [n * L for n, L in groups]), strict=True)
    return torch.cat([run.view(n, L, -1).mean(dim=1) for (n, L), run in runs])
