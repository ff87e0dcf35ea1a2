"""Commands that pages and answers print, for a person to copy."""

from __future__ import annotations

from collections.abc import Iterable

from harness.core.hardware import base_name
from harness.registry import Registry


def run_command(method: str, tasks: Iterable[str], registry: Registry) -> str:
    """The command that measures a method; of an encoder by hand its files are to be filled in."""
    encoder = base_name(method.partition(".")[0])
    files = f" --encoder {encoder}=PATH" if encoder in registry.by_hand else ""
    on = "".join(f" -t {task}" for task in tasks)
    return f"harness run{files} -m '{method}'{on}"
