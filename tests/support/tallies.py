"""What came of attacks, written where the page of reliability reads it."""

import json
from dataclasses import asdict
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import exclusive, write_atomically
from harness.results.benchmarks import Tally, read_tallies, tallies_folder


def write_tally(rows: Path, name: str, part: str, tally: Tally) -> None:
    """Store what came of a part of an attack, beside its other parts.

    Raises UsageError for an attack that is not in the file.
    """
    folder = tallies_folder(rows)
    with exclusive(folder):
        known = {row.id: found for row, found in read_tallies(rows).items()}
        if name not in known:
            raise UsageError(f"{rows.name}: no row {name!r}; add what is tried, and what is right")
        before = known[name]
        parts = {**(before.parts if before else {}), part: tally}
        lines = (f"{json.dumps(key)}: {json.dumps(asdict(parts[key]))}" for key in sorted(parts))
        text = '{"parts": {\n' + ",\n".join(lines) + "\n}}\n"
        write_atomically(folder / f"{name}.json", text.encode())
