"""`harness train`: make a checkpoint folder, or go on with an unfinished one.

There is a command for each recipe (`recipes.py`); `run_training` runs it. The command
`family` trains the members of a registered family of encoders, each by the recipe that
the family states.
"""

from __future__ import annotations

import fnmatch
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.places import Places
from harness.cli import options as opt
from harness.cli.parsing import command_group, flattened
from harness.cli.recipes import RECIPES, Recipe, Threads, command_line, option_of
from harness.core.files import make_folder
from harness.core.interfaces import Trained
from harness.core.progress import progress_on
from harness.encoders.trained import FamilyConfig
from harness.registry import Registry, look_up
from harness.resolve import Resolver

# From a recipe to a checkpoint


def commands(action: Callable[[Recipe], Any]) -> typer.Typer:
    """A command for each recipe, with an option for each field of the recipe.

    A command makes the recipe of its options and returns `action(recipe)`.
    """
    app = command_group(
        "Train a checkpoint that sentence-transformers loads, too. The same "
        "command resumes a training that was interrupted."
    )
    for name, recipe_class in RECIPES.items():
        command = flattened(_command_of(recipe_class, action))
        app.command(name, help=inspect.getdoc(recipe_class))(command)
    return app


def _command_of(
    recipe_class: type[Recipe], action: Callable[[Recipe], Any]
) -> Callable[[Recipe], Any]:
    """The command of a recipe: a function of its own, whose annotation names the recipe."""

    def command(recipe: Recipe) -> Any:
        return action(recipe)

    command.__annotations__["recipe"] = recipe_class
    return command


def run_training(recipe: Recipe) -> None:
    """Train, write the checkpoint, and print its steps and best score."""
    # The folder is looked up here, before torch is imported, so that an unknown name is
    # refused at once.
    _ = recipe.start_folder
    if recipe.bypass_note:
        opt.note(f"Note: {recipe.bypass_note}")
    make_folder(recipe.out.absolute().parent, "--out", to_write=True)
    prepared = recipe.prepare()
    from harness.training.finetune import finetune

    with progress_on(sys.stderr) as bar:
        curve = finetune(
            prepared.training,
            recipe.start_folder,
            recipe.out,
            bar,
            seed=recipe.seed,
            data=prepared.data_digests,
            command=command_line(recipe),
            dev=recipe.dev_set,
            half=recipe.half,
        )
    line = f"{recipe.out}: {len(curve.losses):,} steps"
    if curve.best is not None:
        step, score = curve.best
        line += f", best on {recipe.dev}: {score:.2f} at step {step}"
    opt.say(line)


def recipe_from(words: str, out: Path, **options: object) -> Recipe:
    """The recipe that a command line asks for.

    Args:
        words: The command line without `harness train`.
        out: The folder of the checkpoint.
        options: Further options by the names of their fields; None leaves one out.
    """
    arguments = [*words.split(), "--out", str(out)]
    for name, value in options.items():
        if value is not None:
            arguments += [option_of(name), str(value)]
    parser = typer.main.get_command(commands(lambda recipe: recipe))
    return parser(arguments, standalone_mode=False)


# Families


def family(
    names: Annotated[
        list[str],
        typer.Argument(help="Families of encoders, or globs (harness list encoders)."),
    ],
    folders: opt.Folders,
    seeds: opt.Seeds = 5,
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    threads: Threads = None,
) -> None:
    """Train the missing members of registered families, seed by seed.

    They are written where runs look for them. An interrupted training is resumed.
    """
    resolver = Resolver.from_options(folders.places(), encoder or [])
    for config in named_families(names, resolver.registry):
        members = [config.member(seed) for seed in range(seeds)]
        untrained = [
            member for member in members if not resolver.places.has_encoder(member)
        ]
        for member in untrained:
            train_member(member.name, member.source, resolver.places, threads)
        if not untrained:
            opt.say(f"{config.name}: all {seeds} seeds are here already")


def named_families(patterns: Sequence[str], registry: Registry) -> list[FamilyConfig]:
    """The families that names and globs select, each once. Raises UsageError."""
    families: dict[str, FamilyConfig] = {}
    for name, config in registry.encoders.items():
        if isinstance(config, FamilyConfig):
            families[name] = config
    names: list[str] = []
    for pattern in patterns:
        names += fnmatch.filter(families, pattern) or [pattern]
    return [look_up("family", name, families) for name in dict.fromkeys(names)]


def train_member(
    name: str, source: Trained, places: Places, threads: int | None
) -> None:
    """Train a member of a family, where runs look for it."""
    opt.say(f"{name}: {source}")
    folders = {"cache": places.cache, "data_dir": places.data_dir}
    options = {"seed": source.seed, "threads": threads, **folders}
    run_training(recipe_from(source.recipe, places.trained(source), **options))


trainings = commands(run_training)
trainings.command()(flattened(family))
