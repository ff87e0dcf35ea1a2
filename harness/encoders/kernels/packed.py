"""The forward pass of BERT and its kin over sentences end to end: no padding, no mask.

A batch is one matrix of tokens, sentence after sentence. Matrix products, norms and activations go
through it whole; attention goes through runs of sentences of equal length. It needs the layers of
the model, not its code, so it is read from architectures that are known to be these layers in this
order, and a pass that does not give what the model itself gives is not used (`choose.py`).

Matrices are multiplied by torch, or by oneDNN over weights packed once, which is several times as
fast on some processors; a row of oneDNN's product does not depend on how many rows there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int64
from harness.core.interfaces import Encoding
from harness.encoders.kernels.padded import PaddedKernel, rows_of

# oneDNN keeps code for every number of rows that it has seen, by default for 1024: some hundred
# megabytes, of which a batch uses four and hardly ever finds those of another. Read at its first
# product, and left as it is where somebody has set it.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

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


@dataclass(frozen=True)
class Names:
    """The places of a layer's modules inside a model, one architecture's."""

    layers: str
    qkv: tuple[str, str, str]
    out: str
    attention_norm: str
    up: str
    act: str
    down: str
    norm: str


BERT = Names(
    layers="encoder.layer",
    qkv=("attention.self.query", "attention.self.key", "attention.self.value"),
    out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    act="intermediate.intermediate_act_fn",
    down="output.dense",
    norm="output.LayerNorm",
)
MPNET = replace(
    BERT,
    qkv=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    out="attention.attn.o",
    attention_norm="attention.LayerNorm",
)
DISTILBERT = Names(
    layers="transformer.layer",
    qkv=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    out="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    act="ffn.activation",
    down="ffn.lin2",
    norm="output_layer_norm",
)
ARCHITECTURES: dict[str, Names] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), BERT),
    "mpnet": MPNET,
    "distilbert": DISTILBERT,
}


def is_known(model: Any) -> bool:
    """Whether a model's layers can be read."""
    config = model.config
    return config.model_type in ARCHITECTURES and not getattr(config, "is_decoder", False)


def read_stack(model: Any, library: Library) -> Stack:
    """The layers of a model that is known, their matrix products made for a library."""
    config, names = model.config, ARCHITECTURES[model.config.model_type]
    act = config.activation if names is DISTILBERT else config.hidden_act

    def read(layer: Any) -> Layer:
        at = layer.get_submodule
        return Layer(
            qkv=linear(library, *map(at, names.qkv)),
            out=linear(library, at(names.out)),
            attention_norm=at(names.attention_norm),
            up=linear(library, at(names.up)),
            act=None if act == "gelu" else attrgetter(names.act)(layer),
            down=linear(library, at(names.down)),
            norm=at(names.norm),
        )

    project = getattr(model, "embeddings_project", None)  # ELECTRA's, from narrower embeddings

    def embed(ids: Int64[Tensor, " T"], positions: Int64[Tensor, " T"]) -> States:
        x = model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
        return x if project is None else project(x)

    def bias(length: int) -> Float[Tensor, "1 H n n"] | None:
        if names is not MPNET:
            return None
        places = torch.empty((1, length, 0), device=model.device)  # for its shape alone
        return model.encoder.compute_position_bias(places)

    layers = tuple(map(read, model.get_submodule(names.layers)))
    # RoBERTa's and MPNet's positions start behind the padding's id, the others' at 0.
    padding = getattr(model.embeddings, "padding_idx", None)
    return Stack(embed, layers, config.num_attention_heads, bias, padding)


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


Library = Literal["torch", "onednn"]
Input = Float[Tensor, "T I"]
Output = Float[Tensor, "T O"]


@runtime_checkable
class Linear(Protocol):
    """x W^T + b, alone, through GELU (by the error function), or with another matrix added."""

    def __call__(self, x: Input) -> Output: ...
    def gelu(self, x: Input) -> Output: ...
    def plus(self, x: Input, other: Output) -> Output: ...


@dataclass(frozen=True, eq=False)
class TorchLinear:
    """A linear layer by torch's own product."""

    weight: Float[Tensor, "O I"]
    bias: Float[Tensor, " O"] | None

    def __call__(self, x: Input) -> Output:
        return F.linear(x, self.weight, self.bias)

    def gelu(self, x: Input) -> Output:
        return F.gelu(self(x))

    def plus(self, x: Input, other: Output) -> Output:
        return self(x).add_(other)


@dataclass(frozen=True, eq=False)
class OneDnnLinear:
    """A linear layer by oneDNN over its own layout of the weights, with GELU or sum fused in."""

    packed: Any  # a tensor of no strides
    bias: Float[Tensor, " O"] | None

    def __call__(self, x: Input) -> Output:
        return _onednn()(x, self.packed, self.bias, "none", [], "")

    def gelu(self, x: Input) -> Output:
        return _onednn()(x, self.packed, self.bias, "gelu", [], "none")

    def plus(self, x: Input, other: Output) -> Output:
        return _onednn().binary(x, other, self.packed, self.bias, "add")


def linear(library: Library, *layers: Any) -> Linear:
    """Layers over one input as a single product, their outputs side by side."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    biases = [layer.bias for layer in layers]
    bias = None if None in biases else torch.cat([bias.detach() for bias in biases])
    if library == "torch":
        return TorchLinear(weight, bias)
    return OneDnnLinear(torch.ops.mkldnn._reorder_linear_weight(weight, None), bias)


def has_onednn(model: Any) -> bool:
    """Whether oneDNN can multiply a model's matrices: float32 or bfloat16 ones in main memory.

    The operations are not part of torch's stable interface, and a build may lack them; a
    processor may lack products of bfloat16.
    """
    weights = next(model.parameters())
    if weights.device.type != "cpu" or weights.dtype not in (torch.float32, torch.bfloat16):
        return False
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not available or not all(hasattr(torch.ops.mkldnn, name) for name in names):
        return False
    whole = weights.dtype == torch.float32
    return whole or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def swapped(model: Any) -> Any:
    """A copy of a model over the same weights, its linear layers multiplied by oneDNN.

    They keep their own form of the weights, which some architectures read past the layer's call.
    """
    tensors = (*model.parameters(), *model.buffers())
    copy = deepcopy(model, {id(tensor): tensor for tensor in tensors})
    for module in copy.modules():
        if type(module) is nn.Linear:
            module.forward = partial(_flat, linear("onednn", module))  # type: ignore[method-assign]
    return copy


def _flat(layer: Linear, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
    return layer(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], -1)


def _onednn() -> Any:
    return torch.ops.mkldnn._linear_pointwise
