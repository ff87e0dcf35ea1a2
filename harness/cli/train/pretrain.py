"""`harness train bert-mini` and `glove-mini`: small models from scratch."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from harness.cli.options import CacheDir, DataDir, say_folded
from harness.cli.stopping import keeping
from harness.cli.train import options as opt


def bert_mini(
    out: opt.Out,
    corpus: opt.TextOption = "enwiki-1m",
    first: opt.First = None,
    tokens: Annotated[int, typer.Option(min=1, help="Word pieces to see in all.")] = 40_000_000,
    layers: Annotated[int, typer.Option(min=1)] = 4,
    size: Annotated[int, typer.Option(min=8, help="Dimensions of a vector.")] = 256,
    vocabulary: Annotated[int, typer.Option(min=50, help="Number of word pieces.")] = 8192,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = 1e-3,
    tokens_per_batch: Annotated[int, typer.Option(min=128)] = 4096,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """BERT in miniature from scratch: a WordPiece vocabulary, then masked language modelling."""
    command = opt.command_line(bert_mini, locals())
    text = opt.open_corpus(corpus, first, cache, data_dir)
    from harness.training.mlm import MlmSettings, pretrain

    settings = MlmSettings(
        vocabulary=vocabulary,
        layers=layers,
        size=size,
        tokens=tokens,
        tokens_per_batch=tokens_per_batch,
        learning_rate=learning_rate,
    )
    with keeping(partial(opt.what_is_kept, out)), opt.training_bar(threads) as bar:
        curve = pretrain(text, settings, seed, out, bar, command)
    say_folded(f"{out}: {len(curve.losses):,} steps, loss {curve.thinned()[-1][1]:.3f}")


def glove_mini(
    out: opt.Out,
    corpus: opt.TextOption = "enwiki-1m",
    first: opt.First = None,
    words: Annotated[int, typer.Option(min=1, help="Size of the vocabulary.")] = 15_000,
    dimensions: Annotated[int, typer.Option(min=1)] = 100,
    epochs: Annotated[int, typer.Option(min=1)] = 25,
    learning_rate: Annotated[float, typer.Option(min=0.0)] = 0.05,
    x_max: Annotated[float, typer.Option(help="Counts above it weigh the same.")] = 10.0,
    seed: opt.Seed = 0,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """GloVe from scratch: co-occurrence counts, then weighted least squares on their logarithms."""
    command = opt.command_line(glove_mini, locals())
    text = opt.open_corpus(corpus, first, cache, data_dir)
    from harness.training.glove import WordVectorSettings, train_vectors
    from harness.training.glove_counts import Counting

    settings = WordVectorSettings(
        Counting(words=words),
        dimensions=dimensions,
        epochs=epochs,
        learning_rate=learning_rate,
        x_max=x_max,
    )
    with keeping(partial(opt.what_is_kept, out)), opt.training_bar(1) as bar:
        curve = train_vectors(text, settings, seed, out, bar, command)
    say_folded(f"{out}: {settings.epochs} epochs, loss {curve.thinned()[-1][1]:.4f}")


COMMANDS = (bert_mini, glove_mini)
