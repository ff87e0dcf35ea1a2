"""Options that several commands share, and how a command prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.core.errors import UsageError

DataDir = Annotated[
    Path | None,
    typer.Option(envvar="HARNESS_DATA_DIR", help="Folder with the data sets.", show_default=False),
]
Results = Annotated[Path, typer.Option(help="Folder for records and per-pair similarities.")]
Papers = Annotated[Path, typer.Option(help="Folder with the published tables (TOML).")]
CacheDir = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        envvar="HARNESS_CACHE_DIR",
        help="Folder for encodings.  [default: ~/.cache/sentence-embedding-harness]",
        show_default=False,
    ),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        help="NAME=PATH or NAME=REPO[@REVISION]: another encoder, or where a known one lies. "
        "Can be given several times.",
        show_default=False,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option("--method", "-m", help="Method id or glob; several are allowed."),
]
Tasks = Annotated[
    list[str] | None, typer.Option("--task", "-t", help="Task name or glob; several are allowed.")
]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds 0..K-1 for methods with randomness.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def say(text: str = "") -> None:
    """Print a line of the answer."""
    typer.echo(text)


def require_folder(option: str, folder: Path) -> None:
    """Raise UsageError, naming the option, for a folder that does not exist."""
    if not folder.is_dir():
        raise UsageError(f"{option} {folder}: there is no such folder")
