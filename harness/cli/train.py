"""`harness train`: make a checkpoint folder, or go on with an unfinished one.

A recipe is a dataclass. Its fields are the options of a command, and its method
`prepare` opens data and checkpoint and makes a training of harness.training of them.
`run_training` runs the training. The command `family` trains the members of a registered
family of encoders, each from the recipe that the family states.

torch is imported inside functions: `harness train --help` needs none of it.
"""

from __future__ import annotations

import fnmatch
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.assets.places import Places
from harness.cli import options as opt
from harness.cli.parsing import command_group, flattened
from harness.core.errors import UsageError
from harness.core.files import make_folder
from harness.core.interfaces import Trained
from harness.core.progress import progress_on
from harness.encoders.checkpoint import transformer_folder
from harness.encoders.checkpoint_settings import read_settings
from harness.encoders.native import bypass_note
from harness.encoders.trained import FamilyConfig
from harness.encoders.transformer import TransformerConfig
from harness.registry import Registry, load_registry, look_up
from harness.resolve import Resolver
from harness.transforms.pooling import POOLINGS

# The values of --dtype, and what the setup of a training calls them.
PRECISIONS = {"float32": "float32", "bfloat16": "bf16", "float16": "fp16"}
# The values of the options that take one of a few words.
OPTION_VALUES = {
    "head": ("none", "train", "keep"),
    "dtype": tuple(PRECISIONS),
    "similarity": ("cosine", "dot"),
    "objective": ("info-nce", "nt-xent"),
}

Threads = Annotated[
    int | None,
    opt.option(min=1, help="CPU threads; their number changes the last bits."),
]
PaperRate = Annotated[
    float | None, typer.Option(min=0.0, help="[default: the paper's]")
]
MaxLength = Annotated[int, typer.Option(min=3)]
DevTask = Annotated[
    str, typer.Option(help="The task whose best checkpoint is kept; none: the last.")
]
DevEvery = Annotated[int, typer.Option(min=1, help="Steps between evaluations.")]


@dataclass(frozen=True)
class PreparedTraining:
    """A training that can begin, and what it reads.

    Attributes:
        training: A ContrastiveTraining or a SiameseTraining.
        data_digests: The digest of each data set, by its name.
    """

    training: Any
    data_digests: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """The options of every training. A setting that is None has the value of the paper."""

    out: Annotated[Path, opt.option(help="Output folder.")]
    start: Annotated[
        str,
        typer.Option(
            "--from", help="The encoder to start from: a name, or a checkpoint folder."
        ),
    ]
    batch: Annotated[int | None, typer.Option(min=2, help="[default: the paper's]")] = (
        None
    )
    epochs: Annotated[
        int | None, typer.Option(min=1, help="[default: the paper's]")
    ] = None
    learning_rate: PaperRate = None
    weight_decay: PaperRate = None
    clip: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="Norm to which gradients are clipped; 0: none. [default: 1]"
        ),
    ] = None
    max_length: MaxLength = 32
    dev: DevTask = "sts-b.senteval.dev"
    dev_every: DevEvery = 125
    dtype: Annotated[
        str,
        typer.Option(
            help="Precision of products: float32, bfloat16; on a GPU float16."
        ),
    ] = "float32"
    device: Annotated[
        str, typer.Option(callback=opt.usable_device, help="cpu or cuda.")
    ] = "cpu"
    batch_tokens: Annotated[
        int | None,
        opt.option(
            min=1,
            metavar="N",
            help="Tokens in memory at a time; a batch keeps all its negatives. [default: 8192]",
        ),
    ] = None
    half: Annotated[bool, typer.Option(help="Store the weights in 16 bits.")] = False
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of weights, order and dropout.")
    ] = 0
    threads: Threads = None
    data_dir: opt.DataDir = None
    cache: opt.CacheDir = None

    @property
    @abstractmethod
    def pooling(self) -> str:
        """The name of the pooling that is trained, an option with a default of the recipe."""

    @property
    @abstractmethod
    def dropout(self) -> float | None:
        """The dropout probability, an option of each recipe; None is the checkpoint's own."""

    @abstractmethod
    def prepare(self) -> PreparedTraining:
        """Open the data and the checkpoint, and make the training.

        The data come first, before torch is imported, so that a name that is unknown is
        refused at once. Raises HarnessError.
        """

    @cached_property
    def places(self) -> Places:
        return opt.Folders(self.data_dir, self.cache).places()

    @property
    def starts_from_folder(self) -> bool:
        """Whether --from names a folder; it names a registered encoder otherwise."""
        return Path(self.start).is_dir()

    @cached_property
    def start_folder(self) -> Path:
        """The checkpoint to start from. Raises UsageError, AssetMissing."""
        if self.starts_from_folder:
            return transformer_folder(Path(self.start))
        encoder = look_up("encoder", self.start, load_registry().encoders)
        return transformer_folder(self.places.encoder(encoder))

    @property
    def start_name(self) -> str:
        """The name of the checkpoint to start from: that of its folder, or the encoder's."""
        if self.starts_from_folder:
            return Path(self.start).resolve().name
        return self.start

    @property
    def bypass_note(self) -> str:
        """Which modules of the folder to start from are not trained; empty if all are."""
        if not self.starts_from_folder:
            return ""
        config = TransformerConfig(name=self.start_name, repo="")
        remedy = (
            f"`{self.pooling}` of the transformer alone is trained; "
            "--pooling takes another"
        )
        return bypass_note(config, Path(self.start), [self.pooling], remedy)

    @cached_property
    def checkpoint(self) -> Any:
        """The checkpoint to start from, by its name."""
        from harness.training.finetune import StartCheckpoint

        return StartCheckpoint(self.start_name, self.start_folder)

    @cached_property
    def dev_set(self) -> Any:
        """The pairs that a checkpoint is selected by; None with `--dev none`."""
        from harness.training.finetune import DevSet

        if self.dev == "none":
            return None
        task = look_up("task", self.dev, load_registry().tasks)
        pairs = task.pairs(self.places.require_data(task.asset))
        return DevSet(self.dev, pairs, self.dev_every)

    def settings(self, defaults: Any) -> Any:
        """The settings of the training.

        Args:
            defaults: The settings of the paper, a dataclass. A field with the name of an
                option has the option's value, unless that is None.

        Raises:
            UsageError: An option has a value that is not among those it may have.
        """
        options = dict(vars(self))
        options["tokens_at_once"] = self.batch_tokens  # as a field of settings is named
        for name, values in OPTION_VALUES.items():
            if name in options and options[name] not in values:
                raise UsageError(
                    f"--{name} {options[name]}: wanted one of {', '.join(values)}"
                )
        changes: dict[str, Any] = {"setup": self._setup(options.get("head", "none"))}
        for field in fields(defaults):
            if options.get(field.name) is not None:
                changes[field.name] = options[field.name]
        return replace(defaults, **changes)

    def _setup(self, head: Any) -> Any:
        """How the encoder is trained; `head` is what becomes of the layer over its pooling."""
        from harness.training.encoder import Setup

        poolings = {pooling.name: pooling for pooling in POOLINGS}
        precision: Any = PRECISIONS[self.dtype]
        return Setup(
            pooling=look_up("pooling", self.pooling, poolings),
            head=head,
            max_length=self.max_length,
            dropout=self.dropout,
            precision=precision,
            device=self.device,
        )

    def open(self, settings: Any) -> Any:
        """The encoder to train. Sets the number of torch's threads."""
        import torch

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return self.checkpoint.open(settings.setup, self.places.cache, self.seed)

    def contrastive(self, defaults: Callable[[Any], Any], columns: Any) -> Any:
        """A training of SimCSE, with the masked-LM head if its loss has a weight.

        Args:
            defaults: Makes the settings of the paper from a checkpoint's `config.json`.
            columns: The sentences: one column, or two, or three with negatives.
        """
        from harness.training.contrastive import ContrastiveTraining
        from harness.training.masked_words import open_mlm_head

        config = read_settings(self.start_folder / "config.json")
        settings = self.settings(defaults(config))
        encoder = self.open(settings)
        mlm_head = None
        if settings.masked_words:
            mlm_head = open_mlm_head(
                self.start_name, self.start_folder, self.places.cache, encoder
            )
        return ContrastiveTraining(
            settings, encoder, columns, seed=self.seed, masked=mlm_head
        )

    def siamese(self, defaults: Any, examples: Any) -> Any:
        """A training of SBERT on pairs or triplets; `defaults` are the paper's settings."""
        from harness.training.siamese import SiameseTraining

        settings = self.settings(defaults)
        encoder = self.open(settings)
        return SiameseTraining(settings, encoder, examples, seed=self.seed)


PoolingName = Annotated[
    str, typer.Option(help="What is trained: cls, mean or first-last.")
]
HeadName = Annotated[
    str, typer.Option(help="none, train (dropped afterwards) or keep.")
]
SimilarityName = Annotated[str, typer.Option(help="cosine or dot.")]
MaskedWeight = Annotated[
    float, typer.Option(min=0.0, help="Weight of masked language modelling.")
]
Dropout = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="[default: its own]")
]


@dataclass(frozen=True, kw_only=True)
class SimcseUnsup(Recipe):
    """Train unsupervised SimCSE: dropout alone makes the positive pairs."""

    corpus: Annotated[
        str,
        typer.Option(
            help="A corpus (harness list components) or a file, a sentence a line."
        ),
    ] = "wiki"
    first: Annotated[
        int | None, opt.option(min=1, help="Read only the first N sentences.")
    ] = None
    pooling: PoolingName = "cls"
    head: HeadName = "train"
    temperature: float = 0.05
    similarity: SimilarityName = "cosine"
    dropout: Dropout = None
    same_mask: Annotated[
        bool, typer.Option(help="One dropout mask for both views.")
    ] = False
    augmentation: Annotated[
        str,
        typer.Option(
            help="Augments the second view: none, crop:P, deletion:P or deletion:one."
        ),
    ] = "none"
    objective: Annotated[str, typer.Option(help="info-nce or nt-xent.")] = "info-nce"
    masked_words: MaskedWeight = 0.0

    def prepare(self) -> PreparedTraining:
        from harness.training.datasets import open_text

        text = open_text(self.corpus, load_registry().corpora, self.places, self.first)
        from harness.training.contrastive import Contrastive

        training = self.contrastive(Contrastive.unsupervised, (tuple(text),))
        return PreparedTraining(training, {text.name: text.digest()})


@dataclass(frozen=True, kw_only=True)
class SimcseSup(Recipe):
    """Train supervised SimCSE on triplets, contradictions as negatives.

    With --pairs, on the pairs of one label.
    """

    file: Annotated[
        str,
        opt.option(help="nli-for-simcse, snli-triplets, mini-triplets, or a CSV file."),
    ]
    pooling: PoolingName = "cls"
    head: HeadName = "keep"
    temperature: float = 0.05
    similarity: SimilarityName = "cosine"
    hard_weight: Annotated[float, typer.Option(help="log(alpha) of Table 7.")] = 0.0
    hard_negatives: Annotated[bool, typer.Option(help="Read the third column.")] = True
    masked_words: MaskedWeight = 0.0
    dropout: Dropout = None
    pairs: Annotated[
        str,
        typer.Option(help="Label of pairs: entailment, neutral, contradiction or all."),
    ] = "none"
    sample: Annotated[int | None, opt.option(min=2, help="Sample N examples.")] = None

    def prepare(self) -> PreparedTraining:
        from harness.training.datasets import open_positives, sample

        triplets = open_positives(self.file, self.pairs, self.places)
        from harness.training.contrastive import Contrastive

        columns = triplets.content
        if self.sample is not None:
            columns = sample(columns, self.sample, self.seed)
        training = self.contrastive(Contrastive.supervised, columns)
        return PreparedTraining(training, {triplets.name: triplets.digest})


@dataclass(frozen=True, kw_only=True)
class SbertNli(Recipe):
    """Train SBERT as a classifier of labelled pairs (NLI)."""

    max_length: MaxLength = 128
    dev: DevTask = "none"
    file: Annotated[
        str,
        opt.option(
            help="all-nli, snli-18k, mini-nli, or lines of label, label, premise, hypothesis."
        ),
    ]
    ranking: Annotated[
        bool, typer.Option(help="In-batch ranking in place of softmax.")
    ] = False
    pooling: PoolingName = "mean"
    dropout: Dropout = None
    held_out: Annotated[bool, typer.Option(help="With SNLI's dev and test splits.")] = (
        False
    )

    def prepare(self) -> PreparedTraining:
        from harness.training.datasets import open_labelled_pairs

        pairs = open_labelled_pairs(self.file, self.places, self.held_out)
        from harness.training.siamese import Siamese

        if self.ranking:
            training = self.siamese(Siamese.ranking(), pairs.content.triplets())
        else:
            training = self.siamese(Siamese(), pairs.content)
        return PreparedTraining(training, {pairs.name: pairs.digest})


@dataclass(frozen=True, kw_only=True)
class SbertSts(Recipe):
    """Train SBERT on scored pairs: the cosine approaches the gold score."""

    max_length: MaxLength = 128
    dev: DevTask = "sts-b.dev"
    dev_every: DevEvery = 360  # an epoch of STS-B's 5,749 pairs in batches of 16
    task: Annotated[str, typer.Option(help="The task with the scored pairs.")] = (
        "sts-b.train"
    )
    pooling: PoolingName = "mean"
    dropout: Dropout = None

    def prepare(self) -> PreparedTraining:
        from harness.training.siamese import ScoredPairs, Siamese

        task = look_up("task", self.task, load_registry().tasks)
        pairs = ScoredPairs.from_task(task, self.places)
        training = self.siamese(Siamese.regression(), pairs)
        return PreparedTraining(training, {self.task: pairs.digest})


RECIPES: Mapping[str, type[Recipe]] = {
    "simcse-unsup": SimcseUnsup,
    "simcse-sup": SimcseSup,
    "sbert-nli": SbertNli,
    "sbert-sts": SbertSts,
}
RECIPE_NAMES = {kind: name for name, kind in RECIPES.items()}


# From a recipe to a checkpoint


def commands(act: Callable[[Recipe], Any]) -> typer.Typer:
    """A command for each recipe, with an option for each field of the recipe.

    A command makes the recipe of its options and returns `act(recipe)`.
    """
    app = command_group(
        "Train a checkpoint that sentence-transformers loads, too. The same "
        "command resumes a training that was interrupted, bit for bit."
    )
    for name, kind in RECIPES.items():

        def command(recipe: Recipe) -> Any:
            return act(recipe)

        command.__annotations__["recipe"] = kind
        app.command(name, help=inspect.getdoc(kind))(flattened(command))
    return app


def run_training(recipe: Recipe) -> None:
    """Train, write the checkpoint, and print its steps and best score."""
    _ = recipe.start_folder  # an unknown one is refused before torch is imported
    if recipe.bypass_note:
        opt.note(f"Note: {recipe.bypass_note}")
    make_folder(recipe.out.absolute().parent, "--out", to_write=True)
    prepared = recipe.prepare()
    from harness.training.finetune import finetune

    with progress_on(sys.stderr) as bar:
        curve = finetune(
            prepared.training,
            recipe.checkpoint,
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
            arguments += [_option_of(name), str(value)]
    parser = typer.main.get_command(commands(lambda recipe: recipe))
    return parser(arguments, standalone_mode=False)


def command_line(recipe: Recipe) -> str:
    """The command line of a recipe, as `training.json` states it.

    It has the options that differ from their defaults: `--from`, then those of this
    recipe alone, then those of every recipe. Folders are left out.
    """
    words = ["harness train", RECIPE_NAMES[type(recipe)]]
    shared_names = {field.name for field in fields(Recipe)} - {"out", "start"}
    shared_fields = [field for field in fields(recipe) if field.name in shared_names]
    own_fields = [field for field in fields(recipe) if field.name not in shared_names]
    for field in (*own_fields, *shared_fields):
        value = getattr(recipe, field.name)
        if value == field.default or field.name in ("out", "cache", "data_dir"):
            continue
        option = _option_of(field.name)
        if value is False:
            words.append(option.replace("--", "--no-"))
        elif value is True:
            words.append(option)
        elif isinstance(value, str):
            words += [option, Path(value).name]  # the folder is of this machine alone
        else:
            words += [option, str(value)]
    return " ".join(words)


def _option_of(field: str) -> str:
    """The option that a field of a recipe is set by."""
    return "--from" if field == "start" else f"--{field.replace('_', '-')}"


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
