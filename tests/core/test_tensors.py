"""Sealed tensor files: any reader reads them, any changed bit is seen, former files are read."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save

from harness.core.tensors import MatrixWriter, TensorFile, encode_tensors, write_tensors

TENSORS = {
    "keys": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "mean.3": np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4),
    "scatter": np.eye(3),
    "empty": np.zeros((0, 4), np.float32),
}
METADATA = {"seconds": "1.5", "text": "é"}
COMMITTED = sorted(Path(__file__).parents[2].glob("results/**/*.safetensors"))


def read(path, **options):
    file = TensorFile.parse(path, **options)
    tensors = {name: file.read(name) for name in file.tensors} if file else {}
    whole = file is not None and all(tensor is not None for tensor in tensors.values())
    return tensors if whole else None


def same(found, wanted):
    return found.keys() == wanted.keys() and all(
        found[n].dtype == wanted[n].dtype and np.array_equal(found[n], wanted[n]) for n in wanted
    )


def test_what_is_written_comes_back_here_and_in_any_other_reader(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, METADATA)
    file = TensorFile.parse(tmp_path / "x")
    assert same(read(tmp_path / "x"), TENSORS)
    assert same(load_file(tmp_path / "x"), TENSORS)
    assert file.metadata == METADATA
    assert not file.read("scatter").flags.writeable
    assert file.read("none of that name") is None


def test_equal_content_has_equal_bytes():
    turned = dict(reversed(TENSORS.items()))
    assert encode_tensors(TENSORS, METADATA) == encode_tensors(turned, METADATA)


@given(st.data())
def test_a_changed_bit_is_seen_wherever_it_is(tmp_path_factory, data):
    content = bytearray(encode_tensors(TENSORS, METADATA))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(content)
    found = read(path)
    # A blank that becomes another blank behind the JSON text changes nothing that is read.
    assert found is None or same(found, TENSORS)


@pytest.mark.parametrize("size", [0, 7, 8, 100, -1])
def test_a_file_that_was_cut_is_none(tmp_path, size):
    (tmp_path / "x").write_bytes(encode_tensors(TENSORS, METADATA)[:size])
    assert TensorFile.parse(tmp_path / "x", sealed=False) is None
    assert TensorFile.parse(tmp_path / "there is none") is None


def test_a_file_that_goes_after_it_was_opened_has_no_tensors(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, METADATA)
    file = TensorFile.parse(tmp_path / "x")
    (tmp_path / "x").unlink()
    assert file.read("scatter") is None


def test_a_file_without_a_seal_is_read_only_where_none_is_asked_for(tmp_path):
    (tmp_path / "x").write_bytes(save(TENSORS, metadata=METADATA))
    assert TensorFile.parse(tmp_path / "x") is None
    assert same(read(tmp_path / "x", sealed=False), TENSORS)


def test_a_matrix_is_written_some_rows_at_a_time_and_not_there_before_its_end(tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    writer = MatrixWriter(tmp_path / "x", "rows")
    for part in np.array_split(x, 7):
        writer.add(part)
    assert not (tmp_path / "x").exists()
    writer.finish(METADATA)
    assert same(read(tmp_path / "x"), {"rows": x})
    assert same(load_file(tmp_path / "x"), {"rows": x})
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def former_moments(tensors, metadata):
    """Moments as version 0.1.0 sealed them."""
    digest = hashlib.sha256(repr(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].tobytes())
    return save(tensors, metadata=metadata | {"sha256": digest.hexdigest()})


def former_rows(tensors, metadata):
    """Rows of a corpus as version 0.1.0 sealed them: blanks after the header, one tensor."""
    ((name, x),) = tensors.items()
    seal = hashlib.sha256(x.tobytes() + repr((x.shape, sorted(metadata.items()))).encode())
    layout = {"dtype": "F32", "shape": x.shape, "data_offsets": (0, x.nbytes)}
    metadata = metadata | {"sha256": seal.hexdigest()}
    header = json.dumps({"__metadata__": metadata, name: layout}).encode().ljust(1016)
    return struct.pack("<Q", 1016) + header + x.tobytes()


@pytest.mark.parametrize(
    ("former", "tensors"),
    [
        (former_moments, {"mean": np.ones(3), "scatter": np.eye(3)}),
        (former_rows, {"rows": np.ones((5, 2), np.float32)}),
    ],
)
def test_files_of_the_first_version_are_read_and_checked(tmp_path, former, tensors):
    content = former(tensors, METADATA)
    (tmp_path / "x").write_bytes(content)
    assert same(read(tmp_path / "x"), tensors)
    assert TensorFile.parse(tmp_path / "x").metadata == METADATA
    (tmp_path / "x").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert read(tmp_path / "x") is None
    (tmp_path / "x").write_bytes(content.replace(b"1.5", b"1.6"))
    assert read(tmp_path / "x") is None


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_every_committed_file_is_read(path):
    assert same(read(path, sealed=False), load_file(path))
