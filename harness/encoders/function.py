"""An encoder that is a plain function: an API, another library's model, anything that embeds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of
from harness.core.errors import ScoreError, UsageError
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Encoding, Identity
from harness.core.sources import LocalFiles, Source
from harness.encoders.tokenizer_check import GOLDEN_SENTENCE

Function = Callable[[list[str]], Any]

# What the key of a function is a digest of, besides its name: its vectors of these.
PROBES = (GOLDEN_SENTENCE, "A man is eating.", "", "a " * 600)


@dataclass(frozen=True)
class FunctionConfig:
    """A function from texts to vectors as an encoder; its pooling is `native`.

    Nothing but the vectors of a few probes tells one function from another, so what it gives is
    best kept in a cache that ends with the program, as [`evaluate`][harness.evaluate] does.

    Args:
        name: Its id in the grammar of methods.
        function: From a list of N texts to N rows of numbers. A row must not depend on the other
            texts.
        trained_on: The texts that its weights have seen.
        cite: The BibTeX key of its paper.
        licence: The licence of its weights.

    Examples:
        >>> import numpy as np
        >>> from harness import FunctionConfig
        >>> lengths = FunctionConfig("lengths", lambda texts: [[len(t), 1.0] for t in texts])
        >>> lengths.load().encode(["A man.", "Two men."]).native.tolist()
        [[6.0, 1.0], [8.0, 1.0]]
    """

    name: str
    function: Function = field(repr=False)
    trained_on: str = field(default="", repr=False)
    cite: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)

    source: ClassVar[Source] = LocalFiles()

    def member(self, seed: int) -> FunctionConfig:  # noqa: ARG002 - a family's would differ
        """This encoder, whatever the seed."""
        return self

    def with_max_length(self, max_length: int) -> FunctionConfig:
        """Refused: the function cuts texts as it likes."""
        raise UsageError(f"{self.name}:{max_length}: this encoder has no maximum length to set")

    def on(self, hardware: Hardware) -> FunctionConfig:
        """This encoder: the function chooses its device itself, and returns float32."""
        require_float32(self.name, hardware)
        return self

    def identify(self, path: Path | None = None) -> Identity:  # noqa: ARG002 - it has no files
        """The key: of the name and of the vectors of a few probes."""
        probes = self.vectors(PROBES)
        digests = {"weights": hashlib.sha256(probes.tobytes()).hexdigest()}
        return Identity(digest_of({"name": self.name, **digests}), digests)

    def load(self, path: Path | None = None, cache: Path | None = None) -> FunctionEncoder:  # noqa: ARG002 - it has no files
        """The encoder, ready."""
        return FunctionEncoder(self.identify().key, self)

    def vectors(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
        """What the function gives. Raises ScoreError unless it is one finite row a text."""
        found = np.asarray(self.function(list(texts)), np.float32)
        if found.ndim != 2 or len(found) != len(texts):
            raise ScoreError(
                f"{self.name}: wanted {len(texts)} rows for {len(texts)} texts, found an array of "
                f"shape {found.shape}"
            )
        finite = np.isfinite(found).all(axis=1)
        if not finite.all():
            text = texts[int(finite.argmin())]
            raise ScoreError(f"{self.name}: the vector of {text[:60]!r} is not finite")
        return found


@dataclass(frozen=True, eq=False)
class FunctionEncoder:
    """A function, ready to encode."""

    key: str
    config: FunctionConfig

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """What the function gives for each text, in order."""
        native = self.config.vectors(texts)
        return Encoding((), 0, native[:, None][:, :0], native=native)
