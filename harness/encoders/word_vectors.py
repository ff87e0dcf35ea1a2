"""Averages of static vectors: tables of word vectors, their files, and maps of a vocabulary.

`AverageEncoder` is the base of all encoders that average the rows of a table over a
text. Vector files are text: GloVe's (no header; words may contain spaces, so lines are
split from the right), fastText's (a header with count and dimensions); or arrays:
`.npz` with `words` and `vectors`, safetensors with `vectors` and `words`, the latter as
the bytes of the words in UTF-8, one a line. `.gz` around text is undone. Nothing is
ever unpickled. A file that is written in another way is refused: read by these rules,
it would give a table of words that no text has.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BufferedIOBase, BytesIO
from pathlib import Path
from typing import Any, ClassVar
from zipfile import BadZipFile

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from harness.core.arrays import Float, Float32, Int64
from harness.core.digests import (
    digest_of,
    one_reading,
    open_bytes,
    read_bytes,
    sha256_of,
)
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import write_atomically
from harness.core.identity import NOT_IN_IDENTITY, identity_text
from harness.core.interfaces import (
    Encoding,
    Hub,
    Identity,
    LocalFiles,
    Packaged,
    PostProcessor,
    Source,
    VectorFile,
)
from harness.encoders.checkpoint import convert_once, require_weights
from harness.encoders.config import BaseConfig
from harness.encoders.word_tokenizer import PLAIN_TOKENISER, Tokeniser
from harness.tasks.readers import lines, reading_own_file
from harness.transforms.affine import Moments

WordTable = tuple[Sequence[str], Float32[np.ndarray, "V D"]]  # words and a row for each


@dataclass(frozen=True, eq=False)
class AverageEncoder(ABC):
    """A loaded table of vectors. One kept layer, no summary token, no pooler.

    A subclass finds the rows of the tokens of texts in `token_rows`; `unit` scales
    averages to length 1.
    """

    key: str
    vectors: Float32[np.ndarray, "V D"] = field(repr=False)
    unit: bool = field(default=False, kw_only=True)

    facts: ClassVar[Mapping[str, object]] = {}

    @abstractmethod
    def token_rows(self, texts: Sequence[str]) -> Iterable[tuple[Sequence[int], int]]:
        """The rows of the table for each text, repetitions included, and how many tokens it has."""

    def encode(self, texts: Sequence[str]) -> Encoding:
        """The mean over the vectors of each text, in float64.

        A text without any is the zero vector, as in SentEval: it is a fact about the
        table, and its cosine counts as 0.
        """
        mean = np.zeros((len(texts), 1, self.vectors.shape[1]), np.float32)
        tokens = np.zeros((len(texts), 2), np.float32)
        for number, (rows, count) in enumerate(self.token_rows(texts)):
            tokens[number] = count, len(rows)
            if rows:
                vector = self.vectors[rows].mean(axis=0, dtype=np.float64)
                mean[number, 0] = (
                    vector / (np.linalg.norm(vector) + 1e-32) if self.unit else vector
                )
        return Encoding(layers=(0,), depth=0, mean=mean, tokens=tokens)


# Part of every key: raise it with any change that moves an encoding.
ENCODING_VERSION = (
    "1: mean over known words in float64; no known word is the zero vector"
)
MAPS_VERSION = "1: maps of float32 vectors, fitted in float64, kept in float32"
# Settings of tokenisers and maps that keys have always been digests of, at their
# default, too.
SETTINGS_IN_KEYS = ("strip", "stop_words", "a", "by_count", "k", "centred")


@dataclass(frozen=True)
class StaticConfig(BaseConfig):
    """An average of word vectors: its name, the vector file, and the rule that splits text.

    Args:
        name: Its id in the grammar of methods.
        tokeniser: The rule that splits a text and looks up its words.
        file: The file's name in the data folder, package or repository; None where a
            path that is given by hand is the file itself.
        repo: Its repository on the hub, if it has one.
        revision: The pinned commit; None is unpinned.
        weights_sha256: The digest that the file must have, if given.
        package: A folder in an installed package that carries the file; its code is
            never imported.
        trained_on: The texts that the vectors were trained on.
        cite: The BibTeX key of their paper.
        licence: Their licence.

    Examples:
        >>> from harness import StaticConfig
        >>> str(StaticConfig("glove", file="vectors/glove.6B.300d.txt").source)
        'vectors/glove.6B.300d.txt'
    """

    tokeniser: Tokeniser = PLAIN_TOKENISER
    file: str | None = None
    repo: str | None = None
    revision: str | None = None
    weights_sha256: str | None = None
    package: str | None = field(default=None, repr=False, metadata=NOT_IN_IDENTITY)

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

    def identify(self, path: Path) -> Identity:
        """The key and digests; `path` is the vector file, or the folder that holds it."""
        file = self._file(path)
        weights = sha256_of(file)
        require_weights(self.name, file, self.weights_sha256, weights)
        facts = {
            "version": ENCODING_VERSION,
            "tokeniser": identity_text(self.tokeniser, SETTINGS_IN_KEYS),
        }
        facts |= getattr(
            self.tokeniser, "list_digests", {}
        )  # a plug-in's may have none
        return Identity(digest_of({**facts, "weights": weights}), {"weights": weights})

    @one_reading()
    def load(self, path: Path, cache: Path) -> StaticEncoder:
        """The encoder, ready. Text is parsed once; `cache` keeps its quick form."""
        key, file = self.identify(path).key, self._file(path)
        if file.suffix not in ARRAYS:  # minutes to parse
            file = convert_once(cache, file, _convert)
        words, vectors = read_vectors(file)
        return StaticEncoder(key, vectors, self.tokeniser, first_rows(words))

    def _file(self, folder: Path) -> Path:
        """The vector file: `folder` itself where it is one, else the named file in it."""
        path = folder if folder.is_file() or self.file is None else folder / self.file
        if path.is_dir():
            raise UsageError(
                f"{self.name}: {path} is a folder; name the vector file in it"
            )
        return file_at(path, self.name, "vectors")


@dataclass(frozen=True, eq=False)
class StaticEncoder(AverageEncoder):
    """Loaded vectors of words, with the rule that splits a text and the row of each word."""

    tokeniser: Tokeniser
    vocabulary: Mapping[str, int] = field(repr=False)

    def token_rows(self, texts: Sequence[str]) -> Iterator[tuple[list[int], int]]:
        return (self.tokeniser.token_rows(text, self.vocabulary) for text in texts)


@dataclass(frozen=True)
class CountedConfig(StaticConfig):
    """An average of word vectors that are first mapped with the help of word counts.

    The counts are in the folder of the vector file. A weight of a word scales its
    vector, so that the token mean, over the number of known words, is the weighted one.

    Args:
        counts: The file of word counts, in the data folder.
        maps: What is done to the vectors of the vocabulary, in this order: frozen
            dataclasses, whose identity is part of the key.
        counts_sha256: The digest that the counts must have, if given.

    Raises:
        UsageError: The vectors are no file of the data folder.
    """

    counts: str = field(kw_only=True)
    maps: tuple[WordMap, ...] = field(kw_only=True)
    counts_sha256: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.file is None or self.repo or self.package:
            raise UsageError(
                f"{self.name}: word counts go with vectors in a file, beside them"
            )

    @property
    def source(self) -> Source:
        """The vectors and the counts in the data folder."""
        return VectorFile(str(self.file), self.weights_sha256, self.counts)

    def identify(self, path: Path) -> Identity:
        """The key and digests, those of the counts and the settings of the maps included."""
        plain = super().identify(path)
        counts = self._counts_file(path)
        digests = {**plain.digests, "counts": sha256_of(counts)}
        require_weights(self.name, counts, self.counts_sha256, digests["counts"])
        facts = {
            "version": MAPS_VERSION,
            "plain": plain.key,
            "maps": identity_text(self.maps, SETTINGS_IN_KEYS),
        }
        return Identity(digest_of({**facts, "counts": digests["counts"]}), digests)

    @one_reading()
    def load(self, path: Path, cache: Path) -> StaticEncoder:
        """The encoder, ready: the vectors are read, then mapped."""
        plain = super().load(path, cache)
        counts = read_counts(self._counts_file(path))
        vocabulary = Vocabulary.with_counts(plain.vocabulary, plain.vectors, counts)
        for word_map in self.maps:
            vocabulary = word_map(vocabulary)
        return replace(plain, vocabulary=vocabulary.rows, vectors=vocabulary.vectors)

    def _counts_file(self, path: Path) -> Path:
        counts_file = self._file(path).parent / Path(self.counts).name
        return file_at(counts_file, self.name, "word counts")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The row of each word, their vectors, and how often a corpus holds them; 0 is not counted.

    `total` is the sum over all words that the corpus counts, so that p(w) = counts /
    total.
    """

    rows: Mapping[str, int]
    vectors: Float32[np.ndarray, "V D"]
    counts: Int64[np.ndarray, " V"]
    total: int

    @classmethod
    def with_counts(
        cls,
        rows: Mapping[str, int],
        vectors: Float32[np.ndarray, "V D"],
        corpus: Mapping[str, int],
    ) -> Vocabulary:
        """The vectors of words, and the counts of a corpus, which may hold others."""
        counts = np.zeros(len(vectors), np.int64)
        counts[[*rows.values()]] = [corpus.get(word, 0) for word in rows]
        return cls(rows, vectors, counts, sum(corpus.values()))


WordMap = Callable[[Vocabulary], Vocabulary]


@dataclass(frozen=True)
class Counted:
    """The words that the corpus counts and no others."""

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        kept = vocabulary.counts > 0
        if not kept.any():
            raise DataError(
                "wanted vectors of words that the corpus counts, found none; the counts are of "
                "words in lower case"
            )
        to = np.cumsum(kept) - 1
        rows = {
            word: int(to[row]) for word, row in vocabulary.rows.items() if kept[row]
        }
        vectors, counts = vocabulary.vectors[kept], vocabulary.counts[kept]
        return replace(vocabulary, rows=rows, vectors=vectors, counts=counts)


@dataclass(frozen=True)
class Fitted:
    """A post-processor fitted on the vectors of all words, each once or, `by_count`, repeated.

    Raises UsageError for one that draws random numbers, or needs more than moments.
    """

    post: PostProcessor
    by_count: bool = False

    def __post_init__(self) -> None:
        if not (self.post.from_moments and self.post.deterministic):
            raise UsageError(
                f"{self.post.name}: word vectors are mapped by a deterministic post-processor that "
                "is fitted from moments"
            )

    def __call__(self, vocabulary: Vocabulary) -> Vocabulary:
        """The mapped vectors. Raises ScoreError for vectors that cannot be fitted."""
        repeats = vocabulary.counts if self.by_count else None
        moments = Moments.of(vocabulary.vectors, repeats)
        fitted = self.post.fit(
            moments, np.random.default_rng(0)
        )  # which it never draws from
        return replace(
            vocabulary, vectors=fitted(vocabulary.vectors).astype(np.float32)
        )


# Files


def file_at(path: Path, name: str, content: str) -> Path:
    """The path of a file of an encoder. Raises AssetMissing where there is none."""
    if not path.is_file():
        raise AssetMissing(
            f"{name}: no {content} at {path}; fetch them, or put them there"
        )
    return path


def first_rows(words: Sequence[str]) -> dict[str, int]:
    """The row of each word; the first of a repeated word (files go by frequency)."""
    return {word: row for row, word in reversed(list(enumerate(words)))}


def read_counts(path: Path) -> dict[str, int]:
    """Counts by word: a line each, the word, a blank, its count. Raises DataError with the line."""
    counts: dict[str, int] = {}
    with reading_own_file():
        for place, line in lines(path, data=read_bytes(path)):
            word, _, count = line.rpartition(" ")
            unusable = not word or word != word.strip(BLANKS) or word in counts
            if unusable or not count.isdecimal() or int(count) == 0:
                raise DataError(
                    f"{place}: wanted a new word, a blank and a count, found {line[:60]!r}"
                )
            counts[word] = int(count)
    if not counts:
        raise DataError(f"{path}: wanted counts of words, found none; fetch it again")
    return counts


def _convert(file: Path, new: Path) -> None:
    write_vectors(new, *read_vectors(file))


def write_vectors(
    path: Path, words: Sequence[str], vectors: Float[np.ndarray, "V D"]
) -> None:
    """Write the safetensors form, in the precision given; it is read in float32."""
    letters = np.frombuffer("\n".join(words).encode(), np.uint8)
    write_atomically(
        path, save({"vectors": np.ascontiguousarray(vectors), "words": letters})
    )


ARRAYS = (".npz", ".safetensors")


def read_vectors(path: Path) -> WordTable:
    """Words and their vectors in file order, repetitions included; the suffix tells the kind."""
    try:
        if path.suffix in ARRAYS:
            words, vectors = _read_arrays(path)
        else:
            with open_bytes(path) as plain:
                file: Any = (
                    gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain
                )
                words, vectors = _read_text(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: wanted gzip, found {error}; fetch it again"
        ) from error
    if vectors.ndim != 2 or len(words) != len(vectors) or not vectors.size:
        raise DataError(
            f"{path}: wanted a vector a word, found {len(words)} words and vectors of shape "
            f"{vectors.shape}"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        word = words[int(finite.argmin())]
        raise DataError(
            f"{path}: wanted finite numbers, found others in the vector of {word!r}"
        )
    return tuple(words), vectors


def _read_arrays(path: Path) -> WordTable:
    try:
        if path.suffix == ".npz":
            with np.load(BytesIO(read_bytes(path)), allow_pickle=False) as file:
                words, vectors = _words_of_array(path, file["words"]), file["vectors"]
        else:
            tensors = load(read_bytes(path))
            words, vectors = _words_of_bytes(path, tensors["words"]), tensors["vectors"]
    except (OSError, ValueError, KeyError, BadZipFile, SafetensorError) as error:
        raise DataError(
            f"{path}: wanted arrays `words` and `vectors` and nothing pickled, found "
            f"{type(error).__name__}; save it again"
        ) from error
    if vectors.dtype.kind not in "fiu":  # of complex numbers, half would go
        raise DataError(
            f"{path}: wanted vectors of real numbers, found {vectors.dtype}"
        )
    return words, vectors.astype(np.float32, copy=False)


def _words_of_array(path: Path, words: np.ndarray) -> tuple[str, ...]:
    """The words of an array of text, or of bytes in UTF-8."""
    if words.ndim != 1 or words.dtype.kind not in "US":
        raise DataError(
            f"{path}: wanted `words` as a row of text, found an array of {words.dtype} and shape "
            f"{words.shape}; save np.array(words), where words is a list of str"
        )
    return tuple(
        word if isinstance(word, str) else word.decode() for word in words.tolist()
    )


def _words_of_bytes(path: Path, words: np.ndarray) -> tuple[str, ...]:
    """The words of a tensor of bytes, one a line."""
    text = words.tobytes()
    if words.dtype != np.uint8 or words.ndim != 1 or b"\r\n" in text:
        raise DataError(
            f"{path}: wanted `words` as bytes with LF between the words, found {words.dtype} of "
            f"shape {words.shape}{' with CRLF' if words.dtype == np.uint8 else ''}; save it again"
        )
    return tuple(text.decode().split("\n"))


def _read_text(path: Path, file: BufferedIOBase) -> WordTable:
    words: list[str] = []
    numbers = array("f")
    count: int | None = None
    dimensions, first = 0, b""
    for number, line in enumerate(
        file, start=1
    ):  # of bytes: nothing but \n ends a line
        if number == 1:
            line = first = line.removeprefix(codecs.BOM_UTF8)
        fields = _fields(line)
        if (
            number == 1
            and len(fields) == 2
            and all(field.isdigit() for field in fields)
        ):
            count, dimensions = map(int, fields)
            continue
        if number == 1:
            dimensions = len(fields) - 1
        try:
            word, vector = _word_and_vector(fields, dimensions)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}:{number}: wanted words in UTF-8, found {error.reason}; save it as UTF-8"
            ) from error
        except ValueError as error:
            following = next(file, b"")
            if number == 2 and following and _width(_fields(following)) != dimensions:
                # The lines below agree with this one, or with none: it is the first
                # that differs.
                raise DataError(
                    f"{path}:1: wanted a word and {_width(fields)} numbers, as line 2 has, or a "
                    f"header of how many words and {_width(fields)}, found {first[:60]!r}; correct "
                    "the line"
                ) from error
            raise DataError(
                f"{path}:{number}: wanted a word and {dimensions or 'some'} numbers, found {error}"
            ) from error
        words.append(word)
        numbers.extend(vector)
    if count not in (None, len(words)):
        raise DataError(
            f"{path}:1: wanted {count} words, found {len(words)}; fetch it again"
        )
    if len(words) > 1 and all(MERGED_COLUMNS.search(word) for word in words):
        raise DataError(
            f"{path}:1: wanted a word, a blank and numbers, found that each word holds more, such "
            f"as {words[0]!r}; put a blank behind the word, and nothing before it"
        )
    return words, np.asarray(numbers).reshape(-1, dimensions or 1)


# A word that may hold something else: a blank, or a number behind a comma, a colon, a
# tab ...
MERGED_COLUMNS = re.compile(r"\s|[^\w.+-][+-]?\d*\.?\d+$")


def _fields(line: bytes) -> list[bytes]:
    """The parts between single blanks."""
    return line.rstrip(b" \r\n").split(b" ")


def _word_and_vector(
    fields: Sequence[bytes], dimensions: int
) -> tuple[str, list[float]]:
    """A line's word and numbers. Raises ValueError, which says what was found in their place."""
    numbers = fields[-dimensions:]
    try:
        if not 0 < dimensions < len(fields) or b"_" in b"".join(numbers):
            raise ValueError  # Python reads 1_0 as a number
        vector = [*map(float, numbers)]
    except ValueError:
        raise ValueError(repr(b" ".join(fields)[:60])) from None
    word = b" ".join(fields[:-dimensions]).decode()
    if not word or word != word.strip(BLANKS):
        raise ValueError(
            f"the word {word!r}; put one blank behind the word, and none before it"
        )
    *before, last = word.replace("\t", " ").split(" ")
    if before and _is_number(last.encode()):
        raise ValueError(
            f"the word {word!r}, which ends in a number; put one blank behind the word, or save "
            "the table as .npz"
        )
    return word, vector


BLANKS = " \t\r"


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return b"_" not in text  # Python reads 1_0 as a number


def _width(fields: Sequence[bytes]) -> int:
    """How many numbers end a line, of which the first field is none."""
    width = 0
    while width < len(fields) - 1 and _is_number(fields[-1 - width]):
        width += 1
    return width
