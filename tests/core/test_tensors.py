"""Sealed tensor files: any reader reads them, any changed bit is seen."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save

from harness.core.tensors import TensorFile, write_tensors

TENSORS = {
    "keys": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "mean.3": np.linspace(0, 1, 8, dtype=np.float32).reshape(2, 4),
    "scatter": np.eye(3),
    "empty": np.zeros((0, 4), np.float32),
}
METADATA = {"seconds": "1.5", "text": "é"}
COMMITTED = sorted(Path(__file__).parents[2].glob("results/**/*.safetensors"))


def read(path):
    file = TensorFile.parse(path)
    tensors = {name: file.read(name) for name in file.tensors} if file else {}
    whole = file is not None and all(tensor is not None for tensor in tensors.values())
    return tensors if whole else None


def have_equal_tensors(tensors, wanted):
    return tensors.keys() == wanted.keys() and all(
        tensor.dtype == wanted[name].dtype and np.array_equal(tensor, wanted[name])
        for name, tensor in tensors.items()
    )


def test_what_is_written_comes_back_here_and_in_any_other_reader(tmp_path):
    write_tensors(tmp_path / "x", TENSORS, METADATA)
    file = TensorFile.parse(tmp_path / "x")
    assert have_equal_tensors(read(tmp_path / "x"), TENSORS)
    assert have_equal_tensors(load_file(tmp_path / "x"), TENSORS)
    assert file.metadata == METADATA
    assert not file.read("scatter").flags.writeable
    assert file.read("none of that name") is None
    (tmp_path / "x").unlink()
    assert file.read("scatter") is None


def content(folder, tensors=TENSORS):
    write_tensors(folder / "written", tensors, METADATA)
    return (folder / "written").read_bytes()


def test_equal_content_has_equal_bytes(tmp_path):
    assert content(tmp_path) == content(tmp_path, dict(reversed(TENSORS.items())))


@given(st.data())
def test_a_changed_bit_is_seen_wherever_it_is(tmp_path_factory, data):
    changed = bytearray(content(tmp_path_factory.getbasetemp()))
    bit = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(changed)
    tensors = read(path)
    # A blank that becomes another blank behind the JSON text changes nothing that is
    # read.
    assert tensors is None or have_equal_tensors(tensors, TENSORS)


def test_a_file_that_was_cut_or_has_no_seal_or_is_not_there_is_none(tmp_path):
    sealed, path = content(tmp_path), tmp_path / "x"
    assert TensorFile.parse(path) is None
    for text in (
        save(TENSORS, metadata=METADATA),
        *(sealed[:n] for n in (0, 7, 8, 100, -1)),
    ):
        path.write_bytes(text)
        assert TensorFile.parse(path) is None


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_every_committed_file_is_read(path):
    assert have_equal_tensors(read(path), load_file(path))
