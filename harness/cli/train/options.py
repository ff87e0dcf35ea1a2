"""Options that several trainings share, the progress bar, and a training's command line."""

from __future__ import annotations

import inspect
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, DataDir, usable_device

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


@dataclass(frozen=True, kw_only=True)
class SharedOptions:
    """The options of every fine-tuning: `out` and `start` stand before its own, the others behind.

    Settings of the training are the paper's where they are None.
    """

    out: Out
    start: Annotated[
        str,
        typer.Option("--from", help="The encoder to start from: a name, or a checkpoint folder."),
    ]
    batch: Annotated[int | None, typer.Option(min=2, help="[default: the paper's]")] = None
    epochs: Annotated[int | None, typer.Option(min=1, help="[default: the paper's]")] = None
    learning_rate: Annotated[float | None, typer.Option(min=0.0, help="[default: the paper's]")] = (
        None
    )
    weight_decay: Annotated[float | None, typer.Option(min=0.0, help="[default: the paper's]")] = (
        None
    )
    clip: Annotated[
        float | None, typer.Option(min=0.0, help="Of the gradient; 0: none. [default: 1]")
    ] = None
    max_length: Annotated[int, typer.Option(min=3)] = 32
    dev: Annotated[
        str, typer.Option(help="The task whose best checkpoint is kept; none: the last.")
    ] = "sts-b.senteval.dev"
    dev_every: Annotated[int, typer.Option(min=1, help="Steps from score to score.")] = 125
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype", "--precision", help="float32 or bfloat16 of products; on a GPU float16 too."
        ),
    ] = "float32"
    device: Annotated[str, typer.Option(callback=usable_device, help="cpu or cuda.")] = "cpu"
    batch_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Tokens that are taken at a time, which bounds memory: a batch keeps all its "
            "negatives. [default: 8192]",
            show_default=False,
        ),
    ] = None
    half: Annotated[bool, typer.Option(help="Store the weights in 16 bits.")] = False
    seed: Seed = 0
    threads: Threads = None
    data_dir: DataDir = None
    cache: CacheDir = None


def training_bar(threads: int | None) -> Any:
    """Set torch's threads; a progress bar on stderr, which only the first process shows."""
    import torch

    from harness.core.progress import Bar

    if threads is not None:
        torch.set_num_threads(threads)
    return Bar(io.StringIO() if int(os.environ.get("RANK") or 0) else sys.stderr)


def check_at_once(given: Mapping[str, Any], sets: Sequence[str]) -> None:
    """Refuse what needs no model to be refused: imports take seconds. Raises UsageError.

    `given` are the options of a training, and `sets` the data sets that its `--file` may name.
    """
    from harness.registry import known, load_registry
    from harness.training.datasets import require_file, require_text

    registered = load_registry()
    if (file := given.get("file")) is not None:
        require_file(file, sets)
    if (corpus := given.get("corpus")) is not None:
        require_text(corpus, registered.corpora)
    if (start := given.get("start")) is not None and not Path(start).is_dir():
        known("encoder", start, registered.encoders)


def what_is_kept(out: Path) -> str:
    """What an interruption leaves of a training into a folder, in words."""
    from safetensors import safe_open

    state = out / "unfinished" / "unfinished.safetensors"
    if not state.exists():
        return "stopped; nothing of the training is saved yet: the same command begins it again"
    with safe_open(state, framework="numpy") as file:
        steps = len(json.loads(file.metadata()["curve"])["losses"])
    return (
        f"stopped; the first {steps:,} steps are kept in {state.parent}: the same command goes on "
        "from there"
    )


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
