"""A writer of TensorFlow's tensor bundles, and of a BERT in the layouts of its archives.

It shares nothing with the reader: the checksum is taken bit by bit.
"""

import json
import re
import struct
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

MAGIC = 0xDB4775248B80FB57
TYPES = {"float32": 1, "int32": 3, "int64": 9, "float16": 19}


def varint(value):
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def masked_checksum(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def number_field(field, value):
    return varint(field << 3) + varint(value)


def message_field(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def header(shards=1):
    """The entry without a name: the number of shards, the order of bytes, a version."""
    return number_field(1, shards) + message_field(3, number_field(1, 1))


def entry(kind, shape, shard, offset, size):
    """The place of a tensor, with a checksum that nobody compares."""
    dimensions = (message_field(2, number_field(1, length)) for length in shape)
    return (
        number_field(1, kind)
        + message_field(2, b"".join(dimensions))
        + number_field(3, shard)
        + number_field(4, offset)
        + number_field(5, size)
        + varint(6 << 3 | 5)
        + b"\0\0\0\0"
    )


def block(entries, restart_interval=16):
    """Entries of a key and a value: keys share their beginnings but at a restart."""
    written, restarts, last = b"", [], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % restart_interval == 0:
            restarts.append(len(written))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        rest = key[shared:]
        written += varint(shared) + varint(len(rest)) + varint(len(value))
        written += rest + value
        last = key
    restarts = restarts or [0]
    return written + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def table(entries, block_entries=40, compression=0, moved=0):
    """A table of sorted entries; `moved` falsifies the places of its blocks."""
    entries = sorted(entries)
    written, places = b"", []

    def append(content, kind=0, moved=0):
        nonlocal written
        place = varint(len(written) + moved) + varint(len(content))
        content += bytes([kind])
        written += content + struct.pack("<I", masked_checksum(content))
        return place

    for start in range(0, len(entries), block_entries):
        part = entries[start : start + block_entries]
        places.append((part[-1][0], append(block(part), compression, moved)))
    further = append(block([]))
    index = append(block(places, restart_interval=1))
    return written + (further + index).ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def shard_name(prefix, number, count):
    return prefix.with_name(f"{prefix.name}.data-{number:05d}-of-{count:05d}")


def write_bundle(prefix, arrays, shards=1, change=lambda entries: entries, **options):
    """Write a bundle; its tensors go to the shards in turn. `change` edits the entries."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    contents = [b""] * shards
    entries = {"": header(shards)}
    for number, (name, array) in enumerate(sorted(arrays.items())):
        shard = number % shards
        data = np.ascontiguousarray(array).tobytes()
        kind = TYPES[str(array.dtype)]
        entries[name] = entry(kind, array.shape, shard, len(contents[shard]), len(data))
        contents[shard] += data
    items = change(entries).items()
    keys = [(name.encode(), value) for name, value in items]
    index = prefix.with_name(f"{prefix.name}.index")
    index.write_bytes(table(keys, **options))
    for number, content in enumerate(contents):
        shard_name(prefix, number, shards).write_bytes(content)


# A BERT


def variables_of(checkpoint: Path, scope=""):
    """The variables of Google's BERT for the tensors of a checkpoint of transformers."""
    arrays = {}
    for name, array in load_file(checkpoint / "model.safetensors").items():
        if "decoder" in name:  # the word embeddings again
            continue
        variable = name.replace(".", "/").replace("layer/", "layer_")
        if "LayerNorm" in name:
            variable = variable.replace("weight", "gamma").replace("bias", "beta")
        elif re.search("embeddings/weight$", variable):
            variable = variable.removesuffix("/weight")
        elif re.search("seq_relationship/|predictions/bias", variable):
            variable = re.sub("weight$", "output_weights", variable)
            variable = re.sub("bias$", "output_bias", variable)
        elif variable.endswith("/weight"):
            variable, array = f"{variable.removesuffix('weight')}kernel", array.T
        arrays[scope + variable] = array
    return arrays


GOOGLE_SETTINGS = (
    *("attention_probs_dropout_prob", "hidden_act", "hidden_dropout_prob"),
    *("hidden_size", "initializer_range", "intermediate_size"),
    *("max_position_embeddings", "num_attention_heads", "num_hidden_layers"),
    *("type_vocab_size", "vocab_size"),
)


def write_archive(folder, checkpoint, pieces, *, shards=1, extra=None, **options):
    """A checkpoint as Google's archives of 2018 to 2020 hold it."""
    variables = variables_of(checkpoint) | (extra or {})
    write_bundle(folder / "bert_model.ckpt", variables, shards, **options)
    (folder / "bert_model.ckpt.meta").write_bytes(b"a graph that nobody reads")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    config = json.loads((checkpoint / "config.json").read_text())
    settings = {name: config[name] for name in GOOGLE_SETTINGS}
    (folder / "bert_config.json").write_text(json.dumps(settings))
    return folder


def write_saved_model(
    folder, checkpoint, pieces, *, lower_cases=None, shards=1, scope="module/"
):
    """A checkpoint as a SavedModel of TensorFlow 1 holds it."""
    prefix = folder / "variables" / "variables"
    write_bundle(prefix, variables_of(checkpoint, scope), shards)
    (folder / "saved_model.pb").write_bytes(b"a graph that nobody reads")
    (folder / "assets").mkdir()
    (folder / "assets" / "vocab.txt").write_text("\n".join(pieces))
    if lower_cases is not None:
        stated = {"doLowerCase": lower_cases, "maxSequenceLength": 128}
        (folder / "assets" / "model.json").write_text(json.dumps(stated))
    return folder
