"""The sentences of each split by their keys, as a run last read them: for plans alone.

To count what is cached, a plan needs the keys of all sentences and nothing else of the data, which
take seconds to read or to make. A run leaves them in the cache folder, good for as long as neither
a data file nor the code changes. A run itself never asks here.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.arrays import UInt8
from harness.core.digests import KEY_BYTES, sentence_key
from harness.core.files import state_of
from harness.core.provenance import code_digest
from harness.core.tensors import TensorFile, write_tensors
from harness.core.types import Task
from harness.encoders.cache.encodings import keys_in
from harness.tasks.loader import Library, needed_splits

Keys = frozenset[bytes]


def state(places: Places) -> str | None:
    """What the keys depend on; None if the data folder holds too many files to look at."""
    data = state_of(places.data_dir) if places.data_dir else ""
    if data is None:
        return None
    return hashlib.sha256(f"{code_digest()} {data}".encode()).hexdigest()


def file_of(places: Places) -> Path:
    """Where the keys of a data folder's sentences are kept."""
    data = str(places.data_dir and places.data_dir.absolute())
    return places.cache / "sentences" / f"{hashlib.sha256(data.encode()).hexdigest()}.safetensors"


@dataclass
class Wanted:
    """Keys of splits: from an earlier run where it left them, else from the data."""

    library: Library
    stored: Mapping[str, UInt8[np.ndarray, "N 16"]]
    known: dict[str, Keys] = field(default_factory=dict)
    unions: dict[frozenset[str], Keys] = field(default_factory=dict)

    @classmethod
    def open(cls, library: Library) -> Wanted:
        """What an earlier run left, if it still holds."""
        return cls(library, read_stored(file_of(library.places), state(library.places)))

    def splits(self, task: Task, fit_on: str | None) -> frozenset[str]:
        """The splits that a cell reads, which `keys` then knows.

        Raises AssetMissing for data that are not here, DataError for damaged ones.
        """
        self.library.require(task, fit_on)
        names = {split: name_of(task, split) for split in needed_splits(task, fit_on)}
        for split, name in names.items():
            if name not in self.known:
                kept = self.stored.get(name)
                self.known[name] = (
                    keys_of(self.library, task, split) if kept is None else frozenset(keys_in(kept))
                )
        return frozenset(names.values())

    def keys(self, names: frozenset[str]) -> Keys:
        """The distinct keys of splits together."""
        if names not in self.unions:
            self.unions[names] = frozenset().union(*(self.known[name] for name in names))
        return self.unions[names]


def remember(library: Library) -> None:
    """Keep the keys of every split that a run has read, for plans to come."""
    now, file = state(library.places), file_of(library.places)
    needed = {
        name_of(task, split): (task, split)
        for task, fit_on in library.needed
        for split in needed_splits(task, fit_on)
    }
    stored = dict(read_stored(file, now))
    new = {name: of for name, of in needed.items() if name not in stored}
    if now is None or not new:
        return
    tensors = stored | {name: packed(keys_of(library, *of)) for name, of in new.items()}
    with contextlib.suppress(OSError):  # a cache that may only be read is no reason to fail
        write_tensors(file, tensors, {"state": now})


def read_stored(file: Path, now: str | None) -> Mapping[str, UInt8[np.ndarray, "N 16"]]:
    """What is in the file, if it is whole and of the state that there is now."""
    stored = TensorFile.parse(file) if now else None
    if stored is None or stored.metadata.get("state") != now:
        return {}
    keys = {name: stored.read(name) for name in stored.tensors}
    return {name: rows for name, rows in keys.items() if rows is not None}


def name_of(task: Task, split: str) -> str:
    """Tasks that load the same share their splits."""
    return f"{task.load!r} {split}"


def keys_of(library: Library, task: Task, split: str) -> Keys:
    """The keys of a split, from the data."""
    return frozenset(map(sentence_key, library.split(task, split).sentences))


def packed(keys: Keys) -> UInt8[np.ndarray, "N 16"]:
    """Keys as a matrix, a row each, in order."""
    return np.frombuffer(b"".join(sorted(keys)), np.uint8).reshape(-1, KEY_BYTES)
