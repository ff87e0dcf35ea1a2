"""What came of attacks, written where the page of reliability reads it."""

import json
from dataclasses import asdict
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.files import exclusive, write_atomically
from harness.results.benchmarks import Attempts, measured_folder, read_attacks


def write_tally(rows: Path, name: str, part: str, tally: Attempts) -> None:
    """Store what came of a part of an attack, beside its other parts.

    Raises UsageError for an attack that is not in the file.
    """
    folder = measured_folder(rows)
    with exclusive(folder):
        known = read_attacks(rows).results
        if name not in known:
            raise UsageError(f"{rows.name}: no row {name!r}; add what is tried, and what is right")
        before = known[name]
        parts = {**(before.parts if before else {}), part: tally}
        lines = (f"{json.dumps(key)}: {json.dumps(asdict(parts[key]))}" for key in sorted(parts))
        text = '{"parts": {\n' + ",\n".join(lines) + "\n}}\n"
        write_atomically(folder / f"{name}.json", text.encode())
