"""`harness train`: make a checkpoint folder, or go on with an unfinished one.

There is a command for each recipe of `harness.training.recipes`; `run_training` runs it.
The command `family` trains the members of a registered family of encoders, each by the
recipe that the family states; `train_alone` trains one that a run needs.

torch is imported inside functions: `harness train --help` needs none of it, and an
unknown name is refused at once.
"""

from __future__ import annotations

import fnmatch
import inspect
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.cli.parsing import Command, Commands, flattened
from harness.core.errors import HarnessError
from harness.core.files import make_folder
from harness.core.interfaces import EncoderConfig, Trained
from harness.core.pairs import Pairs
from harness.core.progress import progress_on
from harness.data.places import Places
from harness.encoders.modules import transformer_folder
from harness.encoders.native import bypass_note
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry, look_up
from harness.resolve import Resolver
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

Out = Annotated[Path, typer.Option(help="Output folder.")]

# From a recipe to a checkpoint


def start_folder(recipe: Simcse | Sbert, places: Places) -> Path:
    """The checkpoint that a recipe starts from. Raises UsageError, AssetMissing."""
    if Path(recipe.start).is_dir():
        return transformer_folder(Path(recipe.start))
    encoder = look_up("encoder", recipe.start, load_registry().encoders)
    return transformer_folder(places.encoder(encoder))


def start_name(recipe: Simcse | Sbert) -> str:
    """The name of the checkpoint to start from: its folder's name, or the encoder's."""
    return Path(recipe.start).resolve().name


def dev_pairs(recipe: Simcse | Sbert, places: Places) -> Pairs | None:
    """The pairs that select the best checkpoint; None with `--dev none`."""
    if recipe.dev == "none":
        return None
    task = look_up("task", recipe.dev, load_registry().tasks)
    return task.pairs(places.require_data(task.asset))


def open_training(
    recipe: Simcse | Sbert, folder: Path, places: Places
) -> tuple[Any, Mapping[str, str]]:
    """A training whose data and encoder are open, and the digests of its data by name.

    It sets the number of torch's threads.

    Args:
        recipe: The settings.
        folder: The checkpoint that it starts from.
        places: Where data are.
    """
    registry = load_registry()
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

    import torch

    from harness.training.contrastive import ContrastiveTraining
    from harness.training.encoder import SentenceEncoder
    from harness.training.masked_words import MaskedLMHead
    from harness.training.siamese import SiameseTraining

    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    checkpoint = (start_name(recipe), folder)
    if isinstance(recipe, Sbert):
        encoder = SentenceEncoder(*checkpoint, recipe)
        return SiameseTraining(recipe, encoder, columns, targets), digests
    encoder = SentenceEncoder(*checkpoint, recipe, recipe.head)
    head = MaskedLMHead(*checkpoint, encoder) if recipe.masked_words else None
    return ContrastiveTraining(recipe, encoder, columns, head), digests


def run_training(recipe: Simcse | Sbert, out: Path, places: Places) -> None:
    """Train, write the checkpoint, and print its steps and best score."""
    opt.usable_device(recipe.device)
    folder = start_folder(recipe, places)
    _note_untrained_modules(recipe)
    make_folder(out.absolute().parent, "--out", to_write=True)
    training, digests = open_training(recipe, folder, places)
    dev = dev_pairs(recipe, places)
    from harness.training.finetune import finetune

    with progress_on(sys.stderr) as bar:
        curve = finetune(training, folder, out, bar, data=digests, dev=dev)
    line = f"{out}: {len(curve.losses):,} steps"
    if curve.best is not None:
        step, score = curve.best
        line += f", best on {recipe.dev}: {score:.2f} at step {step}"
    opt.say(line)


def _note_untrained_modules(recipe: Simcse | Sbert) -> None:
    """Note modules of the folder to start from, such as its own pooling, that are not trained."""
    start = Path(recipe.start)
    if not start.is_dir():
        return
    config = TransformerConfig(name=start_name(recipe), repo="")
    pooling = recipe.pooling
    remedy = f"`{pooling}` of the transformer alone is trained; --pooling takes another"
    note = bypass_note(config, start, [pooling], remedy)
    if note:
        opt.note(f"Note: {note}")


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
