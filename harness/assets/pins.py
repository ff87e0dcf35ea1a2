"""Trust on first use: what an unpinned download turned out to be, so that another one is noticed.

Pins of data lie in the data folder and travel with it, pins of encoders in the cache folder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.errors import DataError
from harness.core.files import safe, write_atomically
from harness.core.locks import exclusive

SCHEMA = 1
OF_DATA = ".harness/pins.json"  # under the data folder
OF_ENCODERS = "pins.json"  # under the cache folder

DIGEST = re.compile(r"[0-9A-Za-z]+")  # or the commit of a repository

Pin = Mapping[str, str]


@dataclass(frozen=True)
class Pins:
    """A file of pins: of each asset or repository what was seen first, by name."""

    path: Path

    def read(self) -> dict[str, dict[str, str]]:
        """Every pin; none where there is no file. Raises DataError for a file that is no such."""
        if not self.path.exists():
            return {}
        try:
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
            if found["schema"] != SCHEMA:
                raise DataError(f"{self.path}: wanted schema {SCHEMA}, found {found['schema']!r}")
            for pin in found["pins"].values():
                require_pin(pin)
            return {name: dict(pin) for name, pin in found["pins"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{self.path}: wanted pins as harness fetch writes them, found {error!r}; "
                "remove the file to trust the next download"
            ) from None

    def of(self, name: str) -> dict[str, str]:
        """The pin of that name; empty if it was never seen."""
        return self.read().get(name, {})

    def check(self, name: str, found: Pin) -> None:
        """Raise DataError, naming both digests, if what was found is not what was seen first."""
        for what, first in self.of(name).items():
            if what in found and found[what] != first:
                raise DataError(
                    f"{name}: {what} is not what was first downloaded: wanted {first}, found "
                    f"{found[what]}; if that is meant, remove {name!r} from {self.path}"
                )

    def record(self, name: str, found: Pin) -> None:
        """Keep what was found, beside what is already known. Raises DataError if they differ."""
        self.check(name, found)
        if (before := self.of(name)) | dict(found) == before:
            return
        with exclusive(self.path.parent):  # what others record meanwhile stays
            known = self.read()
            known[name] = known.get(name, {}) | dict(found)
            text = json.dumps({"schema": SCHEMA, "pins": known}, indent=1, sort_keys=True)
            write_atomically(self.path, f"{text}\n".encode())


def require_pin(pin: Mapping[str, Any]) -> None:
    """Raise ValueError for what is no pin: it may name files below the folder, and digests alone.

    A file of pins may come from elsewhere, and what it names is read.
    """
    for what, digest in pin.items():
        safe(what)
        if not (isinstance(digest, str) and DIGEST.fullmatch(digest)):
            raise ValueError(f"{what!r} is pinned to {digest!r}, which is no digest")


def first_seen(seen: Pin) -> str:
    """The remark on an unpinned download: the digests that its first copy had."""
    digests = [digest[:12] for what, digest in seen.items() if what != "revision"]
    return f"unpinned, first seen {' '.join(digests)}"
