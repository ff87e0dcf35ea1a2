"""Options that several trainings share, the progress bar, and a training's command line."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

Out = Annotated[Path, typer.Option(help="The folder to write.", show_default=False)]
TextOption = Annotated[
    str,
    typer.Option("--corpus", help="A corpus (harness list posts) or a file, a sentence a line."),
]
First = Annotated[
    int | None, typer.Option(min=1, help="Read so many sentences only.", show_default=False)
]
Seed = Annotated[int, typer.Option(min=0, help="Of the weights, the order and the dropout.")]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Of the processor; other counts give other bits.", show_default=False),
]


def training_bar(threads: int | None) -> Any:
    """Set torch's threads; a progress bar on stderr, which only the first process shows."""
    import torch

    from harness.core.progress import Bar

    if threads is not None:
        torch.set_num_threads(threads)
    return Bar(io.StringIO() if int(os.environ.get("RANK") or 0) else sys.stderr)


def open_corpus(corpus: str, first: int | None, cache: Path | None, data_dir: Path | None) -> Any:
    """The sentences of a registered corpus or a file. Raises AssetMissing, UsageError."""
    from harness.assets.places import Places
    from harness.registry import load_registry
    from harness.training.datasets import open_text

    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir)
    return open_text(corpus, load_registry().corpora, places, first)


def command_line(function: Callable[..., None], given: Mapping[str, Any]) -> str:
    """The command with the options that differ from their defaults, folders left out."""
    words = ["harness train", function.__name__.replace("_", "-")]
    for name, parameter in inspect.signature(function).parameters.items():
        value = given[name]
        if value == parameter.default or name in ("out", "cache", "data_dir"):
            continue
        option = "from" if name == "start" else name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", Path(value).name if isinstance(value, str) else str(value)]
    return " ".join(words)
