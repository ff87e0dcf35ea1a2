"""Golden files: committed texts that a test compares with; `GOLDEN=write` writes them anew."""

import difflib
import os
from pathlib import Path


def require_golden(path: Path, made: str) -> None:
    """Fail with the lines that differ unless the file holds this text to the byte."""
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.encode())
    wanted = path.read_bytes().decode() if path.exists() else ""
    lines = difflib.unified_diff(
        wanted.splitlines(), made.splitlines(), path.name, "made", lineterm="", n=0
    )
    remedy = "if this is meant, GOLDEN=write pytest with this test writes the file anew"
    assert made == wanted, "\n".join([f"{path.name} is another text; {remedy}", *lines])
