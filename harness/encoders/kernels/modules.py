"""The modules of a sentence-transformers folder, which the library computes.

A transformer is opened here like any other, so that its tokenizer and its weights are
checked and its fast pass is used; the library has the modules after it. A folder without
a transformer is the library's alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as library
from torch import nn

from harness.core.errors import DataError
from harness.core.interfaces import Encoding, native_encoding
from harness.encoders.checkpoint import library_errors
from harness.encoders.config import FunctionEncoder
from harness.encoders.kernels.choose import PLAIN
from harness.encoders.kernels.loading import opening
from harness.encoders.kernels.passes import PaddedKernel, TokenIds, to_numpy
from harness.encoders.modules import POOLING, Modules, pools_decoder
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
        later_modules = zip(modules.kinds[1:], modules.subfolders[1:], strict=True)
        for kind, subfolder in later_modules:
            # The library refuses weights that are missing or left over.
            module = getattr(library, kind).load(
                str(modules.folder), subfolder=subfolder, local_files_only=True
            )
            layers.append(module.eval().float())
        pooled_by = ""  # what is taken from the encoder's own pass
        if modules.kinds[1:2] == (POOLING,) and skipped_tokens == 0:
            if modules.modes == ("cls",) and encoder.plain_kernel.summary == 0:
                pooled_by = "cls"
            if modules.modes == ("mean",):
                pooled_by = "mean"
        choice = encoder.choice
        if pooled_by:
            layers = layers[1:]
        else:
            tokens = encoder.hardware.batch_tokens or PLAIN.tokens
            choice = replace(PLAIN, tokens=tokens)

        def kernel(batch: TokenIds) -> Encoding:
            with torch.inference_mode():
                if pooled_by:
                    encoding: Any = encoder.kernel(batch)
                    pooled = (
                        encoding.cls if pooled_by == "cls" else encoding.mean[:, -1]
                    )
                    features: dict[str, Any] = {
                        "sentence_embedding": torch.tensor(pooled)
                    }
                else:
                    features = _token_features(encoder.plain_kernel, batch)
                    features["prompt_length"] = skipped_tokens
                for layer in layers:
                    features = layer(features)
                vectors = features["sentence_embedding"][:, : modules.dimensions]
                return native_encoding(to_numpy(vectors))

        sample = kernel(tokenizer(["one sentence"]))
    return replace(
        encoder,
        tokenizer=tokenizer,
        kernel=kernel,
        sample=sample,
        choice=choice,
        prompt=prompt,
    )


def _token_features(kernel: PaddedKernel, batch: TokenIds) -> dict[str, Any]:
    """What a pooling of the library takes: the states of all tokens, from the plain pass."""
    states, mask, _ = kernel.states(batch)
    features: dict[str, Any] = {
        "token_embeddings": states[-1].float().cpu(),
        "attention_mask": mask.long().cpu(),
    }
    # The library passes over the weights of layers without this setting.
    if kernel.model.config.output_hidden_states:
        features["all_layer_embeddings"] = [state.float().cpu() for state in states]
    return features


def open_library_encoder(
    name: str, key: str, modules: Modules, prompt: str
) -> FunctionEncoder:
    """The encoder of a folder without a transformer: a table of vectors, read by the library.

    `name` and `key` are the encoder's. Raises DataError for a folder that the library does
    not open.
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
    return FunctionEncoder(key, encode)
