"""`harness train simcse-unsup`, `simcse-sup`, `sbert-nli`, `sbert-sts`: fine-tune a checkpoint."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import say_folded
from harness.cli.stopping import keeping
from harness.cli.train import options as opt
from harness.core.errors import UsageError

Recipe = Callable[..., None]
TRAIN = "sts-b.train"
STEPS = 360  # an epoch of its 5,749 pairs in batches of 16
Triplets = Annotated[
    str,
    typer.Option(
        help="nli-for-simcse, snli-triplets, mini-triplets, or a CSV file.", show_default=False
    ),
]
LabelledPairs = Annotated[
    str,
    typer.Option(help="all-nli, snli-18k, mini-nli, or a file of pairs.", show_default=False),
]
PoolingOption = Annotated[str, typer.Option(help="What is trained: cls, mean or first-last.")]
Head = Annotated[str, typer.Option(help="none, train (dropped afterwards) or keep.")]
SimilarityOption = Annotated[str, typer.Option(help="cosine or dot.")]
MaskedWeight = Annotated[float, typer.Option(min=0.0, help="Weight of masked language modelling.")]
Dropout = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="[default: its own]")]


def simcse_unsup(
    run: FineTuning,
    corpus: opt.TextOption = "wiki",
    first: opt.First = None,
    pooling: PoolingOption = "cls",
    head: Head = "train",
    temperature: float = 0.05,
    similarity: SimilarityOption = "cosine",
    dropout: Dropout = None,
    same_mask: Annotated[bool, typer.Option(help="One dropout mask for both views.")] = False,
    augmentation: Annotated[
        str, typer.Option(help="Of the second view: none, crop:P, deletion:P or deletion:one.")
    ] = "none",
    objective: Annotated[str, typer.Option(help="info-nce or nt-xent.")] = "info-nce",
    masked_words: MaskedWeight = 0.0,
) -> None:
    """Unsupervised SimCSE: a sentence and itself under another dropout mask agree."""
    from harness.training.contrastive import Contrastive

    text = opt.open_corpus(corpus, first, run.options.cache, run.options.data_dir)
    one_of("--objective", objective, ("info-nce", "nt-xent"))
    settings = run.settings(
        Contrastive.unsupervised(run.config),
        pooling,
        head,
        dropout,
        objective=objective,
        similarity=similarity,
        temperature=temperature,
        same_mask=same_mask,
        augmentation=augmentation,
        masked_words=masked_words,
    )
    run.contrastive(settings, (tuple(text),), {text.name: text.digest()})


def simcse_sup(
    run: FineTuning,
    file: Triplets,
    pooling: PoolingOption = "cls",
    head: Head = "keep",
    temperature: float = 0.05,
    similarity: SimilarityOption = "cosine",
    hard_weight: Annotated[float, typer.Option(help="log(alpha) of Table 7.")] = 0.0,
    hard_negatives: Annotated[bool, typer.Option(help="Read the third column.")] = True,
    masked_words: MaskedWeight = 0.0,
    dropout: Dropout = None,
    pairs: Annotated[
        str, typer.Option(help="Of labelled pairs: entailment, neutral, contradiction or all.")
    ] = "none",
    sample: Annotated[
        int | None, typer.Option(min=2, help="Draw so many examples.", show_default=False)
    ] = None,
) -> None:
    """Supervised SimCSE on triplets: a sentence, an entailment and a contradiction.

    With --pairs, on the pairs of one label.
    """
    from harness.training.contrastive import Contrastive
    from harness.training.datasets import open_positives

    data = open_positives(file, pairs, run.places)
    settings = run.settings(
        Contrastive.supervised(run.config),
        pooling,
        head,
        dropout,
        temperature=temperature,
        similarity=similarity,
        hard_weight=hard_weight,
        hard_negatives=hard_negatives,
        masked_words=masked_words,
    )
    run.contrastive(settings, run.drawn(data.content, sample), {data.name: data.digest})


def sbert_nli(
    run: FineTuning,
    file: LabelledPairs,
    ranking: Annotated[bool, typer.Option(help="In-batch ranking in place of softmax.")] = False,
    pooling: PoolingOption = "mean",
    dropout: Dropout = None,
    held_out: Annotated[bool, typer.Option(help="With SNLI's dev and test splits.")] = False,
) -> None:
    """SBERT on labelled pairs (AllNLI, or lines of label, label, premise, hypothesis)."""
    from harness.training.datasets import open_labelled_pairs
    from harness.training.siamese import Siamese, SiameseTraining

    pairs = open_labelled_pairs(file, run.places, held_out)
    defaults = Siamese.ranking() if ranking else Siamese()
    settings = run.settings(defaults, pooling, "none", dropout)
    examples = pairs.content.triplets() if ranking else pairs.content
    task = SiameseTraining(settings, run.open(settings), examples, run.options.seed, run.group)
    run.train(task, {pairs.name: pairs.digest})


def sbert_sts(
    run: FineTuning,
    task: Annotated[str, typer.Option(help="The task whose scored pairs are learnt.")] = TRAIN,
    pooling: PoolingOption = "mean",
    dropout: Dropout = None,
) -> None:
    """SBERT on scored pairs: the cosine of two sentences approaches their gold score."""
    from harness.registry import known, load_registry
    from harness.training.siamese import ScoredPairs, Siamese, SiameseTraining

    pairs = ScoredPairs.of(known("task", task, load_registry().tasks), run.places)
    settings = run.settings(Siamese.regression(), pooling, "none", dropout)
    training = SiameseTraining(settings, run.open(settings), pairs, run.options.seed, run.group)
    run.train(training, {task: pairs.digest})


# Of --dtype, and how a setup names it; sentence-transformers' short names are taken, too.
DTYPES: Mapping[str, Any] = {
    "float32": "float32", "bfloat16": "bf16", "float16": "fp16", "bf16": "bf16", "fp16": "fp16",
}  # fmt: skip
GIVEN = ("batch", "epochs", "learning_rate", "weight_decay", "clip")  # where they are not None


@dataclass(frozen=True)
class FineTuning:
    """Options of every fine-tuning: the start, the selection of the checkpoint, the output."""

    command: str
    options: opt.SharedOptions
    start: Any
    dev: Any
    places: Any
    group: Any
    bar: Any

    @classmethod
    def begin(cls, command: str, options: opt.SharedOptions, bar: Any) -> FineTuning:
        """Find the encoder by name or folder and the dev task, `none` for no task."""
        from harness.assets.places import Places
        from harness.registry import known, load_registry
        from harness.training.distributed import current_group
        from harness.training.finetune import DevSet, StartCheckpoint

        registered, start = load_registry(), options.start
        places = Places.from_environment(os.environ, cache=options.cache, data_dir=options.data_dir)
        if Path(start).is_dir():
            checkpoint = StartCheckpoint(Path(start).resolve().name, Path(start))
        else:
            config = known("encoder", start, registered.encoders)
            checkpoint = StartCheckpoint(start, places.encoder(config))
        group, dev_set = current_group(os.environ), None
        if options.dev != "none":
            task = known("task", options.dev, registered.tasks)
            pairs = task.pairs(places.require_data(task.asset))
            dev_set = DevSet(options.dev, pairs, options.dev_every)
        return cls(command, options, checkpoint, dev_set, places, group, bar)

    @property
    def config(self) -> Mapping[str, Any]:
        """The starting checkpoint's config.json."""
        from harness.encoders.checkpoint import read_json

        return read_json(self.start.folder / "config.json")

    def settings(
        self, defaults: Any, pooling: str, head: str, dropout: float | None, **changes: Any
    ) -> Any:
        """The defaults with a setup, the changes, and the shared options that were given.

        Of several GPUs, each process takes its own. Raises UsageError.
        """
        from harness.registry import known
        from harness.training.encoder import Setup
        from harness.transforms.pooling import POOLINGS

        options = self.options
        named = known("pooling", pooling, {p.name: p for p in POOLINGS})
        one_of("--head", head, ("none", "train", "keep"))
        one_of("--dtype", options.dtype, DTYPES)
        one_of("--similarity", changes.get("similarity", "cosine"), ("cosine", "dot"))
        device = "cpu" if options.device == "cpu" else self.group.device or options.device
        setup = Setup(named, head, options.max_length, dropout, DTYPES[options.dtype], device)  # type: ignore[arg-type]
        shared = {name: getattr(options, name) for name in GIVEN}
        shared["tokens_at_once"] = options.batch_tokens
        given = {name: value for name, value in shared.items() if value is not None}
        return replace(defaults, setup=setup, **given, **changes)

    def drawn(self, columns: Any, count: int | None) -> Any:
        """So many examples at random, by the seed; all of them where no count is given."""
        from harness.training.datasets import sample

        return columns if count is None else sample(columns, count, self.options.seed)

    def open(self, settings: Any) -> Any:
        """The encoder to train."""
        seed, rank = self.options.seed, self.group.rank
        return self.start.open(settings.setup, self.places.cache, seed, rank)

    def contrastive(self, settings: Any, columns: Any, data: Mapping[str, str]) -> None:
        """Train SimCSE on columns of sentences, with the masked-LM head if that has a weight."""
        from harness.training.contrastive import ContrastiveTraining, open_mlm_head

        encoder, masked = self.open(settings), None
        if settings.masked_words:
            name, folder = self.start.name, self.start.folder
            masked = open_mlm_head(name, folder, self.places.cache, encoder)
        seed = self.options.seed
        self.train(ContrastiveTraining(settings, encoder, columns, seed, masked, self.group), data)

    def train(self, task: Any, data: Mapping[str, str]) -> None:
        """Train, write the checkpoint, and print its steps and best score."""
        from harness.training.finetune import finetune

        curve = finetune(
            task,
            self.start,
            self.options.out,
            self.bar,
            seed=self.options.seed,
            data=data,
            command=self.command,
            dev=self.dev,
            half=self.options.half,
        )
        if self.group.rank:
            return
        line = f"{self.options.out}: {len(curve.losses):,} steps"
        if curve.best is not None:
            step, score = curve.best
            line += f", best on {self.dev.name}: {score:.2f} at step {step}"
        say_folded(line)


def one_of(option: str, value: str, choices: Iterable[str]) -> None:
    """Raise UsageError for a value that is no choice of the option."""
    if value not in choices:
        raise UsageError(f"{option} {value}: wanted one of {', '.join(choices)}")


def with_shared_options(
    function: Callable[..., None], by: type[FineTuning], **defaults: Any
) -> Callable[..., None]:
    """The command of a fine-tuning: its own options amid the shared ones, with these defaults."""
    shared = inspect.signature(opt.SharedOptions, eval_str=True).parameters
    first, second, *others = (
        option.replace(default=defaults.get(name, option.default))
        for name, option in shared.items()
    )
    _, *own = inspect.signature(function, eval_str=True).parameters.values()

    def command(**given: Any) -> None:
        line = opt.command_line(command, given)
        opt.check_at_once(given, _sets(function, given))
        options = opt.SharedOptions(**{name: given.pop(name) for name in shared})
        kept = partial(opt.what_is_kept, options.out)
        with keeping(kept), opt.training_bar(options.threads) as bar:
            function(by.begin(line, options, bar), **given)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    own = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own]
    command.__signature__ = inspect.Signature([first, second, *own, *others])  # type: ignore[attr-defined]
    return command


def _sets(function: Callable[..., None], given: Mapping[str, Any]) -> Sequence[str]:
    """The data sets that the `--file` of a recipe may name."""
    from harness.training.datasets import NLI_PAIRS, NLI_TRIPLETS

    labelled = function is sbert_nli or given.get("pairs", "none") != "none"
    return NLI_PAIRS if labelled else NLI_TRIPLETS


def recipes(by: type[FineTuning]) -> tuple[Recipe, Recipe, Recipe, Recipe]:
    """The commands, whose trainings are run by this class."""
    return (
        with_shared_options(simcse_unsup, by),
        with_shared_options(simcse_sup, by),
        with_shared_options(sbert_nli, by, max_length=128, dev="none"),
        with_shared_options(sbert_sts, by, max_length=128, dev="sts-b.dev", dev_every=STEPS),
    )


COMMANDS = recipes(FineTuning)
