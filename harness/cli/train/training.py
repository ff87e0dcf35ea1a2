"""`harness train`: commands that make a checkpoint folder, or go on with an unfinished one."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, DataDir, say

train = typer.Typer(
    help="Train a checkpoint: a folder that --encoder and sentence-transformers load. The same "
    "command goes on with a training that was interrupted, bit for bit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

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


@train.command("bert-mini")
def bert_mini(
    out: Out,
    corpus: TextOption = "enwiki-1m",
    first: First = None,
    tokens: Annotated[int, typer.Option(min=1, help="Word pieces to see in all.")] = 40_000_000,
    layers: Annotated[int, typer.Option(min=1)] = 4,
    size: Annotated[int, typer.Option(min=8, help="Dimensions of a vector.")] = 256,
    vocabulary: Annotated[int, typer.Option(min=50, help="Number of word pieces.")] = 8192,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = 1e-3,
    tokens_per_batch: Annotated[int, typer.Option(min=128)] = 4096,
    seed: Seed = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """BERT in miniature from scratch: a WordPiece vocabulary, then masked language modelling."""
    command = told(bert_mini, locals())
    from harness.training.mlm import MlmSettings, pretrain

    settings = MlmSettings(
        vocabulary=vocabulary,
        layers=layers,
        size=size,
        tokens=tokens,
        tokens_per_batch=tokens_per_batch,
        learning_rate=learning_rate,
    )
    with training_bar(threads) as bar:
        text = open_corpus(corpus, first, data_dir, cache)
        curve = pretrain(text, settings, seed, out, bar, command)
    say(f"{out}: {len(curve.losses):,} steps, loss {curve.thinned()[-1][1]:.3f}")


@train.command("glove-mini")
def glove_mini(
    out: Out,
    corpus: TextOption = "enwiki-1m",
    first: First = None,
    words: Annotated[int, typer.Option(min=1, help="Size of the vocabulary.")] = 15_000,
    dimensions: Annotated[int, typer.Option(min=1)] = 100,
    epochs: Annotated[int, typer.Option(min=1)] = 25,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = 0.05,
    x_max: Annotated[float, typer.Option(help="Counts above it weigh the same.")] = 10.0,
    seed: Seed = 0,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """GloVe from scratch: co-occurrence counts, then weighted least squares on their logarithms."""
    command = told(glove_mini, locals())
    from harness.training.glove import GloveSettings, train_vectors
    from harness.training.glove_counts import Counting

    recipe = GloveSettings(
        Counting(words=words),
        dimensions=dimensions,
        epochs=epochs,
        learning_rate=learning_rate,
        x_max=x_max,
    )
    with training_bar(1) as bar:
        text = open_corpus(corpus, first, data_dir, cache)
        curve = train_vectors(text, recipe, seed, out, bar, command)
    say(f"{out}: {recipe.epochs} epochs, loss {curve.thinned()[-1][1]:.4f}")


def training_bar(threads: int | None) -> Any:
    """A bar on stderr, and so many threads. Of several processes the first one shows it."""
    import torch

    from harness.core.progress import Bar

    if threads is not None:
        torch.set_num_threads(threads)
    return Bar(io.StringIO() if int(os.environ.get("RANK") or 0) else sys.stderr)


def open_corpus(corpus: str, first: int | None, data_dir: Path | None, cache: Path | None) -> Any:
    """The sentences of a registered corpus or a file; told where they cannot be found."""
    from harness.assets.places import Places
    from harness.registry import registry
    from harness.training.datasets import open_text

    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir)
    return open_text(corpus, registry().corpora, places, first)


def told(function: Callable[..., None], given: Mapping[str, Any]) -> str:
    """The command with the options that differ from their defaults, without folders."""
    words = ["harness train", function.__name__.replace("_", "-")]
    for name, parameter in inspect.signature(function).parameters.items():
        value = given[name]
        if value != parameter.default and name not in ("out", "cache", "data_dir"):
            flag = "from" if name == "start" else name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                text = Path(value).name if isinstance(value, str | Path) else str(value)
                words += [f"--{flag}", text]
    return " ".join(words)
