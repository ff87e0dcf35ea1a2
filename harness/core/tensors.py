"""Files of tensors in the format of safetensors: of any program, and with a digest of each tensor.

The digests are in the metadata of the file, under `sha256.<name>`: a single tensor of
a large file is read and checked alone, through a memory map.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from harness.core.arrays import UInt8
from harness.core.files import parse_json, write_atomically

# NumPy's types by the names that safetensors has for them.
DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "u1",
    "BOOL": "?",
}
METADATA = "__metadata__"  # the key of the metadata in a header
DIGEST = "sha256."  # before the name of a tensor: the name of its digest
LENGTH_BYTES = 8  # at the beginning of a file: the length of its header


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write a file, whole or not at all. It is made in memory first."""
    arrays = {}
    digests = {}
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor)
        arrays[name] = array
        digests[DIGEST + name] = hashlib.sha256(array.data).hexdigest()
    write_atomically(path, save(arrays, {**metadata, **digests}))


@dataclass(frozen=True)
class Layout:
    """The header of a file of safetensors, of any program; the tensors stay on disk.

    Attributes:
        path: The file.
        tensors: The `dtype`, `shape` and `data_offsets` of each tensor, by its name. The
            offsets are in bytes after the header.
        metadata: The texts of the file by name.
        start: Where the data begin, in bytes from the beginning of the file.
    """

    path: Path
    tensors: Mapping[str, Any]
    metadata: Mapping[str, str]
    start: int

    @classmethod
    def of(cls, path: Path) -> Layout:
        """Read a header. Raises OSError, SafetensorError or ValueError for a damaged file."""
        with safe_open(path, "numpy"):  # the format is checked there
            pass
        with path.open("rb") as file:
            length = int.from_bytes(file.read(LENGTH_BYTES), "little")
            tensors: Any = parse_json(file.read(length))
        metadata = tensors.pop(METADATA, None) or {}
        return cls(path, tensors, metadata, LENGTH_BYTES + length)

    def data(self, name: str) -> UInt8[np.ndarray, " bytes"]:
        """The bytes of a tensor, through a memory map."""
        begin, end = self.tensors[name]["data_offsets"]
        file_bytes = np.memmap(self.path, np.uint8, mode="r").view(np.ndarray)
        return file_bytes[self.start + begin : self.start + end]


@dataclass(frozen=True)
class TensorFile(Layout):
    """A file of `write_tensors`, which has the digest of each tensor in its metadata.

    Attributes:
        digests: The sha256 of each tensor's data, by its name; `metadata` is without them.
    """

    digests: Mapping[str, str]

    @classmethod
    def parse(cls, path: Path) -> TensorFile | None:
        """Read a header; None if there is no file, or if it was cut short or has no digests."""
        try:
            layout = Layout.of(path)
            metadata = dict(layout.metadata)
            digests = {name: metadata.pop(DIGEST + name) for name in layout.tensors}
        except (OSError, SafetensorError, ValueError, KeyError):
            return None
        return cls(path, layout.tensors, metadata, layout.start, digests)

    def read(self, name: str) -> np.ndarray | None:
        """A tensor, through a memory map; None if it was changed or is not there any more."""
        tensor = self.tensors.get(name)
        if tensor is None or not self.path.exists():
            return None
        data = self.data(name)
        if self.digests[name] != hashlib.sha256(data.data).hexdigest():
            return None
        return data.view(DTYPES[tensor["dtype"]]).reshape(tensor["shape"])
