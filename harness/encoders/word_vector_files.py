"""Word vector files of every kind in use, read into words and one matrix.

Text: GloVe (no header; words may contain spaces, so lines are split from the right) and fastText
or word2vec (a header with count and dimensions). Binary: word2vec's `.bin`; `.npz` with `words`
and `vectors`; safetensors with `vectors` and `words`, the latter as the bytes of the words in
UTF-8, one a line. `.gz` around text or `.bin` is undone. Nothing is ever unpickled.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from array import array
from collections.abc import Callable, Sequence
from io import BufferedIOBase
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from harness.core.arrays import Float, Float32
from harness.core.errors import DataError
from harness.core.files import write_atomically
from harness.encoders.checkpoint import convert_once

Vectors = tuple[tuple[str, ...], Float32[np.ndarray, "V D"]]


def read_vectors(path: Path) -> Vectors:
    """Words and their vectors in file order, repetitions included; the suffix tells the kind."""
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    try:
        words, vectors = READERS.get(kind, _read_text)(path)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: wanted gzip, found {error}; fetch it again") from error
    if vectors.ndim != 2 or len(words) != len(vectors) or not vectors.size:
        raise DataError(
            f"{path}: wanted a vector a word, found {len(words)} words and vectors of shape "
            f"{vectors.shape}"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        word = words[int(finite.argmin())]
        raise DataError(f"{path}: wanted finite numbers, found others in the vector of {word!r}")
    return words, vectors


def read_cached(path: Path, digest: str, cache: Path) -> Vectors:
    """Words and vectors, from a safetensors copy in the cache where parsing takes minutes."""
    if path.suffix in QUICK:
        return read_vectors(path)
    return read_vectors(
        convert_once(cache, digest, lambda new: write_vectors(new, *read_vectors(path)))
    )


def write_vectors(path: Path, words: Sequence[str], vectors: Float[np.ndarray, "V D"]) -> None:
    """Write the safetensors form, in the precision given; it is read in float32."""
    broken = next((word for word in words if "\n" in word), None)
    if broken is not None:
        raise DataError(f"{path}: wanted words without line ends, found {broken!r}")
    letters = np.frombuffer("\n".join(words).encode(), np.uint8)
    write_atomically(path, save({"vectors": np.ascontiguousarray(vectors), "words": letters}))


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def _read_text(path: Path) -> Vectors:
    words: list[str] = []
    numbers = array("f")
    count, dimensions = None, 0
    with _open(path) as file:
        for number, line in enumerate(file, start=1):  # of bytes: nothing but \n ends a line
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            fields = line.rstrip(b" \r\n").split(b" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                count, dimensions = map(int, fields)
                continue
            dimensions = dimensions or len(fields) - 1
            try:
                if not 0 < dimensions < len(fields):
                    raise ValueError
                if b"_" in line and b"_" in b"".join(fields[-dimensions:]):
                    raise ValueError  # Python reads 1_0 as a number
                words.append(b" ".join(fields[:-dimensions]).decode())
                numbers.extend(map(float, fields[-dimensions:]))
            except ValueError as error:
                raise DataError(
                    f"{path}:{number}: wanted a word and {dimensions or 'some'} numbers, "
                    f"found {line[:60]!r}"
                ) from error
    if count not in (None, len(words)):
        raise DataError(f"{path}: wanted {count} words, found {len(words)}; fetch it again")
    return tuple(words), np.asarray(numbers).reshape(-1, dimensions or 1)


def _read_word2vec(path: Path) -> Vectors:
    words: list[str] = []
    numbers = bytearray()
    with _open(path) as file:
        header = file.readline(100).split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            raise DataError(f"{path}: wanted word2vec's count and dimensions, found {header!r}")
        count, dimensions = map(int, header)
        for number in range(1, count + 1):
            word = _until_space(file).lstrip(b"\n")
            row = file.read(4 * dimensions)
            if len(row) < 4 * dimensions:
                raise DataError(f"{path}: wanted {count} words, found the end in word {number}")
            try:
                words.append(word.decode())
            except ValueError as error:
                raise DataError(f"{path}: wanted UTF-8, found word {number} {word!r}") from error
            numbers += row
        if file.read(2).strip():
            raise DataError(f"{path}: wanted {count} words, found more behind the last")
    return tuple(words), np.frombuffer(numbers, "<f4").reshape(count, dimensions)


def _until_space(file: BufferedIOBase) -> bytes:
    letters = bytearray()
    while (letter := file.read(1)) not in (b" ", b""):
        letters += letter
    return bytes(letters)


def _read_npz(path: Path) -> Vectors:
    try:
        with np.load(path, allow_pickle=False) as file:
            words, vectors = file["words"], file["vectors"]
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise DataError(
            f"{path}: wanted arrays `words` (text) and `vectors` (numbers) and nothing pickled, "
            f"found {type(error).__name__}; save it again with numpy.savez"
        ) from error
    return tuple(map(str, words)), _real(path, vectors)


def _read_safetensors(path: Path) -> Vectors:
    try:
        tensors = load_file(path)
        words, vectors = tensors["words"].tobytes().decode(), tensors["vectors"]
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise DataError(f"{path}: wanted tensors `words` and `vectors`, found {error}") from error
    return tuple(words.split("\n")), _real(path, vectors)


def _real(path: Path, vectors: np.ndarray) -> Float32[np.ndarray, "..."]:
    """The numbers in float32. Raises DataError for complex ones, whose imaginary part would go."""
    if vectors.dtype.kind not in "fiu":
        raise DataError(f"{path}: wanted vectors of real numbers, found {vectors.dtype}")
    return vectors.astype(np.float32, copy=False)


READERS: dict[str, Callable[[Path], Vectors]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".bin": _read_word2vec,
}
QUICK = (".npz", ".safetensors")
