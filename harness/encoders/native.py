"""Encoders under the modules of their sentence-transformers folder: `minilm.native`.

The vectors are those that sentence-transformers' `encode` gives: prompt, tokens,
pooling, and the maps of vectors after it. `modules.py` reads the folder, the library
computes (`kernels/modules.py`). `bypass_note` warns of poolings that leave the modules
out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from harness.core.digests import digest_of
from harness.core.errors import HarnessError, UsageError
from harness.core.hardware import FLOAT32, Hardware, precision_of
from harness.core.interfaces import Encoder, EncoderConfig, Identity
from harness.encoders.checkpoint import MODULES_FILE, folder_digests
from harness.encoders.modules import TRANSFORMER, Modules, read_modules
from harness.encoders.transformer import TransformerConfig
from harness.encoders.weights import parameter_count

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
            table = path / modules.subfolders[0]
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

    def load(self, path: Path, cache: Path) -> Encoder:
        """The encoder, ready. Raises DataError for modules that are not understood."""
        from harness.encoders.kernels.modules import open_library_encoder, under_modules

        modules = self.modules(path)
        key = self.identify(path).key
        prompt = modules.prompt(self.prompt)
        if modules.kinds[0] != TRANSFORMER:
            return open_library_encoder(self.name, key, modules, prompt)
        transformer = self._transformer().load(path, cache)
        return replace(under_modules(transformer, modules, prompt), key=key)

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
    equal_pooling = ""
    try:
        modules = read_modules(config.name, path)
        prompt = modules.prompt("")
        equal_pooling = modules.equal_pooling
    except HarnessError:
        steps = ["not all of which are read here"]
        remedy = "`native` says which"
    else:
        steps = list(modules.kinds[1:])
        if modules.lower_cases:
            steps.append("lower case")
        if prompt:
            steps.append(f"the prompt {prompt!r}")
        if modules.dimensions:
            steps.append(f"the first {modules.dimensions} dimensions")
        remedy = f"use `{config.name}.native`"
    bypassing_poolings = sorted(set(poolings) - {equal_pooling})
    if not bypassing_poolings:
        return ""
    return (
        f"Poolings such as `{bypassing_poolings[0]}` bypass the modules of {config.name} "
        f"({', '.join(steps)}); {remedy}"
    )
