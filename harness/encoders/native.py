"""Encoders under the modules of their sentence-transformers folder: `minilm.native`.

The vectors are those that sentence-transformers' `encode` gives: prompt, tokens,
pooling, and the maps of vectors after it. `modules.py` reads what the folder says. A
transformer is opened like any other, so that its tokenizer and its weights are checked
and its fast pass is used, and the library computes the modules after it. A folder
without a transformer is the library's alone. Importing this module does not import
torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.core.digests import digest_of
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.hardware import FLOAT32, Hardware, precision_of
from harness.core.interfaces import (
    Encoder,
    EncoderConfig,
    Encoding,
    Identity,
    Pooling,
    native_encoding,
)
from harness.encoders.checkpoint import MODULES_FILE, folder_digests, library_errors
from harness.encoders.config import FunctionEncoder
from harness.encoders.fingerprints import Fingerprint
from harness.encoders.kernels.choose import PLAIN
from harness.encoders.modules import (
    POOLING,
    TRANSFORMER,
    Modules,
    pools_decoder,
    read_modules,
)
from harness.encoders.transformer import TransformerConfig, TransformerEncoder
from harness.encoders.weights import parameter_count
from harness.transforms.pooling import CLS, MEAN

LIBRARY = "sentence-transformers"
# Part of the key of every vector: change it with any change that moves one.
NATIVE_VERSION = "2: float32; modules of sentence-transformers 6"

Native = TypeVar("Native", bound="NativeConfig")


@dataclass(frozen=True)
class PromptedConfig(TransformerConfig):
    """A transformer encoder with prompts in addition to those in its folder.

    Args:
        prompts: Names and texts: `.native:sts` puts the text called `sts` before each
            sentence.

    Examples:
        >>> from harness.encoders.native import PromptedConfig
        >>> e5 = PromptedConfig("e5", "intfloat/e5-small", prompts=(("sts", "query: "),))
        >>> dict(e5.prompts)["sts"]
        'query: '
    """

    prompts: tuple[tuple[str, str], ...] = field(kw_only=True)


@dataclass(frozen=True)
class NativeConfig:
    """An encoder under the modules of its sentence-transformers folder.

    Args:
        of: The encoder.
        prompt: The name of the prompt that is put before each sentence, the folder's or
            the encoder's; empty is the folder's default, which may be none.

    Examples:
        >>> from harness import load_registry
        >>> load_registry().parse("minilm.native").encoder.of.name
        'minilm'
    """

    of: EncoderConfig
    prompt: str = ""

    # Of the encoder: its name is `minilm` in `minilm.native`.
    name = property(attrgetter("of.name"))
    trained_on = property(attrgetter("of.trained_on"))
    cite = property(attrgetter("of.cite"))
    licence = property(attrgetter("of.licence"))
    source = property(attrgetter("of.source"))
    pin = property(attrgetter("of.pin"))

    def member(self: Native, seed: int) -> Native:
        """These modules, of the member of a trained family that belongs to a seed."""
        return replace(self, of=self.of.member(seed))

    def with_max_length(self: Native, max_length: int) -> Native:
        """These modules, with texts cut at `max_length` tokens."""
        return replace(self, of=self.of.with_max_length(max_length))

    def on(self: Native, hardware: Hardware) -> Native:
        """These modules, on the device and in the precision of `hardware`."""
        return replace(self, of=self.of.on(hardware))

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder, with the prompt."""
        modules = self.modules(path)
        if modules.kinds[0] == TRANSFORMER:
            identity = self._transformer().identify(path)
        else:  # a table, whose texts are not cut
            _, dtype = precision_of(self.name)
            if dtype != FLOAT32:
                raise UsageError(
                    f"{self.name}: this encoder runs in float32 alone, not in {dtype}"
                )
            _, subfolder = modules.entries[0]
            table = path / subfolder
            pinned_digest = getattr(self.of.source, "sha256", None)
            files, parts = folder_digests(self.name, path, table, pinned_digest)
            identity = Identity(
                files, {"weights": parts["weights"]}, parameters=parameter_count(table)
            )
        key = digest_of(
            {
                "version": NATIVE_VERSION,
                "encoder": identity.key,
                "pooling": modules.modes,
                "prompt": modules.prompt(self.prompt),
            }
        )
        return replace(identity, key=key)

    def fingerprint(
        self, path: Path, digests: Mapping[str, str], cache: Path
    ) -> Fingerprint:
        """What the checkpoint of the modules is; empty for a table."""
        if self.modules(path).kinds[0] != TRANSFORMER:
            return {}
        return self._transformer().fingerprint(path, digests, cache)

    def load(self, path: Path, cache: Path) -> Encoder:
        """The encoder, ready. Raises DataError for modules that are not understood."""
        modules = self.modules(path)
        key = self.identify(path).key
        prompt = modules.prompt(self.prompt)
        if modules.kinds[0] != TRANSFORMER:
            return _of_library(self.name, key, modules, prompt)
        transformer = self._transformer().load(path, cache)
        return replace(_under_modules(transformer, modules, prompt), key=key)

    def modules(self, path: Path) -> Modules:
        """The folder's modules, with the encoder's own prompts among the folder's.

        Raises UsageError for a prompt whose name has another text in the folder.
        """
        modules = read_modules(self.name, path)
        prompts = dict(modules.prompts)
        own_prompts = self.of.prompts if isinstance(self.of, PromptedConfig) else ()
        for name, text in own_prompts:
            if prompts.setdefault(name, text) != text:
                raise UsageError(
                    f"{self.name}.native:{name}: wanted the prompt {text!r}, found "
                    f"{prompts[name]!r} in the folder; give the registered one another name"
                )
        return replace(modules, prompts=prompts)

    def _transformer(self) -> TransformerConfig:
        """The encoder, which must be a transformer for the modules of the folder."""
        if not isinstance(self.of, TransformerConfig):
            raise UsageError(
                f"{self.name}.native: wanted a transformer for the modules of the folder, found a "
                f"{type(self.of).__name__}; name the folder as a transformer"
            )
        return self.of


def _under_modules(
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
    import torch
    from sentence_transformers.sentence_transformer import modules as library

    from harness.encoders.kernels.loading import opening
    from harness.encoders.kernels.passes import to_numpy

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
    own_pooling: Pooling | None = None  # of the encoder's own pass
    if modules.kinds[1:2] == (POOLING,) and skipped_tokens == 0:
        if modules.modes == ("cls",) and encoder.plain_kernel.summary == 0:
            own_pooling = CLS
        if modules.modes == ("mean",):
            own_pooling = MEAN
    with opening(encoder.name, modules.folder, LIBRARY):
        layers: list[Any] = []
        for kind, subfolder in modules.entries[1:]:
            # The library refuses weights that are missing or left over.
            layer = getattr(library, kind).load(
                str(modules.folder), subfolder=subfolder, local_files_only=True
            )
            layers.append(layer.eval().float())
        choice = encoder.choice
        if own_pooling is not None:
            layers = layers[1:]
        else:
            tokens = encoder.hardware.batch_tokens or PLAIN.tokens
            choice = replace(PLAIN, tokens=tokens)

        def kernel(batch: Sequence[Sequence[int]]) -> Encoding:
            with torch.inference_mode():
                if own_pooling is not None:
                    pooled = torch.tensor(own_pooling(encoder.kernel(batch)))
                    features: Any = {"sentence_embedding": pooled}
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


def _token_features(kernel: Any, batch: Sequence[Sequence[int]]) -> dict[str, Any]:
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


def _of_library(name: str, key: str, modules: Modules, prompt: str) -> FunctionEncoder:
    """The encoder of a folder without a transformer: a table of vectors, read by the library.

    `name` and `key` are the encoder's. Raises DataError for a folder that the library does
    not open.
    """
    from sentence_transformers import SentenceTransformer

    from harness.encoders.kernels.loading import opening

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


def bypass_note(config: EncoderConfig, path: Path, poolings: Iterable[str]) -> str:
    """A note on poolings that bypass the modules in an encoder's folder; empty for none.

    A pooling whose vectors differ from the modules' in length alone bypasses none.

    Args:
        config: The encoder.
        path: Its folder.
        poolings: The names of poolings.
    """
    if isinstance(config, NativeConfig) or not (path / MODULES_FILE).is_file():
        return ""
    try:
        modules = read_modules(config.name, path)
        equal_pooling, steps = modules.equal_pooling, modules.steps
        remedy = f"use `{config.name}.native`"
    except HarnessError:
        equal_pooling, steps = "", ["not all of which are read here"]
        remedy = "`native` says which"
    bypassing_poolings = sorted(set(poolings) - {equal_pooling})
    if not bypassing_poolings:
        return ""
    return (
        f"Poolings such as `{bypassing_poolings[0]}` bypass the modules of {config.name} "
        f"({', '.join(steps)}); {remedy}"
    )
