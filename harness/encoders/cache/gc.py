"""The cache folder: what lies in it, when it was last used, and clearing it.

Only what has the name and the form of something cached is ever touched: folders and files named by
hex digests in the cache folder's own four parts. Links are ignored, as they may lead elsewhere.
Pins and trained encoders lie in the same folder; they are no cache, and stay.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from harness.core.errors import UsageError
from harness.core.files import SECONDS_TO_WRITE, alone, sized
from harness.encoders.cache.encodings import FILE as LABEL
from harness.encoders.cache.encodings import Shard, read_label
from harness.encoders.checkpoint import SEAL_SUFFIX

DIGEST = re.compile(r"[0-9a-f]{32,}")
BY_KEY = ("encodings", "moments", "rows")  # a folder an encoder key in each
CONVERTED = "converted"
UNFINISHED = (".*.tmp", ".*.partial", ".*.block", ".unfinished-*")  # what a killed process leaves
DAMAGED = ".damaged"
SHORTEST = 6  # digits by which a key may be called


@dataclass(frozen=True)
class Entry:
    """One thing that can be cleared. `last_used` is in seconds since 1970.

    An encoder's encodings, moments and rows go together; `seconds` were paid for the encodings,
    `weights` is the digest of its weights where a run labelled it. A leftover is an unfinished or
    damaged file, its `key` the path below the cache folder.
    """

    kind: Literal["encoder", "converted", "leftover"]
    key: str
    names: tuple[str, ...]
    bytes: int
    last_used: float
    sentences: int = 0
    seconds: float = 0.0
    moments: int = 0
    rows: int = 0
    weights: str = ""

    @property
    def called(self) -> str:
        """The entry in words."""
        name = ", ".join(self.names) or "unknown encoder"
        return f"converted weights of {name}" if self.kind == "converted" else name

    def __str__(self) -> str:
        if self.kind == "leftover":
            return f"leftover {self.key}, {sized(self.bytes)}"
        return f"{self.called} ({self.key[:12]}), {sized(self.bytes)}"


@dataclass(frozen=True)
class Cleared:
    """An entry that was cleared, or is in use by another process and was kept."""

    what: Entry
    in_use: bool = False


def entries(root: Path) -> list[Entry]:
    """Everything cached, the longest unused first."""
    keys = {folder.name for part in BY_KEY for folder in _folders(root / part)}
    encoders = [_encoder(root, key) for key in keys]
    converted = []
    for file, state in _files(root / CONVERTED).items():
        if file.suffix == ".safetensors" and DIGEST.fullmatch(file.stem):
            # Weights are used whenever an encoder that was made from them is.
            users = [encoder for encoder in encoders if encoder.weights == file.stem]
            names = tuple(sorted({name for user in users for name in user.names}))
            used = max([state.st_mtime, *(user.last_used for user in users)])
            converted.append(Entry("converted", file.stem, names, state.st_size, used))
    return sorted([*encoders, *converted], key=lambda entry: (entry.last_used, entry.key))


def _encoder(root: Path, key: str) -> Entry:
    encodings, moments, rows = (_files(root / part / key) for part in BY_KEY)
    shards = [shard for f in encodings if f.suffix == ".safetensors" and (shard := Shard.parse(f))]
    files, label = {**encodings, **moments, **rows}, read_label(root / BY_KEY[0] / key)
    return Entry(
        "encoder",
        key,
        tuple(sorted(label.encoders)),
        _bytes(files),
        max((state.st_mtime for state in files.values()), default=0.0),
        sentences=sum(shard.rows for shard in shards),
        seconds=fsum(float(shard.metadata["seconds"]) for shard in shards),
        moments=_bytes(moments),
        rows=_bytes(rows),
        weights=label.weights,
    )


def size(root: Path) -> int:
    """Bytes of everything cached."""
    return sum(_bytes(_files(folder)) for folder in _all_folders(root))


def leftovers(root: Path, now: float) -> list[Entry]:
    """Unfinished files of killed processes, and shards that were set aside as damaged."""
    unfinished = []
    for path in (path for folder in _all_folders(root) for path in _inside(folder)):
        if not _is_leftover(path):
            continue
        files = _states([path, *path.rglob("*")])
        latest = max((state.st_mtime for state in files.values()), default=0.0)
        if path.suffix == DAMAGED or now - latest > SECONDS_TO_WRITE:
            key = str(path.relative_to(root))
            unfinished.append(Entry("leftover", key, (), _bytes(files), latest))
    return unfinished


def tidy(root: Path, now: float, dry_run: bool) -> Iterator[Cleared]:
    """Remove leftovers, but for those whose encoder is in use."""
    return (clear(root, leftover, dry_run) for leftover in leftovers(root, now))


def shrink(root: Path, most: int, dry_run: bool) -> Iterator[Cleared]:
    """Clear what was unused for longest until so many bytes are left, if that can be."""
    left = size(root)
    for entry in entries(root):
        if left > most:
            cleared = clear(root, entry, dry_run)
            left -= 0 if cleared.in_use else entry.bytes
            yield cleared


def clear(root: Path, entry: Entry, dry_run: bool) -> Cleared:
    """Clear an entry, unless an encoder that needs it is in use."""
    folders: list[Path] = []
    if entry.kind == "encoder":
        folders = [root / part / entry.key for part in reversed(BY_KEY)]
        paths = [path for folder in folders for path in _inside(folder) if _is_ours(path)]
        paths.sort(key=lambda path: path.name == LABEL)
        users = folders[-1:]
    elif entry.kind == "leftover":
        paths = [root / entry.key]
        users = [root / BY_KEY[0] / paths[0].parent.name]
    else:
        file = root / CONVERTED / f"{entry.key}.safetensors"
        paths = [file, file.with_suffix(SEAL_SUFFIX)]
        users = [f for f in _folders(root / BY_KEY[0]) if read_label(f).weights == entry.key]
    with ExitStack() as held:
        free = all(held.enter_context(alone(folder)) for folder in users)
        if free and not dry_run:
            for path in paths:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            for folder in folders:
                if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
                    folder.rmdir()
    return Cleared(entry, in_use=not free)


def choose(every: Sequence[Entry], wanted: Sequence[str]) -> list[Entry]:
    """The entries that names of encoders or beginnings of keys mean. Raises UsageError.

    An encoder's converted weights go with it if no other encoder needs them.
    """
    chosen: dict[str, Entry] = {}
    for word in wanted:
        hits = [e for e in every if word in e.names and e.kind == "encoder"]
        if not hits and re.fullmatch(rf"[0-9a-f]{{{SHORTEST},}}", word):
            hits = [e for e in every if e.key.startswith(word)]
            if len(hits) > 1:
                raise UsageError(f"{word}: {len(hits)} keys begin so; give more digits")
        if not hits:
            names = sorted({name for e in every for name in e.names})
            raise UsageError(
                f"{word!r} is not in the cache: wanted a key of {SHORTEST} digits or more, or one "
                f"of {', '.join(names) or 'no names'} (harness cache ls)"
            )
        chosen |= {entry.key: entry for entry in hits}
    needed = {e.weights for e in every if e.key not in chosen}
    unneeded = {e.weights for e in chosen.values()} - needed
    chosen |= {e.key: e for e in every if e.kind == "converted" and e.key in unneeded}
    return list(chosen.values())


def _inside(folder: Path) -> list[Path]:
    """The files and folders in a folder without links; none where it is absent or a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.is_symlink())


def _folders(parent: Path) -> list[Path]:
    """Folders of encoder keys."""
    return [path for path in _inside(parent) if DIGEST.fullmatch(path.name) and path.is_dir()]


def _all_folders(root: Path) -> list[Path]:
    return [*(folder for part in BY_KEY for folder in _folders(root / part)), root / CONVERTED]


def _files(folder: Path) -> dict[Path, os.stat_result]:
    """The files that are cached in a folder, with their states."""
    return _states(path for path in _inside(folder) if not _is_leftover(path))


def _states(paths: Iterable[Path]) -> dict[Path, os.stat_result]:
    """The states of those that are files; a writer may take one away meanwhile."""
    states = {}
    for path in paths:
        with suppress(FileNotFoundError):
            states[path] = path.lstat()
    return {path: state for path, state in states.items() if S_ISREG(state.st_mode)}


def _is_leftover(path: Path) -> bool:
    return path.suffix == DAMAGED or any(path.match(pattern) for pattern in UNFINISHED)


def _is_ours(path: Path) -> bool:
    """Whether a run put this file into the folder of an encoder's key."""
    known = path.suffix == ".safetensors" or path.name == LABEL or _is_leftover(path)
    return known and path.is_file()


def _bytes(files: Mapping[Path, os.stat_result]) -> int:
    return sum(state.st_size for state in files.values())
