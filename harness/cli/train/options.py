"""Options that several trainings share, the progress bar, and a training's command line."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.core.errors import UsageError

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

# Of fine-tuning alone.
From = Annotated[
    str, typer.Option("--from", help="The encoder to start from: a name, or a checkpoint folder.")
]
PoolingOption = Annotated[str, typer.Option(help="What is trained: cls, mean or first-last.")]
Head = Annotated[str, typer.Option(help="none, train (dropped afterwards) or keep.")]
MaskedWeight = Annotated[
    float, typer.Option("--masked-words", min=0.0, help="Weight of masked language modelling.")
]
Dropout = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="[default: its own]")]
Batch = Annotated[int | None, typer.Option(min=2, help="[default: the paper's]")]
Epochs = Annotated[int | None, typer.Option(min=1, help="[default: the paper's]")]
Rate = Annotated[float | None, typer.Option(min=0.0, help="[default: the paper's]")]
MaxLength = Annotated[int, typer.Option(min=3)]
Dev = Annotated[
    str,
    typer.Option(help="The task whose best checkpoint is kept, every 125 steps; none: the last."),
]
Precision = Annotated[str, typer.Option(help="float32 or bf16; on a GPU fp16 too.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]
Half = Annotated[bool, typer.Option(help="Store the weights in 16 bits.")]


def one_of(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError for a value that is no choice of the option."""
    if value not in choices:
        raise UsageError(f"{option} {value}: wanted one of {', '.join(choices)}")


def changed(settings: Any, **options: Any) -> Any:
    """The settings with the options that were given (are not None)."""
    return replace(settings, **{name: v for name, v in options.items() if v is not None})


def training_bar(threads: int | None) -> Any:
    """Set torch's threads; a progress bar on stderr, which only the first process shows."""
    import torch

    from harness.core.progress import Bar

    if threads is not None:
        torch.set_num_threads(threads)
    return Bar(io.StringIO() if int(os.environ.get("RANK") or 0) else sys.stderr)


def open_corpus(corpus: str, first: int | None, places: Any) -> Any:
    """The sentences of a registered corpus or a file. Raises AssetMissing, UsageError."""
    from harness.registry import registry
    from harness.training.datasets import open_text

    return open_text(corpus, registry().corpora, places, first)


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
