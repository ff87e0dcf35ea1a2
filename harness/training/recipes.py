"""The recipes of trainings: every setting, each an option of `harness train`.

A recipe is a dataclass. `harness.cli.train` makes a command of each, the trainings read
their settings from it, and `command_line` writes it as the command that it came from.
Defaults are the papers'. torch is not imported, since `harness train --help` needs none
of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from harness.core.errors import UsageError

LossSimilarity = Literal["cosine", "dot"]
HeadUse = Literal["none", "train", "keep"]

# Batch and learning rate of SimCSE (paper, appendix A), by architecture and size.
UNSUPERVISED_PACE = {
    ("bert", "base"): (64, 3e-5),
    ("bert", "large"): (64, 1e-5),
    ("roberta", "base"): (512, 1e-5),
    ("roberta", "large"): (512, 3e-5),
}
# By size alone.
SUPERVISED_PACE = {"base": (512, 5e-5), "large": (512, 1e-5)}
AUGMENTATION = re.compile(r"none|(crop|deletion):\d\d?|deletion:one")
LARGE_WIDTH = 1024  # a large model has at least so many dimensions


# Options that several recipes have.
PAPERS_DEFAULT = "[default: the paper's for the model's size]"
PaperBatch = Annotated[int | None, typer.Option(min=2, help=PAPERS_DEFAULT)]
PaperRate = Annotated[float | None, typer.Option(min=0.0, help=PAPERS_DEFAULT)]
Batch = Annotated[int, typer.Option(min=2)]
Epochs = Annotated[int, typer.Option(min=1)]
Rate = Annotated[float, typer.Option(min=0.0)]
MaxLength = Annotated[int, typer.Option(min=3)]
DevTask = Annotated[
    str, typer.Option(help="The task whose best checkpoint is kept; none: the last.")
]
DevEvery = Annotated[int, typer.Option(min=1, help="Steps between evaluations.")]
PoolingName = Annotated[
    str, typer.Option(help="What is trained: cls, mean or first-last.")
]
HeadName = Annotated[
    HeadUse, typer.Option(help="A layer after the pooling; train: dropped afterwards.")
]
Dropout = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help="[default: the checkpoint's]")
]
MaskedWeight = Annotated[
    float, typer.Option(min=0.0, help="Weight of masked language modelling.")
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="CPU threads; their number changes the last bits."),
]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of every training, in addition to its own."""

    start: Annotated[
        str,
        typer.Option(
            "--from", help="The encoder to start from: a name, or a checkpoint folder."
        ),
    ]
    weight_decay: Rate = 0.0
    clip: Annotated[
        float,
        typer.Option(min=0.0, help="Norm to which gradients are clipped; 0: none."),
    ] = 1.0
    max_length: MaxLength = 32
    dev: DevTask = "sts-b.senteval.dev"
    dev_every: DevEvery = 125
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Precision of products; weights are in float32."),
    ] = "float32"
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu"
    half: Annotated[bool, typer.Option(help="Store the weights in 16 bits.")] = False
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of weights, order and dropout.")
    ] = 0
    threads: Threads = None


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
    similarity: LossSimilarity = "cosine"
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
    objective: Literal["info-nce", "nt-xent"] = "info-nce"
    masked_words: MaskedWeight = 0.0
    batch: PaperBatch = None
    epochs: Epochs = 1
    learning_rate: PaperRate = None

    def __post_init__(self) -> None:
        if AUGMENTATION.fullmatch(self.augmentation) is None:
            raise UsageError(
                f"--augmentation {self.augmentation}: wanted crop:P or deletion:P, P percent from "
                "0 to 99, or deletion:one"
            )
        if self.same_mask and self.augmentation != "none":
            raise UsageError(
                "--same-mask: wanted one sentence seen twice, found an augmentation"
            )


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
    similarity: LossSimilarity = "cosine"
    hard_weight: Annotated[float, typer.Option(help="log(alpha) of Table 7.")] = 0.0
    hard_negatives: Annotated[bool, typer.Option(help="Read the third column.")] = True
    masked_words: MaskedWeight = 0.0
    dropout: Dropout = None
    pairs: Annotated[
        str,
        typer.Option(help="Label of pairs: entailment, neutral, contradiction or all."),
    ] = "none"
    sample: Annotated[int | None, typer.Option(min=2, help="Sample N examples.")] = None
    batch: PaperBatch = None
    epochs: Epochs = 3
    learning_rate: PaperRate = None


@dataclass(frozen=True, kw_only=True)
class SbertNli(Recipe):
    """Train SBERT as a classifier of labelled pairs (NLI)."""

    file: Annotated[
        str,
        typer.Option(
            help="all-nli, snli-18k, mini-nli, or lines of label, label, premise, hypothesis."
        ),
    ]
    held_out: Annotated[bool, typer.Option(help="With SNLI's dev and test splits.")] = (
        False
    )
    pooling: PoolingName = "mean"
    dropout: Dropout = None
    batch: Batch = 16
    epochs: Epochs = 1
    learning_rate: Rate = 2e-5
    weight_decay: Rate = 0.01
    max_length: MaxLength = 128
    dev: DevTask = "none"


@dataclass(frozen=True, kw_only=True)
class SbertSts(Recipe):
    """Train SBERT on scored pairs: the cosine approaches the gold score."""

    task: Annotated[str, typer.Option(help="The task with the scored pairs.")] = (
        "sts-b.train"
    )
    pooling: PoolingName = "mean"
    dropout: Dropout = None
    batch: Batch = 16
    epochs: Epochs = 4  # as the first release's training_stsbenchmark_bert.py
    learning_rate: Rate = 2e-5
    weight_decay: Rate = 0.01
    max_length: MaxLength = 128
    dev: DevTask = "sts-b.dev"
    dev_every: DevEvery = 360  # an epoch of STS-B's 5,749 pairs in batches of 16


Simcse = SimcseUnsup | SimcseSup
Sbert = SbertNli | SbertSts
RECIPES: Mapping[str, type[Simcse] | type[Sbert]] = {
    "simcse-unsup": SimcseUnsup,
    "simcse-sup": SimcseSup,
    "sbert-nli": SbertNli,
    "sbert-sts": SbertSts,
}


def pace(recipe: Simcse | Sbert, model_type: str, width: int) -> tuple[int, float]:
    """The batch and the learning rate: those that are set, or SimCSE's for a model.

    Args:
        recipe: The settings of the training.
        model_type: The architecture, as transformers names it.
        width: The dimensions of the model; with `LARGE_WIDTH` of them it is large.
    """
    size = "large" if width >= LARGE_WIDTH else "base"
    batch, rate = SUPERVISED_PACE[size]
    if isinstance(recipe, SimcseUnsup):
        family = "roberta" if "roberta" in model_type else "bert"
        batch, rate = UNSUPERVISED_PACE[family, size]
    if recipe.batch is not None:
        batch = recipe.batch
    if recipe.learning_rate is not None:
        rate = recipe.learning_rate
    return batch, rate


def stated_settings(recipe: Recipe) -> dict[str, Any]:
    """All settings by name: `start`, those of this recipe alone, those that all recipes have.

    Of a path without its folder, which only this machine has.
    """
    own_first = {"start": None, **dict.fromkeys(type(recipe).__annotations__)}
    names = [*own_first, *(field.name for field in fields(Recipe))]
    settings = {}
    for name in dict.fromkeys(names):
        value = getattr(recipe, name)
        settings[name] = Path(value).name if isinstance(value, str) else value
    return settings


def command_line(recipe: Recipe) -> str:
    """The command line of a recipe: the settings that differ from their defaults."""
    [command] = [name for name, kind in RECIPES.items() if kind is type(recipe)]
    defaults = {field.name: field.default for field in fields(recipe)}
    words = ["harness train", command]
    for name, value in stated_settings(recipe).items():
        if value == defaults[name]:
            continue
        option = "--from" if name == "start" else f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-"))
        else:
            words += [option, str(value)]
    return " ".join(words)
