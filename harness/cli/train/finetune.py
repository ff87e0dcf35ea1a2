"""`harness train simcse-unsup`, `simcse-sup` and `sbert-nli`: fine-tune a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, DataDir, say
from harness.cli.train import options as opt

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


def simcse_unsup(
    out: opt.Out,
    start: opt.From,
    corpus: opt.TextOption = "wiki",
    first: opt.First = None,
    pooling: opt.PoolingOption = "cls",
    head: opt.Head = "train",
    temperature: float = 0.05,
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine",
    dropout: opt.Dropout = None,
    same_mask: Annotated[bool, typer.Option(help="One dropout mask for both views.")] = False,
    objective: Annotated[str, typer.Option(help="info-nce or nt-xent.")] = "info-nce",
    masked_words: opt.MaskedWeight = 0.0,
    batch: opt.Batch = None,
    epochs: opt.Epochs = None,
    learning_rate: opt.Rate = None,
    max_length: opt.MaxLength = 32,
    dev: opt.Dev = "sts-b.senteval.dev",
    precision: opt.Precision = "float32",
    device: opt.Device = "cpu",
    half: opt.Half = False,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Unsupervised SimCSE: a sentence and itself under another dropout mask agree."""
    command = opt.command_line(simcse_unsup, locals())
    from harness.training.contrastive import Contrastive

    with fine_tuning(command, start, dev, out, seed, half, threads, data_dir, cache) as run:
        text = opt.open_corpus(corpus, first, run.places)
        setup = run.setup(pooling, head, max_length, dropout, precision, device)
        opt.one_of("--objective", objective, ("info-nce", "nt-xent"))
        opt.one_of("--similarity", similarity, ("cosine", "dot"))
        settings = opt.changed(
            Contrastive.unsupervised(run.config),
            batch=batch,
            epochs=epochs,
            learning_rate=learning_rate,
            setup=setup,
            objective=objective,
            similarity=similarity,
            temperature=temperature,
            same_mask=same_mask,
            masked_words=masked_words,
        )
        run.contrastive(settings, (tuple(text),), {text.name: text.digest()})


def simcse_sup(
    out: opt.Out,
    start: opt.From,
    file: Triplets,
    pooling: opt.PoolingOption = "cls",
    head: opt.Head = "keep",
    temperature: float = 0.05,
    hard_weight: Annotated[float, typer.Option(help="log(alpha) of Table 7.")] = 0.0,
    hard_negatives: Annotated[bool, typer.Option(help="Read the third column.")] = True,
    masked_words: opt.MaskedWeight = 0.0,
    dropout: opt.Dropout = None,
    batch: opt.Batch = None,
    epochs: opt.Epochs = None,
    learning_rate: opt.Rate = None,
    max_length: opt.MaxLength = 32,
    dev: opt.Dev = "sts-b.senteval.dev",
    precision: opt.Precision = "float32",
    device: opt.Device = "cpu",
    half: opt.Half = False,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Supervised SimCSE on triplets: a sentence, an entailment and a contradiction."""
    command = opt.command_line(simcse_sup, locals())
    from harness.training.contrastive import Contrastive
    from harness.training.datasets import open_triplets

    with fine_tuning(command, start, dev, out, seed, half, threads, data_dir, cache) as run:
        triplets = open_triplets(file, run.places)
        settings = opt.changed(
            Contrastive.supervised(run.config),
            batch=batch,
            epochs=epochs,
            learning_rate=learning_rate,
            setup=run.setup(pooling, head, max_length, dropout, precision, device),
            temperature=temperature,
            hard_weight=hard_weight,
            hard_negatives=hard_negatives,
            masked_words=masked_words,
        )
        run.contrastive(settings, triplets.content, {triplets.name: triplets.digest})


def sbert_nli(
    out: opt.Out,
    start: opt.From,
    file: LabelledPairs,
    ranking: Annotated[bool, typer.Option(help="In-batch ranking in place of softmax.")] = False,
    pooling: opt.PoolingOption = "mean",
    dropout: opt.Dropout = None,
    batch: opt.Batch = None,
    epochs: opt.Epochs = None,
    learning_rate: opt.Rate = None,
    max_length: opt.MaxLength = 128,
    dev: opt.Dev = "none",
    precision: opt.Precision = "float32",
    device: opt.Device = "cpu",
    half: opt.Half = False,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """SBERT on labelled pairs (AllNLI, or lines of label, label, premise, hypothesis)."""
    command = opt.command_line(sbert_nli, locals())
    from harness.training.datasets import open_labelled_pairs
    from harness.training.siamese import Siamese, SiameseTraining

    with fine_tuning(command, start, dev, out, seed, half, threads, data_dir, cache) as run:
        pairs = open_labelled_pairs(file, run.places)
        settings = opt.changed(
            Siamese.ranking() if ranking else Siamese(),
            batch=batch,
            epochs=epochs,
            learning_rate=learning_rate,
            setup=run.setup(pooling, "none", max_length, dropout, precision, device),
        )
        examples = pairs.content.triplets() if ranking else pairs.content
        task = SiameseTraining(settings, run.open(settings), examples, seed, run.group)
        run.train(task, {pairs.name: pairs.digest})


COMMANDS = (simcse_unsup, simcse_sup, sbert_nli)


@dataclass(frozen=True)
class FineTuning:
    """What every fine-tuning is given: where it starts, what selects the checkpoint, its output."""

    command: str
    start: Any
    dev: Any
    places: Any
    group: Any
    bar: Any
    out: Path
    seed: int
    half: bool

    @property
    def config(self) -> Mapping[str, Any]:
        """The starting checkpoint's config.json."""
        from harness.encoders.checkpoint import read_json

        return read_json(self.start.folder / "config.json")

    def setup(
        self,
        pooling: str,
        head: str,
        max_length: int,
        dropout: float | None,
        precision: str,
        device: str,
    ) -> Any:
        """How the encoder is opened; of several GPUs, on this process's own. Raises UsageError."""
        from harness.registry import known
        from harness.training.encoder import Setup
        from harness.transforms.pooling import POOLINGS

        named = known("pooling", pooling, {p.name: p for p in POOLINGS})
        opt.one_of("--head", head, ("none", "train", "keep"))
        opt.one_of("--precision", precision, ("float32", "bf16", "fp16"))
        device = (self.group.device or device) if device != "cpu" else device
        return Setup(named, head, max_length, dropout, precision, device)  # type: ignore[arg-type]

    def open(self, settings: Any) -> Any:
        """The encoder to train."""
        return self.start.open(settings.setup, self.places.cache, self.seed, self.group.rank)

    def contrastive(self, settings: Any, columns: Any, data: Mapping[str, str]) -> None:
        """Train SimCSE on columns of sentences, with the masked-LM head if that has a weight."""
        from harness.training.auxiliary_mlm import open_mlm_head
        from harness.training.contrastive import ContrastiveTraining

        encoder, masked = self.open(settings), None
        if settings.masked_words:
            name, folder = self.start.name, self.start.folder
            masked = open_mlm_head(name, folder, self.places.cache, encoder)
        task = ContrastiveTraining(settings, encoder, columns, self.seed, masked, self.group)
        self.train(task, data)

    def train(self, task: Any, data: Mapping[str, str]) -> None:
        """Train, write the checkpoint, and print its steps and best score."""
        from harness.training.finetune import finetune

        curve = finetune(
            task,
            self.start,
            self.out,
            self.bar,
            seed=self.seed,
            data=data,
            command=self.command,
            dev=self.dev,
            half=self.half,
        )
        if self.group.rank:
            return
        line = f"{self.out}: {len(curve.losses):,} steps"
        if curve.best is not None:
            step, score = curve.best
            line += f", best on {self.dev.name}: {score:.2f} at step {step}"
        say(line)


@contextmanager
def fine_tuning(
    command: str,
    start: str,
    dev: str,
    out: Path,
    seed: int,
    half: bool,
    threads: int | None,
    data_dir: Path | None,
    cache: Path | None,
) -> Iterator[FineTuning]:
    """Find the encoder by name or folder and the dev task, `none` for no task; show a bar."""
    from harness.assets.places import Places
    from harness.registry import known, registry
    from harness.training.distributed import current_group
    from harness.training.finetune import DevSet, StartCheckpoint

    with opt.training_bar(threads) as bar:
        registered = registry()
        places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir)
        if Path(start).is_dir():
            checkpoint = StartCheckpoint(Path(start).resolve().name, Path(start))
        else:
            config = known("encoder", start, registered.encoders)
            checkpoint = StartCheckpoint(start, places.encoder(config))
        group, dev_set = current_group(os.environ), None
        if dev != "none":
            task = known("task", dev, registered.tasks)
            dev_set = DevSet(dev, task.pairs(places.require_data(task.asset)))
        yield FineTuning(command, checkpoint, dev_set, places, group, bar, out, seed, half)
