"""Encoders under the modules of their sentence-transformers folder: `minilm.native`.

`modules.py` reads the folder, `kernels/modules.py` is the forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.digests import digest_of, one_reading, sha256_of
from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import FLOAT32, precision_of
from harness.core.interfaces import Encoder, EncoderConfig, Encoding, Identity, Trained
from harness.encoders.checkpoint import (
    MODULES_FILE,
    STATIC_MODULE,
    parameters_of,
    require_weights,
    weights_files,
)
from harness.encoders.config import DerivedConfig
from harness.encoders.kernels.choose import multiplications
from harness.encoders.modules import POOLING, Modules, read_modules
from harness.encoders.subword_vectors import SubwordConfig, open_table
from harness.encoders.transformer import TransformerConfig

# Part of every key: raise it with any change that moves a vector.
NATIVE_VERSION = "1: float32; modules as in sentence-transformers 6"


@dataclass(frozen=True)
class PromptedConfig(TransformerConfig):
    """A transformer encoder with prompts besides those of its sentence-transformers folder.

    Args:
        prompts: Names and texts: `.native:sts` puts the text called `sts` before each
            sentence.

    Examples:
        >>> from harness.encoders.native import PromptedConfig
        >>> e5 = PromptedConfig("e5", "intfloat/e5-small", prompts=(("sts", "query: "),))
        >>> e5.among({"passage": "passage: "})["sts"]
        'query: '
    """

    prompts: tuple[tuple[str, str], ...] = field(kw_only=True)

    def among(self, in_folder: Mapping[str, str]) -> dict[str, str]:
        """All prompts by name: the folder's and these."""
        for name, text in self.prompts:
            if in_folder.get(name, text) != text:
                raise UsageError(
                    f"{self.name}.native:{name}: wanted the prompt {text!r}, found "
                    f"{in_folder[name]!r} in the folder; give the registered one another name"
                )
        return {**in_folder, **dict(self.prompts)}


@dataclass(frozen=True)
class NativeConfig(DerivedConfig):
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

    prompt: str = ""

    def identify(self, path: Path) -> Identity:
        """The key and digests of a folder, modules and prompt included."""
        modules = self.modules(path)
        folder = modules.first.folder
        if (
            modules.first.kind == STATIC_MODULE
        ):  # a table of vectors, whose texts are not cut
            if (dtype := precision_of(self.name)[1]) != FLOAT32:
                raise UsageError(
                    f"{self.name}: this encoder runs in float32 alone, not in {dtype}"
                )
            weights, tokenizer = weights_files(folder)[0], folder / "tokenizer.json"
            digests = {"weights": sha256_of(weights), "tokenizer": sha256_of(tokenizer)}
            if not isinstance(self.of.source, Trained):
                require_weights(
                    self.name, weights, self.of.source.sha256, digests["weights"]
                )
            base = Identity(digest_of(digests), digests, None, parameters_of(folder))
        else:
            base = self._transformer().identify(folder)
        digest = modules.digest()
        facts = {"version": NATIVE_VERSION, "encoder": base.key, "modules": digest}
        key = digest_of({**facts, "prompt": modules.prompt(self.prompt)})
        return replace(base, key=key, digests={**base.digests, "modules": digest})

    @one_reading()
    def load(self, path: Path, cache: Path) -> NativeEncoder:
        """The encoder, ready. Raises DataError for modules that are not understood."""
        from harness.encoders.kernels.modules import head_of, under_modules

        modules, key = self.modules(path), self.identify(path).key
        prompt, folder = modules.prompt(self.prompt), modules.first.folder
        inner: Encoder
        if modules.first.kind == STATIC_MODULE:
            inner = open_table(key, folder, cache)
            cost = multiplications(0, inner.vectors.shape[1])
        else:
            plain = self._transformer().load(folder, cache)
            inner = under_modules(plain, modules, prompt, cache)
            cost = multiplications(plain.depth, plain.dimensions)
        return NativeEncoder(key, inner, prompt, head_of(modules, cache), cost)

    def modules(self, path: Path) -> Modules:
        """The folder's modules, with the encoder's own prompts among the folder's."""
        modules = read_modules(self.name, path)
        if isinstance(self.of, PromptedConfig):
            return replace(modules, prompts=self.of.among(modules.prompts))
        return modules

    def _transformer(self) -> TransformerConfig:
        if not isinstance(self.of, TransformerConfig):
            raise UsageError(
                f"{self.name}.native: wanted a transformer for the modules of the folder, found a "
                f"{type(self.of).__name__}; name the folder as a transformer"
            )
        return self.of


@dataclass(frozen=True)
class RepooledConfig(NativeConfig):
    """An encoder under its modules, but with another pooling of its tokens.

    Args:
        mode: The pooling, one of those of sentence-transformers: cls, max, mean,
            lasttoken...
    """

    mode: str = "mean"

    def modules(self, path: Path) -> Modules:
        """The folder's modules with this pooling in the place of theirs."""
        modules = super().modules(path)
        chain = tuple(
            replace(module, settings={"pooling_mode": self.mode})
            if module.kind == POOLING
            else module
            for module in modules.chain
        )
        return replace(modules, chain=chain)


@dataclass(frozen=True, eq=False)
class NativeEncoder:
    """A loaded encoder under its modules: prompt, tokens, pooling, and the maps of its `head`.

    `inner` gives the pooled vectors as its only layer; a token takes `multiplications`,
    roughly.
    """

    key: str
    inner: Encoder = field(repr=False)
    prompt: str
    head: Callable[[Any], Any] = field(repr=False)
    multiplications: int

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts of the transformer's passes: kernel, device, precision."""
        return self.inner.facts

    def encode(self, texts: Sequence[str]) -> Encoding:
        """One vector a text, in order."""
        inner = self.inner.encode([self.prompt + text for text in texts])
        native = np.asarray(self.head(inner.mean[:, 0]), np.float32)
        return Encoding(
            (), 0, native[:, None][:, :0], native=native, tokens=inner.tokens
        )


def bypassed(
    config: EncoderConfig,
    path: Path,
    poolings: Iterable[str],
    remedy: str | None = None,
) -> str:
    """A note on poolings that bypass the modules in an encoder's folder; empty for none.

    Vectors that differ from the modules' in length alone are the modules' own. The note
    ends with `remedy`, by default with the use of `native`.
    """
    if isinstance(config, DerivedConfig) or not (path / MODULES_FILE).is_file():
        return ""
    try:
        modules = read_modules(config.name, path)
    except HarnessError:
        which, native = "not all of which are read here", "`native` says which"
        alike = ""
    else:
        if modules.plain_table and isinstance(config, SubwordConfig):
            return ""
        which, native = modules.behind_tokens, f"use `{config.name}.native`"
        alike = modules.alike
    others = sorted(set(poolings) - {alike})
    if not others:
        return ""
    bypass = f"Poolings such as `{others[0]}` bypass the modules of {config.name}"
    return f"{bypass} ({which}); {remedy or native}"
