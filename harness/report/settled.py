"""What was found up to date stays so while nothing that the pages are made of is touched.

To make every page again and compare takes a second, to look at the times of the files a fraction.
Importing this costs none of what makes pages.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from harness.core.files import state_of, write_atomically
from harness.core.provenance import SOURCES

MOST = 200_000  # files of a results folder


@dataclass(frozen=True)
class Settled:
    """What pages are made of and where they lie; `file` keeps the state they were up to date in."""

    sources: tuple[Path, ...]
    file: Path

    @classmethod
    def of(cls, cache: Path, results: Path, papers: Path, readme: Path) -> Settled:
        """Of generated files below a results folder, and a README."""
        sources = tuple(path.absolute() for path in (results, papers, readme, *SOURCES))
        name = hashlib.sha256(repr(sources).encode()).hexdigest()
        return cls(sources, cache / "reports" / name)

    def state(self) -> str | None:
        """Of everything that a page may depend on; None where that cannot be told."""
        found = [state_of(path, MOST) for path in self.sources]
        if None in found:
            return None
        versions = (sys.version, metadata.version("tabulate"))
        return hashlib.sha256(repr((found, versions)).encode()).hexdigest()

    def holds(self, state: str | None) -> bool:
        """Whether everything was up to date in this state."""
        try:
            return state is not None and self.file.read_text(encoding="utf-8") == state
        except OSError:
            return False

    def remember(self, state: str | None) -> None:
        """Everything is up to date in this state."""
        if state is not None:
            with contextlib.suppress(OSError):  # a cache that may only be read is no reason to fail
                write_atomically(self.file, state.encode())
