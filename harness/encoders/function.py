"""An encoder that is a plain function: an API, another library's model, anything that embeds.

A function has no files that could be digested, so that it is known by its vectors of a
few probe texts. They also show a function whose vector of a text depends on other texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import NOT_IN_IDENTITY, digest_of
from harness.core.errors import ScoreError
from harness.core.interfaces import Identity, native_encoding
from harness.encoders.config import GOLDEN_SENTENCE, BaseConfig, FunctionEncoder

Function = Callable[[list[str]], Any]

# The texts whose vectors are in the key of a function, together with its name.
PROBES = (GOLDEN_SENTENCE, "A man is eating.", "", "a " * 600)

# How far two vectors of one text may be apart, as a share of their length: half
# precisions and APIs answer within 1 %, dropout moves a vector by 20 % and more.
LARGEST_GAP = 0.05


def are_of_one_text(
    x: Float32[np.ndarray, "..."], y: Float32[np.ndarray, "..."]
) -> bool:
    """Whether two encodings can be of one text: `LARGEST_GAP` apart, or equal."""
    if np.array_equal(x, y, equal_nan=True):
        return True
    length = max(np.linalg.norm(x), np.linalg.norm(y))
    return bool(np.linalg.norm(x - y) <= LARGEST_GAP * length)


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

    def identify(self, path: Path | None = None) -> Identity:  # noqa: ARG002 - it has no files
        """The key: of the name and of the vectors of a few probes.

        Raises ScoreError for a function whose vector of a text depends on other texts,
        or differs from call to call.
        """
        vectors = self.vectors(PROBES)
        [alone] = self.vectors(PROBES[:1])
        is_wide = len(alone) == vectors.shape[1]
        if not is_wide or not are_of_one_text(alone, vectors[0]):
            raise ScoreError(
                f"{self.name}: wanted one vector of a text whatever the texts next to it, found "
                f"two of {PROBES[0][:20]!r}; switch off dropout, and what is fitted on a batch"
            )
        if not np.array_equal(vectors, self.vectors(PROBES)):
            raise ScoreError(
                f"{self.name}: wanted the same vectors of a text each time, found others of "
                f"{PROBES[0][:20]!r} or another; take out what is random, and keep the answers of "
                "a service"
            )
        digests = {"weights": hashlib.sha256(vectors.tobytes()).hexdigest()}
        return Identity(digest_of({"name": self.name, **digests}), digests)

    def load(
        self,
        path: Path | None = None,  # noqa: ARG002 - it has no files
        cache: Path | None = None,  # noqa: ARG002
    ) -> FunctionEncoder:
        """The encoder, ready."""
        return FunctionEncoder(
            self.identify().key, lambda texts: native_encoding(self.vectors(texts))
        )

    def vectors(self, texts: Sequence[str]) -> Float32[np.ndarray, "N D"]:
        """What the function returns. Raises ScoreError unless it is one finite row a text."""
        answer = self.function(list(texts))
        if hasattr(answer, "detach"):
            # NumPy takes no tensor with a gradient, of bfloat16, or on a GPU.
            answer = answer.detach().float().cpu()
        try:
            vectors = np.asarray(answer)
        except ValueError:  # rows of several widths
            vectors = np.asarray(None)
        is_matrix = vectors.ndim == 2 and vectors.dtype.kind in "fiub"
        if not is_matrix or len(vectors) != len(texts) or not vectors.shape[1]:
            description = f"a {type(answer).__name__}"
            if vectors.ndim:
                description = f"an array of {vectors.dtype} and shape {vectors.shape}"
            raise ScoreError(
                f"{self.name}: wanted {len(texts)} rows for {len(texts)} texts, all of one width, "
                f"found {description}; let the function return a matrix of numbers"
            )
        # What float32 cannot hold becomes infinite.
        with np.errstate(over="ignore"):
            vectors = vectors.astype(np.float32)
        is_finite = np.isfinite(vectors).all(axis=1)
        if not is_finite.all():
            text = texts[int(is_finite.argmin())]
            raise ScoreError(
                f"{self.name}: wanted finite numbers of at most 3e38, found another in the "
                f"vector of {text[:60]!r}; mend the function, or leave the sentence out"
            )
        return vectors
