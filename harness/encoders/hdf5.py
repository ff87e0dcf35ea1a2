"""HDF5 files of weights, rewritten once as safetensors: arrays of numbers by their paths.

Only arrays that lie in the file itself are read. Links to other files, virtual and external
storage, and anything but floating-point numbers are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import DataError
from harness.core.installed import extra
from harness.encoders.checkpoint import convert_once

DEEPEST = 16  # of groups in groups, which may hold themselves
MOST_BYTES = 4 * 2**30  # of all arrays, unpacked: a small file may claim to hold any number


def read_hdf5(path: Path, digest: str, cache: Path) -> dict[str, Any]:
    """Every array of an HDF5 file in float32, by its path: `CNN/W_cnn_0`.

    Args:
        path: The file.
        digest: Its sha256.
        cache: The folder that keeps its safetensors form; where that is, h5py is not needed.

    Raises:
        DataError: It is no HDF5 file, or holds something other than arrays of numbers.
        UsageError: The package h5py is not installed, and the form is not there yet.
    """
    from safetensors.torch import load_file

    return load_file(convert_once(cache, digest, lambda new: _convert(path, new)))


def _convert(path: Path, new: Path) -> None:
    from safetensors.numpy import save_file

    with extra("elmo"):
        import h5py
    try:
        with h5py.File(path, "r") as file:
            found = dict(_arrays(path, file, h5py))
            total = sum(array.size * 4 for array in found.values())
            if not found or total > MOST_BYTES:
                raise DataError(
                    f"{path}: wanted arrays of {MOST_BYTES} bytes at most, found {len(found)} of "
                    f"{total} bytes; fetch it again"
                )
            save_file({name: np.asarray(a[...], np.float32) for name, a in found.items()}, new)
    except (OSError, RuntimeError, KeyError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(
            f"{path}: wanted HDF5, found otherwise ({reason}); fetch it again"
        ) from error


def _arrays(path: Path, group: Any, h5py: Any) -> Iterator[tuple[str, Any]]:
    """The arrays below a group, none of them read yet."""
    for name in group:
        where = f"{group.name.rstrip('/')}/{name}"[1:]
        link, item = group.get(name, getlink=True), None
        if isinstance(link, h5py.HardLink):
            item = group[name]
        if isinstance(item, h5py.Group) and where.count("/") < DEEPEST:
            yield from _arrays(path, item, h5py)
            continue
        own = isinstance(item, h5py.Dataset) and not (item.is_virtual or item.external)
        if item is None or not own or item.dtype.kind != "f":
            raise DataError(f"{path}: wanted arrays of numbers in the file itself, found {where!r}")
        yield where, item
