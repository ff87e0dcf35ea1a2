"""The modules of a sentence-transformers folder in PyTorch: tokens pooled, then vectors mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from harness.core.arrays import Float32
from harness.core.errors import DataError
from harness.core.interfaces import Encoding
from harness.encoders.checkpoint import read_settings, read_tensors
from harness.encoders.kernels.choose import PLAIN, Kernel
from harness.encoders.kernels.padded import Batch, PaddedKernel, to_numpy
from harness.encoders.modules import (
    DENSE,
    LAYER_NORM,
    TANH,
    WEIGHTED_LAYERS,
    Module,
    Modules,
)
from harness.encoders.transformer import TransformerEncoder

Map = Callable[[torch.Tensor], torch.Tensor]


def under_modules(
    encoder: TransformerEncoder, modules: Modules, prompt: str, cache: Path
) -> TransformerEncoder:
    """An encoder whose only layer is its tokens pooled as the modules say.

    What the pooled states of its own pass give is taken from these, since that pass is
    the quicker.
    """
    config = encoder.plain.model.config
    if config.is_encoder_decoder and not config.model_type.endswith("t5"):
        raise DataError(
            f"{encoder.name}.native: wanted an encoder, found a {config.model_type}, of which "
            "sentence-transformers pools the decoder's states; take another pooling than native"
        )
    tokenizer = encoder.tokenizer
    if modules.first.settings.get("do_lower_case"):
        tokenizer = tokenizer.lower_cased()
    weights = _layer_weights(modules, cache)
    skips_prompt = prompt and not modules.pooling.get("include_prompt", True)
    skipped = tokenizer.prompt_length(prompt) if skips_prompt else 0
    first = modules.modes == ("cls",) and weights is None and encoder.plain.summary == 0
    if not skipped and (modules.modes == ("mean",) or first):
        kernel, choice = pooled_states(encoder.kernel, weights, first), encoder.choice
    else:
        kernel = pooled_tokens(encoder.plain, modules.modes, skipped, weights)
        choice = replace(PLAIN, tokens=encoder.hardware.batch_tokens or PLAIN.tokens)
    shape = kernel(tokenizer(["one sentence"]))
    return replace(
        encoder, tokenizer=tokenizer, kernel=kernel, shape=shape, choice=choice
    )


def _layer_weights(modules: Modules, cache: Path) -> torch.Tensor | None:
    """The share of each hidden state in the tokens; None takes the last."""
    module = next(
        (module for module in modules.chain if module.kind == WEIGHTED_LAYERS), None
    )
    if module is None:
        return None
    config = modules.first.folder / "config.json"
    if not read_settings(config).get("output_hidden_states"):
        raise DataError(
            f"{config}: wanted output_hidden_states = true, without which sentence-transformers "
            f"passes over the {WEIGHTED_LAYERS} of modules.json"
        )
    weights = read_tensors(module.folder, cache)["layer_weights"].float()
    start = int(module.settings.get("layer_start", 4))
    return torch.cat([torch.zeros(start), weights / weights.sum()])


def pooled_states(states: Kernel, layers: torch.Tensor | None, first: bool) -> Kernel:
    """A pass of which the first token, the last layer or a weighted sum of layers is kept."""

    def encode(batch: Batch) -> Encoding:
        encoding = states(batch)
        if first:
            return _only(np.asarray(encoding.cls))
        if layers is None:
            return _only(encoding.mean[:, -1])
        return _only(np.einsum("nld,l->nd", encoding.mean, layers.numpy()))

    return encode


def pooled_tokens(
    plain: PaddedKernel, modes: Sequence[str], skipped: int, layers: torch.Tensor | None
) -> Kernel:
    """The plain pass, its tokens pooled in several ways side by side."""

    def encode(batch: Batch) -> Encoding:
        with torch.inference_mode():
            states, mask, _ = plain.states(batch)
            tokens = states[-1].float()
            if layers is not None:
                shares = zip(layers.tolist(), states, strict=True)
                tokens = sum(
                    (w * s.float() for w, s in shares if w), torch.zeros_like(tokens)
                )
            mask = mask & (torch.arange(mask.shape[1], device=mask.device) >= skipped)
            parts = [pool_tokens(mode, tokens, mask) for mode in modes]
            return _only(to_numpy(torch.cat(parts, dim=1)))

    return encode


def pool_tokens(mode: str, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The vectors (B, D) of tokens (B, T, D) under one mode; `mask` (B, T) marks those that count.

    As in sentence-transformers, no token at all gives the zero vector of a mean.
    """
    places = torch.arange(mask.shape[1], device=mask.device)
    rows, real = torch.arange(len(mask), device=mask.device), mask[:, :, None]
    if mode == "cls":
        return tokens[rows, mask.int().argmax(dim=1)]
    if mode == "lasttoken":
        last = (places * mask).argmax(dim=1)
        return tokens[rows, last] * mask[rows, last][:, None]
    if mode == "max":
        return tokens.masked_fill(~real, -torch.inf).amax(dim=1)
    shares = mask.float() * (places + 1) if mode == "weightedmean" else mask.float()
    total = shares.sum(dim=1, keepdim=True).clamp(min=1e-9)
    sums = (tokens * shares[:, :, None]).sum(dim=1)
    return sums / (total.sqrt() if mode == "mean_sqrt_len_tokens" else total)


def _only(vectors: Float32[np.ndarray, "N D"]) -> Encoding:
    """The encoding whose only layer these are."""
    return Encoding((0,), 0, vectors[:, None])


def head_of(modules: Modules, cache: Path) -> Callable[[Any], Any]:
    """The maps of vectors (N, D) to (N, K) behind the pooling, one after the other, on the CPU."""
    maps = [make(m, cache) for m in modules.chain if (make := MAPS.get(m.kind))]

    def head(vectors: Float32[np.ndarray, "N D"]) -> Float32[np.ndarray, "N K"]:
        with torch.inference_mode():
            x = torch.tensor(vectors)  # a copy: an encoding's arrays are read-only
            for step in maps:
                x = step(x)
            return np.asarray(x[:, : modules.dimensions].numpy())

    return head


def _normalize(module: Module, cache: Path) -> Map:  # noqa: ARG001 - it has no weights
    return lambda x: functional.normalize(x, dim=1)


def _layer_norm(module: Module, cache: Path) -> Map:
    norm = read_tensors(module.folder, cache)
    weight, bias = norm["norm.weight"].float(), norm["norm.bias"].float()
    return lambda x: functional.layer_norm(x, weight.shape, weight, bias)


def _dense(module: Module, cache: Path) -> Map:
    """A linear layer, its activation (Tanh where none is named), and what is added to it."""
    tensors = read_tensors(module.folder, cache)
    weight, bias = tensors["linear.weight"].float(), tensors.get("linear.bias")
    bias = None if bias is None else bias.float()
    name = module.settings.get("activation_function", TANH)  # one of ACTIVATIONS
    activation = getattr(nn, name.rpartition(".")[2])()
    residual = tensors.get("residual.weight")

    def dense(x: torch.Tensor) -> torch.Tensor:
        mapped = activation(functional.linear(x, weight, bias))
        if not module.settings.get("use_residual"):
            return mapped
        return mapped + (
            x if residual is None else functional.linear(x, residual.float())
        )

    return dense


MAPS = {DENSE: _dense, LAYER_NORM: _layer_norm, "Normalize": _normalize}
