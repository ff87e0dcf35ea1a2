"""What the commands that make the embedded models share: options, corpus, errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from harness.assets.places import Places
from harness.core.errors import HarnessError
from harness.registry import load_registry
from harness.training.datasets import Text, open_text

PLACES = ("out", "data_dir", "cache")  # no part of a training's command, as training.json has it


def training_parser(script: str, description: str) -> argparse.ArgumentParser:
    """A parser with the output folder, the corpus, the seed, and the places of files."""
    parser = argparse.ArgumentParser(
        Path(script).name,
        description=description.partition("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder to write")
    parser.add_argument(
        "--corpus",
        default="enwiki-1m",
        help="a corpus of the registry, or a file, a sentence a line",
    )
    parser.add_argument("--first", type=int, help="read only so many sentences")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data-dir", type=Path, help="the folder of data sets")
    parser.add_argument("--cache", type=Path, help="the folder of cached files")
    return parser


def open_corpus(options: argparse.Namespace) -> Text:
    """The sentences to train on. Raises AssetMissing, UsageError."""
    places = Places.from_environment(os.environ, cache=options.cache, data_dir=options.data_dir)
    return open_text(options.corpus, load_registry().corpora, places, options.first)


def command_line(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """The command with the options that differ from their defaults, without folders."""
    words = [f"python tools/embedded/{parser.prog}"]
    for name, value in vars(options).items():
        if name not in PLACES and value != parser.get_default(name):
            shown = Path(value).name if isinstance(value, str) else str(value)
            words += [f"--{name.replace('_', '-')}", shown]
    return " ".join(words)


def run(main: Callable[[], None]) -> None:
    """Run a command; its errors are one line on stderr."""
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on from the last state that was saved, if one was")
