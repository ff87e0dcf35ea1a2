"""What did not run in a results folder, and why, for `harness check` to read.

A cell that failed may have a record of an earlier run, which says nothing about this one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.core.files import rewrite
from harness.core.toml import read_typed

FAILURES_FILE = "not-run.json"


def read_failures(results: Path) -> dict[str, str]:
    """The reason for each cell and encoder that did not run in its last run, by its name."""
    path = results / FAILURES_FILE
    return read_typed(dict[str, str], path) if path.exists() else {}


def note_failures(results: Path, reasons: Mapping[str, str]) -> None:
    """Note a reason for each name; an empty one says that it ran, and removes an older reason.

    Other processes may note reasons at the same time: the file is read again while it is
    locked, so that theirs stay.
    """

    def merged() -> dict[str, str]:
        every = {**read_failures(results), **reasons}
        return {name: reason for name, reason in every.items() if reason}

    def content() -> bytes:
        return f"{json.dumps(merged(), indent=1)}\n".encode()

    if merged() != read_failures(results):
        rewrite(results / FAILURES_FILE, content)
