"""Snapshots of models in the cache of huggingface_hub: which of them are complete.

A snapshot is the folder of one commit of a repository. An interrupted download leaves
a part of it, so `harness fetch` lists the files of each snapshot that it has brought as
a whole, in a file of its own. Other snapshots are not read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.core.files import write_atomically

COMMIT = re.compile(r"[0-9a-f]{40}")


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
    def _list_of_files(self) -> Path:
        """The file that lists its files, which is there only if they all came."""
        return self.repository / ".harness" / f"{self.commit}.txt"

    @property
    def complete(self) -> bool:
        """Whether a fetch has brought all files, and all are still there."""
        try:
            names = self._list_of_files.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return False
        return bool(names) and all((self.folder / name).is_file() for name in names)

    def seal(self) -> None:
        """Declare it complete: list the files that it has."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        names = sorted(path.relative_to(self.folder).as_posix() for path in files)
        write_atomically(self._list_of_files, "\n".join(names).encode())

    def open(self) -> None:
        """Declare it incomplete. This is done before files change."""
        self._list_of_files.unlink(missing_ok=True)

    def note_as_newest(self) -> None:
        """Note it as the commit of `main`, in the place where huggingface_hub does."""
        write_atomically(self.repository / "refs" / "main", self.commit.encode())


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
