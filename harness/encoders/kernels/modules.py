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
        takes_first = modules.modes == ("cls",) and encoder.plain_kernel.summary == 0
        is_pooled = modules.kinds[1:2] == (POOLING,) and skipped_tokens == 0
        pooled_by, choice = "", PLAIN
        if is_pooled and (takes_first or modules.modes == ("mean",)):
            [pooled_by] = modules.modes
            layers = layers[1:]
            choice = encoder.choice
        elif encoder.hardware.batch_tokens:
            choice = replace(PLAIN, tokens=encoder.hardware.batch_tokens)
        kernel = ModulesKernel(
            kernel=encoder.kernel,
            plain_kernel=encoder.plain_kernel,
            layers=layers,
            pooled_by=pooled_by,
            skipped_tokens=skipped_tokens,
            dimensions=modules.dimensions,
        )
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


@dataclass(frozen=True, eq=False)
class ModulesKernel:
    """A forward pass of a transformer, and modules of the library after it.

    Attributes:
        kernel: The pass that gives token means of all layers and the first token.
        plain_kernel: The plain pass, which gives the states of all tokens.
        layers: The modules that are left to compute.
        pooled_by: What is taken from `kernel`: `mean` or `cls`. If it is empty, the
            modules pool the tokens of `plain_kernel`.
        skipped_tokens: How many tokens at the beginning of a sentence are not pooled.
        dimensions: How many of the first coordinates are kept; None keeps all.
    """

    kernel: Kernel
    plain_kernel: PaddedKernel
    layers: Sequence[nn.Module]
    pooled_by: str
    skipped_tokens: int
    dimensions: int | None

    def __call__(self, batch: TokenIds) -> Encoding:
        with torch.inference_mode():
            features = self._features(batch)
            for layer in self.layers:
                features = layer(features)
            vectors = features["sentence_embedding"][:, : self.dimensions]
            return native_encoding(to_numpy(vectors))

    def _features(self, batch: TokenIds) -> dict[str, Any]:
        """What the first of the modules takes."""
        if self.pooled_by:
            encoding = self.kernel(batch)
            pooled: Any = encoding.mean[:, -1]
            if self.pooled_by == "cls":
                pooled = encoding.cls
            return {"sentence_embedding": torch.tensor(pooled)}
        states, mask, _ = self.plain_kernel.states(batch)
        features: dict[str, Any] = {
            "token_embeddings": states[-1].float().cpu(),
            "attention_mask": mask.long().cpu(),
            "prompt_length": self.skipped_tokens,
        }
        # The library passes over the weights of layers without this setting.
        if self.plain_kernel.model.config.output_hidden_states:
            features["all_layer_embeddings"] = [state.float().cpu() for state in states]
        return features


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
