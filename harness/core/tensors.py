"""Sealed safetensors files: arrays and metadata on disk, each protected by a digest.

A file of safetensors begins with the length of its header in eight bytes. The header is
JSON: for each tensor its type, its shape and the place of its data, and under
`__metadata__` texts by name. The data of the tensors follow.

Here the metadata hold the sha256 of each tensor (`sha256.<name>`) and a seal, a digest
over the rest of the header: names, shapes, types, metadata and these digests. So a
single tensor of a large file can be read and checked alone, through a memory map. Any
reader of safetensors reads the files.
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
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

METADATA = "__metadata__"  # the key of the metadata in a header
SEAL_FIELD = "seal"  # the name of the seal in the metadata
TENSOR_DIGEST = "sha256."  # before the name of a tensor: the name of its digest
LENGTH_FORMAT = "<Q"  # of the length of a header: eight bytes, the lowest first
LENGTH_BYTES = struct.calcsize(LENGTH_FORMAT)
ALIGNMENT = 8  # the data of the first tensor begin at a multiple of so many bytes

# The errors of reading a header that is missing, cut short, changed, or no header.
READ_ERRORS = (
    FileNotFoundError,
    struct.error,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)

# A tensor in a header: its `dtype`, its `shape`, and as `data_offsets` the begin and end
# of its data, in bytes after the header.
Layout = Mapping[str, Any]
Parsed = TypeVar("Parsed", bound="TensorFile")


def write_tensors(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write a sealed file, whole or not at all; a tensor may be a memory map of any size."""
    # The widest types first, so that the data of each tensor are aligned to its type.
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in names}
    layouts: dict[str, Layout] = {}
    sealed_metadata = dict(metadata)
    begin = 0
    for name, array in arrays.items():
        end = begin + array.nbytes
        layouts[name] = {
            "dtype": NAMES[array.dtype],
            "shape": array.shape,
            "data_offsets": (begin, end),
        }
        digest = hashlib.sha256(array.data).hexdigest()
        sealed_metadata[TENSOR_DIGEST + name] = digest
        begin = end
    sealed_metadata[SEAL_FIELD] = _seal(layouts, sealed_metadata)
    content = {METADATA: sealed_metadata, **layouts}
    header = json.dumps(content, separators=(",", ":")).encode()
    header += b" " * (-len(header) % ALIGNMENT)
    with replacing(path) as scratch, scratch.open("wb") as file:
        file.write(struct.pack(LENGTH_FORMAT, len(header)) + header)
        for array in arrays.values():
            file.write(array.data)


@dataclass(frozen=True)
class TensorFile:
    """A file with its header parsed; the tensors stay on disk until they are asked for.

    Attributes:
        path: The file.
        tensors: The layout of each tensor, by its name.
        metadata: The texts of the file by name, without the seal and the digests.
        digests: The sha256 of each tensor's data, by its name.
        start: Where the data begin, in bytes from the beginning of the file.
    """

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
                (length,) = struct.unpack(LENGTH_FORMAT, file.read(LENGTH_BYTES))
                start = LENGTH_BYTES + length
                size = path.stat().st_size
                if start > size:  # a damaged length may be more than memory has
                    return None
                layouts: Any = parse_json(file.read(length))
            metadata = layouts.pop(METADATA)
            seal = metadata.pop(SEAL_FIELD)
            is_sealed = seal == _seal(layouts, metadata)
            ends = [layout["data_offsets"][1] for layout in layouts.values()]
            last_end = max(ends, default=0)
        except READ_ERRORS:
            return None
        if not is_sealed or start + last_end != size:
            return None
        digests = {name: metadata.pop(TENSOR_DIGEST + name) for name in layouts}
        return cls(path, layouts, metadata, digests, start)

    def read(self, name: str) -> np.ndarray | None:
        """A tensor, through a memory map; None if it was changed or is not there any more."""
        layout = self.tensors.get(name)
        if layout is None or not self.path.exists():
            return None
        begin, end = layout["data_offsets"]
        file_bytes = np.memmap(self.path, mode="r").view(np.ndarray)
        data = file_bytes[self.start + begin : self.start + end]
        if self.digests[name] != hashlib.sha256(data.data).hexdigest():
            return None
        return data.view(DTYPES[layout["dtype"]]).reshape(layout["shape"])


def _seal(layouts: Mapping[str, Layout], metadata: Mapping[str, str]) -> str:
    """The digest of a header; the metadata are without the seal."""
    return digest_of({"tensors": layouts, "metadata": metadata})
