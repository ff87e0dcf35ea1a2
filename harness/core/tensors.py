"""Sealed safetensors files: arrays and metadata on disk, each protected by a digest.

The metadata of a file hold the sha256 of each tensor (`sha256.<name>`) and a seal, a
digest over the rest of the header: names, shapes, dtypes, metadata and these digests.
So a single tensor of a large file can be read and checked alone, through a memory map.
Any reader of safetensors reads the files.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.core.digests import digest_of
from harness.core.files import replacing
from harness.core.json_text import parse_json

DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?",
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

METADATA, SEAL_FIELD, TENSOR_DIGEST = "__metadata__", "seal", "sha256."
ALIGNMENT = 8  # bytes, of the first tensor

# The errors of reading a header that is missing, cut short, changed, or no header.
READ_ERRORS = (FileNotFoundError, struct.error, ValueError, LookupError, TypeError)

Layout = Mapping[str, Any]  # dtype, shape and data_offsets of a tensor
Parsed = TypeVar("Parsed", bound="TensorFile")


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write a sealed file, whole or not at all; a tensor may be a memory map of any size."""
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in names}
    layouts: dict[str, Layout] = {}
    sealed = dict(metadata)
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype, shape = NAMES[array.dtype], array.shape
        layouts[name] = {"dtype": dtype, "shape": shape, "data_offsets": (begin, end)}
        sealed[TENSOR_DIGEST + name] = hashlib.sha256(array.data).hexdigest()
    sealed[SEAL_FIELD] = _seal(layouts, sealed)
    header = json.dumps({METADATA: sealed, **layouts}, separators=(",", ":")).encode()
    size = -(-len(header) // ALIGNMENT) * ALIGNMENT
    with replacing(path) as scratch, scratch.open("wb") as file:
        file.write(struct.pack("<Q", size) + header.ljust(size))
        for array in arrays.values():
            file.write(array.data)


@dataclass(frozen=True)
class TensorFile:
    """A file with its header parsed; the tensors stay on disk until they are asked for."""

    path: Path
    tensors: Mapping[str, Layout]
    metadata: Mapping[str, str]
    digests: Mapping[str, str]
    start: int

    @classmethod
    def parse(cls: type[Parsed], path: Path) -> Parsed | None:
        """Read a header; None if there is no file, or it was cut short, changed or never sealed."""
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                start, size = 8 + length, path.stat().st_size
                layouts: Any = parse_json(file.read(length)) if start <= size else {}
            metadata = layouts.pop(METADATA)
            end = max(
                (layout["data_offsets"][1] for layout in layouts.values()), default=0
            )
            sealed = metadata.pop(SEAL_FIELD) == _seal(layouts, metadata)
        except READ_ERRORS:
            return None
        if not sealed or start + end != size:
            return None
        digests = {name: metadata.pop(TENSOR_DIGEST + name) for name in layouts}
        return cls(path, layouts, metadata, digests, start)

    def read(self, name: str) -> np.ndarray | None:
        """A tensor, through a memory map; None if it was changed or is not there any more."""
        layout = self.tensors.get(name)
        if layout is None or not self.path.exists():
            return None
        begin, end = layout["data_offsets"]
        data = np.memmap(self.path, mode="r").view(np.ndarray)[self.start :][begin:end]
        if self.digests[name] != hashlib.sha256(data.data).hexdigest():
            return None
        return data.view(DTYPES[layout["dtype"]]).reshape(layout["shape"])


def _seal(layouts: Mapping[str, Layout], metadata: Mapping[str, str]) -> str:
    return digest_of({"tensors": layouts, "metadata": metadata})
