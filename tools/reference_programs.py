"""References made by other programs: sentence-transformers and mteb, on local files.

    python tools/reference_programs.py make sentence-transformers -m minilm.mean -t sts-b
    python tools/reference_programs.py make mteb -m minilm.mean -t 'sts1?.senteval'
    python tools/reference_programs.py train results/questions/conformance/ranking-loss.toml

Each writes a file of `results/references`. `make` scores methods by the package's own
tokens, forward pass, pooling and correlation. `train` trains by sentence-transformers on
the batches of a `harness train`; its trainer seeds the global generators of Python,
NumPy and torch.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mteb
import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
)
from sentence_transformers.sentence_transformer.losses import (
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
    SoftmaxLoss,
)
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn

from harness.cli.train import open_training, recipe_from
from harness.conclusions.conformance import Reference, ReferenceCell
from harness.conclusions.searches import read_search
from harness.core.errors import HarnessError, UsageError
from harness.core.files import write_json
from harness.core.pairs import Pairs
from harness.core.types import Task
from harness.data.places import Places
from harness.interop.mteb import local_task
from harness.registry import load_registry
from harness.results.layout import REFERENCES
from harness.training.loop import Curve
from harness.training.objectives import EncoderTraining, Schedule
from harness.training.recipes import Sbert, Simcse

COMMAND = "python tools/reference_programs.py"
POOLINGS = ("cls", "mean")  # whose names and meanings are the same there
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


# Scores


def open_model(
    folder: Path, pooling: str, max_length: int | None = None
) -> SentenceTransformer:
    """A checkpoint under one of its poolings, as the library opens it, on the processor.

    Raises UsageError for a pooling that it lacks.
    """
    if pooling not in POOLINGS:
        raise UsageError(
            f"wanted a pooling of sentence-transformers ({', '.join(POOLINGS)}), found {pooling}"
        )
    transformer = Transformer(
        str(folder), max_seq_length=max_length, config_kwargs=dict(NO_DROPOUT)
    )
    width = transformer.get_embedding_dimension()
    return SentenceTransformer(
        modules=[transformer, Pooling(width, pooling)], device="cpu"
    )


def evaluated(model: SentenceTransformer, pairs: Pairs) -> dict[str, float]:
    """Spearman and Pearson of cosines by EmbeddingSimilarityEvaluator, in points."""
    evaluator = EmbeddingSimilarityEvaluator(
        list(pairs.a),
        list(pairs.b),
        list(pairs.gold),
        main_similarity="cosine",
        write_csv=False,
    )
    scores = evaluator(model)
    return {name: 100 * scores[f"{name}_cosine"] for name in ("spearman", "pearson")}


def _by_sentence_transformers(
    model: SentenceTransformer, task: Task, places: Places
) -> Mapping[str, float]:
    return evaluated(model, task.pairs(places.require_data(task.asset)))


def _by_mteb(
    model: SentenceTransformer, task: Task, places: Places
) -> Mapping[str, float]:
    theirs = local_task(task.name, places.require_data(task.asset))
    results = mteb.evaluate(
        model, theirs, cache=None, co2_tracker=False, show_progress_bar=False
    )
    [[scores]] = results.task_results[0].scores.values()
    return {name: 100 * scores[f"cosine_{name}"] for name in ("spearman", "pearson")}


@dataclass(frozen=True)
class Program:
    """A package that scores pairs: its words in a reference, and how it is called.

    `evaluate` gives Spearman's and Pearson's correlation over all pairs of a task, in
    points.
    """

    program: str
    what: str
    evaluate: Callable[[SentenceTransformer, Task, Places], Mapping[str, float]]


PROGRAMS: Mapping[str, Program] = {
    "sentence-transformers": Program(
        "sentence-transformers, EmbeddingSimilarityEvaluator on its own Transformer and Pooling",
        "Spearman and Pearson x100 of cosine over all pairs of the task's files; "
        "ties are broken by rounding noise",
        _by_sentence_transformers,
    ),
    "mteb": Program(
        "mteb, its STS tasks on a SentenceTransformer",
        "Spearman and Pearson x100 of mteb's own cosine; the tasks are mteb's, their pairs those "
        "of the task's files; ties are broken by rounding noise",
        _by_mteb,
    ),
}


def make_reference(
    name: str,
    method_patterns: Sequence[str],
    task_patterns: Sequence[str],
    places: Places,
) -> Reference:
    """The scores that a package gives for every method on every task.

    Args:
        name: A name of PROGRAMS.
        method_patterns: Ids and globs of methods.
        task_patterns: Names and globs of tasks.
        places: Where data and weights are.

    Raises:
        UsageError: The package cannot have a method or a task.
        AssetMissing: A file is not on this machine.
    """
    registry = load_registry()
    program = PROGRAMS[name]
    cells = []
    for method in registry.select_methods(method_patterns):
        if method.post:
            raise UsageError(
                f"{method.id}: {name} has no post-processors; wanted a pooling alone"
            )
        folder = places.encoder(method.encoder)
        length = method.encoder.identify(folder).max_length
        model = open_model(folder, method.pooling.name, length)
        for task in registry.select_tasks(task_patterns):
            if task.graded is None:
                raise UsageError(
                    f"{task.name}: wanted pairs with graded gold, found a decision"
                )
            scores = program.evaluate(model, task, places)
            points = {f"{metric}.all": score for metric, score in scores.items()}
            cells.append(ReferenceCell(points, method.id, task.name))
    words = ["make", name]
    for pattern in method_patterns:
        words += ["-m", pattern]
    for pattern in task_patterns:
        words += ["-t", pattern]
    return Reference(
        file=f"{name.replace('-', '_')}.json",
        program=program.program,
        what=program.what,
        command=f"{COMMAND} {shlex.join(words)}",
        cells=tuple(cells),
        version=_versions(dict.fromkeys(("sentence-transformers", name))),
    )


def _versions(programs: Iterable[str]) -> str:
    """The versions of programs and of the packages that compute for them."""
    packages = (*programs, "transformers", "torch")
    return ", ".join(f"{package} {version(package)}" for package in packages)


# Trainings


def train(task: EncoderTraining, dev: Pairs) -> Curve:
    """Run a training by the library's trainer and loss.

    Batches, the learning rate of each step, AdamW's settings, the classifier's first
    weights and the bound on the gradient are the harness's. Tokens, forward pass, loss,
    optimiser and scores are the library's.

    Args:
        task: A training of the harness that has not begun.
        dev: The pairs that are scored before and after.

    Raises:
        UsageError: The library lacks a setting of the training.
    """
    recipe, head = task.recipe, task.encoder.head_use
    if recipe.dropout != 0 or head != "none" or len(task.columns) < 2:
        raise UsageError(
            "wanted pairs or triplets, no head, and dropout 0, since dropout masks are drawn "
            f"otherwise there; found {len(task.columns)} columns, head {head}, dropout "
            f"{recipe.dropout}"
        )
    full_length = task.encoder.reader.max_length  # development pairs are not cut
    model = open_model(task.encoder.folder, recipe.pooling, full_length)
    before = evaluated(model, dev)["spearman"]
    model.max_seq_length = recipe.max_length
    losses = _losses(model, _loss(task, model), task)
    model.max_seq_length = full_length
    after = evaluated(model, dev)["spearman"]
    return Curve(losses, [(len(losses), after)], before=before)


def _loss(task: EncoderTraining, model: SentenceTransformer) -> nn.Module:
    """The library's loss; a classifier starts from the task's weights."""
    if isinstance(task.recipe, Simcse):
        return MultipleNegativesRankingLoss(model, scale=1 / task.recipe.temperature)
    if task.classifier is None:
        return CosineSimilarityLoss(model)
    softmax = SoftmaxLoss(model, task.encoder.size, task.classifier.out_features)
    softmax.classifier.load_state_dict(task.classifier.state_dict())
    return softmax


class _Trainer(SentenceTransformerTrainer):
    """The library's trainer under given learning rates, which keeps the loss of every step."""

    schedule: Schedule
    losses: list[float]

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The learning rates of the harness, step by step."""
        highest, last = self.schedule.learning_rate, num_training_steps - 1
        stepped: Any = optimizer or self.optimizer
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            stepped, lambda step: self.schedule.rate(min(step, last)) / highest
        )
        return self.lr_scheduler

    def _clip_grad_norm(self, model: Any) -> Any:  # noqa: ARG002 - the trainer's signature
        """Bounds the gradient of the classifier too, as the library's first training loop did."""
        loss: Any = self.loss  # the model's parameters are among those of its loss
        return self.accelerator.clip_grad_norm_(
            loss.parameters(), self.args.max_grad_norm
        )

    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        """The library's loss, noted."""
        loss: Any = super().compute_loss(*arguments, **named)
        self.losses.append(loss.item())
        return loss


def _losses(model: SentenceTransformer, loss: nn.Module, task: Any) -> list[float]:
    """Train the model in place on the task's batches; the loss of every step."""
    schedule: Schedule = task.schedule
    columns = {f"sentence_{n}": list(column) for n, column in enumerate(task.columns)}
    if isinstance(task.recipe, Sbert):
        columns["label"] = task.targets.tolist()
    batches: Any = [task.batches(step).tolist() for step in range(schedule.steps)]
    with tempfile.TemporaryDirectory(prefix="harness-reference-") as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder,
            num_train_epochs=1,
            learning_rate=schedule.learning_rate,
            weight_decay=schedule.weight_decay,
            adam_epsilon=schedule.epsilon,
            max_grad_norm=schedule.clip,
            batch_sampler=lambda *_, **__: batches,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = _Trainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(columns),
            loss=loss,
        )
        trainer.schedule, trainer.losses = schedule, []
        trainer.train()
    return trainer.losses


def train_reference(specs: Sequence[Path], places: Places) -> Reference:
    """The losses and scores that sentence-transformers gives for trainings, with seed 0.

    `specs` are files of searches; each of their rows is a training.
    """
    cells: list[ReferenceCell] = []
    for search in map(read_search, specs):
        for row in search.rows:
            command = search.command(row)
            training, _, dev = open_training(recipe_from(command), places)
            if dev is None:
                raise UsageError(
                    "wanted a development task to score on: --dev sts-b.senteval.dev"
                )
            curve = train(training, dev)
            scores: dict[str, Any] = {
                "before": curve.before,
                "best": curve.scores[-1][1],
                "loss": curve.losses[-1],
            }
            cells.append(ReferenceCell(scores, training=command))
    paths = " ".join(spec.as_posix() for spec in specs)
    return Reference(
        file="sentence_transformers_training.json",
        program="sentence-transformers, SentenceTransformerTrainer with its own losses",
        what="Spearman x100 of its EmbeddingSimilarityEvaluator on the development set before and "
        "after, and the loss of the last step in nats; seed 0. Batches, learning rates, first "
        "weights of the classifier are those of harness train; the norm of the gradient is "
        "bounded over the classifier too, as its first training loop did",
        command=f"{COMMAND} train {paths}",
        cells=tuple(cells),
        version=_versions(["sentence-transformers"]),
    )


# The command line


def main(arguments: list[str] | None = None) -> None:
    """Write the reference that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results") / REFERENCES)
    parser.add_argument("--data-dir", type=Path, help="the folder of data sets")
    parser.add_argument("--cache", type=Path, help="the folder of cached files")
    commands = parser.add_subparsers(required=True, dest="does")
    make = commands.add_parser("make", help="score methods on tasks by another package")
    make.add_argument("program", choices=PROGRAMS)
    make.add_argument("-m", "--method", action="append", required=True)
    make.add_argument("-t", "--task", action="append", required=True)
    train_parser = commands.add_parser("train", help="train by sentence-transformers")
    train_parser.add_argument("specs", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    places = Places.from_environment(
        os.environ, cache=options.cache, data_dir=options.data_dir
    )
    if options.does == "make":
        reference = make_reference(
            options.program, options.method, options.task, places
        )
    else:
        reference = train_reference(options.specs, places)
    path = options.out / reference.file
    write_json(path, content_of(reference))
    print(f"{path}: {len(reference.cells)} cells; harness report shows them")


def content_of(reference: Reference) -> dict[str, Any]:
    """The content of a reference's file: what is stated of it, and last its cells."""
    content: dict[str, Any] = {
        "program": reference.program,
        "what": reference.what,
        "command": reference.command,
        "version": reference.version,
        "cells": [],
    }
    for cell in reference.cells:
        subject = {"training": cell.training}
        if not cell.training:
            subject = {"method": cell.method, "task": cell.task}
        content["cells"].append({**subject, "scores": cell.scores})
    return content


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
