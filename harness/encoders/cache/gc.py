"""The entries of a cache folder, their sizes and times of last use, and how parts are cleared.

Only what has the name and the form of something cached is ever touched: folders and files named by
hex digests, below the cache folder's own four. Links are passed over, as they may lead elsewhere.
The pins of encoders and the encoders trained here lie in the same folder; they are no cache, and
stay.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
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
UNFINISHED = (".*.tmp", ".*.partial", ".*.block", ".unfinished-*")  # what a crash leaves of a write
DAMAGED = ".damaged"
OURS = ("*.safetensors", f"*{DAMAGED}", *UNFINISHED, LABEL)
SHORTEST = 6  # digits by which a key may be called

Kind = Literal["encoder", "converted"]
CONVERTED: Kind = "converted"


@dataclass(frozen=True)
class Entry:
    """One thing that can be cleared. `last_used` is in seconds since 1970.

    An encoder's encodings, moments and rows go together; `seconds` were paid for the encodings,
    `weights` is the digest of its weights where a run labelled it.
    """

    kind: Kind
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
        return f"converted weights of {name}" if self.kind == CONVERTED else name

    def __str__(self) -> str:
        return f"{self.called} ({self.key[:12]}), {sized(self.bytes)}"


@dataclass(frozen=True)
class Leftover:
    """A file that a crash left unfinished, or a damaged one that was set aside."""

    path: Path
    bytes: int

    def __str__(self) -> str:
        return f"leftover {self.path.parent.name[:12]}/{self.path.name}, {sized(self.bytes)}"


@dataclass(frozen=True)
class Cleared:
    """The outcome for one thing: cleared, or in use by another process and left alone."""

    what: Entry | Leftover
    in_use: bool = False

    def told(self, dry_run: bool) -> str:
        """In words."""
        did = "would remove" if dry_run else "removed"
        return f"{self.what}: in use, kept" if self.in_use else f"{did} {self.what}"


def entries(root: Path) -> list[Entry]:
    """Everything cached, the longest unused first."""
    keys = {folder.name for part in BY_KEY for folder in _folders(root / part)}
    encoders = [_encoder(root, key) for key in keys]
    weights = _converted(root, encoders)
    return sorted([*encoders, *weights], key=lambda entry: (entry.last_used, entry.key))


def size(root: Path) -> int:
    """Bytes of everything cached."""
    folders = [folder for part in BY_KEY for folder in _folders(root / part)]
    return sum(_bytes(_files(folder)) for folder in (*folders, root / CONVERTED))


def _encoder(root: Path, key: str) -> Entry:
    folders = [root / part / key for part in BY_KEY]
    encodings, moments, rows = map(_files, folders)
    shards = [shard for f in encodings if f.suffix == ".safetensors" and (shard := Shard.parse(f))]
    every, label = {**encodings, **moments, **rows}, read_label(folders[0])
    return Entry(
        "encoder",
        key,
        tuple(sorted(label.encoders)),
        _bytes(every),
        max((found.st_mtime for found in every.values()), default=0.0),
        sentences=sum(shard.rows for shard in shards),
        seconds=fsum(float(shard.metadata["seconds"]) for shard in shards),
        moments=_bytes(moments),
        rows=_bytes(rows),
        weights=label.weights,
    )


def _converted(root: Path, encoders: Sequence[Entry]) -> Iterator[Entry]:
    """Converted weights; they were used whenever an encoder of theirs was."""
    for file, found in _files(root / CONVERTED).items():
        if file.suffix == ".safetensors" and DIGEST.fullmatch(file.stem):
            users = [e for e in encoders if e.weights == file.stem]
            names = sorted({name for e in users for name in e.names})
            used = max([found.st_mtime, *(e.last_used for e in users)])
            yield Entry(CONVERTED, file.stem, tuple(names), found.st_size, used)


def leftovers(root: Path, now: float) -> list[Leftover]:
    """Unfinished files of crashes, and shards that were set aside as damaged."""
    folders = [folder for part in BY_KEY for folder in _folders(root / part)]
    unfinished = []
    for folder in (*folders, root / CONVERTED):
        for path in _inside(folder):
            inside = [path, *path.rglob("*")] if _is_leftover(path) else []
            states = list(filter(None, map(_state, inside)))
            latest = max((state.st_mtime for state in states), default=now)
            if states and (path.suffix == DAMAGED or now - latest > SECONDS_TO_WRITE):
                unfinished.append(
                    Leftover(path, sum(s.st_size for s in states if S_ISREG(s.st_mode)))
                )
    return sorted(unfinished, key=lambda leftover: leftover.path)


def tidy(root: Path, now: float, dry_run: bool) -> Iterator[Cleared]:
    """Remove leftovers, but for those whose encoder is in use."""
    for leftover in leftovers(root, now):
        with alone(root / BY_KEY[0] / leftover.path.parent.name) as free:
            if free and not dry_run:
                _remove(leftover.path)
        yield Cleared(leftover, in_use=not free)


def shrink(root: Path, most: int, dry_run: bool) -> Iterator[Cleared]:
    """Clear what was unused for longest until so many bytes are left, if that can be."""
    left = size(root)
    for entry in entries(root):
        if left > most:
            cleared = clear(root, entry, dry_run)
            left -= 0 if cleared.in_use else entry.bytes
            yield cleared


def clear(root: Path, entry: Entry, dry_run: bool) -> Cleared:
    """Clear one file, or all of an encoder's folders unless they are in use."""
    folders = [root / part / entry.key for part in BY_KEY]
    if entry.kind != "encoder":
        return _clear_converted(root, entry, dry_run)
    with alone(folders[0]) as free:
        if free and not dry_run:
            for folder in reversed(folders):  # the one with its label, which is held, goes last
                _clear_folder(folder)
    return Cleared(entry, in_use=not free)


def _clear_converted(root: Path, entry: Entry, dry_run: bool) -> Cleared:
    """Clear converted weights, unless an encoder of theirs is in use."""
    file = root / CONVERTED / f"{entry.key}.safetensors"
    users = [f for f in _folders(root / BY_KEY[0]) if read_label(f).weights == entry.key]
    with ExitStack() as held:
        free = all(held.enter_context(alone(folder)) for folder in users)
        for part in (file, file.with_suffix(SEAL_SUFFIX)) if free and not dry_run else ():
            part.unlink(missing_ok=True)
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
    gone = {e.weights for e in chosen.values()} - needed
    useless = {e.key: e for e in every if e.kind == CONVERTED and e.key in gone}
    return list((chosen | useless).values())


def _inside(folder: Path) -> list[Path]:
    """The files and folders in a folder without links; none where it is absent or a link."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if not path.is_symlink())


def _folders(parent: Path) -> list[Path]:
    """Folders of encoder keys."""
    return [path for path in _inside(parent) if DIGEST.fullmatch(path.name) and path.is_dir()]


def _files(folder: Path) -> dict[Path, os.stat_result]:
    """Files that are cached, with their states; a writer may take one away meanwhile."""
    states = {path: _state(path) for path in _inside(folder) if not _is_leftover(path)}
    return {path: s for path, s in states.items() if s is not None and S_ISREG(s.st_mode)}


def _is_leftover(path: Path) -> bool:
    return path.suffix == DAMAGED or any(path.match(pattern) for pattern in UNFINISHED)


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _bytes(files: Mapping[Path, os.stat_result]) -> int:
    return sum(found.st_size for found in files.values())


def _clear_folder(folder: Path) -> None:
    """Remove what a run put there; the folder too, unless something else lies in it."""
    ours = [f for f in _inside(folder) if f.is_file() and any(map(f.match, OURS))]
    for file in sorted(ours, key=lambda file: file.name == LABEL):
        file.unlink(missing_ok=True)
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
