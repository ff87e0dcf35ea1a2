"""Snapshots of the hub: the files of one commit, and whether all of them are here.

The hub's cache belongs to several programs. They write into it a file at a time, as
they need them, and one that was interrupted, or needed less, leaves a part: a model
without its `modules.json` is read under another pooling. So a snapshot counts as being
here once `harness fetch` has compared every file with its digest on the hub, and has
listed all of them in a file of its own, the seal.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.core.digests import sha256_of
from harness.core.errors import DataError
from harness.core.files import safe, write_atomically
from harness.core.toml import read_typed

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Seal:
    """The files of a complete snapshot, by their paths in it, and the sha256 of each."""

    files: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, digest in self.files.items():
            safe(name)
            if not SHA256.fullmatch(digest):
                raise ValueError(f"{name!r} has {digest!r}, which is no sha256")


@dataclass(frozen=True)
class Snapshot:
    """One commit of a repository in the hub's cache; `repository` is the repository's folder there.

    Raises ValueError for a commit that is none: its name is that of a folder.
    """

    repository: Path
    commit: str

    def __post_init__(self) -> None:
        if not COMMIT.fullmatch(self.commit):
            raise ValueError("wanted a commit of 40 hexadecimal digits")

    @property
    def folder(self) -> Path:
        return self.repository / "snapshots" / self.commit

    @property
    def unfinished(self) -> Path:
        """Where files wait until they are compared; a later fetch goes on with them."""
        return self.repository / ".harness" / self.commit

    @property
    def _seal(self) -> Path:
        return self.repository / ".harness" / f"{self.commit}.json"

    @property
    def files(self) -> Mapping[str, str]:
        """The sha256 of each file of a complete snapshot; none where it is not complete."""
        if not self._seal.exists():
            return {}
        with suppress(DataError):  # a damaged seal vouches for nothing
            return read_typed(Seal, self._seal).files
        return {}

    @property
    def complete(self) -> bool:
        """Whether a fetch has compared all files, and all are still there."""
        return bool(self.files) and all(
            (self.folder / name).is_file() for name in self.files
        )

    def check(self) -> None:
        """Raise DataError for a file that is not what was fetched. All are read."""
        for name, wanted in self.files.items():
            if (found := sha256_of(self.folder / name)) != wanted:
                raise DataError(
                    f"{self.folder / name} is not what was fetched: wanted {wanted}, found "
                    f"{found}; fetch it again"
                )

    def open(self) -> None:
        """Take the seal away before files change."""
        self._seal.unlink(missing_ok=True)

    def seal(self, files: Mapping[str, str]) -> None:
        """Declare the snapshot complete: these are its files, each compared with its digest."""
        text = json.dumps({"files": dict(files)}, indent=1, sort_keys=True)
        write_atomically(self._seal, f"{text}\n".encode())
        shutil.rmtree(self.unfinished, ignore_errors=True)


def snapshot_at(folder: Path) -> Snapshot | None:
    """The snapshot whose folder this is, if a fetch has completed it."""
    if folder.parent.name != "snapshots" or not COMMIT.fullmatch(folder.name):
        return None
    snapshot = Snapshot(folder.parent.parent, folder.name)
    return snapshot if snapshot.complete else None


def repository_folder(repo: str) -> Path:
    """Where the hub's cache keeps a repository of a model."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def commit_of_main(repository: Path) -> str | None:
    """The commit that was last seen as the head of a repository; None where none is named."""
    main = repository / "refs" / "main"
    with suppress(OSError, UnicodeDecodeError):
        commit = main.read_text(encoding="utf-8").strip()
        return commit if COMMIT.fullmatch(commit) else None
    return None


def note_main(repository: Path, commit: str) -> None:
    """Note the head of a repository, as huggingface_hub does."""
    write_atomically(repository / "refs" / "main", commit.encode())
