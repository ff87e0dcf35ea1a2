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
word2vec cuts a long word at a byte, which leaves no UTF-8: such a word is read without
its incomplete bytes, as gensim reads it with `unicode_errors="ignore"`.

Nothing is ever unpickled. A file that is written in another way is refused: read by these
rules, it would give a table of words that no text contains.
"""

from __future__ import annotations

import codecs
import gzip
import unicodedata
from array import array
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save

from harness.core.arrays import Float, Float32
from harness.core.errors import DataError
from harness.core.files import write_atomically
from harness.encoders.checkpoint import library_errors

# The words of a table in file order, repetitions included, and a row of numbers for each.
WordTable = tuple[Sequence[str], Float32[np.ndarray, "V D"]]

ARRAY_SUFFIXES = (".npz", ".safetensors")


def read_vectors(path: Path) -> WordTable:
    """Words and their vectors, in file order.

    Raises DataError for a file that is damaged, is written in another way, or holds
    numbers that are not finite.
    """
    wanted = "words in UTF-8, in gzip where the file's name ends in .gz"
    if path.suffix in ARRAY_SUFFIXES:
        wanted = (
            "arrays `words` of text and `vectors` of real numbers and nothing pickled"
        )
    with library_errors(
        f"{path}: wanted {wanted}",
        "fetch it again, or save it in this form, which its suffix names",
    ):
        if path.suffix in ARRAY_SUFFIXES:
            words, vectors = _read_arrays(path)
        else:
            is_word2vec = path.name.removesuffix(".gz").endswith(".bin")
            read = _read_word2vec if is_word2vec else _read_text
            open_file: Any = gzip.open if path.suffix == ".gz" else open
            with open_file(path, "rb") as file:
                words, vectors = read(path, file)
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
    # Numbers of rows, a first number, or a second column in the place of each word.
    if len(words) > 1 and not any(map(str.isalpha, words)):
        raise DataError(
            f"{path}: wanted a word before each vector, found no word of letters alone, but such "
            f"as {words[0]!r}; put a blank after the word, and nothing before it"
        )
    return tuple(words), vectors


def write_vectors(
    path: Path, words: Sequence[str], vectors: Float[np.ndarray, "V D"]
) -> None:
    """Write the safetensors form, in the precision given; it is read in float32."""
    tensors = {
        "vectors": np.ascontiguousarray(vectors),
        "words": np.frombuffer("\n".join(words).encode(), np.uint8),
    }
    write_atomically(path, save(tensors))


def _read_arrays(path: Path) -> WordTable:
    """The table of an .npz or .safetensors file."""
    words: Sequence[str]
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            words = arrays["words"].astype(np.str_).ravel().tolist()
            vectors = arrays["vectors"]
    else:
        tensors = load_file(path)
        words = tensors["words"].tobytes().decode().split("\n")
        vectors = tensors["vectors"]
    # Complex numbers would lose half of themselves in float32.
    if vectors.dtype.kind not in "fiu":
        raise TypeError(f"vectors of {vectors.dtype}")
    with np.errstate(over="ignore"):  # infinity is refused by `read_vectors`
        return words, vectors.astype(np.float32, copy=False)


def _read_text(path: Path, file: Any) -> WordTable:
    """The table of lines of bytes: nothing but a line feed ends a line."""
    first_line = file.readline().removeprefix(codecs.BOM_UTF8)
    header = _header(first_line)
    if header is None:
        count, dimensions = None, first_line.rstrip(b" \r\n").count(b" ")
        numbered_lines = enumerate(chain([first_line], file), start=1)
    else:
        count, dimensions = header
        numbered_lines = enumerate(file, start=2)

    words: list[str] = []
    damaged_words: list[str] = []
    numbers = array("f")
    empty_words = 0
    for line_number, line in numbered_lines:
        word, *fields = line.rstrip(b" \r\n").rsplit(b" ", dimensions)
        vector = _numbers(fields)
        # Behind a word there is no number, or the line has more of them than the first.
        *_, last_part = word.replace(b"\t", b" ").rpartition(b" ")
        is_longer = last_part != word and len(_numbers([last_part])) == 1
        if not vector or len(vector) != dimensions or is_longer:
            beginning = line.decode()[:60]
            raise DataError(
                f"{path}:{line_number}: wanted a word, a blank and {dimensions or 'some'} numbers, "
                f"found {beginning!r}; correct the line, or fetch the file again"
            )
        if not word:  # a blank, which is the word of no text
            empty_words += 1
            continue
        words.append(_decoded(word, damaged_words))
        numbers.extend(vector)
    _require_text(path, words, damaged_words)
    if count is not None and count != len(words) + empty_words:
        raise DataError(
            f"{path}:1: wanted {count} words, found {len(words)}; fetch it again"
        )
    return words, np.asarray(numbers).reshape(-1, dimensions or 1)


def _header(line: bytes) -> tuple[int, int] | None:
    """The number of words and of dimensions that a first line states; None for another line."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    return int(fields[0]), int(fields[1])


def _numbers(fields: Sequence[bytes]) -> list[float]:
    """The numbers that the fields hold; none at all if one of them is no number."""
    try:
        return [*map(float, fields)]
    except ValueError:
        return []


def _decoded(word: bytes | bytearray, damaged_words: list[str]) -> str:
    """A word without the bytes that are no UTF-8, which is then one of `damaged_words`, too."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        damaged_words.append(word.decode(errors="ignore"))
        return damaged_words[-1]


def _require_text(
    path: Path, words: Sequence[str], damaged_words: Sequence[str]
) -> None:
    """Refuse a file whose words are in another encoding, or are bytes of its numbers."""
    for word in damaged_words:
        if any(unicodedata.category(letter) == "Cc" for letter in word):
            raise DataError(
                f"{path}: wanted a word without blanks before each vector in float32, found bytes "
                f"of numbers in its place, {word[:20]!r}; save the vectors in float32, and words "
                "without blanks"
            )
    if 2 * len(damaged_words) > len(words):
        raise DataError(
            f"{path}: wanted words in UTF-8, found {len(damaged_words)} of {len(words)} in another "
            "encoding; save them in UTF-8"
        )


# word2vec's binary form

# A header of more is no header: a row of so many numbers takes 4 MB.
MOST_DIMENSIONS = 1_000_000


def _read_word2vec(path: Path, file: Any) -> WordTable:
    """The table of a header, then a word, a blank and float32 numbers for each vector.

    Some programs write a line feed before each further word, which is no part of it. A
    header that counts fewer vectors than there are is corrected; after one that counts
    more, nothing tells the file from a truncated one.
    """
    first_line = file.readline(100)
    header = _header(first_line)
    if header is None or header[1] > MOST_DIMENSIONS:
        raise DataError(
            f"{path}: wanted how many vectors and numbers as the first line of word2vec's binary "
            f"form, found {first_line[:60]!r}; name a file of another form by its own suffix"
        )
    count, dimensions = header
    words: list[str] = []
    damaged_words: list[str] = []
    numbers = bytearray()
    word = bytearray()
    while letter := file.read(1):
        if letter != b" ":
            word += letter
            continue
        row = file.read(4 * dimensions)
        if len(row) < 4 * dimensions:
            break
        words.append(_decoded(word.lstrip(b"\n"), damaged_words))
        numbers += row
        word.clear()
    _require_text(path, words, damaged_words)
    if word.strip(b"\n") or len(words) < count:
        raise DataError(
            f"{path}: wanted {count} vectors of {dimensions} numbers, found the end of the file "
            f"after {len(words)}; fetch it again"
        )
    return words, np.frombuffer(numbers, "<f4").reshape(len(words), -1)
