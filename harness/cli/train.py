"""`harness train`: make a checkpoint folder, or go on with an unfinished one.

There is a command for each recipe of `harness.training.recipes`; `run_training` runs it.
The command `family` trains the members of a registered family of encoders, each by the
recipe that the family states; `train_alone` trains one that a run needs.

torch is imported inside functions: `harness train --help` needs none of it, and an
unknown name is refused at once.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli import options as opt
from harness.cli.parsing import Command, Commands, flattened
from harness.core.errors import HarnessError
from harness.core.files import make_folder
from harness.core.interfaces import EncoderConfig, Trained
from harness.core.pairs import Pairs
from harness.core.terminal import progress_on
from harness.data.places import Places
from harness.encoders.modules import transformer_folder
from harness.encoders.tensorflow_bert import readable_folder
from harness.encoders.trained import FamilyConfig
from harness.registry import load_registry, look_up, matches
from harness.resolve import checkpoint_folder, resolve
from harness.training.datasets import (
    open_labelled_pairs,
    open_scored_pairs,
    open_text,
    open_triplets,
    pairs_of_label,
    sample,
)
from harness.training.recipes import (
    RECIPES,
    Sbert,
    SbertNli,
    SbertSts,
    Simcse,
    SimcseSup,
    SimcseUnsup,
    Threads,
)

if TYPE_CHECKING:
    from harness.training.objectives import EncoderTraining

Out = Annotated[Path, typer.Option(help="Output folder.")]

# From a recipe to a checkpoint


def open_training(
    recipe: Simcse | Sbert, places: Places
) -> tuple[EncoderTraining, Mapping[str, str], Pairs | None]:
    """A training, the digests of its data by name, and the pairs that select its checkpoint.

    It sets the number of torch's threads. Raises UsageError, AssetMissing.
    """
    registry = load_registry()
    folder = checkpoint_folder(recipe.start, registry, places)
    folder = readable_folder(folder, places.cache)
    dev_task = None
    if recipe.dev != "none":
        dev_task = look_up("task", recipe.dev, registry.tasks)
    targets: Any = ()
    match recipe:
        case SimcseUnsup():
            columns, digests = open_text(
                recipe.corpus, registry.corpora, places, recipe.first
            )
        case SimcseSup(pairs="none"):
            columns, digests = open_triplets(recipe.file, places)
        case SimcseSup():
            columns, digests = open_labelled_pairs(recipe.file, places)
            columns = pairs_of_label(columns, recipe.pairs)
        case SbertNli():
            pairs, digests = open_labelled_pairs(recipe.file, places, recipe.held_out)
            columns, targets = pairs[:2], pairs[2]
        case SbertSts():
            task = look_up("task", recipe.task, registry.tasks)
            columns, targets, digests = open_scored_pairs(task, places)
    if isinstance(recipe, SimcseSup) and recipe.sample is not None:
        columns = sample(columns, recipe.sample, recipe.seed)
    dev: Pairs | None = None
    if dev_task is not None:
        dev = dev_task.pairs(places.require_data(dev_task.asset))

    import torch

    from harness.training.encoder import SentenceEncoder
    from harness.training.objectives import EncoderTraining

    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    name = Path(recipe.start).resolve().name
    trained = SentenceEncoder(name, transformer_folder(folder), recipe)
    return EncoderTraining(recipe, trained, columns, targets), digests, dev


def run_training(recipe: Simcse | Sbert, out: Path, places: Places) -> None:
    """Train, write the checkpoint, and print its steps and best score."""
    opt.usable_device(recipe.device)
    make_folder(out.absolute().parent, "--out", to_write=True)
    training, digests, dev = open_training(recipe, places)
    from harness.training.loop import finetune

    with progress_on(sys.stderr) as bar:
        curve = finetune(training, out, bar, data=digests, dev=dev)
    line = f"{out}: {len(curve.losses):,} steps"
    if curve.best is not None:
        step, score = curve.best
        line += f", best on {recipe.dev}: {score:.2f} at step {step}"
    opt.say(line)


def recipe_from(words: str) -> Simcse | Sbert:
    """The recipe that a command line asks for, which is given without `harness train`."""
    name, *options = words.split()

    def command(recipe: Any) -> Any:
        return recipe

    command.__annotations__["recipe"] = RECIPES[name]
    app = typer.Typer(add_completion=False)
    app.command()(flattened(command))
    return typer.main.get_command(app)(options, standalone_mode=False)


trainings = typer.Typer(
    help="Train a checkpoint that sentence-transformers loads, too. The same "
    "command resumes a training that was interrupted.",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
for recipe_name, recipe_class in RECIPES.items():

    def _train(recipe: Any, out: Out, folders: opt.Folders) -> None:
        run_training(recipe, out, folders.places())

    _train.__annotations__["recipe"] = recipe_class
    trainings.command(recipe_name, cls=Command, help=inspect.getdoc(recipe_class))(
        flattened(_train)
    )


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
    known = resolve(folders.places(), encoder)
    places, encoders = known.places, known.registry.encoders.items()
    families = {name: x for name, x in encoders if isinstance(x, FamilyConfig)}
    chosen: dict[str, FamilyConfig] = {}  # each once, in order
    for pattern in names:
        matching = [name for name in families if matches(name, [pattern])]
        for name in matching or [pattern]:
            chosen[name] = look_up("family", name, families)
    for name, config in chosen.items():
        untrained = False
        for member in map(config.member, range(seeds)):
            if not places.has_encoder(member):
                untrained = True
                train_member(member.name, member.source, places, threads)
        if not untrained:
            opt.say(f"{name}: all {seeds} seeds are here already")


def train_member(
    name: str, source: Trained, places: Places, threads: int | None
) -> None:
    """Train a member of a family, where runs look for it."""
    opt.say(f"{name}: {source}")
    recipe = recipe_from(source.recipe)
    recipe = replace(recipe, seed=source.seed or 0, threads=threads)
    run_training(recipe, places.trained(source), places)


trainings.command(cls=Command)(flattened(family))


# A training of a run


def train_alone(
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
