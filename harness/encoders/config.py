"""The base class of the configurations of encoders, and an encoder that is one function.

A configuration is a frozen dataclass, cheap to make: its `identify` digests the files of
the encoder without torch, and its `load` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from harness.core.digests import NOT_IN_IDENTITY
from harness.core.errors import UsageError
from harness.core.hardware import FLOAT32, Hardware, in_precision
from harness.core.interfaces import (
    Encoding,
    Hub,
    LocalFiles,
    Packaged,
    Source,
    VectorFile,
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
                revision=settings["revision"],
                sha256=digest,
                package=package,
                asset=settings.get("asset"),
                download_size=settings.get("download_size"),
            )
        if package:
            return Packaged(package, file, digest)
        return VectorFile(file, digest) if file else LocalFiles(digest)


@dataclass(frozen=True, eq=False)
class FunctionEncoder:
    """A loaded encoder that runs in one way on every machine.

    Attributes:
        key: The digest of everything that changes its vectors.
        function: Gives the encodings of texts, in their order.
    """

    key: str
    function: Callable[[Sequence[str]], Encoding] = field(repr=False)

    facts: ClassVar[Mapping[str, object]] = {}

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The encodings of the texts, in order."""
        return self.function(texts)
