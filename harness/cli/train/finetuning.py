"""`harness train simcse-unsup`, `simcse-sup` and `sbert-nli`: from a checkpoint to a better one."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.options import CacheDir, DataDir
from harness.cli.train.training import (
    First,
    Out,
    Seed,
    TextOption,
    Threads,
    open_corpus,
    told,
    train,
    training_bar,
)
from harness.cli.train.tuning import changed, one_of, open_work, setup_of

From = Annotated[
    str, typer.Option("--from", help="The encoder to start from: a name, or a checkpoint folder.")
]
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
Epochs = Annotated[int | None, typer.Option(min=1, help="[default: the paper's]")]
Batch = Annotated[int | None, typer.Option(min=2, help="[default: the paper's]")]
Rate = Annotated[float | None, typer.Option(min=0.0, help="[default: the paper's]")]
Dev = Annotated[
    str,
    typer.Option(help="The task whose best checkpoint is kept, every 125 steps; none: the last."),
]
PoolingOption = Annotated[str, typer.Option(help="What is trained: cls, mean or first-last.")]
Precision = Annotated[str, typer.Option(help="float32 or bf16; on a GPU fp16 too.")]
Dropout = Annotated[float | None, typer.Option(min=0.0, max=1.0, help="[default: its own]")]
MaskedWeight = Annotated[
    float, typer.Option("--masked-words", min=0.0, help="Weight of masked language modelling.")
]
Half = Annotated[bool, typer.Option(help="Store the weights in 16 bits.")]
Device = Annotated[str, typer.Option(help="cpu or cuda.")]


@train.command("simcse-unsup")
def simcse_unsup(
    out: Out,
    start: From,
    corpus: TextOption = "wiki",
    first: First = None,
    pooling: PoolingOption = "cls",
    head: Annotated[str, typer.Option(help="none, train (dropped afterwards) or keep.")] = "train",
    temperature: Annotated[float, typer.Option()] = 0.05,
    similarity: Annotated[str, typer.Option(help="cosine or dot.")] = "cosine",
    dropout: Dropout = None,
    same_mask: Annotated[bool, typer.Option(help="One dropout mask for both views.")] = False,
    objective: Annotated[str, typer.Option(help="info-nce or nt-xent.")] = "info-nce",
    masked_words: MaskedWeight = 0.0,
    batch: Batch = None,
    epochs: Epochs = None,
    learning_rate: Rate = None,
    max_length: Annotated[int, typer.Option(min=3)] = 32,
    dev: Dev = "sts-b.senteval.dev",
    precision: Precision = "float32",
    device: Device = "cpu",
    half: Half = False,
    seed: Seed = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Unsupervised SimCSE: a sentence and itself under another dropout mask agree."""
    command = told(simcse_unsup, locals())
    from harness.training.contrastive import Contrastive, ContrastiveTraining

    with training_bar(threads) as bar:
        work = open_work(start, data_dir, cache, dev)
        text = open_corpus(corpus, first, data_dir, cache)
        setup = setup_of(pooling, head, max_length, dropout, precision, work.device(device))
        one_of("--objective", objective, ("info-nce", "nt-xent"))
        one_of("--similarity", similarity, ("cosine", "dot"))
        settings = changed(
            Contrastive.unsupervised(work.config),
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
        sentences = tuple(text)
        encoder = work.open(setup, seed)
        masked = work.masked(settings, encoder)
        task = ContrastiveTraining(settings, encoder, (sentences,), seed, masked, work.group)
        schedule = settings.schedule(len(sentences))
        data = {text.name: text.digest()}
        work.run(task, encoder, schedule, seed, out, bar, data, settings, command, half)


@train.command("simcse-sup")
def simcse_sup(
    out: Out,
    start: From,
    file: Triplets,
    pooling: PoolingOption = "cls",
    head: Annotated[str, typer.Option(help="none, train (dropped afterwards) or keep.")] = "keep",
    temperature: Annotated[float, typer.Option()] = 0.05,
    hard_weight: Annotated[float, typer.Option(help="log(alpha) of Table 7.")] = 0.0,
    hard_negatives: Annotated[bool, typer.Option(help="Read the third column.")] = True,
    masked_words: MaskedWeight = 0.0,
    dropout: Dropout = None,
    batch: Batch = None,
    epochs: Epochs = None,
    learning_rate: Rate = None,
    max_length: Annotated[int, typer.Option(min=3)] = 32,
    dev: Dev = "sts-b.senteval.dev",
    precision: Precision = "float32",
    device: Device = "cpu",
    half: Half = False,
    seed: Seed = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Supervised SimCSE on triplets: a sentence, an entailment and a contradiction."""
    command = told(simcse_sup, locals())
    from harness.training.contrastive import Contrastive, ContrastiveTraining
    from harness.training.datasets import open_triplets

    with training_bar(threads) as bar:
        work = open_work(start, data_dir, cache, dev)
        rows = open_triplets(file, work.places)
        setup = setup_of(pooling, head, max_length, dropout, precision, work.device(device))
        settings = changed(
            Contrastive.supervised(work.config),
            batch=batch,
            epochs=epochs,
            learning_rate=learning_rate,
            setup=setup,
            temperature=temperature,
            hard_weight=hard_weight,
            hard_negatives=hard_negatives,
            masked_words=masked_words,
        )
        encoder = work.open(setup, seed)
        masked = work.masked(settings, encoder)
        task = ContrastiveTraining(settings, encoder, rows.content, seed, masked, work.group)
        schedule = settings.schedule(len(rows.content[0]))
        data = {rows.name: rows.digest}
        work.run(task, encoder, schedule, seed, out, bar, data, settings, command, half)


@train.command("sbert-nli")
def sbert_nli(
    out: Out,
    start: From,
    file: LabelledPairs,
    ranking: Annotated[bool, typer.Option(help="In-batch ranking in place of softmax.")] = False,
    pooling: PoolingOption = "mean",
    dropout: Dropout = None,
    batch: Batch = None,
    epochs: Epochs = None,
    learning_rate: Rate = None,
    max_length: Annotated[int, typer.Option(min=3)] = 128,
    dev: Dev = "none",
    precision: Precision = "float32",
    device: Device = "cpu",
    half: Half = False,
    seed: Seed = 0,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """SBERT on labelled pairs (AllNLI, or lines of label, label, premise, hypothesis)."""
    command = told(sbert_nli, locals())
    from harness.training.datasets import open_labelled_pairs
    from harness.training.siamese import Siamese, SiameseTraining

    with training_bar(threads) as bar:
        work = open_work(start, data_dir, cache, dev)
        rows = open_labelled_pairs(file, work.places)
        setup = setup_of(pooling, "none", max_length, dropout, precision, work.device(device))
        settings = changed(
            Siamese.ranking() if ranking else Siamese(),
            batch=batch,
            epochs=epochs,
            learning_rate=learning_rate,
            setup=setup,
        )
        data = rows.content.triplets() if ranking else rows.content
        encoder = work.open(setup, seed)
        task = SiameseTraining(settings, encoder, data, seed, work.group)
        count = len(data[0]) if isinstance(data, tuple) else len(data.labels)
        schedule = settings.schedule(count)
        digests = {rows.name: rows.digest}
        work.run(task, encoder, schedule, seed, out, bar, digests, settings, command, half)


__all__ = ["train"]  # with its commands
