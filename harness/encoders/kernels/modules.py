"""The modules of a sentence-transformers folder, which the library computes.

A transformer is opened here like any other, so that its tokenizer and its weights are
checked and its fast pass is used; the library has the modules after it. A folder without
a transformer is the library's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import import_from_string
from torch import nn

from harness.core.errors import DataError
from harness.core.interfaces import Encoding, native_encoding
from harness.encoders.architectures import pools_decoder
from harness.encoders.config import FunctionEncoder
from harness.encoders.kernels.choose import PLAIN, Kernel, multiplications
from harness.encoders.kernels.loading import opening
from harness.encoders.kernels.padded import PaddedKernel, TokenIds, to_numpy
from harness.encoders.library import library_errors
from harness.encoders.modules import POOLING, Modules
from harness.encoders.transformer import TransformerEncoder

LIBRARY = "sentence-transformers"


def under_modules(
    encoder: TransformerEncoder, modules: Modules, prompt: str
) -> TransformerEncoder:
    """An encoder that gives the vectors of a text under the modules of its folder.

    A mean or a first token is taken from the encoder's own pass, which is the fastest;
    other poolings need the states of all tokens, which only the plain pass gives.

    Args:
        encoder: The transformer of the modules.
        modules: The modules of its folder.
        prompt: The text that is put before each sentence; its tokens are left out of
            the pooling where the modules say so.

    Raises:
        DataError: The transformer has a decoder, whose states sentence-transformers
            pools; or the library does not open a module.
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
    skipped_tokens = 0
    if prompt and not modules.pooling.get("include_prompt", True):
        skipped_tokens = tokenizer.prompt_length(prompt)
    with opening(encoder.name, modules.folder, LIBRARY):
        layers: list[nn.Module] = []
        for class_name, subfolder in zip(
            modules.classes[1:], modules.subfolders[1:], strict=True
        ):
            module_class: Any = import_from_string(class_name)
            # The library refuses weights that are missing or left over.
            module = module_class.load(
                str(modules.folder), subfolder=subfolder, local_files_only=True
            )
            layers.append(module.eval().float())
        kernel: Kernel
        choice = encoder.choice
        takes_first = modules.modes == ("cls",) and encoder.plain_kernel.summary == 0
        is_pooled = modules.kinds[1:2] == (POOLING,) and skipped_tokens == 0
        if is_pooled and (takes_first or modules.modes == ("mean",)):
            kernel = PooledVectors(
                encoder.kernel, layers[1:], modules.dimensions, takes_first
            )
        else:
            kernel = PooledTokens(
                encoder.plain_kernel, layers, modules.dimensions, skipped_tokens
            )
            tokens = encoder.hardware.batch_tokens or PLAIN.tokens
            choice = replace(PLAIN, tokens=tokens)
        sample = kernel(tokenizer(["one sentence"]))
    return replace(
        encoder,
        tokenizer=tokenizer,
        kernel=kernel,
        sample=sample,
        choice=choice,
        prompt=prompt,
        multiplications=multiplications(encoder.depth, encoder.dimensions),
    )


def _vectors(
    features: dict[str, Any], layers: Sequence[nn.Module], dimensions: int | None
) -> Encoding:
    """The vectors that modules of the library make of features."""
    for layer in layers:
        features = layer(features)
    return native_encoding(to_numpy(features["sentence_embedding"][:, :dimensions]))


@dataclass(frozen=True, eq=False)
class PooledVectors:
    """A forward pass that keeps the first token or the mean, and the modules after the pooling.

    Attributes:
        kernel: The pass, which gives token means of all layers and the first token.
        layers: The modules after the pooling.
        dimensions: How many of the first coordinates are kept; None keeps all.
        takes_first_token: Whether the first token is kept.
    """

    kernel: Kernel
    layers: Sequence[nn.Module]
    dimensions: int | None
    takes_first_token: bool

    def __call__(self, batch: TokenIds) -> Encoding:
        encoding = self.kernel(batch)
        pooled: Any = encoding.cls if self.takes_first_token else encoding.mean[:, -1]
        with torch.inference_mode():
            features = {"sentence_embedding": torch.tensor(pooled)}
            return _vectors(features, self.layers, self.dimensions)


@dataclass(frozen=True, eq=False)
class PooledTokens:
    """The plain forward pass, and all modules after the transformer.

    Attributes:
        plain_kernel: The plain pass of the model.
        layers: The modules.
        dimensions: How many of the first coordinates are kept; None keeps all.
        skipped_tokens: How many tokens at the beginning of a sentence are left out.
    """

    plain_kernel: PaddedKernel
    layers: Sequence[nn.Module]
    dimensions: int | None
    skipped_tokens: int

    def __call__(self, batch: TokenIds) -> Encoding:
        with torch.inference_mode():
            states, mask, _ = self.plain_kernel.states(batch)
            features: dict[str, Any] = {
                "token_embeddings": states[-1].float().cpu(),
                "attention_mask": mask.long().cpu(),
                "prompt_length": self.skipped_tokens,
            }
            # The library passes over the weights of layers without this setting.
            if self.plain_kernel.model.config.output_hidden_states:
                features["all_layer_embeddings"] = [
                    state.float().cpu() for state in states
                ]
            return _vectors(features, self.layers, self.dimensions)


def open_library_encoder(
    name: str, key: str, modules: Modules, prompt: str
) -> FunctionEncoder:
    """The encoder of a folder without a transformer: a table of vectors, read by the library.

    `name` and `key` are the encoder's. Raises DataError for a folder that the library does
    not open, and for weights that are not finite.
    """

    def encode(texts: Sequence[str]) -> Encoding:
        with library_errors(
            "wanted a table with a vector for each token of its tokenizer",
            "fetch the whole folder",
        ):
            vectors = model.encode(list(texts), prompt=prompt, show_progress_bar=False)
        return native_encoding(np.asarray(vectors, np.float32))

    with opening(name, modules.folder, LIBRARY):
        model = SentenceTransformer(
            str(modules.folder),
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
        )
        model = model.float().eval()
        encode(["one sentence"])
    if not all(torch.isfinite(weights).all() for weights in model.parameters()):
        raise DataError(
            f"{modules.folder}: wanted weights of finite numbers, found others; fetch it again"
        )
    return FunctionEncoder(key, encode)
