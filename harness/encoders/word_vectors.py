"""Static word vectors averaged over the words of a sentence: GloVe, word2vec, fastText.

An encoder here is a vector file and a tokeniser, and with word counts a chain of maps of the
vectors; all are part of its identity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.core.digests import Sha256, digest_of, sha256_of
from harness.core.errors import AssetMissing, UsageError
from harness.core.hardware import Hardware, require_float32
from harness.core.interfaces import Identity
from harness.core.sources import Hub, LocalFiles, Packaged, Source, VectorFile
from harness.encoders.averages import AverageEncoder
from harness.encoders.checkpoint import require_weights
from harness.encoders.word_tokenizer import PLAIN, Tokeniser
from harness.encoders.word_vector_files import read_cached
from harness.encoders.word_vocabulary import Vocabulary, WordMap, read_counts

# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = "1: mean over known words in float64; no known word is the zero vector"
MAPS_VERSION = "1: maps of float32 vectors, fitted in float64, kept in float32"


@dataclass(frozen=True)
class StaticConfig:
    """An average of word vectors: its name, the vector file, and the rule that splits text.

    Args:
        name: Its id in the grammar of methods.
        tokeniser: The rule that splits a text and looks up its words.
        file: The file's name in the data folder, package or repository; None where a path that
            is given by hand is the file itself.
        repo: Its repository on the hub, if it has one.
        revision: The pinned commit; None is unpinned.
        weights_sha256: The digest that the file must have, if given.
        package: A folder in an installed package that carries the file; its code is never
            imported.
        trained_on: The texts that the vectors were trained on.
        cite: The BibTeX key of their paper.
        licence: Their licence.

    Examples:
        >>> from harness import StaticConfig
        >>> str(StaticConfig("glove", file="vectors/glove.6B.300d.txt").source)
        'vectors/glove.6B.300d.txt'
    """

    name: str
    tokeniser: Tokeniser = PLAIN
    file: str | None = None
    repo: str | None = None
    revision: str | None = None
    weights_sha256: str | None = None
    package: str | None = field(default=None, repr=False)
    trained_on: str = field(default="", repr=False)
    cite: str = field(default="", repr=False)
    licence: str = field(default="", repr=False)

    @property
    def source(self) -> Source:
        """The package, hub repository or data folder that the file comes from."""
        if self.repo:
            return Hub(self.repo, self.revision, self.weights_sha256, self.package)
        if self.package:
            return Packaged(self.package, self.file, self.weights_sha256)
        if self.file:
            return VectorFile(self.file, self.weights_sha256)
        return LocalFiles(self.weights_sha256)

    def member(self, seed: int) -> StaticConfig:  # noqa: ARG002 - a family's would differ
        """This encoder, whatever the seed."""
        return self

    def with_max_length(self, max_length: int) -> StaticConfig:
        """Refused: word vectors average over whole texts."""
        raise UsageError(f"{self.name}:{max_length}: this encoder has no maximum length to set")

    def on(self, hardware: Hardware) -> StaticConfig:
        """This encoder, on the processor and in float32 whatever the device."""
        require_float32(self.name, hardware)
        return self

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The key and digests; `path` is the vector file, or the folder that it lies in."""
        file = vectors_file(self, path)
        weights = sha256(file)
        require_weights(self.name, file, self.weights_sha256, weights)
        facts = {"version": ENCODING_VERSION, "tokeniser": repr(self.tokeniser)}
        return Identity(digest_of({**facts, "weights": weights}), {"weights": weights})

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> StaticEncoder:
        """The encoder, ready. Text and `.bin` are parsed once; `cache` keeps their quick form."""
        identity = self.identify(path, sha256)
        file = vectors_file(self, path)
        words, vectors = read_cached(file, identity.digests["weights"], cache)
        return StaticEncoder(self.name, identity.key, vectors, self.tokeniser, first_rows(words))


@dataclass(frozen=True)
class CountedConfig(StaticConfig):
    """An average of word vectors that are first mapped with the help of word counts.

    The counts lie beside the vector file. A weight of a word scales its vector, so that the token
    mean, over the number of known words, is the weighted one.

    Args:
        counts: The file of word counts, in the data folder.
        maps: What is done to the vectors of the vocabulary, in this order.
        counts_sha256: The digest that the counts must have, if given.

    Raises:
        UsageError: The vectors are no file of the data folder.
    """

    counts: str = field(kw_only=True)
    maps: tuple[WordMap, ...] = field(kw_only=True)
    counts_sha256: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.file is None or self.repo or self.package:
            raise UsageError(f"{self.name}: word counts go with vectors in a file, beside them")

    @property
    def source(self) -> Source:
        """The vectors and the counts in the data folder."""
        return VectorFile(str(self.file), self.weights_sha256, self.counts)

    def identify(self, path: Path, sha256: Sha256 = sha256_of) -> Identity:
        """The key and digests, those of the counts and the `repr` of the maps included."""
        plain = super().identify(path, sha256)
        counts = self._counts_file(path)
        digests = {**plain.digests, "counts": sha256(counts)}
        require_weights(self.name, counts, self.counts_sha256, digests["counts"])
        facts = {"version": MAPS_VERSION, "plain": plain.key, "maps": repr(self.maps)}
        return Identity(digest_of({**facts, "counts": digests["counts"]}), digests)

    def load(self, path: Path, cache: Path, *, sha256: Sha256 = sha256_of) -> StaticEncoder:
        """The encoder, ready: the vectors are read, then mapped."""
        plain = super().load(path, cache, sha256=sha256)
        counted = read_counts(self._counts_file(path))
        vocabulary = Vocabulary.of(plain.vocabulary, plain.vectors, counted)
        for word_map in self.maps:
            vocabulary = word_map(vocabulary)
        return replace(plain, vocabulary=vocabulary.rows, vectors=vocabulary.vectors)

    def _counts_file(self, path: Path) -> Path:
        file = vectors_file(self, path).parent / Path(self.counts).name
        if not file.is_file():
            raise AssetMissing(
                f"{self.name}: no word counts at {file}; fetch them, or put them beside the vectors"
            )
        return file


@dataclass(frozen=True, eq=False)
class StaticEncoder(AverageEncoder):
    """Loaded vectors of words, with the rule that splits a text and the row of each word."""

    tokeniser: Tokeniser
    vocabulary: Mapping[str, int] = field(repr=False)

    def look_up(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        """The known words of each text, and how many words it has."""
        return (self.tokeniser.look_up(text, self.vocabulary) for text in texts)


def first_rows(words: Sequence[str]) -> dict[str, int]:
    """The row of each word; the first of a repeated word (files go by frequency)."""
    return {word: row for row, word in reversed(list(enumerate(words)))}


def vectors_file(config: StaticConfig, folder: Path) -> Path:
    """The vector file: `folder` itself where it is one, else the named file in it."""
    path = folder if folder.is_file() or config.file is None else folder / config.file
    if path.is_dir():
        raise UsageError(f"{config.name}: {path} is a folder; name the vector file in it")
    if not path.is_file():
        raise AssetMissing(f"{config.name}: no vectors at {path}; fetch them, or name another file")
    return path
