"""What came of attacks, written where the page of reliability reads it."""

import json
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.results.reliability import Tally, read_tallies, tallies_folder


def write_tally(rows: Path, name: str, tally: Tally) -> None:
    """Store what came of an attack. Raises UsageError for one that is not in the file."""
    if name not in {row.id for row in read_tallies(rows)}:
        raise UsageError(f"{rows.name}: no row {name!r}; add what is tried, and what is right")
    text = json.dumps(vars(tally), indent=1) + "\n"
    write_atomically(tallies_folder(rows) / f"{name}.json", text.encode())
