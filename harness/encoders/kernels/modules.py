"""The modules of a sentence-transformers folder in PyTorch.

Two steps, each made of what `encoders/modules.py` reads: `under_modules` gives an
encoder whose forward pass pools tokens as the modules say, and `vector_maps` gives the
maps of vectors that come after the pooling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from harness.core.arrays import Bool, Float, Float32
from harness.core.errors import DataError
from harness.core.interfaces import Encoding
from harness.encoders.architectures import pools_decoder
from harness.encoders.checkpoint_settings import CONFIG_FILE, read_settings
from harness.encoders.kernels.choose import PLAIN, Kernel
from harness.encoders.kernels.padded import PaddedKernel, TokenIds, to_numpy
from harness.encoders.modules import (
    DENSE,
    LAYER_NORM,
    NORMALIZE,
    TANH,
    WEIGHTED_LAYERS,
    Module,
    Modules,
)
from harness.encoders.transformer import TransformerEncoder
from harness.encoders.weights import read_tensors

# Of sentence-transformers' WeightedLayerPooling.
DEFAULT_LAYER_START = 4
DEFAULT_LAYERS = 12
Shape = tuple[int | None, ...]  # None is a size that config.json lacks
LEAST_TOTAL = 1e-9  # what sums are divided by at least, as in sentence-transformers


# The pooling of tokens


def under_modules(
    encoder: TransformerEncoder, modules: Modules, prompt: str, cache: Path
) -> TransformerEncoder:
    """An encoder whose only layer is its tokens pooled as the modules say.

    A mean or a first token is taken from the encoder's own pass, which is the fastest;
    other poolings need the states of all tokens, which only the plain pass gives.

    Args:
        encoder: The transformer of the modules.
        modules: The modules of its folder.
        prompt: The text that is put before each sentence; its tokens are left out of
            the pooling where the modules say so.
        cache: The cache folder.

    Raises:
        DataError: The transformer has a decoder, whose states sentence-transformers
            pools.
    """
    config = encoder.plain_kernel.model.config
    if pools_decoder(config.to_dict()):
        raise DataError(
            f"{encoder.name}.native: wanted an encoder, found a {config.model_type}, whose "
            "decoder sentence-transformers pools; take another pooling than native"
        )
    tokenizer = encoder.tokenizer
    if modules.lower_cases:
        tokenizer = tokenizer.lower_cased()
    layer_weights = _layer_weights(modules, encoder.depth, cache)
    includes_prompt = modules.pooling_settings.get("include_prompt", True)
    skipped_tokens = 0
    if prompt and not includes_prompt:
        skipped_tokens = tokenizer.prompt_length(prompt)

    takes_first_token = (
        modules.modes == ("cls",)
        and layer_weights is None
        and encoder.plain_kernel.summary == 0
    )
    takes_mean = modules.modes == ("mean",)
    kernel: Kernel
    if skipped_tokens == 0 and (takes_mean or takes_first_token):
        kernel = PooledStates(encoder.kernel, layer_weights, takes_first_token)
        choice = encoder.choice
    else:
        kernel = PooledTokens(
            plain_kernel=encoder.plain_kernel,
            modes=modules.modes,
            skipped_tokens=skipped_tokens,
            layer_weights=layer_weights,
        )
        choice = replace(PLAIN, tokens=encoder.hardware.batch_tokens or PLAIN.tokens)
    return replace(
        encoder,
        tokenizer=tokenizer,
        kernel=kernel,
        sample=kernel(tokenizer(["one sentence"])),
        choice=choice,
    )


def _layer_weights(
    modules: Modules, depth: int, cache: Path
) -> Float32[Tensor, " L"] | None:
    """The weight of each hidden state in the sum of layers; None takes the last layer.

    `depth` is the number of the transformer's layers.
    """
    module = modules.find(WEIGHTED_LAYERS)
    if module is None:
        return None
    config = modules.reader.folder / CONFIG_FILE
    if not read_settings(config).get("output_hidden_states"):
        raise DataError(
            f"{config}: wanted output_hidden_states = true, without which sentence-transformers "
            f"passes over the {WEIGHTED_LAYERS} of modules.json"
        )
    start = module.settings.get("layer_start", DEFAULT_LAYER_START)
    last = module.settings.get("num_hidden_layers", DEFAULT_LAYERS)
    if last != depth:
        raise DataError(
            f"{module.folder / CONFIG_FILE}: wanted num_hidden_layers = {depth}, as of the "
            f"transformer, found {last}; correct it"
        )
    tensors = _read_tensors(module, cache, {"layer_weights": (last + 1 - start,)})
    weights = tensors["layer_weights"]
    return torch.cat([torch.zeros(start), weights / weights.sum()])


def _read_tensors(
    module: Module, cache: Path, shapes: Mapping[str, Shape]
) -> dict[str, Tensor]:
    """The weights of a module in float32, which must be those of these names and shapes."""
    tensors = read_tensors(module.folder, cache)
    found_shapes = {name: tuple(tensors[name].shape) for name in sorted(tensors)}
    if found_shapes != shapes:
        raise DataError(
            f"{module.folder}: wanted the weights {dict(shapes)} of a {module.kind}, as its "
            f"{CONFIG_FILE} says, found {found_shapes}; fetch it again"
        )
    return {name: tensor.float() for name, tensor in tensors.items()}


@dataclass(frozen=True, eq=False)
class PooledStates:
    """A forward pass that keeps the first token, the last layer or a weighted sum of layers.

    Attributes:
        kernel: The pass, which gives token means of all layers and the first token.
        layer_weights: The weight of each layer; None takes the last.
        takes_first_token: Whether the first token is kept.
    """

    kernel: Kernel
    layer_weights: Float32[Tensor, " L"] | None
    takes_first_token: bool

    def __call__(self, batch: TokenIds) -> Encoding:
        encoding = self.kernel(batch)
        if self.takes_first_token:
            return _one_layer(np.asarray(encoding.cls))
        if self.layer_weights is None:
            return _one_layer(encoding.mean[:, -1])
        weights = self.layer_weights.numpy()
        return _one_layer(np.einsum("nld,l->nd", encoding.mean, weights))


@dataclass(frozen=True, eq=False)
class PooledTokens:
    """The plain forward pass, its tokens pooled in several ways, whose vectors are concatenated.

    Attributes:
        plain_kernel: The plain pass of the model.
        modes: The ways of pooling, keys of POOLING_MODES.
        skipped_tokens: How many tokens at the beginning of a sentence are left out.
        layer_weights: The weight of each layer; None takes the last.
    """

    plain_kernel: PaddedKernel
    modes: Sequence[str]
    skipped_tokens: int
    layer_weights: Float32[Tensor, " L"] | None

    def __call__(self, batch: TokenIds) -> Encoding:
        with torch.inference_mode():
            states, mask, _ = self.plain_kernel.states(batch)
            tokens = states[-1].float()
            if self.layer_weights is not None:
                tokens = _weighted_sum(states, self.layer_weights)
            positions = torch.arange(mask.shape[1], device=mask.device)
            mask = mask & (positions >= self.skipped_tokens)
            vectors = [pool_tokens(mode, tokens, mask) for mode in self.modes]
            return _one_layer(to_numpy(torch.cat(vectors, dim=1)))


def _weighted_sum(
    states: Sequence[Float[Tensor, "B T D"]], weights: Float32[Tensor, " L"]
) -> Float32[Tensor, "B T D"]:
    """The sum of L layers' states, each times its weight."""
    total = torch.zeros_like(states[-1], dtype=torch.float32)
    for weight, layer_states in zip(weights.tolist(), states, strict=True):
        if weight:
            total = total + weight * layer_states.float()
    return total


def pool_tokens(
    mode: str, tokens: Float32[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
) -> Float32[Tensor, "B D"]:
    """The vector of each sentence under a way of pooling, as in sentence-transformers.

    `mask` marks the tokens that count. The mean of a sentence without any is the zero
    vector.
    """
    rows = torch.arange(len(mask), device=mask.device)
    positions = torch.arange(mask.shape[1], device=mask.device)
    if mode == "cls":
        first_tokens = mask.int().argmax(dim=1)
        return tokens[rows, first_tokens]
    if mode == "lasttoken":
        last_tokens = (positions * mask).argmax(dim=1)
        vectors = tokens[rows, last_tokens]
        return vectors * mask[rows, last_tokens][:, None]
    if mode == "max":
        return tokens.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)
    weights = mask.float()
    if mode == "weightedmean":
        weights = weights * (positions + 1)
    total = weights.sum(dim=1, keepdim=True).clamp(min=LEAST_TOTAL)
    sums = (tokens * weights[:, :, None]).sum(dim=1)
    if mode == "mean_sqrt_len_tokens":
        return sums / total.sqrt()
    return sums / total


def _one_layer(vectors: Float32[np.ndarray, "N D"]) -> Encoding:
    """The encoding whose only layer are these vectors."""
    return Encoding(layers=(0,), depth=0, mean=vectors[:, None])


# The maps of vectors after the pooling


Map = Callable[[Tensor], Tensor]  # of vectors (N, D) to vectors (N, K)


@dataclass(frozen=True, eq=False)
class VectorMaps:
    """Maps of vectors, one after the other, on the CPU.

    Attributes:
        maps: The maps in their order.
        dimensions: How many of the first coordinates are kept; None keeps all.
    """

    maps: Sequence[Map]
    dimensions: int | None

    def __call__(
        self, vectors: Float32[np.ndarray, "N D"]
    ) -> Float32[np.ndarray, "N K"]:
        with torch.inference_mode():
            x = torch.tensor(vectors)  # a copy: an encoding's arrays are read-only
            for vector_map in self.maps:
                try:
                    x = vector_map(x)
                except RuntimeError as error:
                    raise DataError(
                        f"wanted a {type(vector_map).__name__} of vectors of {x.shape[1]} "
                        "dimensions, which the modules before it give, found one of others; fetch "
                        "the folder again"
                    ) from error
            return np.asarray(x[:, : self.dimensions].numpy())


def vector_maps(modules: Modules, cache: Path) -> VectorMaps:
    """The maps of the modules after the pooling; a dropout changes nothing outside training."""
    maps: list[Map] = []
    for module in modules.chain:
        if module.kind == NORMALIZE:
            maps.append(_normalize)
        elif module.kind == LAYER_NORM:
            maps.append(LayerNorm.read(module, cache))
        elif module.kind == DENSE:
            maps.append(Dense.read(module, cache))
    return VectorMaps(maps, modules.dimensions)


def _normalize(x: Float32[Tensor, "N D"]) -> Float32[Tensor, "N D"]:
    """The vectors, divided by their length."""
    return functional.normalize(x, dim=1)


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """A layer normalisation with its trained scale and shift."""

    weight: Float32[Tensor, " D"]
    bias: Float32[Tensor, " D"]

    @classmethod
    def read(cls, module: Module, cache: Path) -> LayerNorm:
        """The layer of a module's files."""
        size = module.settings.get("dimension")
        shapes = {"norm.weight": (size,), "norm.bias": (size,)}
        tensors = _read_tensors(module, cache, shapes)
        return cls(tensors["norm.weight"], tensors["norm.bias"])

    def __call__(self, x: Float32[Tensor, "N D"]) -> Float32[Tensor, "N D"]:
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias)


@dataclass(frozen=True, eq=False)
class Dense:
    """A linear layer and its activation, to which the input may be added.

    Attributes:
        weight: The weight of the layer.
        bias: Its bias; None for a layer without one.
        activation: What is applied to its output.
        adds_input: Whether the input is added to the result.
        input_weight: The linear map of the input before it is added; None adds it as it
            is.
    """

    weight: Float32[Tensor, "K D"]
    bias: Float32[Tensor, " K"] | None
    activation: Map
    adds_input: bool
    input_weight: Float32[Tensor, "K D"] | None

    @classmethod
    def read(cls, module: Module, cache: Path) -> Dense:
        """The layer of a module's files; tanh is the activation where they name none."""
        settings = module.settings
        in_size, out_size = settings.get("in_features"), settings.get("out_features")
        adds_input = bool(settings.get("use_residual"))
        shapes: dict[str, Shape] = {"linear.weight": (out_size, in_size)}
        if settings.get("bias", True):
            shapes["linear.bias"] = (out_size,)
        if adds_input and in_size != out_size:
            shapes["residual.weight"] = (out_size, in_size)
        tensors = _read_tensors(module, cache, shapes)
        activation_path = settings.get("activation_function", TANH)
        activation_class = getattr(nn, activation_path.rpartition(".")[2])
        return cls(
            weight=tensors["linear.weight"],
            bias=tensors.get("linear.bias"),
            activation=activation_class(),
            adds_input=adds_input,
            input_weight=tensors.get("residual.weight"),
        )

    def __call__(self, x: Float32[Tensor, "N D"]) -> Float32[Tensor, "N K"]:
        mapped = self.activation(functional.linear(x, self.weight, self.bias))
        if not self.adds_input:
            return mapped
        if self.input_weight is None:
            return mapped + x
        return mapped + functional.linear(x, self.input_weight)
