"""The cache folder: what is in it, when it was last used, and clearing it.

Only what has the name and the form of something cached is ever touched: folders and
files named by hex digests in the cache folder's own four parts. Links are ignored, as
they may lead elsewhere. Pins and trained encoders are in the same folder; they are no
cache, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from stat import S_ISREG
from typing import Literal

from harness.core.errors import UsageError
from harness.core.files import alone, sized
from harness.encoders.cache.encodings import LABEL_FILE, CacheShard, read_label

KEY_PATTERN = re.compile(r"[0-9a-f]{32,}")
FOLDERS_BY_KEY = ("encodings", "moments", "rows")  # a folder an encoder key in each
# What runs put there, and what killed runs and damage left.
STORED_FILES = re.compile(
    rf".*\.(safetensors|damaged)|{re.escape(LABEL_FILE)}|\..*\.(tmp|block)"
)
CONVERTED_FILES = re.compile(
    rf"{KEY_PATTERN.pattern}\.(safetensors|sha256)"
)  # weights, and their own digest
LEAST_KEY_DIGITS = 6  # digits by which a key may be called


@dataclass(frozen=True)
class CacheEntry:
    """One thing that can be cleared: what is kept of an encoder, or converted weights.

    `last_used` is in seconds since 1970. An encoder's encodings, moments and rows go
    together; `seconds` were paid for its sentences, `weights` is the digest of its
    weights.
    """

    kind: Literal["encoder", "converted"]
    key: str
    names: tuple[str, ...]
    bytes: int
    last_used: float
    sentences: int = 0
    seconds: float = 0.0
    weights: str = ""

    @property
    def called(self) -> str:
        names = ", ".join(self.names) or "unknown encoder"
        return f"converted weights of {names}" if self.kind == "converted" else names

    def __str__(self) -> str:
        return f"{self.called} ({self.key[:12]}), {sized(self.bytes)}"


def cached_entries(root: Path) -> list[CacheEntry]:
    """Everything cached, the longest unused first."""
    keys = {
        folder.name
        for part in FOLDERS_BY_KEY
        for folder in _inside(root / part, KEY_PATTERN)
    }
    encoders = [_encoder(root, key) for key in keys]
    converted = []
    for weights in {file.stem for file in _inside(root / "converted", CONVERTED_FILES)}:
        # Weights are used whenever an encoder that was made from them is.
        users = [encoder for encoder in encoders if encoder.weights == weights]
        names = tuple(sorted({name for user in users for name in user.names}))
        size, written = _size_and_time(_converted(root, weights))
        used = max([written, *(user.last_used for user in users)])
        converted.append(CacheEntry("converted", weights, names, size, used))
    return sorted(
        [*encoders, *converted], key=lambda entry: (entry.last_used, entry.key)
    )


def _encoder(root: Path, key: str) -> CacheEntry:
    size, written = _size_and_time(_stored(root, key))
    place, label = (
        root / FOLDERS_BY_KEY[0] / key,
        read_label(root / FOLDERS_BY_KEY[0] / key),
    )
    shards = [
        shard
        for f in sorted(place.glob("*.safetensors"))
        if (shard := CacheShard.parse(f))
    ]
    return CacheEntry(
        kind="encoder",
        key=key,
        names=tuple(label.names),
        bytes=size,
        last_used=written,
        sentences=sum(shard.rows for shard in shards),
        seconds=fsum(shard.seconds for shard in shards),
        weights=label.digests.get("weights", ""),
    )


def cache_size(root: Path) -> int:
    """Bytes of everything cached."""
    return sum(entry.bytes for entry in cached_entries(root))


def shrink(root: Path, max_bytes: int) -> Iterator[tuple[CacheEntry, bool]]:
    """Clear what was unused for longest until so many bytes are left; whether each could be."""
    entries = cached_entries(root)
    size = sum(entry.bytes for entry in entries)
    for entry in entries:
        if size > max_bytes:
            cleared = clear(root, entry)
            size -= entry.bytes if cleared else 0
            yield entry, cleared


def clear(root: Path, entry: CacheEntry) -> bool:
    """Clear an entry; False, and nothing is cleared, where an encoder that needs it is in use."""
    if entry.kind == "encoder":
        users, files = [root / FOLDERS_BY_KEY[0] / entry.key], _stored(root, entry.key)
    else:
        labelled = _inside(root / FOLDERS_BY_KEY[0], KEY_PATTERN)
        users = [
            folder
            for folder in labelled
            if read_label(folder).digests.get("weights") == entry.key
        ]
        files = _converted(root, entry.key)
    with ExitStack() as held:
        free = all(held.enter_context(alone(folder)) for folder in users)
        if free:
            for file in files:
                file.unlink(missing_ok=True)
            for part in FOLDERS_BY_KEY:
                with suppress(OSError):  # there is none, or something else is in it
                    (root / part / entry.key).rmdir()
    return free


def entries_named(
    entries: Sequence[CacheEntry], words: Sequence[str]
) -> list[CacheEntry]:
    """The entries that names of encoders or beginnings of keys mean. Raises UsageError."""
    chosen: dict[str, CacheEntry] = {}
    for word in words:
        named = [entry for entry in entries if word in entry.names]
        if not named and re.fullmatch(rf"[0-9a-f]{{{LEAST_KEY_DIGITS},}}", word):
            named = [entry for entry in entries if entry.key.startswith(word)]
        if not named:
            names = sorted({name for entry in entries for name in entry.names})
            raise UsageError(
                f"{word!r} is not in the cache: wanted a key of {LEAST_KEY_DIGITS} digits or "
                f"more, or one of {', '.join(names) or 'no names'} (harness cache ls)"
            )
        chosen |= {entry.key: entry for entry in named}
    return list(chosen.values())


def _inside(folder: Path, names: re.Pattern[str]) -> list[Path]:
    """What has such a name in a folder; neither links nor what they lead to."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if names.fullmatch(path.name)]
    return sorted(path for path in paths if not path.is_symlink())


def _stored(root: Path, key: str) -> list[Path]:
    """The files that are kept of an encoder, its label last."""
    folders = [root / part / key for part in FOLDERS_BY_KEY]
    files = [file for folder in folders for file in _inside(folder, STORED_FILES)]
    return sorted(files, key=lambda file: file.name == LABEL_FILE)


def _converted(root: Path, weights: str) -> list[Path]:
    files = _inside(root / "converted", CONVERTED_FILES)
    return [file for file in files if file.stem == weights]


def _size_and_time(paths: Iterable[Path]) -> tuple[int, float]:
    """The bytes of files, and when the last was written; a writer may take one away meanwhile."""
    states = []
    for path in paths:
        with suppress(FileNotFoundError):
            states.append(path.lstat())
    files = [state for state in states if S_ISREG(state.st_mode)]
    return sum(s.st_size for s in files), max((s.st_mtime for s in files), default=0.0)
