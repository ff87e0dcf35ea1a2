"""The cache folder: its entries, when each was last used, and clearing it.

Only what has the name and the form of something cached is ever touched: folders and
files named by hex digests in four folders of the cache folder. Links are ignored, as
they may lead elsewhere. Pins and trained encoders are in the cache folder, too; they are
no cache, and stay.
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
from harness.core.files import exclusive_use, sized
from harness.encoders.cache.encodings import CacheShard
from harness.encoders.cache.labels import LABEL_FILE, read_label

# The folders of the cache folder: each of the first three has a folder for every encoder
# key, the last one has files named by the digest of weights.
ENCODINGS = "encodings"
FOLDERS_BY_KEY = (ENCODINGS, "moments", "rows")
CONVERTED = "converted"

KEY_PATTERN = re.compile(r"[0-9a-f]{32,}")
# What runs store in a folder of a key, and what killed runs and damage leave there.
STORED_FILES = re.compile(
    rf".*\.(safetensors|damaged)|{re.escape(LABEL_FILE)}|\..*\.(tmp|block)"
)
# Converted weights, and the seal of each file.
CONVERTED_FILES = re.compile(rf"{KEY_PATTERN.pattern}\.(safetensors|sha256)")
LEAST_KEY_DIGITS = 6  # of the beginning of a key that may be typed for it
KEY_BEGINNING = re.compile(rf"[0-9a-f]{{{LEAST_KEY_DIGITS},}}")


@dataclass(frozen=True)
class CacheEntry:
    """One thing that can be cleared: the files of an encoder, or converted weights.

    Attributes:
        kind: Which of the two. The encodings, moments and rows of an encoder are one
            entry.
        key: The key of the encoder, or the digest of the weights.
        names: The names of the encoders that use it.
        bytes: The size of its files.
        last_used: When it was last used, in seconds since 1970.
        sentences: The number of an encoder's encoded sentences.
        seconds: What encoding them took.
        weights: The digest of an encoder's weights.
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
    def description(self) -> str:
        """The kind of the entry and the names of its encoders."""
        names = ", ".join(self.names) if self.names else "unknown encoder"
        if self.kind == "converted":
            return f"converted weights of {names}"
        return names

    def __str__(self) -> str:
        return f"{self.description} ({self.key[:12]}), {sized(self.bytes)}"


# Listing


def cached_entries(root: Path) -> list[CacheEntry]:
    """Everything cached in the cache folder, the longest unused first."""
    keys: set[str] = set()
    for folder_name in FOLDERS_BY_KEY:
        folders = _matching_paths(root / folder_name, KEY_PATTERN)
        keys.update(folder.name for folder in folders)
    encoders = [_encoder_entry(root, key) for key in keys]
    converted_files = _matching_paths(root / CONVERTED, CONVERTED_FILES)
    weights_digests = {file.stem for file in converted_files}
    converted_weights = [
        _converted_entry(root, digest, encoders) for digest in weights_digests
    ]
    entries = [*encoders, *converted_weights]
    return sorted(entries, key=lambda entry: (entry.last_used, entry.key))


def _encoder_entry(root: Path, key: str) -> CacheEntry:
    """The entry of one encoder's vectors, moments and rows; `key` is its identity's."""
    folder = root / ENCODINGS / key
    label = read_label(folder)
    shards = []
    for path in sorted(folder.glob("*.safetensors")):
        shard = CacheShard.parse(path)
        if shard is not None:
            shards.append(shard)
    state = _files_state(_encoder_files(root, key))
    return CacheEntry(
        kind="encoder",
        key=key,
        names=tuple(label.names),
        bytes=state.bytes,
        last_used=state.last_written,
        sentences=sum(shard.rows for shard in shards),
        seconds=fsum(shard.seconds for shard in shards),
        weights=label.digests.get("weights", ""),
    )


def _converted_entry(
    root: Path, weights: str, encoders: Sequence[CacheEntry]
) -> CacheEntry:
    """The converted weights with a digest, used whenever an encoder made from them is used."""
    state = _files_state(_converted_files(root, weights))
    names: set[str] = set()
    last_used = state.last_written
    for encoder in encoders:
        if encoder.weights == weights:
            names.update(encoder.names)
            last_used = max(last_used, encoder.last_used)
    return CacheEntry(
        kind="converted",
        key=weights,
        names=tuple(sorted(names)),
        bytes=state.bytes,
        last_used=last_used,
    )


def cache_size(root: Path) -> int:
    """Bytes of everything cached."""
    return sum(entry.bytes for entry in cached_entries(root))


def entries_named(
    entries: Sequence[CacheEntry], words: Sequence[str]
) -> list[CacheEntry]:
    """The entries that names of encoders or beginnings of keys mean.

    Raises UsageError for a word that means none.
    """
    entry_by_key: dict[str, CacheEntry] = {}
    for word in words:
        matches = [entry for entry in entries if word in entry.names]
        if not matches and KEY_BEGINNING.fullmatch(word):
            matches = [entry for entry in entries if entry.key.startswith(word)]
        if not matches:
            known_names: set[str] = set()
            for entry in entries:
                known_names.update(entry.names)
            names = ", ".join(sorted(known_names)) or "no names"
            raise UsageError(
                f"{word!r} is not in the cache: wanted a key of {LEAST_KEY_DIGITS} digits or "
                f"more, or one of {names} (harness cache ls)"
            )
        for entry in matches:
            entry_by_key[entry.key] = entry
    return list(entry_by_key.values())


# Clearing


def shrink(root: Path, max_bytes: int) -> Iterator[tuple[CacheEntry, bool]]:
    """Clear what was unused for longest, until at most so many bytes are left.

    Yields each entry that was to be cleared, and whether it was: one in use is not.
    """
    entries = cached_entries(root)
    size = sum(entry.bytes for entry in entries)
    for entry in entries:
        if size <= max_bytes:
            return
        is_cleared = clear(root, entry)
        if is_cleared:
            size -= entry.bytes
        yield entry, is_cleared


def clear(root: Path, entry: CacheEntry) -> bool:
    """Clear an entry, and say whether it was: not where an encoder that needs it is in use."""
    if entry.kind == "encoder":
        encoder_folders = [root / ENCODINGS / entry.key]
        files = _encoder_files(root, entry.key)
    else:
        encoder_folders = _folders_made_from(root, entry.key)
        files = _converted_files(root, entry.key)
    with ExitStack() as locks:
        for folder in encoder_folders:
            is_free = locks.enter_context(exclusive_use(folder))
            if not is_free:
                return False
        for file in files:
            file.unlink(missing_ok=True)
        for folder_name in FOLDERS_BY_KEY:
            with suppress(OSError):  # there is none, or something else is in it
                (root / folder_name / entry.key).rmdir()
    return True


def _folders_made_from(root: Path, weights: str) -> list[Path]:
    """The folders of encodings that were made from weights with this digest."""
    folders = []
    for folder in _matching_paths(root / ENCODINGS, KEY_PATTERN):
        if read_label(folder).digests.get("weights") == weights:
            folders.append(folder)
    return folders


# Files


def _encoder_files(root: Path, key: str) -> list[Path]:
    """The files that are stored of an encoder, the label last."""
    files: list[Path] = []
    for folder_name in FOLDERS_BY_KEY:
        files.extend(_matching_paths(root / folder_name / key, STORED_FILES))
    return sorted(files, key=lambda file: file.name == LABEL_FILE)


def _converted_files(root: Path, weights: str) -> list[Path]:
    """The converted weights with a digest, and their seal."""
    files = _matching_paths(root / CONVERTED, CONVERTED_FILES)
    return [file for file in files if file.stem == weights]


def _matching_paths(folder: Path, names: re.Pattern[str]) -> list[Path]:
    """The paths in a folder whose names match, sorted; links are left out, and not followed."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    paths = [path for path in folder.iterdir() if names.fullmatch(path.name)]
    return sorted(path for path in paths if not path.is_symlink())


@dataclass(frozen=True)
class FilesState:
    """The bytes of some files, and when the last of them was written, in seconds since 1970."""

    bytes: int
    last_written: float


def _files_state(paths: Iterable[Path]) -> FilesState:
    """The state of files, without those that another process has removed meanwhile."""
    size = 0
    last_written = 0.0
    for path in paths:
        with suppress(FileNotFoundError):
            status = path.lstat()
            if S_ISREG(status.st_mode):
                size += status.st_size
                last_written = max(last_written, status.st_mtime)
    return FilesState(bytes=size, last_written=last_written)
