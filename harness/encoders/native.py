"""Encoders under the modules of their sentence-transformers folder: `minilm.native`.

The vectors are those that sentence-transformers' `encode` gives: prompt, tokens,
pooling, and the maps of vectors after it. `modules.py` reads the folder,
`kernels/modules.py` computes with its modules. `bypass_note` warns of poolings that leave
the modules out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of, sha256_of
from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import FLOAT32, precision_of
from harness.core.interfaces import (
    Encoder,
    EncoderConfig,
    Encoding,
    Identity,
    Trained,
    native_encoding,
)
from harness.encoders.checkpoint import (
    MODULES_FILE,
    STATIC_MODULE,
    require_weights,
    weights_files,
)
from harness.encoders.config import DerivedConfig
from harness.encoders.kernels.choose import multiplications
from harness.encoders.modules import POOLING, Modules, read_modules
from harness.encoders.subword_vectors import SubwordConfig, open_table, tokenizer_file
from harness.encoders.transformer import TransformerConfig
from harness.encoders.weights import parameter_count

# Part of the key of every vector: change it with any change that moves one.
NATIVE_VERSION = "1: float32; modules as in sentence-transformers 6"


@dataclass(frozen=True)
class PromptedConfig(TransformerConfig):
    """A transformer encoder with prompts in addition to those in its folder.

    Args:
        prompts: Names and texts: `.native:sts` puts the text called `sts` before each
            sentence.

    Examples:
        >>> from harness.encoders.native import PromptedConfig
        >>> e5 = PromptedConfig("e5", "intfloat/e5-small", prompts=(("sts", "query: "),))
        >>> e5.with_prompts_of_folder({"passage": "passage: "})["sts"]
        'query: '
    """

    prompts: tuple[tuple[str, str], ...] = field(kw_only=True)

    def with_prompts_of_folder(
        self, folder_prompts: Mapping[str, str]
    ) -> dict[str, str]:
        """All prompts by name: the folder's and these.

        Raises UsageError for a name that the folder has with another text.
        """
        for name, text in self.prompts:
            if folder_prompts.get(name, text) != text:
                raise UsageError(
                    f"{self.name}.native:{name}: wanted the prompt {text!r}, found "
                    f"{folder_prompts[name]!r} in the folder; give the registered one another name"
                )
        return {**folder_prompts, **dict(self.prompts)}


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
        folder = modules.reader.folder
        if modules.reader.kind == STATIC_MODULE:
            identity = self._identify_table(folder)
        else:
            identity = self._transformer().identify(folder)
        modules_digest = modules.digest()
        key = digest_of(
            {
                "version": NATIVE_VERSION,
                "encoder": identity.key,
                "modules": modules_digest,
                "prompt": modules.prompt(self.prompt),
            }
        )
        digests = {**identity.digests, "modules": modules_digest}
        return replace(identity, key=key, digests=digests)

    def _identify_table(self, folder: Path) -> Identity:
        """The key and digests of a table of vectors, whose texts are not cut."""
        _, dtype = precision_of(self.name)
        if dtype != FLOAT32:
            raise UsageError(
                f"{self.name}: this encoder runs in float32 alone, not in {dtype}"
            )
        weights = weights_files(folder)[0]
        digests = {
            "weights": sha256_of(weights),
            "tokenizer": sha256_of(tokenizer_file(folder)),
        }
        source = self.of.source
        if not isinstance(source, Trained):
            require_weights(self.name, weights, source.sha256, digests["weights"])
        return Identity(
            key=digest_of(digests),
            digests=digests,
            max_length=None,
            parameters=parameter_count(folder),
        )

    def load(self, path: Path, cache: Path) -> NativeEncoder:
        """The encoder, ready. Raises DataError for modules that are not understood."""
        from harness.encoders.kernels.modules import under_modules, vector_maps

        modules = self.modules(path)
        key = self.identify(path).key
        prompt = modules.prompt(self.prompt)
        folder = modules.reader.folder
        pooled: Encoder
        if modules.reader.kind == STATIC_MODULE:
            pooled = open_table(key, folder, cache)
            cost = multiplications(depth=0, width=pooled.vectors.shape[1])
        else:
            transformer = self._transformer().load(folder, cache)
            pooled = under_modules(transformer, modules, prompt, cache)
            cost = multiplications(transformer.depth, transformer.dimensions)
        return NativeEncoder(
            key=key,
            pooled=pooled,
            prompt=prompt,
            vector_maps=vector_maps(modules, cache),
            multiplications=cost,
        )

    def modules(self, path: Path) -> Modules:
        """The folder's modules, with the encoder's own prompts among the folder's."""
        modules = read_modules(self.name, path)
        if isinstance(self.of, PromptedConfig):
            prompts = self.of.with_prompts_of_folder(modules.prompts)
            return replace(modules, prompts=prompts)
        return modules

    def _transformer(self) -> TransformerConfig:
        """The encoder, which must be a transformer for the modules of the folder."""
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
        mode: The pooling, a key of POOLING_MODES: cls, max, mean, lasttoken...
    """

    mode: str = "mean"

    def modules(self, path: Path) -> Modules:
        """The folder's modules with this pooling in the place of theirs."""
        modules = super().modules(path)
        chain = []
        for module in modules.chain:
            if module.kind == POOLING:
                module = replace(module, settings={"pooling_mode": self.mode})
            chain.append(module)
        return replace(modules, chain=tuple(chain))


@dataclass(frozen=True, eq=False)
class NativeEncoder:
    """A loaded encoder under its modules.

    Attributes:
        key: The digest of everything that changes its vectors.
        pooled: The encoder whose only layer are the pooled tokens.
        prompt: The text that is put before each sentence.
        vector_maps: The maps of vectors after the pooling.
        multiplications: The multiplications that a token takes, roughly.
    """

    key: str
    pooled: Encoder = field(repr=False)
    prompt: str
    vector_maps: Callable[[Float32[np.ndarray, "N D"]], Float32[np.ndarray, "N K"]] = (
        field(repr=False)
    )
    multiplications: int

    @property
    def facts(self) -> Mapping[str, object]:
        """The facts of the transformer's passes: kernel, device, precision."""
        return self.pooled.facts

    def encode(self, texts: Sequence[str]) -> Encoding:
        """One vector a text, in order."""
        pooled = self.pooled.encode([self.prompt + text for text in texts])
        vectors = np.asarray(self.vector_maps(pooled.mean[:, 0]), np.float32)
        return native_encoding(vectors, tokens=pooled.tokens)


def bypass_note(
    config: EncoderConfig,
    path: Path,
    poolings: Iterable[str],
    remedy: str | None = None,
) -> str:
    """A note on poolings that bypass the modules in an encoder's folder; empty for none.

    A pooling whose vectors differ from the modules' in length alone bypasses none.

    Args:
        config: The encoder.
        path: Its folder.
        poolings: The names of poolings.
        remedy: The end of the note; None recommends `native`.
    """
    if isinstance(config, DerivedConfig) or not (path / MODULES_FILE).is_file():
        return ""
    try:
        modules = read_modules(config.name, path)
    except HarnessError:
        bypassed_steps = "not all of which are read here"
        recommendation = "`native` says which"
        equal_pooling = ""
    else:
        if modules.is_plain_table and isinstance(config, SubwordConfig):
            return ""
        bypassed_steps = modules.steps_in_words
        recommendation = f"use `{config.name}.native`"
        equal_pooling = modules.equal_pooling
    bypassing_poolings = sorted(set(poolings) - {equal_pooling})
    if not bypassing_poolings:
        return ""
    return (
        f"Poolings such as `{bypassing_poolings[0]}` bypass the modules of {config.name} "
        f"({bypassed_steps}); {remedy or recommendation}"
    )
