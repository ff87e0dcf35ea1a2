"""The recipes of `harness train`: the options of a training, and how it is prepared.

A recipe is a dataclass. Its fields are the options of a command, and its method
`prepare` opens data and checkpoint and makes a training of `harness.training` of them.
`harness.cli.train` runs it. `command_line` writes a recipe as the command that it came
from.

torch is imported inside methods: `harness train --help` needs none of it. So the types
of trainings, settings and encoders are not named in signatures.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harness.cli import options as opt
from harness.data.places import Places
from harness.encoders.checkpoint import read_settings
from harness.encoders.modules import transformer_folder
from harness.registry import load_registry, look_up
from harness.transforms.pooling import POOLINGS

PAPERS_DEFAULT = "[default: the paper's]"

# Options that several recipes have.
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="CPU threads; their number changes the last bits."),
]
PaperRate = Annotated[float | None, typer.Option(min=0.0, help=PAPERS_DEFAULT)]
MaxLength = Annotated[int, typer.Option(min=3)]
DevTask = Annotated[
    str, typer.Option(help="The task whose best checkpoint is kept; none: the last.")
]
DevEvery = Annotated[int, typer.Option(min=1, help="Steps between evaluations.")]
PoolingName = Annotated[
    str, typer.Option(help="What is trained: cls, mean or first-last.")
]
HeadName = Annotated[
    Literal["none", "train", "keep"],
    typer.Option(help="A layer after the pooling; train: dropped afterwards."),
]
SimilarityName = Annotated[Literal["cosine", "dot"], typer.Option()]
MaskedWeight = Annotated[
    float, typer.Option(min=0.0, help="Weight of masked language modelling.")
]
Dropout = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="[default: its own]")
]


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """The options of every training. A setting that is None has the value of the paper."""

    out: Annotated[Path, typer.Option(help="Output folder.")]
    start: Annotated[
        str,
        typer.Option(
            "--from", help="The encoder to start from: a name, or a checkpoint folder."
        ),
    ]
    batch: Annotated[int | None, typer.Option(min=2, help=PAPERS_DEFAULT)] = None
    epochs: Annotated[int | None, typer.Option(min=1, help=PAPERS_DEFAULT)] = None
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
        Literal["float32", "bfloat16"],
        typer.Option(help="Precision of products; weights are in float32."),
    ] = "float32"
    device: Annotated[
        str, typer.Option(callback=opt.usable_device, help="cpu or cuda.")
    ] = "cpu"
    half: Annotated[bool, typer.Option(help="Store the weights in 16 bits.")] = False
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of weights, order and dropout.")
    ] = 0
    threads: Threads = None
    data_dir: opt.DataDir = None
    cache: opt.CacheDir = None

    @abstractmethod
    def prepare(self) -> tuple[Any, Mapping[str, str]]:
        """Open the data and the checkpoint: the training, and the digests of its data by name.

        The data are opened before torch is imported, so that an unknown name is refused
        at once. Raises HarnessError.
        """

    @cached_property
    def places(self) -> Places:
        """The folders of data sets, encoders and encodings."""
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
        """The name of the checkpoint to start from: its folder's name, or the encoder's."""
        if self.starts_from_folder:
            return Path(self.start).resolve().name
        return self.start

    @cached_property
    def dev_set(self) -> Any:
        """The pairs that select the best checkpoint, a `DevSet`; None with `--dev none`."""
        from harness.training.finetune import DevSet

        if self.dev == "none":
            return None
        task = look_up("task", self.dev, load_registry().tasks)
        pairs = task.pairs(self.places.require_data(task.asset))
        return DevSet(self.dev, pairs, self.dev_every)

    def settings(self, defaults: Any) -> Any:
        """The settings of the paper, a dataclass, in which options replace fields of their name.

        An option that is None replaces nothing.
        """
        from harness.training.encoder import Setup

        options = vars(self)
        poolings = {pooling.name: pooling for pooling in POOLINGS}
        setup = Setup(
            pooling=look_up("pooling", options["pooling"], poolings),
            head=options.get("head", "none"),  # only SimCSE's recipes have the option
            max_length=self.max_length,
            dropout=options["dropout"],
            precision=self.dtype,
            device=self.device,
        )
        changes: dict[str, Any] = {"setup": setup}
        for field in fields(defaults):
            if options.get(field.name) is not None:
                changes[field.name] = options[field.name]
        return replace(defaults, **changes)

    def open_encoder(self, settings: Any) -> Any:
        """The encoder to train. Sets the number of torch's threads."""
        import torch

        from harness.training.encoder import SentenceEncoder

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        return SentenceEncoder(
            name=self.start_name,
            folder=self.start_folder,
            setup=settings.setup,
            seed=self.seed,
        )

    def contrastive(self, defaults: Callable[[Any], Any], columns: Any) -> Any:
        """A training of SimCSE, with the head of masked language modelling if its loss is used.

        Args:
            defaults: Makes the settings of the paper from a checkpoint's `config.json`.
            columns: The sentences: one column, or two, or three with negatives.
        """
        from harness.training.contrastive import ContrastiveTraining
        from harness.training.masked_words import open_mlm_head

        config = read_settings(self.start_folder / "config.json")
        settings = self.settings(defaults(config))
        encoder = self.open_encoder(settings)
        mlm_head = None
        if settings.masked_words:
            mlm_head = open_mlm_head(self.start_name, self.start_folder, encoder)
        return ContrastiveTraining(
            settings, encoder, columns, seed=self.seed, masked=mlm_head
        )

    def siamese(self, defaults: Any, examples: Any) -> Any:
        """A training of SBERT on labelled or scored pairs; `defaults` are the paper's settings."""
        from harness.training.siamese import SiameseTraining

        settings = self.settings(defaults)
        encoder = self.open_encoder(settings)
        return SiameseTraining(settings, encoder, examples, seed=self.seed)


# The recipes


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
        int | None, typer.Option(min=1, help="Read only the first N sentences.")
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
    objective: Annotated[Literal["info-nce", "nt-xent"], typer.Option()] = "info-nce"
    masked_words: MaskedWeight = 0.0

    def prepare(self) -> tuple[Any, Mapping[str, str]]:
        from harness.training.datasets import open_text

        text = open_text(self.corpus, load_registry().corpora, self.places, self.first)
        from harness.training.contrastive import Contrastive  # imports torch

        training = self.contrastive(Contrastive.unsupervised, text.content)
        return training, {text.name: text.digest}


@dataclass(frozen=True, kw_only=True)
class SimcseSup(Recipe):
    """Train supervised SimCSE on triplets, contradictions as negatives.

    With --pairs, on the pairs of one label.
    """

    file: Annotated[
        str,
        typer.Option(
            help="nli-for-simcse, snli-triplets, mini-triplets, or a CSV file."
        ),
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
    sample: Annotated[int | None, typer.Option(min=2, help="Sample N examples.")] = None

    def prepare(self) -> tuple[Any, Mapping[str, str]]:
        from harness.training.datasets import open_positives, sample

        triplets = open_positives(self.file, self.pairs, self.places)
        from harness.training.contrastive import Contrastive  # imports torch

        columns = triplets.content
        if self.sample is not None:
            columns = sample(columns, self.sample, self.seed)
        training = self.contrastive(Contrastive.supervised, columns)
        return training, {triplets.name: triplets.digest}


@dataclass(frozen=True, kw_only=True)
class SbertNli(Recipe):
    """Train SBERT as a classifier of labelled pairs (NLI)."""

    max_length: MaxLength = 128
    dev: DevTask = "none"
    file: Annotated[
        str,
        typer.Option(
            help="all-nli, snli-18k, mini-nli, or lines of label, label, premise, hypothesis."
        ),
    ]
    pooling: PoolingName = "mean"
    dropout: Dropout = None
    held_out: Annotated[bool, typer.Option(help="With SNLI's dev and test splits.")] = (
        False
    )

    def prepare(self) -> tuple[Any, Mapping[str, str]]:
        from harness.training.datasets import open_labelled_pairs

        pairs = open_labelled_pairs(self.file, self.places, self.held_out)
        from harness.training.siamese import Siamese  # imports torch

        training = self.siamese(Siamese(), pairs.content)
        return training, {pairs.name: pairs.digest}


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

    def prepare(self) -> tuple[Any, Mapping[str, str]]:
        task = look_up("task", self.task, load_registry().tasks)
        from harness.training.siamese import ScoredPairs, Siamese  # imports torch

        pairs = ScoredPairs.from_task(task, self.places)
        return self.siamese(Siamese.regression(), pairs), {self.task: pairs.digest}


RECIPES: Mapping[str, type[Recipe]] = {
    "simcse-unsup": SimcseUnsup,
    "simcse-sup": SimcseSup,
    "sbert-nli": SbertNli,
    "sbert-sts": SbertSts,
}
RECIPE_NAMES = {kind: name for name, kind in RECIPES.items()}


# A recipe as a command

# The fields that name folders, which only this machine has.
FOLDER_FIELDS = ("out", "cache", "data_dir")


def command_line(recipe: Recipe) -> str:
    """The command line of a recipe, as `training.json` states it.

    It has the options that differ from their defaults: `--from`, then options of this
    recipe alone, then options that all recipes have. Folders are left out.
    """
    words = ["harness train", RECIPE_NAMES[type(recipe)]]
    shared_names = {field.name for field in fields(Recipe)} - {"start"}
    own_first = sorted(fields(recipe), key=lambda field: field.name in shared_names)
    for field in own_first:
        value = getattr(recipe, field.name)
        if value == field.default or field.name in FOLDER_FIELDS:
            continue
        option = option_of(field.name)
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-"))
        elif isinstance(value, str):
            words += [option, Path(value).name]  # of a path, without its folder
        else:
            words += [option, str(value)]
    return " ".join(words)


def option_of(field: str) -> str:
    """The option that a field of a recipe is set by."""
    return "--from" if field == "start" else f"--{field.replace('_', '-')}"
