"""Encoders that run recurrent networks over the words of a text: what all of them share.

A text is split into words, one of whose states in each layer is averaged over them. Texts never
see each other: the networks start from zeros for each of them, padded or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from harness.core.arrays import Float32
from harness.core.errors import AssetMissing, DataError, ScoreError, UsageError
from harness.core.files import Sha256, digest_of, sha256_of
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Encoding, Identity, LocalFiles, Source, VectorFile
from harness.core.provenance import extra
from harness.encoders.batches import batches
from harness.encoders.bilm_options import Options
from harness.encoders.checkpoint import convert_once, require_weights
from harness.encoders.word_tokenizer import PENN, Tokeniser

BATCH_WORDS = 1024  # a step's gates of 4 x 4096 numbers for each word take 67 MB
UNKNOWN = -1  # in the place of a row: a word without a vector

Config = TypeVar("Config", bound="RecurrentConfig")


@dataclass(frozen=True)
class RecurrentConfig:
    """A recurrent network over words: its name, its files, and the rule that splits text.

    Args:
        name: Its id in the grammar of methods.
        file: Its place in the data folder; None where a path is given by hand.
        tokeniser: The rule that splits a text into words.
        max_length: Words that texts are cut to; None cuts nothing.
        weights_sha256: The digest that the weights must have, or how it begins, if given.
        hardware: The device and the words of a batch; the precision is always float32.
        trained_on: The texts that its weights have seen.
        cite: The BibTeX key of its paper.
        licence: The licence of its weights.

    Raises:
        UsageError: The maximum length is below 1.
    """

    name: str
    file: str | None = None
    tokeniser: Tokeniser = PENN
    max_length: int | None = None
    weights_sha256: str | None = None
    hardware: Hardware = field(default=Hardware(), repr=False)
    trained_on: str = field(default="", repr=False)
    cite: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise UsageError(f"{self.name}: wanted a length of 1 or more, found {self.max_length}")

    @property
    def source(self) -> Source:
        """The place in the data folder that its files come from."""
        if self.file:
            return VectorFile(self.file, self.weights_sha256)
        return LocalFiles(self.weights_sha256)

    def member(self: Config, seed: int) -> Config:  # noqa: ARG002 - a family's would differ
        """This encoder, whatever the seed."""
        return self

    def with_max_length(self: Config, max_length: int) -> Config:
        """This encoder cut after so many words, and named so."""
        name = f"{self.name.partition(':')[0]}:{max_length}"
        return replace(self, name=name, max_length=max_length)

    def require_weights(self, file: Path, found: str) -> None:
        """Refuse weights that are not the pinned ones."""
        if not found.startswith(self.weights_sha256 or ""):
            require_weights(self.name, file, self.weights_sha256, found)

    def on(self: Config, hardware: Hardware) -> Config:
        """This encoder on a device, in float32."""
        require_float32(self.name, hardware)
        return replace(self, hardware=hardware)


@runtime_checkable
class Network(Protocol):
    """A recurrent network: the words of texts, longest first, to their mean states (B, L, D)."""

    def __call__(self, batch: Sequence[Sequence[Any]]) -> Float32[np.ndarray, "B L D"]: ...


@dataclass(frozen=True, eq=False)
class RecurrentEncoder:
    """A loaded network over words. No summary token, no pooler.

    `read` splits a text into what the network takes for its words, UNKNOWN for one without a
    vector. Layer 0 are the words' own vectors without context, the last is layer `depth`.
    """

    name: str
    key: str
    read: Callable[[str], Sequence[Any]] = field(repr=False)
    network: Network = field(repr=False)
    depth: int
    dimensions: int
    max_length: int | None = None
    batch_words: int = BATCH_WORDS
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def encode(
        self, texts: Sequence[str], *, progress: Callable[[int], None] | None = None
    ) -> Encoding:
        """The mean of each layer over the words of each text.

        A text without words is the zero vector, as an average of word vectors is. Raises ScoreError
        for a state that is not finite.
        """
        words = [self.read(text)[: self.max_length] for text in texts]
        filled = [row for row, found in enumerate(words) if len(found)]
        mean = np.zeros((len(texts), self.depth + 1, self.dimensions), np.float32)
        known = [sum(word != UNKNOWN for word in found) for found in words]
        tokens = np.array([(len(w), k) for w, k in zip(words, known, strict=True)], np.float32)
        for part in batches([len(words[row]) for row in filled], self.batch_words):
            rows = [filled[number] for number in part]
            mean[rows] = self.network([words[row] for row in rows])
            finite = np.isfinite(mean[rows]).all(axis=(1, 2))
            if not finite.all():
                raise ScoreError(
                    f"{self.name}: wanted finite numbers, found others in the encoding of text "
                    f"{rows[int(finite.argmin())]}; look for damaged weights"
                )
            if progress is not None:
                progress(len(rows))
        if progress is not None and len(filled) < len(texts):
            progress(len(texts) - len(filled))
        layers = tuple(range(self.depth + 1))
        return Encoding(layers, self.depth, mean, tokens=tokens.reshape(len(texts), 2))


DEEPEST = 16  # of groups in groups, which may hold themselves
MOST_BYTES = 4 * 2**30  # of all arrays, unpacked: a small file may claim to hold any number


def read_hdf5(path: Path, digest: str, cache: Path) -> dict[str, Any]:
    """Every array of an HDF5 file in float32, by its path: `CNN/W_cnn_0`.

    Args:
        path: The file.
        digest: Its sha256.
        cache: The folder that keeps its safetensors form; where that is, h5py is not needed.

    Raises:
        DataError: It is no HDF5 file, or holds something other than arrays of numbers.
        UsageError: The package h5py is not installed, and the form is not there yet.
    """
    from safetensors.torch import load_file

    return load_file(convert_once(cache, digest, lambda new: _convert(path, new)))


def _convert(path: Path, new: Path) -> None:
    from safetensors.numpy import save_file

    with extra("elmo"):
        import h5py
    try:
        with h5py.File(path, "r") as file:
            found = dict(_arrays(path, file, h5py))
            total = sum(array.size * 4 for array in found.values())
            if not found or total > MOST_BYTES:
                raise DataError(
                    f"{path}: wanted arrays of {MOST_BYTES} bytes at most, found {len(found)} of "
                    f"{total} bytes; fetch it again"
                )
            save_file({name: np.asarray(a[...], np.float32) for name, a in found.items()}, new)
    except (OSError, RuntimeError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(
            f"{path}: wanted HDF5, found otherwise ({reason}); fetch it again"
        ) from error


def _arrays(path: Path, group: Any, h5py: Any) -> Iterator[tuple[str, Any]]:
    """The arrays below a group, none of them read yet."""
    for name in group:
        where = f"{group.name.rstrip('/')}/{name}"[1:]
        link, item = group.get(name, getlink=True), None
        if isinstance(link, h5py.HardLink):
            item = group[name]
        if isinstance(item, h5py.Group) and where.count("/") < DEEPEST:
            yield from _arrays(path, item, h5py)
            continue
        own = isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external)
        if item is None or not own or item.dtype.kind != "f":
            raise DataError(f"{path}: wanted arrays of numbers in the file itself, found {where!r}")
        yield where, item


# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: float32; each text from zeros; means over words without boundaries"

OPTIONS, WEIGHTS = "*options.json", "*weights.hdf5"


@dataclass(frozen=True)
class ElmoConfig(RecurrentConfig):
    """An ELMo model in a folder of `*options.json` and `*weights.hdf5`.

    Examples:
        >>> from harness.encoders.elmo import ElmoConfig
        >>> str(ElmoConfig("elmo", "elmo/original").source)
        'elmo/original'
    """

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The key and digests of a folder, without torch; `sha256` may be memoised."""
        options, weights = _files(self.name, path)
        Options.read(options)
        digests = {"weights": sha256(weights), "config": sha256(options)}
        self.require_weights(weights, digests["weights"])
        facts = {"version": ENCODING_VERSION, "max_length": self.max_length}
        facts["tokeniser"] = repr(self.tokeniser)
        return Identity(digest_of({**facts, **digests}), digests, self.max_length)

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> RecurrentEncoder:
        """The encoder, ready. Raises DataError for weights that do not fit the options."""
        identity = self.identify(path, sha256)
        file, weights = _files(self.name, path)
        options = Options.read(file)

        from harness.encoders.kernels.bilm import read_network

        tensors: Mapping[str, Any] = read_hdf5(weights, identity.digests["weights"], cache)
        return RecurrentEncoder(
            name=self.name,
            key=identity.key,
            read=self.tokeniser.words,
            network=read_network(self.name, weights, tensors, options, self.hardware.device),
            depth=options.layers,
            dimensions=2 * options.projection,
            max_length=self.max_length,
            batch_words=self.hardware.batch_tokens or BATCH_WORDS,
            facts={"device": self.hardware.device, "dtype": self.hardware.dtype},
        )


def _files(name: str, folder: Path) -> tuple[Path, Path]:
    """The options and the weights of a folder."""
    if not folder.is_dir():
        raise AssetMissing(f"{name}: no folder at {folder}; fetch it, or name another one")
    found = []
    for pattern in (OPTIONS, WEIGHTS):
        files = sorted(folder.glob(pattern))
        if len(files) != 1:
            raise DataError(
                f"{name}: wanted one file {pattern} in {folder}, found {len(files)}; fetch both "
                "files of one model into a folder of their own"
            )
        found.append(files[0])
    return found[0], found[1]
