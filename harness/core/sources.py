"""Sources of an encoder's files: what the engine must know to find, fetch, list and pin them.

A source only holds names. `harness.assets.places` finds the files on this machine.
"""

from __future__ import annotations

from dataclasses import dataclass


def fixed_by(**pins: object) -> str:
    """The names of those pins that hold something, or `unpinned`."""
    return ", ".join(name for name, held in pins.items() if held) or "unpinned"


@dataclass(frozen=True)
class Hub:
    """A model repository on the Hugging Face hub.

    Args:
        repo: Its name, `owner/name`.
        revision: The pinned commit; None is unpinned.
        sha256: The digest of the weights, where it is known.
        package: A folder in an installed package that carries the same files and goes first.
        asset: The name that `harness fetch` takes, if not the encoder's.
        about: Roughly how many bytes there are to get.
    """

    repo: str
    revision: str | None = None
    sha256: str | None = None
    package: str | None = None
    asset: str | None = None
    about: int | None = None

    def __str__(self) -> str:
        return f"{self.repo}@{self.revision[:12]}" if self.revision else f"{self.repo}, unpinned"


@dataclass(frozen=True)
class Packaged:
    """A folder, or a file in it, inside an installed package whose code is never imported."""

    package: str
    file: str | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        return f"package {self.package}"


@dataclass(frozen=True)
class VectorFile:
    """A file or folder of an encoder under the data folder, such as word vectors.

    `companion` is a second file that the encoder reads, such as word counts.
    """

    file: str
    sha256: str | None = None
    companion: str | None = None

    def __str__(self) -> str:
        return f"{self.file} and {self.companion}" if self.companion else self.file


@dataclass(frozen=True)
class LocalFiles:
    """Files that `--encoder NAME=PATH` names, and nothing else is known of."""

    sha256: str | None = None

    def __str__(self) -> str:
        return "local files"


@dataclass(frozen=True)
class Trained:
    """A training on this machine, of which every seed gives another encoder.

    Args:
        recipe: The arguments of `harness train`, without seed and folders.
        family: The name of the family that all seeds belong to.
        folder: The family's folder below the trained encoders of the cache.
        seed: The seed of one member; None is the family itself, which has no files.
        on_the_spot: Whether a run that needs a member trains it.
        sentences: How many sentences it encodes forward and backward; 0 is not stated.
        start_bytes: Roughly the bytes of the weights that it starts from; 0 is not stated.
    """

    recipe: str
    family: str
    folder: str
    seed: int | None = None
    on_the_spot: bool = False
    sentences: int = 0
    start_bytes: int = 0

    def __str__(self) -> str:
        return f"harness train {self.recipe}"


Source = Hub | Packaged | VectorFile | LocalFiles | Trained
