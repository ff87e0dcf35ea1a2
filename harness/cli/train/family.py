"""`harness train family`: the members of a seed family, and those that a run trains itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated

import typer

from harness.assets.places import Places
from harness.cli.options import CacheDir, DataDir, Encoders, Seeds, say_folded
from harness.cli.train import finetune
from harness.cli.train.options import Threads
from harness.core.errors import HarnessError
from harness.core.interfaces import EncoderConfig, Trained
from harness.evaluation.parallel import Work
from harness.results.planned import PlannedCell

# The commands that make one checkpoint: a family's recipe is one of them and its options.
RECIPES = finetune.COMMANDS


def family(
    name: Annotated[str, typer.Argument(help="A family of encoders (harness list encoders).")],
    seeds: Seeds = 5,
    encoder: Encoders = None,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """The members of a registered family that are missing, seed by seed, where runs look for them.

    An interrupted one goes on where it was.
    """
    from harness.encoders.trained import FamilyConfig
    from harness.evaluation.select import encoders_by_hand
    from harness.registry import known

    registered, paths = encoders_by_hand(encoder or [])
    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir, encoders=paths)
    families = {n: e for n, e in registered.encoders.items() if isinstance(e, FamilyConfig)}
    config = known("family", name, families)
    if not train_missing((config.member(seed) for seed in range(seeds)), places, threads):
        say_folded(f"{name}: all {seeds} seeds are here already")


def is_trained(source: Trained, places: Places) -> bool:
    """Whether the complete checkpoint of a training is on this machine."""
    return (places.trained(source) / "config.json").exists()


def train_missing(
    members: Iterable[EncoderConfig], places: Places, threads: int | None = None
) -> int:
    """Train the members whose checkpoints are missing; returns how many those are."""
    count = 0
    for member in members:
        source = member.source
        if not isinstance(source, Trained) or is_trained(source, places):
            continue
        say_folded(f"{member.name}: {source}")
        arguments = [*source.recipe.split(), "--seed", str(source.seed)]
        arguments += ["--out", str(places.trained(source)), "--cache", str(places.cache)]
        arguments += ["--data-dir", str(places.data_dir)] if places.data_dir else []
        arguments += ["--threads", str(threads)] if threads else []
        run_command(arguments)
        count += 1
    return count


def on_the_spot(planned: Iterable[PlannedCell], places: Places) -> list[Work]:
    """The trainings that these cells need and that are quickly made of what the harness carries.

    With one thread each, since rounding differs between numbers of threads, and a training carries
    it on: so that one process and many make the same encoders.
    """
    members = {p.encoder.source: p.encoder for p in planned}
    there = places.absolute()  # a worker may have been started in another folder
    return [
        Work(partial(_train, there, member), trains=member)
        for source, member in members.items()
        if isinstance(source, Trained) and source.on_the_spot and not places.has_encoder(member)
    ]


def _train(places: Places, member: EncoderConfig) -> HarnessError | None:
    """Train a member with one thread. Returns the error of a training that failed."""
    import torch

    before = torch.get_num_threads()
    try:
        train_missing([member], places, threads=1)
    except HarnessError as error:
        return error
    finally:
        torch.set_num_threads(before)
    return None


def run_command(arguments: list[str], recipes: Iterable[Callable[..., None]] = RECIPES) -> None:
    """Run `harness train` with these arguments in this process, for the command of a recipe."""
    app = typer.Typer(add_completion=False)
    for recipe in recipes:
        app.command()(recipe)
    typer.main.get_command(app)(arguments, standalone_mode=False)
