"""The base class of the configurations of encoders, and an encoder that is a plain function.

A configuration is a frozen dataclass, cheap to make: its `identify` digests the files of
the encoder without torch, and its `load` reads them. A function (an API, another
library's model, anything that embeds) has no files that could be digested, so that it is
known by its vectors of a few probe texts. They also show a function whose vector of a
text depends on other texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import NOT_IN_IDENTITY, digest_of
from harness.core.errors import ScoreError, UsageError
from harness.core.hardware import FLOAT32, Hardware, in_precision
from harness.core.interfaces import (
    Encoding,
    Hub,
    Identity,
    LocalFiles,
    Packaged,
    Source,
    VectorFile,
    native_encoding,
)

# A sentence that shows how a tokenizer treats case, accents, a clitic, digits, currency,
# a dash, scripts, an emoji, and a rare word that it splits.
GOLDEN_SENTENCE = (
    "Zoë's naïve CAFÉ-owner didn't pay $1,234.50 — for 東京 sushi 🙂 "
    "(antidisestablishmentarianism)!"
)


Base = TypeVar("Base", bound="BaseConfig")


@dataclass(frozen=True)
class BaseConfig:
    """The name of an encoder, and what is published about it.

    Args:
        name: Its id in the grammar of methods.
        trained_on: The texts that its weights have seen.
        cite: The BibTeX key of its paper; of several, with commas between.
        licence: The licence of its weights.

    Raises:
        UsageError: A subclass has a maximum length, and it is below 1.
    """

    name: str
    _: KW_ONLY
    trained_on: str = field(default="", repr=False, metadata=NOT_IN_IDENTITY)
    cite: str = field(default="", repr=False, metadata=NOT_IN_IDENTITY)
    licence: str = field(default="", repr=False, metadata=NOT_IN_IDENTITY)

    def __post_init__(self) -> None:
        length = getattr(self, "max_length", None)
        if length is not None and length < 1:
            raise UsageError(
                f"{self.name}: wanted a length of 1 or more, found {length}"
            )

    def member(self: Base, seed: int) -> Base:  # noqa: ARG002 - a family's differ
        """This encoder; a family has another for each seed."""
        return self

    def with_max_length(self: Base, max_length: int) -> Base:
        """This encoder cut at another length, and named so: `bert-base:64`."""
        if not hasattr(self, "max_length"):
            raise UsageError(
                f"{self.name}:{max_length}: this encoder has no maximum length to set"
            )
        name_without_length = self.name.partition(":")[0]
        name = f"{name_without_length}:{max_length}"
        changes: dict[str, Any] = {"name": name, "max_length": max_length}
        return replace(self, **changes)

    def on(self: Base, hardware: Hardware) -> Base:
        """This encoder in a precision, which its name shows unless it is float32.

        One that has no hardware to set runs on the processor, whatever the device.
        """
        if hasattr(self, "hardware"):
            name = in_precision(self.name, hardware.dtype)
            changes: dict[str, Any] = {"name": name, "hardware": hardware}
            return replace(self, **changes)
        if hardware.dtype != FLOAT32:
            raise UsageError(
                f"{self.name}: this encoder runs in float32 alone, not in {hardware.dtype}"
            )
        return self

    @property
    def source(self) -> Source:
        """Where its files come from, by the settings that it has.

        They come from a repository on the hub, or else from a package, a file in the data
        folder, or the user.
        """
        settings: dict[str, Any] = vars(self)
        digest = settings.get("weights_sha256")
        package, file = settings.get("package"), settings.get("file")
        if settings.get("repo"):
            return Hub(
                repo=settings["repo"],
                revision=settings.get("revision"),
                sha256=digest,
                package=package,
                asset=settings.get("asset"),
                download_size=settings.get("download_size"),
                maven=settings.get("maven"),
            )
        if package:
            return Packaged(package, file, digest)
        if file:
            return VectorFile(file, digest, companion=settings.get("counts"))
        return LocalFiles(digest)


@dataclass(frozen=True, eq=False)
class FunctionEncoder:
    """A loaded encoder that runs in one way on every machine.

    Attributes:
        key: The digest of everything that changes its vectors.
        function: Gives the encodings of texts, in their order.
        in_one_batch: Gives them where all texts go through the model together; None
            where `function` does so.
    """

    key: str
    function: Callable[[Sequence[str]], Encoding] = field(repr=False)
    in_one_batch: Callable[[Sequence[str]], Encoding] | None = field(
        default=None, repr=False
    )

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The encodings of the texts, in order."""
        return self.function(texts)

    def batch_gap(self, texts: Sequence[str]) -> float:
        """The largest difference between the encodings of texts alone and in one batch.

        It is a share of the largest number in them.
        """
        together = (self.in_one_batch or self.function)(texts)
        each_alone = [self.function([text]) for text in texts]
        gaps = [0.0]
        for name, array in together.arrays.items():
            alone = np.concatenate([encoding.arrays[name] for encoding in each_alone])
            largest = np.abs(alone).max(initial=0.0)
            if largest:
                gaps.append(float(np.abs(array - alone).max() / largest))
        return max(gaps)


# Functions of a user

Function = Callable[[list[str]], Any]

# The texts whose vectors are in the key of a function, together with its name.
PROBES = (GOLDEN_SENTENCE, "A man is eating.", "", "a " * 600)

# How far two vectors of one text may be apart, as a share of their length: half
# precisions and APIs answer within 1 %, dropout moves a vector by 20 % and more.
LARGEST_GAP = 0.05
LEAST_WHOLE_NUMBERS = 20  # of a vector of which one bit may turn


def are_of_one_text(
    x: Float32[np.ndarray, "..."], y: Float32[np.ndarray, "..."]
) -> bool:
    """Whether two encodings can be of one text: `LARGEST_GAP` apart, or equal.

    Of whole numbers, as binary vectors have them, so large a share may differ: where a
    number is near a border, rounding turns its bit.
    """
    if np.array_equal(x, y, equal_nan=True):
        return True
    length = max(np.linalg.norm(x), np.linalg.norm(y))
    if np.linalg.norm(x - y) <= LARGEST_GAP * length:
        return True
    are_whole = np.array_equal(x, np.rint(x)) and np.array_equal(y, np.rint(y))
    is_wide = x.size >= LEAST_WHOLE_NUMBERS
    return bool(are_whole and is_wide and np.mean(x != y) <= LARGEST_GAP)


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
