"""The forward pass of BERT and its kin over sentences end to end: no padding, no mask.

A batch is one matrix of tokens, sentence after sentence. Matrix products, norms and activations go
through it whole; attention goes through runs of sentences of equal length. It needs the layers of
the model, not its code, so it is read from architectures that are known to be these layers in this
order, and a pass that does not give what the model itself gives is not used (`choose.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int64
from harness.core.interfaces import Encoding
from harness.encoders.kernels.linear import Library, Linear, linear
from harness.encoders.kernels.padded import PaddedKernel, rows_of

States = Float[Tensor, "T D"]


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer, its norms behind what they normalise. `act` None is GELU by the error function."""

    qkv: Linear
    out: Linear
    attention_norm: Callable[[States], States]
    up: Linear
    act: Callable[[Tensor], Tensor] | None
    down: Linear
    norm: Callable[[States], States]


@dataclass(frozen=True, eq=False)
class Stack:
    """The layers of a model. `bias` gives what attention adds between two places, or None.

    `padding` is the id that positions are counted from and without, None where they start at 0.
    """

    embed: Callable[[Tensor, Tensor], Tensor]
    layers: tuple[Layer, ...]
    heads: int
    bias: Callable[[int], Tensor | None]
    padding: int | None


@dataclass(frozen=True, eq=False)
class Run:
    """Sentences of one length that follow each other: `first` is the place of its first token."""

    first: int
    sentences: int
    length: int

    @property
    def tokens(self) -> slice:
        """The places of its tokens."""
        return slice(self.first, self.first + self.sentences * self.length)


@dataclass(frozen=True, eq=False)
class PackedKernel:
    """The pass, its sentences in any order; it is nearer to `plain`'s than 1e-5 of the largest."""

    plain: PaddedKernel
    stack: Stack

    @property
    def model(self) -> Any:
        """The model that the layers are of."""
        return self.plain.model

    def __call__(self, batch: Sequence[Sequence[int]]) -> Encoding:
        order = sorted(range(len(batch)), key=lambda row: len(batch[row]))
        rows = [batch[row] for row in order]
        runs = _runs([len(ids) for ids in rows])
        lengths = torch.tensor([len(ids) for ids in rows])
        ends = lengths.cumsum(0)
        with torch.inference_mode():
            x = self.stack.embed(*self._inputs(rows, lengths, ends))
            shape = (len(rows), len(self.stack.layers) + 1, x.shape[1])
            mean = torch.empty(shape, device=x.device)  # float32 whatever the model's
            _keep_means(x, runs, mean[:, 0])
            for number, layer in enumerate(self.stack.layers, start=1):
                x = self._layer(layer, x, runs)
                _keep_means(x, runs, mean[:, number])
            first, last = x[(ends - lengths).to(x.device)], x[(ends - 1).to(x.device)]
            cls = last if self.plain.summary == -1 else first
            pooler = self.model.pooler(first[:, None]) if self.plain.has_pooler else None
        back = np.argsort(order)
        return Encoding(
            layers=tuple(range(mean.shape[1])),
            depth=mean.shape[1] - 1,
            mean=rows_of(mean)[back],
            cls=None if self.plain.summary is None else rows_of(cls)[back],
            pooler=None if pooler is None else rows_of(pooler)[back],
        )

    def _inputs(
        self, rows: Sequence[Sequence[int]], lengths: Int64[Tensor, " N"], ends: Int64[Tensor, " N"]
    ) -> tuple[Int64[Tensor, " T"], Int64[Tensor, " T"]]:
        """Token ids, and the position of each in its sentence as the model counts them."""
        ids = torch.tensor(list(chain.from_iterable(rows)))
        starts = (ends - lengths).repeat_interleave(lengths)
        positions = torch.arange(len(ids)) - starts
        if self.stack.padding is not None:
            # Counted up to each token; a padding token in a text has no position of its own.
            real = (ids != self.stack.padding).long()
            counted = real.cumsum(0)
            before = (counted - real)[starts]
            positions = (counted - before) * real + self.stack.padding
        return _sent(ids, self.model.device), _sent(positions, self.model.device)

    def _layer(self, layer: Layer, x: States, runs: Sequence[Run]) -> States:
        mixed = torch.empty_like(x)
        qkv = layer.qkv(x)
        for run in runs:
            self._attend(qkv[run.tokens], run, mixed[run.tokens])
        x = layer.attention_norm(layer.out.plus(mixed, x))
        wide = layer.up.gelu(x) if layer.act is None else layer.act(layer.up(x))
        return layer.norm(layer.down.plus(wide, x))

    def _attend(self, qkv: Float[Tensor, "t E"], run: Run, out: Float[Tensor, "t D"]) -> None:
        """Self-attention inside each sentence of a run, written to `out`."""
        split = qkv.view(run.sentences, run.length, 3, self.stack.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each (sentences, heads, tokens, d)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=self.stack.bias(run.length))
        out.view(run.sentences, run.length, self.stack.heads, -1).copy_(attended.transpose(1, 2))


def is_known(model: Any) -> bool:
    """Whether a model's layers can be read."""
    config = model.config
    return config.model_type in READERS and not getattr(config, "is_decoder", False)


def read_stack(model: Any, library: Library) -> Stack:
    """The layers of a model that is known, their matrix products made for a library."""
    return READERS[model.config.model_type](model, library)


def _bert(model: Any, library: Library) -> Stack:
    def read(layer: Any) -> Layer:
        inner = layer.attention.self
        return Layer(
            qkv=linear(library, inner.query, inner.key, inner.value),
            out=linear(library, layer.attention.output.dense),
            attention_norm=layer.attention.output.LayerNorm,
            up=linear(library, layer.intermediate.dense),
            act=_activation(model.config.hidden_act, layer.intermediate.intermediate_act_fn),
            down=linear(library, layer.output.dense),
            norm=layer.output.LayerNorm,
        )

    project = getattr(model, "embeddings_project", None)  # ELECTRA's, from narrower embeddings

    def embed(ids: Int64[Tensor, " T"], positions: Int64[Tensor, " T"]) -> States:
        x = model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
        return x if project is None else project(x)

    read_layers = tuple(read(layer) for layer in model.encoder.layer)
    # RoBERTa's positions start behind the padding's id; BERT's at 0.
    padding = getattr(model.embeddings, "padding_idx", None)
    return Stack(embed, read_layers, model.config.num_attention_heads, lambda _: None, padding)


def _mpnet(model: Any, library: Library) -> Stack:
    def read(layer: Any) -> Layer:
        inner = layer.attention.attn
        return Layer(
            qkv=linear(library, inner.q, inner.k, inner.v),
            out=linear(library, inner.o),
            attention_norm=layer.attention.LayerNorm,
            up=linear(library, layer.intermediate.dense),
            act=_activation(model.config.hidden_act, layer.intermediate.intermediate_act_fn),
            down=linear(library, layer.output.dense),
            norm=layer.output.LayerNorm,
        )

    def embed(ids: Int64[Tensor, " T"], positions: Int64[Tensor, " T"]) -> States:
        return model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]

    def bias(length: int) -> Float[Tensor, "1 H n n"]:
        places = torch.empty((1, length, 0), device=model.device)  # for its shape alone
        return model.encoder.compute_position_bias(places)

    read_layers = tuple(read(layer) for layer in model.encoder.layer)
    heads, padding = model.config.num_attention_heads, model.embeddings.padding_idx
    return Stack(embed, read_layers, heads, bias, padding)


def _distilbert(model: Any, library: Library) -> Stack:
    def read(layer: Any) -> Layer:
        inner = layer.attention
        return Layer(
            qkv=linear(library, inner.q_lin, inner.k_lin, inner.v_lin),
            out=linear(library, inner.out_lin),
            attention_norm=layer.sa_layer_norm,
            up=linear(library, layer.ffn.lin1),
            act=_activation(model.config.activation, layer.ffn.activation),
            down=linear(library, layer.ffn.lin2),
            norm=layer.output_layer_norm,
        )

    def embed(ids: Int64[Tensor, " T"], positions: Int64[Tensor, " T"]) -> States:
        return model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]

    read_layers = tuple(read(layer) for layer in model.transformer.layer)
    return Stack(embed, read_layers, model.config.n_heads, lambda _: None, None)


Reader = Callable[[Any, Library], Stack]
READERS: dict[str, Reader] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), _bert),
    "mpnet": _mpnet,
    "distilbert": _distilbert,
}


def _activation(name: Any, function: Callable[[Tensor], Tensor]) -> Any:
    return None if name == "gelu" else function


def _runs(lengths: Sequence[int]) -> list[Run]:
    runs, first = [], 0
    for length, equal in groupby(lengths):
        runs.append(Run(first, len(list(equal)), length))
        first += runs[-1].sentences * length
    return runs


def _keep_means(x: States, runs: Sequence[Run], mean: Float[Tensor, "N D"]) -> None:
    """Write the token mean of every sentence."""
    row = 0
    for run in runs:
        tokens = x[run.tokens].view(run.sentences, run.length, -1)
        torch.mean(tokens, dim=1, dtype=mean.dtype, out=mean[row : row + run.sentences])
        row += run.sentences


def _sent(values: Tensor, device: torch.device) -> Tensor:
    """To a device without waiting for it: from pinned memory, which a GPU reads by itself."""
    if device.type == "cpu":
        return values
    return values.pin_memory().to(device, non_blocking=True)
