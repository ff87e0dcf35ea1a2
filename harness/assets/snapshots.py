"""Snapshots of the hub: the files of one commit, and whether all of them are here.

Several programs write into the hub's cache, a file at a time. A program that was
interrupted, or that needed fewer files, leaves an incomplete snapshot, and a model
without its `modules.json` would be read under another pooling. So a snapshot is used
only if it is complete: `harness fetch` has compared every file with its digest on the
hub, and has then listed all of them in a file of its own, the seal.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.core.digests import sha256_of
from harness.core.errors import DataError
from harness.core.files import safe_path, write_atomically
from harness.core.toml import read_typed

COMMIT = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Seal:
    """The files of a complete snapshot, by their paths in it, and the sha256 of each."""

    files: Mapping[str, str]

    def __post_init__(self) -> None:
        for name, digest in self.files.items():
            safe_path(name)
            if not SHA256.fullmatch(digest):
                raise ValueError(f"{name!r} has {digest!r}, which is no sha256")


@dataclass(frozen=True)
class Snapshot:
    """One commit of a repository in the hub's cache.

    Attributes:
        repository: The folder of the repository.
        commit: The commit, 40 hexadecimal digits. It names a folder, so that ValueError
            is raised for anything else.
    """

    repository: Path
    commit: str

    def __post_init__(self) -> None:
        if not COMMIT.fullmatch(self.commit):
            raise ValueError("wanted a commit of 40 hexadecimal digits")

    @property
    def folder(self) -> Path:
        """The folder of its files, which other programs use too."""
        return self.repository / "snapshots" / self.commit

    @property
    def unfinished(self) -> Path:
        """The folder of downloads that are not compared with their digests yet."""
        return self.repository / ".harness" / self.commit

    @property
    def _seal_file(self) -> Path:
        """The file of its seal, which is there only if the snapshot is complete."""
        return self.repository / ".harness" / f"{self.commit}.json"

    @property
    def files(self) -> Mapping[str, str]:
        """The sha256 of each file, by its path, as the seal has it; empty without a seal."""
        if not self._seal_file.exists():
            return {}
        try:
            return read_typed(Seal, self._seal_file).files
        except DataError:  # a damaged seal counts as none
            return {}

    @property
    def complete(self) -> bool:
        """Whether a fetch has compared all files, and all are still there."""
        files = self.files
        return bool(files) and all((self.folder / name).is_file() for name in files)

    def check(self) -> None:
        """Read all files, and raise DataError for one that changed since it was fetched."""
        for name, fetched_digest in self.files.items():
            digest = sha256_of(self.folder / name)
            if digest != fetched_digest:
                raise DataError(
                    f"{self.folder / name} is not what was fetched: "
                    f"wanted {fetched_digest}, found {digest}; fetch it again"
                )

    def open(self) -> None:
        """Remove the seal. This is done before files change."""
        self._seal_file.unlink(missing_ok=True)

    def seal(self, files: Mapping[str, str]) -> None:
        """Declare the snapshot complete, with the sha256 of each file by its path."""
        text = json.dumps({"files": dict(files)}, indent=1, sort_keys=True)
        write_atomically(self._seal_file, f"{text}\n".encode())
        shutil.rmtree(self.unfinished, ignore_errors=True)


def snapshot_at(folder: Path) -> Snapshot | None:
    """The complete snapshot that a folder belongs to; None for any other folder."""
    if folder.parent.name != "snapshots" or not COMMIT.fullmatch(folder.name):
        return None
    snapshot = Snapshot(repository=folder.parent.parent, commit=folder.name)
    return snapshot if snapshot.complete else None


def repository_folder(repo: str) -> Path:
    """The folder of a model's repository in the hub's cache."""
    from huggingface_hub.constants import HF_HUB_CACHE

    return Path(HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def commit_of_main(repository: Path) -> str | None:
    """The commit that `main` had when a repository was last fetched; None if unknown."""
    try:
        commit = (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return commit if COMMIT.fullmatch(commit) else None


def note_main(repository: Path, commit: str) -> None:
    """Note the commit of `main` in the place where huggingface_hub notes it."""
    write_atomically(repository / "refs" / "main", commit.encode())
