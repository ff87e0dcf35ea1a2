"""Sealed safetensors files: arrays and metadata on disk, whole or absent, every bit checked.

The metadata of a file hold the sha256 of each tensor (`sha256.<name>`) and a seal over the rest of
the header: names, shapes, dtypes, metadata and these digests. So a single tensor of a large file is
read and checked alone, through a memory map. Any reader of safetensors reads the files.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np

from harness.core.arrays import Float32
from harness.core.digests import digest_of
from harness.core.files import write_atomically

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?",
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

METADATA = "__metadata__"
SEAL = "seal"
TENSOR_DIGEST = "sha256."
FORMER_SEAL = "sha256"  # of version 0.1.0: one digest over metadata and tensors
ALIGNMENT = 8  # bytes, of the first tensor
STREAMED_HEADER = 1024  # bytes, blanks at its end included: written when all rows are there

Layout = Mapping[str, Any]  # dtype, shape and data_offsets of a tensor
Parsed = TypeVar("Parsed", bound="TensorFile")


def encode_tensors(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The content of a sealed file."""
    layouts: dict[str, Layout] = {}
    digests: dict[str, str] = {}
    buffers: list[memoryview] = []
    end = 0
    for name in sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name)):
        tensor = np.ascontiguousarray(tensors[name])
        layouts[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": tensor.shape,
            "data_offsets": (end, end + tensor.nbytes),
        }
        digests[TENSOR_DIGEST + name] = _sha256(tensor)
        buffers.append(tensor.data)
        end += tensor.nbytes
    return b"".join([_header(layouts, {**metadata, **digests}), *buffers])


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write a sealed file, whole or not at all."""
    write_atomically(path, encode_tensors(tensors, metadata))


def header_digest(content: bytes) -> str:
    """The sha256 of a file's header, given at least its beginning."""
    (length,) = struct.unpack("<Q", content[:8])
    return hashlib.sha256(content[8 : 8 + length]).hexdigest()


@dataclass(frozen=True)
class TensorFile:
    """A file with its header parsed; the tensors stay on disk until they are asked for."""

    path: Path
    tensors: Mapping[str, Layout]
    metadata: Mapping[str, str]
    digests: Mapping[str, str]
    header_digest: str
    start: int
    former_seal: str | None

    @classmethod
    def parse(cls: type[Parsed], path: Path, sealed: bool = True) -> Parsed | None:
        """Read a header; None if there is no file, or it was cut short or changed.

        With `sealed` False a file without a seal is taken as it is.
        """
        parsed = _read_header(path)
        if parsed is None:
            return None
        content, layouts = parsed
        metadata = dict(layouts.pop(METADATA, {}))
        seal = metadata.pop(SEAL, None)
        if seal is not None and seal != _seal(layouts, metadata):
            return None
        former_seal = metadata.pop(FORMER_SEAL, None)
        if sealed and seal is None and former_seal is None:
            return None
        digests = {
            name: metadata.pop(TENSOR_DIGEST + name)
            for name in layouts
            if TENSOR_DIGEST + name in metadata
        }
        return cls(
            path, layouts, metadata, digests, header_digest(content), len(content), former_seal
        )

    def read(self, name: str, check: bool = True) -> np.ndarray | None:
        """One tensor, through a memory map; None if it was changed, or there is none any more.

        Without `check` its digest is not compared: what was checked once in a run need not be read
        through again.
        """
        layout = self.tensors.get(name)
        if layout is None or not self.path.exists():
            return None
        data = self._bytes(layout)
        if check and not self._unchanged(name, data):
            return None
        return data.view(DTYPES[layout["dtype"]]).reshape(layout["shape"])

    def _bytes(self, layout: Layout) -> np.ndarray:
        begin, end = layout["data_offsets"]
        if begin == end:
            return np.empty(0, np.uint8)
        mapped = np.memmap(self.path, mode="r", offset=self.start + begin, shape=(end - begin,))
        return mapped.view(np.ndarray)

    def _unchanged(self, name: str, data: np.ndarray) -> bool:
        if name in self.digests:
            return self.digests[name] == _sha256(data)
        return self.former_seal is None or self.former_seal in self._former_seals()

    def _former_seals(self) -> tuple[str, str]:
        """The digest that version 0.1.0 gave to rows of a corpus, and that of its moments."""
        metadata = sorted(self.metadata.items())
        shape = tuple(next(iter(self.tensors.values()))["shape"])
        rows, moments = hashlib.sha256(), hashlib.sha256(repr(metadata).encode())
        for name in sorted(self.tensors):
            data = self._bytes(self.tensors[name]).data
            rows.update(data)
            moments.update(name.encode())
            moments.update(data)
        rows.update(repr((shape, metadata)).encode())
        return rows.hexdigest(), moments.hexdigest()


@dataclass
class MatrixWriter:
    """A float32 matrix on its way into a sealed file, some rows at a time.

    The file does not exist before `finish`.
    """

    path: Path
    name: str
    temporary: Path = Path()
    file: BinaryIO | None = None
    shape: tuple[int, int] = (0, 0)
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, rows: Float32[np.ndarray, "m D"]) -> None:
        """Append rows."""
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=".", suffix=".tmp")
            self.temporary = Path(name)
            self.file = os.fdopen(handle, "wb")
            self.file.write(b" " * STREAMED_HEADER)
        data = np.ascontiguousarray(rows, dtype="<f4").data
        self.digest.update(data)
        self.file.write(data)
        self.shape = (self.shape[0] + len(rows), rows.shape[1])

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Put the file in its place; without a row there is none."""
        if self.file is None:
            return
        end = 4 * self.shape[0] * self.shape[1]
        layout = {"dtype": "F32", "shape": self.shape, "data_offsets": (0, end)}
        digest = {TENSOR_DIGEST + self.name: self.digest.hexdigest()}
        self.file.seek(0)
        self.file.write(_header({self.name: layout}, {**metadata, **digest}, STREAMED_HEADER))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        self.temporary.chmod(0o644)
        self.temporary.replace(self.path)
        self.file = None

    def discard(self) -> None:
        """Leave nothing behind of a file that was not finished."""
        if self.file is not None:
            self.file.close()
            self.temporary.unlink(missing_ok=True)
            self.file = None


def _header(layouts: Mapping[str, Layout], metadata: Mapping[str, str], size: int = 0) -> bytes:
    """The length and the JSON text that begin a file, with blanks up to its size."""
    sealed = {**metadata, SEAL: _seal(layouts, metadata)}
    text = json.dumps({METADATA: sealed, **layouts}, separators=(",", ":")).encode()
    size = size or 8 + -(-len(text) // ALIGNMENT) * ALIGNMENT
    return struct.pack("<Q", size - 8) + text.ljust(size - 8)


def _seal(layouts: Mapping[str, Layout], metadata: Mapping[str, str]) -> str:
    return digest_of({"tensors": layouts, "metadata": metadata})


def _sha256(tensor: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(tensor).data).hexdigest()


def _read_header(path: Path) -> tuple[bytes, dict[str, Any]] | None:
    """The beginning of a file up to its tensors, and its JSON; None if the file is not whole."""
    try:
        with path.open("rb") as file:
            prefix = file.read(8)
            (length,) = struct.unpack("<Q", prefix)
            size = path.stat().st_size
            content = prefix + file.read(length) if length < size else b""
        header: Any = json.loads(content[8:])
        layouts = [layout for name, layout in header.items() if name != METADATA]
        end = max((layout["data_offsets"][1] for layout in layouts), default=0)
        whole = len(content) + end == size and isinstance(header.get(METADATA, {}), dict)
        whole = whole and all(t["dtype"] in DTYPES for t in layouts)
    except (FileNotFoundError, struct.error, ValueError, AttributeError, LookupError, TypeError):
        return None
    return (content, header) if whole else None
