"""Files of tensors: any reader reads them, and a changed tensor is seen."""

from mmap import mmap

import numpy as np
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
    path = tmp_path / "x"
    write_tensors(path, TENSORS, METADATA)
    file = TensorFile.parse(path)
    assert have_equal_tensors(read(path), TENSORS)
    assert have_equal_tensors(load_file(path), TENSORS)
    assert file.metadata == METADATA
    assert not file.read("scatter").flags.writeable
    owner = file.read("scatter")
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner, mmap)  # processes that fit on large rows share them
    assert file.read("none of that name") is None
    path.unlink()
    assert file.read("scatter") is None


@given(st.data())
def test_a_changed_bit_of_a_tensor_is_seen_wherever_it_is(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "changed"
    write_tensors(path, TENSORS, METADATA)
    changed = bytearray(path.read_bytes())
    start = TensorFile.parse(path).start
    bit = data.draw(st.integers(8 * start, 8 * len(changed) - 1))
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    assert read(path) is None


def test_a_file_that_was_cut_or_has_no_digests_or_is_not_there_is_none(tmp_path):
    path = tmp_path / "x"
    assert TensorFile.parse(path) is None
    write_tensors(path, TENSORS, METADATA)
    whole = path.read_bytes()
    cut = [whole[:length] for length in (0, 7, 8, 100, -1)]
    for content in (save(TENSORS, metadata=METADATA), *cut):
        path.write_bytes(content)
        assert TensorFile.parse(path) is None
