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
from harness.core.errors import ScoreError
from harness.core.identity import NOT_IN_IDENTITY
from harness.core.interfaces import Encoding, Identity, LocalFiles, Source
from harness.encoders.checkpoint import GOLDEN_SENTENCE
from harness.encoders.config import BaseConfig

Function = Callable[[list[str]], Any]

# What the key of a function is a digest of, besides its name: its vectors of these.
PROBES = (GOLDEN_SENTENCE, "A man is eating.", "", "a " * 600)

# How far a text's vectors may be apart, as a share of their length: half precisions and
# APIs answer within 1 %, dropout moves a vector by 20 % and more.
SAME_ROW = 0.05


@dataclass(frozen=True)
class FunctionConfig(BaseConfig):
    """A function from texts to vectors as an encoder; its pooling is `native`.

    Only the vectors of a few probe texts tell one function from another, so its vectors
    are best kept in a cache that is discarded with the program, as
    [`evaluate`][harness.evaluate] does. In a run the digest of the plug-in that holds
    the function is added.

    Args:
        name: Its id in the grammar of methods.
        function: From a list of N texts to N rows of numbers. A row must not depend on
            the other texts.
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

    function: Function = field(repr=False, metadata=NOT_IN_IDENTITY)

    source: ClassVar[Source] = LocalFiles()

    def identify(self, path: Path | None = None) -> Identity:  # noqa: ARG002 - it has no files
        """The key: of the name and of the vectors of a few probes."""
        probes = self.vectors(PROBES)
        alone, together = self.vectors(PROBES[:1])[0], probes[0]
        length = max(np.linalg.norm(alone), np.linalg.norm(together))
        if (
            len(alone) != len(together)
            or np.linalg.norm(alone - together) > SAME_ROW * length
        ):
            raise ScoreError(
                f"{self.name}: wanted one vector of a text whatever stands beside it, found two of "
                f"{PROBES[0][:20]!r}; switch off dropout, and what is fitted on a batch"
            )
        if not np.array_equal(probes, self.vectors(PROBES)):
            raise ScoreError(
                f"{self.name}: wanted the same vectors of a text each time, found others of "
                f"{PROBES[0][:20]!r} or another; take out what is random, and keep the answers of "
                "a service"
            )
        digests = {"weights": hashlib.sha256(probes.tobytes()).hexdigest()}
        return Identity(digest_of({"name": self.name, **digests}), digests)

    def load(
        self,
        path: Path | None = None,  # noqa: ARG002 - it has no files
        cache: Path | None = None,  # noqa: ARG002
    ) -> FunctionEncoder:
        """The encoder, ready."""
        return FunctionEncoder(self.identify().key, self)

    def vectors(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
        """What the function gives. Raises ScoreError unless it is one finite row a text."""
        given = self.function(list(texts))
        vectors = _numbers(given)
        shape = () if vectors is None else vectors.shape
        if (
            vectors is None
            or len(shape) != 2
            or len(vectors) != len(texts)
            or not shape[1]
        ):
            kind = (
                f"an array of shape {shape}" if shape else f"a {type(given).__name__}"
            )
            raise ScoreError(
                f"{self.name}: wanted {len(texts)} rows for {len(texts)} texts, all of one width, "
                f"found {kind}; let the function return a matrix of numbers"
            )
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            text = texts[int(finite.argmin())]
            raise ScoreError(f"{self.name}: the vector of {text[:60]!r} is not finite")
        return vectors


def _numbers(given: Any) -> Float32[np.ndarray, "..."] | None:
    """The numbers of an array, of a tensor of any kind, or of lists; None for anything else."""
    if hasattr(
        given, "detach"
    ):  # NumPy takes no tensor with a gradient, of bfloat16, or on a GPU
        given = given.detach().float().cpu()
    try:
        numbers = np.asarray(given)
    except (
        TypeError,
        ValueError,
        RuntimeError,
    ):  # rows of several widths, sparse matrices
        return None
    with np.errstate(
        over="ignore"
    ):  # what float32 cannot hold becomes infinite, and is refused
        return numbers.astype(np.float32) if numbers.dtype.kind in "fiub" else None


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
