"""`harness train`: commands that make a checkpoint folder, or go on with an unfinished one."""

from __future__ import annotations

import typer

from harness.cli.train.family import RECIPES, family
from harness.cli.train.search import search

train = typer.Typer(
    help="Train a checkpoint: a folder that --encoder and sentence-transformers load. The same "
    "command goes on with a training that was interrupted, bit for bit.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for command in (*RECIPES, family, search):
    train.command()(command)
