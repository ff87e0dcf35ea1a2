"""The forward pass of BERT and its kin over sentences end to end: no padding, no mask.

A batch is one matrix of tokens, sentence after sentence. Matrix products, norms and
activations go through it whole; attention goes through runs of sentences of equal
length. It needs the layers of the model, not its code, so it is read from architectures
that are known to be these layers in this order, and a pass that does not give what the
model itself gives is not used (`choose.py`).

Matrices are multiplied by torch, or by oneDNN over weights packed once, which is
several times as fast on some processors; a row of oneDNN's product does not depend on
how many rows there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float, Int64
from harness.core.interfaces import Encoding
from harness.encoders.kernels.padded import PaddedKernel, to_numpy

# oneDNN keeps code for every number of rows that it has seen, by default for 1024: some
# hundred megabytes, of which a batch uses four and hardly ever finds those of another.
# Read at its first product, and left as it is where somebody has set it.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

# Where the modules of a layer are inside a model.
BERT = {
    "layers": "encoder.layer",
    "qkv": "attention.self.query attention.self.key attention.self.value",
    "out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "act": "intermediate.intermediate_act_fn",
    "down": "output.dense",
    "norm": "output.LayerNorm",
}
MPNET = {
    **BERT,
    "qkv": "attention.attn.q attention.attn.k attention.attn.v",
    "out": "attention.attn.o",
    "attention_norm": "attention.LayerNorm",
}
DISTILBERT = {
    "layers": "transformer.layer",
    "qkv": "attention.q_lin attention.k_lin attention.v_lin",
    "out": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "up": "ffn.lin1",
    "act": "ffn.activation",
    "down": "ffn.lin2",
    "norm": "output_layer_norm",
}
ARCHITECTURES = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), BERT),
    "mpnet": MPNET,
    "distilbert": DISTILBERT,
}

States = Float[Tensor, "T D"]


def is_packable(model: Any) -> bool:
    """Whether a model's layers can be read."""
    config = model.config
    return config.model_type in ARCHITECTURES and not getattr(
        config, "is_decoder", False
    )


class Linear:
    """x W^T + b of layers over one input as a single product, their outputs side by side."""

    def __init__(self, library: str, *layers: Any) -> None:
        self.weight = torch.cat([layer.weight.detach() for layer in layers])
        biases = [layer.bias for layer in layers]
        self.bias = (
            None if None in biases else torch.cat([bias.detach() for bias in biases])
        )
        self.onednn: Any = None
        if library == "onednn":
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight, None)
            self.onednn = torch.ops.mkldnn._linear_pointwise

    def __call__(self, x: Float[Tensor, "T I"]) -> Float[Tensor, "T O"]:
        if self.onednn:
            return self.onednn(x, self.weight, self.bias, "none", [], "")
        return F.linear(x, self.weight, self.bias)

    def gelu(self, x: Float[Tensor, "T I"]) -> Float[Tensor, "T O"]:
        """The product through GELU by the error function."""
        if self.onednn:
            return self.onednn(x, self.weight, self.bias, "gelu", [], "none")
        return F.gelu(self(x))

    def plus(
        self, x: Float[Tensor, "T I"], other: Float[Tensor, "T O"]
    ) -> Float[Tensor, "T O"]:
        """The product with another matrix added."""
        if self.onednn:
            return self.onednn.binary(x, other, self.weight, self.bias, "add")
        return self(x).add_(other)


class Layer:
    """One layer, its norms behind what they normalise. `act` None is GELU by the error function."""

    def __init__(
        self, layer: Any, names: dict[str, str], library: str, gelu: bool
    ) -> None:
        at = layer.get_submodule
        self.qkv = Linear(library, *map(at, names["qkv"].split()))
        self.out, self.attention_norm = (
            Linear(library, at(names["out"])),
            at(names["attention_norm"]),
        )
        self.act = None if gelu else attrgetter(names["act"])(layer)
        self.up, self.down = (
            Linear(library, at(names["up"])),
            Linear(library, at(names["down"])),
        )
        self.norm: Callable[[States], States] = at(names["norm"])


class Run(NamedTuple):
    """Sentences of one length that follow each other, and the places of their tokens."""

    sentences: int
    length: int
    tokens: slice


class PackedKernel:
    """The pass, its sentences in any order; it is nearer to `plain`'s than 1e-5 of the largest."""

    def __init__(self, plain: PaddedKernel, library: str) -> None:
        self.plain, self.model = plain, plain.model
        config, self.names = (
            self.model.config,
            ARCHITECTURES[self.model.config.model_type],
        )
        act = config.activation if self.names is DISTILBERT else config.hidden_act
        layers = self.model.get_submodule(self.names["layers"])
        self.layers = [
            Layer(layer, self.names, library, act == "gelu") for layer in layers
        ]
        self.heads: int = config.num_attention_heads

    def __call__(self, batch: Sequence[Sequence[int]]) -> Encoding:
        order = sorted(range(len(batch)), key=lambda row: len(batch[row]))
        rows = [batch[row] for row in order]
        runs = _runs([len(ids) for ids in rows])
        lengths = torch.tensor([len(ids) for ids in rows])
        ends = lengths.cumsum(0)
        with torch.inference_mode():
            x = self._embed(rows, lengths, ends)
            shape = (len(rows), len(self.layers) + 1, x.shape[1])
            mean = torch.empty(shape, device=x.device)  # float32 whatever the model's
            _keep_means(x, runs, mean[:, 0])
            for number, layer in enumerate(self.layers, start=1):
                x = self._layer(layer, x, runs)
                _keep_means(x, runs, mean[:, number])
            first, last = x[(ends - lengths).to(x.device)], x[(ends - 1).to(x.device)]
            cls = last if self.plain.summary == -1 else first
            pooler = (
                self.model.pooler(first[:, None]) if self.plain.has_pooler else None
            )
        back = np.argsort(order)
        return Encoding(
            layers=tuple(range(mean.shape[1])),
            depth=mean.shape[1] - 1,
            mean=to_numpy(mean)[back],
            cls=None if self.plain.summary is None else to_numpy(cls)[back],
            pooler=None if pooler is None else to_numpy(pooler)[back],
        )

    def _embed(
        self,
        rows: Sequence[Sequence[int]],
        lengths: Int64[Tensor, " N"],
        ends: Int64[Tensor, " N"],
    ) -> States:
        """The embedding layer's output, positions counted in each sentence as the model does."""
        ids = torch.tensor(list(chain.from_iterable(rows)))
        starts = (ends - lengths).repeat_interleave(lengths)
        positions = torch.arange(len(ids)) - starts
        # RoBERTa's and MPNet's positions start behind the padding's id, the others' at
        # 0.
        padding = getattr(self.model.embeddings, "padding_idx", None)
        if padding is not None:
            # Counted up to each token; a padding token in a text has no position of its
            # own.
            real = (ids != padding).long()
            counted = real.cumsum(0)
            before = (counted - real)[starts]
            positions = (counted - before) * real + padding
        device = self.model.device
        if (
            device.type != "cpu"
        ):  # which reads pinned memory by itself, and nobody waits for it
            ids = ids.pin_memory().to(device, non_blocking=True)
            positions = positions.pin_memory().to(device, non_blocking=True)
        x = self.model.embeddings(input_ids=ids[None], position_ids=positions[None])[0]
        project = getattr(
            self.model, "embeddings_project", None
        )  # ELECTRA's, narrower ones
        return x if project is None else project(x)

    def _layer(self, layer: Layer, x: States, runs: Sequence[Run]) -> States:
        mixed = torch.empty_like(x)
        qkv = layer.qkv(x)
        for run in runs:
            self._attend(qkv[run.tokens], run, mixed[run.tokens])
        x = layer.attention_norm(layer.out.plus(mixed, x))
        wide = layer.up.gelu(x) if layer.act is None else layer.act(layer.up(x))
        return layer.norm(layer.down.plus(wide, x))

    def _attend(
        self, qkv: Float[Tensor, "t E"], run: Run, out: Float[Tensor, "t D"]
    ) -> None:
        """Self-attention inside each sentence of a run, written to `out`."""
        bias = None
        if (
            self.names is MPNET
        ):  # by the distance of two places, which are passed for their shape
            places = torch.empty((1, run.length, 0), device=self.model.device)
            bias = self.model.encoder.compute_position_bias(places)
        split = qkv.view(run.sentences, run.length, 3, self.heads, -1)
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each (sentences, heads, tokens, d)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        out.view(run.sentences, run.length, self.heads, -1).copy_(
            attended.transpose(1, 2)
        )


def _runs(lengths: Sequence[int]) -> list[Run]:
    runs, first = [], 0
    for length, equal in groupby(lengths):
        count = len(list(equal))
        runs.append(Run(count, length, slice(first, first + count * length)))
        first += count * length
    return runs


def _keep_means(x: States, runs: Sequence[Run], mean: Float[Tensor, "N D"]) -> None:
    """Write the token mean of every sentence."""
    row = 0
    for run in runs:
        tokens = x[run.tokens].view(run.sentences, run.length, -1)
        torch.mean(tokens, dim=1, dtype=mean.dtype, out=mean[row : row + run.sentences])
        row += run.sentences


def has_onednn(model: Any) -> bool:
    """Whether oneDNN can multiply a model's matrices: float32 or bfloat16 ones in main memory.

    The operations are not part of torch's stable interface, and a build may lack them;
    a processor may lack products of bfloat16.
    """
    weights, operations = next(model.parameters()), torch.ops.mkldnn
    names = ("_linear_pointwise", "_reorder_linear_weight", "_is_mkldnn_bf16_supported")
    available = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if (
        weights.device.type != "cpu"
        or not available
        or not all(hasattr(operations, name) for name in names)
    ):
        return False
    if weights.dtype == torch.bfloat16:
        return bool(operations._is_mkldnn_bf16_supported())
    return bool(weights.dtype == torch.float32)


def swapped(model: Any) -> Any:
    """A copy of a model over the same weights, its linear layers multiplied by oneDNN.

    They keep their own form of the weights, which some architectures read past the
    layer's call.
    """
    tensors = (*model.parameters(), *model.buffers())
    copy = deepcopy(model, {id(tensor): tensor for tensor in tensors})
    for module in copy.modules():
        if type(module) is nn.Linear:
            layer = Linear("onednn", module)
            module.forward = partial(_flat, layer)  # type: ignore[method-assign]
    return copy


def _flat(layer: Linear, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
    return layer(x.reshape(-1, x.shape[-1])).view(*x.shape[:-1], -1)
