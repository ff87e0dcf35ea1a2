"""Linear layers for inference: torch's own matrix product, or oneDNN's over weights packed once.

Which is faster depends on the processor: torch multiplies float32 matrices with the library that it
was built with, which runs at a fraction of oneDNN's rate on some. Rows of oneDNN's product do not
depend on how many rows there are.
"""

from __future__ import annotations

import os
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from harness.core.arrays import Float

# oneDNN keeps code for every number of rows that it has seen, by default for 1024: some hundred
# megabytes, of which a batch uses four and hardly ever finds those of another. Read at its first
# product, and left as it is where somebody has set it.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

Library = Literal["torch", "onednn"]
States = Float[Tensor, "T I"]
Found = Float[Tensor, "T O"]


@runtime_checkable
class Linear(Protocol):
    """x W^T + b, alone, through GELU, or with something added."""

    def __call__(self, x: States) -> Found: ...
    def gelu(self, x: States) -> Found: ...
    def plus(self, x: States, other: Found) -> Found: ...


@dataclass(frozen=True, eq=False)
class TorchLinear:
    """A linear layer by torch's own product."""

    weight: Float[Tensor, "O I"]
    bias: Float[Tensor, " O"] | None

    def __call__(self, x: States) -> Found:
        return F.linear(x, self.weight, self.bias)

    def gelu(self, x: States) -> Found:
        """GELU by the error function."""
        return F.gelu(self(x))

    def plus(self, x: States, other: Found) -> Found:
        """The product and another matrix."""
        return self(x).add_(other)


@dataclass(frozen=True, eq=False)
class OneDnnLinear:
    """A linear layer by oneDNN over its own layout of the weights, with GELU or sum fused in."""

    packed: Any  # a tensor of no strides
    bias: Float[Tensor, " O"] | None

    def __call__(self, x: States) -> Found:
        return _onednn()(x, self.packed, self.bias, "none", [], "")

    def gelu(self, x: States) -> Found:
        """GELU by the error function."""
        return _onednn()(x, self.packed, self.bias, "gelu", [], "none")

    def plus(self, x: States, other: Found) -> Found:
        """The product and another matrix."""
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
