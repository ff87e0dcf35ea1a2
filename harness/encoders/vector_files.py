"""Files of word vectors, read without trust.

A file is text or holds arrays, and its suffix says which:

* text: a word and its numbers on each line, as GloVe's, or the same after a header of
  count and dimensions, as fastText's. Words may contain blanks, so lines are split from
  the right.
* `.bin`: word2vec's binary form, of CBOW and skip-gram alike.
* `.npz`: arrays `words` and `vectors`.
* `.safetensors`: tensors `vectors` and `words`, the latter the bytes of the words in
  UTF-8, one on each line.

`.gz` after `.bin` or another suffix is that file, compressed.
Nothing is ever unpickled. A text file that is written in another way is refused: read by
these rules, it would give a table of words that no text contains.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from harness.core.arrays import Float, Float32
from harness.core.errors import DataError
from harness.core.files import write_atomically

# The words of a table in file order, repetitions included, and a row of numbers for each.
WordTable = tuple[Sequence[str], Float32[np.ndarray, "V D"]]

# What NumPy and safetensors raise for arrays that they cannot or must not load.
UNREADABLE_ARRAYS = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    BadZipFile,
    SafetensorError,
)
ARRAY_SUFFIXES = (".npz", ".safetensors")
BLANKS = " \t\r\n"
# The end of a word that may be the rest of another layout: a blank, or a number after a
# comma, a colon, a tab ...
MERGED_COLUMNS = re.compile(r"\s|[^\w.+-][+-]?\d*\.?\d+$")


def read_vectors(path: Path) -> WordTable:
    """Words and their vectors, in file order.

    Raises DataError for a file that is damaged, is written in another way, or holds
    numbers that are not finite.
    """
    if path.suffix in ARRAY_SUFFIXES:
        words, vectors = _read_arrays(path)
    else:
        words, vectors = _read_stream(path)
    if vectors.ndim != 2 or len(words) != len(vectors) or not vectors.size:
        raise DataError(
            f"{path}: wanted a vector a word, found {len(words)} words and vectors of shape "
            f"{vectors.shape}"
        )
    is_finite = np.isfinite(vectors).all(axis=1)
    if not is_finite.all():
        word = words[int(is_finite.argmin())]
        raise DataError(
            f"{path}: wanted finite numbers, found others in the vector of {word!r}"
        )
    _require_words(path, words)
    return tuple(words), vectors


def _require_words(path: Path, words: Sequence[str]) -> None:
    """Refuse a table in which every word is a number: it has no column of words.

    Its first column is then a number of each vector, or of the row.
    """
    if len(words) > 1 and all(map(_is_number_word, words)):
        raise DataError(
            f"{path}: wanted a word and its numbers, found that each word is a number, such as "
            f"{words[0]!r}; put the word before the numbers of its vector"
        )


def _is_number_word(word: str) -> bool:
    """Whether a word is a number; a word may hold half of a surrogate pair."""
    return _is_number(word.encode(errors="replace"))


def write_vectors(
    path: Path, words: Sequence[str], vectors: Float[np.ndarray, "V D"]
) -> None:
    """Write the safetensors form, in the precision given; it is read in float32."""
    tensors = {
        "vectors": np.ascontiguousarray(vectors),
        "words": np.frombuffer("\n".join(words).encode(), np.uint8),
    }
    write_atomically(path, save(tensors))


def convert_to_safetensors(file: Path, target: Path) -> None:
    """Write the safetensors form of a vector file."""
    words, vectors = read_vectors(file)
    write_vectors(target, words, vectors)


# Arrays


def _read_arrays(path: Path) -> WordTable:
    """The table of an .npz or .safetensors file."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                _require_arrays(path, arrays.files)
                words = _words_of_array(path, arrays["words"])
                vectors = arrays["vectors"]
        else:
            tensors = load_file(path)
            _require_arrays(path, tensors)
            words = _words_of_bytes(path, tensors["words"])
            vectors = tensors["vectors"]
    except UNREADABLE_ARRAYS as error:
        raise DataError(
            f"{path}: wanted arrays `words` and `vectors` and nothing pickled, found "
            f"{type(error).__name__}; save it again"
        ) from error
    # Complex numbers would lose half of themselves in float32.
    if vectors.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: wanted vectors of real numbers, found {vectors.dtype}"
        )
    for word in words:
        if word.strip(BLANKS) not in ("", word):
            raise DataError(
                f"{path}: wanted words without blanks around them, found {word!r}; save "
                "word.strip() of each"
            )
    with np.errstate(over="ignore"):  # infinity is refused by `read_vectors`
        return words, vectors.astype(np.float32, copy=False)


def _require_arrays(path: Path, names: Collection[str]) -> None:
    """Refuse a file that lacks one of the two arrays, such as the weights of a model."""
    if "words" in names and "vectors" in names:
        return
    first_names = ", ".join(sorted(names)[:3]) or "none"
    raise DataError(
        f"{path}: wanted arrays `words` and `vectors`, found {first_names}; save them under these "
        "names, or name the folder of a model"
    )


def _words_of_array(path: Path, words: np.ndarray) -> tuple[str, ...]:
    """The words of an array of text, or of bytes in UTF-8."""
    if words.ndim != 1 or words.dtype.kind not in "US":
        raise DataError(
            f"{path}: wanted `words` as a row of text, found an array of {words.dtype} and shape "
            f"{words.shape}; save np.array(words), where words is a list of str"
        )
    if words.dtype.kind == "S":
        return tuple(word.decode() for word in words.tolist())
    return tuple(words.tolist())


def _words_of_bytes(path: Path, words: np.ndarray) -> tuple[str, ...]:
    """The words of a tensor of bytes, one on each line."""
    fault = ""
    if words.dtype != np.uint8 or words.ndim != 1:
        fault = f"{words.dtype} of shape {words.shape}"
    elif b"\r\n" in words.tobytes():
        fault = "CRLF"
    if fault:
        raise DataError(
            f"{path}: wanted `words` as bytes with LF between the words, found {fault}; save it "
            "again"
        )
    return tuple(words.tobytes().decode().split("\n"))


# Text


@dataclass(frozen=True)
class Header:
    """The first line of a file in fastText's form: how many words, and numbers for each."""

    count: int
    dimensions: int


def _read_stream(path: Path) -> WordTable:
    """The table of a file of text, or of word2vec's, which may be compressed."""
    is_word2vec = path.name.removesuffix(".gz").endswith(".bin")
    read = _read_word2vec if is_word2vec else _read_text
    try:
        open_file: Any = gzip.open if path.suffix == ".gz" else open
        with open_file(path, "rb") as file:
            return read(path, file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: wanted gzip, found {error}; fetch it again"
        ) from error


def _read_text(path: Path, file: BufferedIOBase) -> WordTable:
    """The table of lines of bytes: nothing but a line feed ends a line."""
    first_line = file.readline().removeprefix(codecs.BOM_UTF8)
    if not first_line:
        return (), np.empty((0, 0), np.float32)
    header = _parse_header(first_line)
    if header is None:
        dimensions = len(_fields(first_line)) - 1
        numbered_lines = enumerate(chain([first_line], file), start=1)
    else:
        dimensions = header.dimensions
        numbered_lines = enumerate(file, start=2)

    words: list[str] = []
    numbers = array("f")
    empty_words = 0
    for line_number, line in numbered_lines:
        try:
            word, vector = _word_and_vector(_fields(line), dimensions)
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}:{line_number}: wanted words in UTF-8, found {error.reason}; save it as "
                "UTF-8, or binary vectors under their own suffix"
            ) from error
        except ValueError as error:
            raise DataError(
                f"{path}:{line_number}: wanted a word and {dimensions or 'some'} numbers, found "
                f"{error}"
            ) from error
        if not word:  # a blank, which is the word of no text
            empty_words += 1
            continue
        words.append(word)
        numbers.extend(vector)
    if header is not None and header.count != len(words) + empty_words:
        raise DataError(
            f"{path}:1: wanted {header.count} words, found {len(words)}; fetch it again"
        )
    # Every word holds more than a word, such as a second column.
    if len(words) > 1 and all(MERGED_COLUMNS.search(word) for word in words):
        raise DataError(
            f"{path}:1: wanted a word, a blank and numbers, found that each word holds more, such "
            f"as {words[0]!r}; put a blank after the word, and nothing before it"
        )
    return words, np.asarray(numbers).reshape(-1, dimensions or 1)


def _parse_header(line: bytes) -> Header | None:
    """The header that a first line is; None for another line."""
    fields = _fields(line)
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    return Header(count=int(fields[0]), dimensions=int(fields[1]))


def _fields(line: bytes) -> list[bytes]:
    """The fields of a line, which are separated by single blanks."""
    return line.rstrip(b" \r\n").split(b" ")


def _word_and_vector(
    fields: Sequence[bytes], dimensions: int
) -> tuple[str, list[float]]:
    """A line's word and numbers. Raises ValueError, which says what was found in their place."""
    line = b" ".join(fields)
    vector = None
    if 0 < dimensions < len(fields):
        vector = _numbers(fields[-dimensions:])
    if vector is None:
        line.decode()  # raises for a file of another kind
        raise ValueError(f"{line[:60]!r}; correct the line, or fetch the file again")
    word = b" ".join(fields[:-dimensions]).decode()
    if word != word.strip(BLANKS):
        raise ValueError(
            f"the word {word!r}; put one blank after the word, and none before it"
        )
    word_parts = word.replace("\t", " ").split(" ")
    if len(word_parts) > 1 and _is_number(word_parts[-1].encode()):
        raise ValueError(
            f"the word {word!r}, which ends in a number; put one blank after the word, or save "
            "the table as .npz"
        )
    return word, vector


def _is_number(field: bytes) -> bool:
    """Whether a field holds a number."""
    return _numbers([field]) is not None


def _numbers(fields: Sequence[bytes]) -> list[float] | None:
    """The numbers that the fields hold; None if one of them is no number."""
    if b"_" in b"".join(fields):  # Python would read 1_0 as 10
        return None
    try:
        return [*map(float, fields)]
    except ValueError:
        return None


# word2vec's binary form

# A header of more is no header: a row of so many numbers takes 4 MB.
MOST_DIMENSIONS = 1_000_000


def _read_word2vec(path: Path, file: BufferedIOBase) -> WordTable:
    """The table of a header, then a word, a blank and float32 numbers for each vector.

    Some programs write a line feed before each further word, which is no part of it. A
    header that counts fewer vectors than there are is corrected; after one that counts
    more, nothing tells the file from a truncated one.
    """
    first_line = file.readline(100)
    header = _parse_header(first_line)
    if header is None or header.dimensions > MOST_DIMENSIONS:
        raise DataError(
            f"{path}: wanted how many vectors and numbers as the first line of word2vec's binary "
            f"form, found {first_line[:60]!r}; name a file of another form by its own suffix"
        )
    words: list[str] = []
    numbers = bytearray()
    word = bytearray()
    row_size = 4 * header.dimensions
    while letter := file.read(1):
        if letter != b" ":
            word += letter
            continue
        row = file.read(row_size)
        if len(row) < row_size:
            break
        try:
            words.append(word.lstrip(b"\n").decode())
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}: wanted words in UTF-8, found {bytes(word)!r:.60} as word "
                f"{len(words) + 1}; save it as UTF-8"
            ) from error
        numbers += row
        word.clear()
    if word.strip(b"\n") or len(words) < header.count:
        raise DataError(
            f"{path}: wanted {header.count} vectors of {header.dimensions} numbers, found the end "
            f"of the file after {len(words)}; fetch it again"
        )
    return words, np.frombuffer(numbers, "<f4").reshape(len(words), -1)
