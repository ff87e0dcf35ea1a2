"""`harness train`: make a checkpoint folder, or go on with an unfinished one.

There is a command for each recipe (`recipes.py`); `run_training` runs it. The command
`family` trains the members of a registered family of encoders, each by the recipe that
the family states, and `missing_trainings` those that a run needs.
"""

from __future__ import annotations

import fnmatch
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.cli.parsing import Command, Commands, flattened
from harness.cli.recipes import RECIPES, Recipe, Threads, command_line, option_of
from harness.core.errors import HarnessError
from harness.core.files import make_folder
from harness.core.interfaces import EncoderConfig, Trained
from harness.core.progress import progress_on
from harness.data.places import Places
from harness.encoders.native import bypass_note
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.select import PlannedCell
from harness.registry import look_up
from harness.resolve import Resolver

# From a recipe to a checkpoint


def commands(action: Callable[[Recipe], Any]) -> typer.Typer:
    """A command for each recipe, with an option for each field of the recipe.

    A command makes the recipe of its options and returns `action(recipe)`.
    """
    app = typer.Typer(
        help="Train a checkpoint that sentence-transformers loads, too. The same "
        "command resumes a training that was interrupted.",
        cls=Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    for name, recipe_class in RECIPES.items():

        def command(recipe: Recipe) -> Any:
            return action(recipe)

        command.__annotations__["recipe"] = recipe_class
        help_text = inspect.getdoc(recipe_class)
        app.command(name, cls=Command, help=help_text)(flattened(command))
    return app


def run_training(recipe: Recipe) -> None:
    """Train, write the checkpoint, and print its steps and best score."""
    # The folder is looked up here, before torch is imported, so that an unknown name is
    # refused at once.
    _ = recipe.start_folder
    _note_untrained_modules(recipe)
    make_folder(recipe.out.absolute().parent, "--out", to_write=True)
    training, data_digests = recipe.prepare()
    from harness.training.finetune import finetune

    with progress_on(sys.stderr) as bar:
        curve = finetune(
            training,
            recipe.start_folder,
            recipe.out,
            bar,
            seed=recipe.seed,
            data=data_digests,
            command=command_line(recipe),
            dev=recipe.dev_set,
            half=recipe.half,
        )
    line = f"{recipe.out}: {len(curve.losses):,} steps"
    if curve.best is not None:
        step, score = curve.best
        line += f", best on {recipe.dev}: {score:.2f} at step {step}"
    opt.say(line)


def _note_untrained_modules(recipe: Recipe) -> None:
    """Note modules of the folder to start from, such as its own pooling, that are not trained."""
    if not recipe.starts_from_folder:
        return
    config = TransformerConfig(name=recipe.start_name, repo="")
    pooling = vars(recipe)["pooling"]
    remedy = f"`{pooling}` of the transformer alone is trained; --pooling takes another"
    note = bypass_note(config, Path(recipe.start), [pooling], remedy)
    if note:
        opt.note(f"Note: {note}")


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
    places = resolver.places
    families: dict[str, FamilyConfig] = {}
    for name, config in resolver.registry.encoders.items():
        if isinstance(config, FamilyConfig):
            families[name] = config
    named: dict[str, None] = {}  # each once, in order
    for pattern in names:
        named.update(dict.fromkeys(fnmatch.filter(families, pattern) or [pattern]))
    chosen = [look_up("family", name, families) for name in named]
    for config in chosen:
        members = [config.member(seed) for seed in range(seeds)]
        untrained = [member for member in members if not places.has_encoder(member)]
        for member in untrained:
            train_member(member.name, member.source, places, threads)
        if not untrained:
            opt.say(f"{config.name}: all {seeds} seeds are here already")


def train_member(
    name: str, source: Trained, places: Places, threads: int | None
) -> None:
    """Train a member of a family, where runs look for it."""
    opt.say(f"{name}: {source}")
    folders = {"cache": places.cache, "data_dir": places.data_dir}
    options = {"seed": source.seed, "threads": threads, **folders}
    run_training(recipe_from(source.recipe, places.trained(source), **options))


trainings = commands(run_training)
trainings.command(cls=Command)(flattened(family))


# Trainings of a run


def missing_trainings(
    planned: Iterable[PlannedCell], places: Places
) -> list[Callable[[], tuple[EncoderConfig, HarnessError | None]]]:
    """Calls that train the encoders that these cells need and that are missing.

    Only members of families with `on_the_spot` are trained: these families start from
    files that come with the harness, and take little time.
    """
    encoder_by_source = {cell.encoder.source: cell.encoder for cell in planned}
    return [
        partial(_train_alone, encoder, source, places)
        for source, encoder in encoder_by_source.items()
        if isinstance(source, Trained)
        and source.on_the_spot
        and not places.has_encoder(encoder)
    ]


def _train_alone(
    encoder: EncoderConfig, source: Trained, places: Places
) -> tuple[EncoderConfig, HarnessError | None]:
    """Train a member with one thread; returns it with the error of a training that failed.

    The order of sums depends on the number of threads, and a training amplifies the
    difference: with one, a run in one process and a run in many make the same encoders.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        train_member(encoder.name, source, places, threads=1)
    except HarnessError as error:
        return encoder, error
    finally:
        torch.set_num_threads(threads)
    return encoder, None
