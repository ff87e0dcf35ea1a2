"""Forward passes with gradients over sequences of unequal lengths: packed, or padded.

Both return hidden states as one matrix (T, D), the tokens of all sentences one after another.
`packed_states` calls the modules of a BERT or RoBERTa one by one, so that matrix products see every
token once and no padding. `padded_states` calls the forward pass of any encoder.
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

TokenIds = Sequence[Sequence[int]]  # the token ids of sentences
Groups = list[tuple[int, int]]  # runs of sentences of equal length: (count, length)


def groups_of(lengths: Int[np.ndarray, " N"]) -> Groups:
    """Runs of equal lengths; ascending lengths make few of them."""
    return [(len(list(run)), int(length)) for length, run in groupby(lengths)]


def packed_states(
    model: Any, rows: TokenIds, layers: Sequence[int], places: Int64[Tensor, " N"] | None = None
) -> dict[int, Float[Tensor, "T D"]]:
    """The hidden states of these layers, 0 being the embedding layer's output.

    With `places`, one token of each sentence, the last layer is computed for those alone: (N, D).
    """
    groups = groups_of(np.array([len(row) for row in rows]))
    ids = torch.tensor(list(chain.from_iterable(rows)))
    first = getattr(model.embeddings, "padding_idx", -1) + 1  # RoBERTa's positions start behind it
    positions = torch.cat([torch.arange(first, first + L).repeat(n) for n, L in groups])
    h = model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
    states, depth = {0: h}, len(model.encoder.layer)
    for number, layer in enumerate(model.encoder.layer, start=1):
        x = h if places is None or number < depth else h[places]
        attended = layer.attention.output(_self_attention(layer.attention.self, x, h, groups), x)
        h = layer.output(layer.intermediate(attended), attended)
        if number in layers:
            states[number] = h
    return {layer: states[layer] for layer in layers}


def _self_attention(
    attention: Any, x: Float[Tensor, "Q D"], h: Float[Tensor, "T D"], groups: Groups
) -> Float[Tensor, "Q D"]:
    """Attention inside each sentence. Queries are all its tokens, or x holds one of each."""
    tokens = [n * L for n, L in groups]
    asking = tokens if len(x) == len(h) else [n for n, _ in groups]
    queries = torch.split(attention.query(x), asking)
    keys, values = torch.split(attention.key(h), tokens), torch.split(attention.value(h), tokens)
    outputs = []
    for (n, _), *qkv in zip(groups, queries, keys, values, strict=True):
        heads = (n, -1, attention.num_attention_heads, attention.attention_head_size)
        q, k, v = (matrix.view(heads).transpose(1, 2) for matrix in qkv)  # (n, heads, tokens, d)
        if attention.training and attention.dropout.p > 0:
            weights = torch.softmax(q @ k.transpose(2, 3) * attention.scaling, dim=-1)
            mixed = attention.dropout(weights) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        outputs.append(mixed.transpose(1, 2).reshape(len(qkv[0]), -1))
    return torch.cat(outputs)


def padded_states(
    model: Any, rows: TokenIds, layers: Sequence[int], padding: int
) -> dict[int, Float[Tensor, "T D"]]:
    """The hidden states of these layers by the encoder's own forward pass over a padded batch.

    The last layer's are the model's `last_hidden_state`: behind a final norm, where there is one.
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
