"""Tensor bundles: the files in which TensorFlow keeps the variables of a model.

A bundle is an index, `PREFIX.index`, and shards of data, `PREFIX.data-00000-of-00001`.
The index is a table in the form of LevelDB: blocks of entries sorted by key, then a block
that lists these blocks, then a footer that says where the list is. The key of an entry is
the name of a tensor, and its value says where its numbers are: its type, shape, shard,
offset and size, in the wire form of protocol buffers (tensorflow/core/protobuf/
tensor_bundle.proto). The entry without a name is the header.

NumPy alone reads them. Whatever a file says is checked before it is believed: every block
has its CRC32C, every offset and length lies in its file, and the size of a
tensor is that of its shape. Compressed blocks, which TensorFlow never writes into a
bundle, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from harness.core.arrays import Float32
from harness.core.errors import DataError
from harness.core.files import require_no_pointer

INDEX_SUFFIX = ".index"

# The table of LevelDB
MAGIC = 0xDB4775248B80FB57  # the last eight bytes of an index
FOOTER_BYTES = 48
TRAILER_BYTES = 5  # after a block: how it is compressed, and its CRC32C
UNCOMPRESSED = 0
COMPRESSIONS = {1: "Snappy", 2: "Zstandard"}

# An index of BERT-large with the variables of its optimiser has 1,200 tensors in 90 kB.
# The limits keep a hostile index from taking all memory.
MOST_INDEX_BYTES = 8_000_000
MOST_TENSORS = 50_000
MOST_KEY_BYTES = 500
MOST_SHARDS = 1_000
MOST_DIMENSIONS = 8

# The numbers of types in `tensorflow/core/framework/types.proto`, and the bytes of a number.
FLOAT32_TYPE = 1
BYTES_OF_TYPE = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 9: 8, 10: 1, 14: 2, 19: 2}

# Wire types of protocol buffers
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """Where the numbers of a tensor are.

    Attributes:
        type: The number of its type; `FLOAT32_TYPE` alone is read.
        shape: Its dimensions.
        shard: The number of its shard.
        offset: Where its bytes begin in the shard.
        size: How many bytes they are.
    """

    type: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int


@dataclass(frozen=True)
class TensorBundle:
    """A bundle whose index is read and checked.

    Attributes:
        tensors: Where each tensor is, by its name.
        shards: The files of data.
    """

    tensors: Mapping[str, StoredTensor]
    shards: tuple[Path, ...] = field(repr=False)

    @classmethod
    def open(cls, prefix: Path) -> TensorBundle:
        """Read the index of a bundle, and compare it with the sizes of the shards.

        `prefix` is the path of the index without its suffix. Raises DataError for an
        index that is damaged or foreign, a missing shard, and shards that are cut off or
        of another model.
        """
        index = prefix.with_name(prefix.name + INDEX_SUFFIX)
        require_no_pointer(index)
        try:
            entries = _entries(_index_bytes(index))
            shard_count = _shard_count(entries.pop("", b""))
            tensors = {name: _stored_tensor(entries[name]) for name in entries}
            for name, tensor in tensors.items():
                if tensor.shard >= shard_count:
                    raise ValueError(f"{name!r} in shard {tensor.shard}")
        except ValueError as error:
            raise DataError(
                f"{index}: wanted the index of a TensorFlow checkpoint, found {error}; get the "
                "file again"
            ) from None
        shards = []
        for number in range(shard_count):
            suffix = f".data-{number:05d}-of-{shard_count:05d}"
            shards.append(prefix.with_name(prefix.name + suffix))
            last = max(
                (
                    one.offset + one.size
                    for one in tensors.values()
                    if one.shard == number
                ),
                default=0,
            )
            _require_shard(shards[-1], last)
        return cls(tensors, tuple(shards))

    def read(self, name: str) -> Float32[np.ndarray, "..."]:
        """The numbers of a tensor of float32. Raises DataError for another type."""
        tensor = self.tensors[name]
        file = self.shards[tensor.shard]
        if tensor.type != FLOAT32_TYPE:
            raise DataError(
                f"{file}: wanted {name} in float32, found the type {tensor.type} of TensorFlow; "
                "save the checkpoint in float32"
            )
        count = prod(tensor.shape)
        array = np.fromfile(file, "<f4", count, offset=tensor.offset)
        return array.astype(np.float32, copy=False).reshape(tensor.shape)


def _require_shard(shard: Path, wanted: int) -> None:
    """Refuse a shard that is not there, or has another size than its index says."""
    if not shard.is_file():
        raise DataError(
            f"{shard}: wanted this shard of a TensorFlow checkpoint, found no such file; get all "
            "files of the checkpoint"
        )
    require_no_pointer(shard)
    size = shard.stat().st_size
    if size != wanted:
        fault = "it is cut off, or" if size < wanted else "it is"
        raise DataError(
            f"{shard}: wanted the {wanted:,} bytes that the index of this checkpoint describes, "
            f"found {size:,}: {fault} of another checkpoint; get index and data again together"
        )


# The table. Its functions raise ValueError with what was found.


def _index_bytes(index: Path) -> bytes:
    """The bytes of an index, whose length is bounded."""
    size = index.stat().st_size
    if size > MOST_INDEX_BYTES:
        raise ValueError(f"{size:,} bytes, more than {MOST_INDEX_BYTES:,}")
    return index.read_bytes()


def _entries(table: bytes) -> dict[str, bytes]:
    """The entries of a table by key, which have to be in their order."""
    footer = table[-FOOTER_BYTES:]
    if len(footer) < FOOTER_BYTES or int.from_bytes(footer[-8:], "little") != MAGIC:
        raise ValueError("another kind of file, or one that is cut off")
    at = 0
    for _ in range(2):  # where a list of further blocks is, of which there are none
        _, at = _varint(footer, at)
    offset, at = _varint(footer, at)
    size, _ = _varint(footer, at)
    entries: dict[str, bytes] = {}
    last_key: bytes | None = None
    for _, place in _block_entries(_block(table, offset, size)):
        block_offset, at = _varint(place, 0)
        block_size, _ = _varint(place, at)
        for key, value in _block_entries(_block(table, block_offset, block_size)):
            if last_key is not None and key <= last_key:
                raise ValueError("names that are not in their order")
            if len(entries) == MOST_TENSORS:
                raise ValueError(f"more than {MOST_TENSORS:,} tensors")
            last_key = key
            name = key.decode(errors="replace")
            if not name.isprintable() or "\ufffd" in name:  # messages hold it
                raise ValueError("a name that is no text")
            entries[name] = value
    return entries


def _block(table: bytes, offset: int, size: int) -> bytes:
    """A block of a table, whose CRC32C is compared."""
    end = offset + size
    if size < 4 or end + TRAILER_BYTES + FOOTER_BYTES > len(table):
        raise ValueError(f"a block of {size:,} bytes at {offset:,}, outside the file")
    compression = table[end]
    if compression != UNCOMPRESSED:
        name = COMPRESSIONS.get(compression, "an unknown method")
        raise ValueError(f"a block that is compressed by {name}, which is not read")
    [stored_crc] = struct.unpack_from("<I", table, end + 1)
    if stored_crc != masked_crc32c(table[offset : end + 1]):
        raise ValueError(f"a damaged block at {offset:,}")
    return table[offset:end]


def _block_entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block.

    Of each key only the bytes are stored that differ from the beginning of the key
    before it. The last number of a block counts its restarts, places where a key is
    stored whole, which are not used here.
    """
    [restart_count] = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 * (restart_count + 1)
    if end < 0:
        raise ValueError(
            f"{restart_count:,} restarts in a block of {len(block):,} bytes"
        )
    entries = block[:end]
    key, at = b"", 0
    while at < end:
        shared_length, at = _varint(entries, at)
        rest_length, at = _varint(entries, at)
        value_length, at = _varint(entries, at)
        if shared_length > len(key) or at + rest_length + value_length > end:
            raise ValueError("an entry that is longer than its block")
        key = key[:shared_length] + entries[at : at + rest_length]
        if len(key) > MOST_KEY_BYTES:
            raise ValueError(f"a name of {len(key):,} bytes")
        at += rest_length
        yield key, entries[at : at + value_length]
        at += value_length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of up to ten bytes, seven bits in each, and where the next one begins."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise ValueError("a number that is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _crc_table() -> tuple[int, ...]:
    """What one byte adds to a CRC32C, by its value."""
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)


CRC_TABLE = _crc_table()


def masked_crc32c(data: bytes) -> int:
    """The CRC32C of bytes, masked as LevelDB stores it: turned by 15 bits, plus a constant."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder = CRC_TABLE[(remainder ^ byte) & 0xFF] ^ (remainder >> 8)
    crc = remainder ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


# The values of entries, in the wire form of protocol buffers


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and the value of each field of a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire_type == BYTES:
            length, at = _varint(message, at)
        elif wire_type in (FOUR_BYTES, EIGHT_BYTES):
            length = 4 if wire_type == FOUR_BYTES else 8
        else:
            raise ValueError(f"a field of the unknown type {wire_type}")
        if at + length > len(message):
            raise ValueError("a field that is cut off")
        yield number, message[at : at + length]
        at += length


def _shard_count(header: bytes) -> int:
    """The number of shards, of a BundleHeaderProto: field 1; field 2 is the order of bytes."""
    numbers = dict(_fields(header))
    if numbers.get(2, 0) != 0:
        raise ValueError("numbers whose first byte is the largest (big endian)")
    count = numbers.get(1, 0)
    if not isinstance(count, int) or not 1 <= count <= MOST_SHARDS:
        raise ValueError(f"{count!r:.20} shards of data")
    return count


def _stored_tensor(entry: bytes) -> StoredTensor:
    """Where a tensor is, of a BundleEntryProto.

    Its fields are 1 the type, 2 the shape, 3 the shard, 4 the offset, 5 the size, 6 the
    CRC32C of the numbers, which is not compared, and 7 the slices of a variable that
    is stored in several tensors, which is not read.
    """
    numbers: dict[int, int] = {}
    shape: tuple[int, ...] = ()
    for number, value in _fields(entry):
        if number == 7:
            raise ValueError("a variable in slices, which is not read")
        if number == 2:
            shape = _shape(value)
        elif number in (1, 3, 4, 5):
            if not isinstance(value, int):
                raise ValueError(f"no number in the field {number} of a tensor")
            numbers[number] = value
    type_, size = numbers.get(1, 0), numbers.get(5, 0)
    bytes_of_number = BYTES_OF_TYPE.get(type_)
    if bytes_of_number is not None and prod(shape) * bytes_of_number != size:
        raise ValueError(f"a tensor of shape {shape} in {size:,} bytes")
    return StoredTensor(
        type=type_,
        shape=shape,
        shard=numbers.get(3, 0),
        offset=numbers.get(4, 0),
        size=size,
    )


def _shape(message: int | bytes) -> tuple[int, ...]:
    """The dimensions, of a TensorShapeProto: its field 2, in which field 1 is the size."""
    if not isinstance(message, bytes):
        raise ValueError("a shape that is a number")
    dimensions: list[int] = []
    for number, value in _fields(message):
        if number == 2 and isinstance(value, bytes):
            size = dict(_fields(value)).get(1, 0)
            if not isinstance(size, int) or size >= 2**31:
                raise ValueError("a dimension that is no number of rows")
            dimensions.append(size)
    if len(dimensions) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {len(dimensions)} dimensions")
    return tuple(dimensions)
