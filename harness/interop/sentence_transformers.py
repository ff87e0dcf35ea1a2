"""sentence-transformers, the library of SBERT's authors: its evaluator and its trainer run here.

Its scores and losses are references: the same weights, texts and batches through code that is not
the harness's. Only this module imports the library, which takes seconds; its trainer seeds the
global generators of Python, NumPy and torch (nothing here draws from them).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import EmbeddingSimilarityEvaluator
from sentence_transformers.sentence_transformer.losses import (
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
    SoftmaxLoss,
)
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from torch import nn

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.types import Method, Pairs, Task
from harness.results.conformance import Reference, ReferenceCell
from harness.training.contrastive import ContrastiveTraining
from harness.training.loop import Curve, Schedule
from harness.training.siamese import SiameseTraining

POOLINGS = ("cls", "mean")  # whose names and meanings are the same there
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def open_model(folder: Path, pooling: str, max_length: int | None = None) -> SentenceTransformer:
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
    return SentenceTransformer(modules=[transformer, Pooling(width, pooling)], device="cpu")


def evaluated(model: SentenceTransformer, pairs: Pairs) -> dict[str, float]:
    """Spearman and Pearson of cosines by EmbeddingSimilarityEvaluator, in points."""
    evaluator = EmbeddingSimilarityEvaluator(
        list(pairs.a), list(pairs.b), list(pairs.gold), main_similarity="cosine", write_csv=False
    )
    found = evaluator(model)
    return {name: 100 * found[f"{name}_cosine"] for name in ("spearman", "pearson")}


def train(task: ContrastiveTraining | SiameseTraining, folder: Path, dev: Pairs) -> Curve:
    """The training of a task by the library's trainer and loss, from the checkpoint in a folder.

    The batches, the learning rate of each step, AdamW's settings, the classifier's first weights
    and the bound on the gradient are the task's; tokens, forward pass, loss, optimiser and scores
    are the library's. Raises UsageError for settings that it lacks.
    """
    setup = task.settings.setup
    if setup.dropout != 0 or setup.head != "none" or len(task.columns) < 2:
        raise UsageError(
            "wanted pairs or triplets, no head, and dropout 0, since dropout masks are drawn "
            f"otherwise there; found {len(task.columns)} columns, head {setup.head}, dropout "
            f"{setup.dropout}"
        )
    whole = task.encoder.reader.max_length  # development pairs are read uncut, as here
    model = open_model(folder, setup.pooling.name, whole)
    before = evaluated(model, dev)["spearman"]
    model.max_seq_length = setup.max_length
    losses = _losses(model, _loss(task, model), task)
    model.max_seq_length = whole
    after = evaluated(model, dev)["spearman"]
    return Curve(losses, ((len(losses), after),), before=before)


def _loss(task: ContrastiveTraining | SiameseTraining, model: SentenceTransformer) -> nn.Module:
    """The library's loss; a classifier starts from the task's weights."""
    settings = task.settings
    if settings.objective == "softmax" and isinstance(task, SiameseTraining):
        softmax = SoftmaxLoss(model, task.encoder.size, task.classifier.out_features)
        softmax.classifier.load_state_dict(task.classifier.state_dict())
        return softmax
    if settings.objective == "regression":
        return CosineSimilarityLoss(model)
    if settings.objective == "nt-xent":
        raise UsageError("sentence-transformers has no NT-Xent; wanted info-nce")
    return MultipleNegativesRankingLoss(model, scale=1 / settings.temperature)


class _Trainer(SentenceTransformerTrainer):
    """The library's trainer under given learning rates, which keeps the loss of every step."""

    schedule: Schedule
    losses: list[float]

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The learning rates of the harness, step by step."""
        highest, last = self.schedule.learning_rate, num_training_steps - 1
        stepped: Any = optimizer or self.optimizer
        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(
            stepped,
            lambda step: self.schedule.rate(min(step, last)) / highest,
        )
        return self.lr_scheduler

    def _clip_grad_norm(self, model: Any) -> Any:  # noqa: ARG002 - the trainer's signature
        """Bounds the gradient of the classifier too, as the library's first training loop did."""
        loss: Any = self.loss  # the model's parameters are among those of its loss
        return self.accelerator.clip_grad_norm_(loss.parameters(), self.args.max_grad_norm)

    def compute_loss(self, *arguments: Any, **named: Any) -> Any:
        """The library's loss, noted."""
        loss: Any = super().compute_loss(*arguments, **named)
        self.losses.append(loss.item())
        return loss


def _losses(model: SentenceTransformer, loss: nn.Module, task: Any) -> tuple[float, ...]:
    """Train the model in place on the task's batches; the loss of every step."""
    schedule: Schedule = task.settings.schedule(task.batches.count)
    columns = {f"sentence_{n}": list(column) for n, column in enumerate(task.columns)}
    if isinstance(loss, SoftmaxLoss):
        columns["label"] = task.labels.tolist()
    if isinstance(loss, CosineSimilarityLoss):
        columns["label"] = task.scores.tolist()
    batches: Any = [task.batches(step).tolist() for step in range(schedule.steps)]
    with tempfile.TemporaryDirectory(prefix="harness-reference-") as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder,
            num_train_epochs=1,
            learning_rate=schedule.learning_rate,
            weight_decay=schedule.weight_decay,
            adam_beta1=schedule.betas[0],
            adam_beta2=schedule.betas[1],
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
            model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=loss
        )
        trainer.schedule, trainer.losses = schedule, []
        trainer.train()
    return tuple(trainer.losses)


def _by_sentence_transformers(
    model: SentenceTransformer, task: Task, places: Places
) -> Mapping[str, float]:
    return evaluated(model, task.pairs(places.require_data(task.asset)))


def _by_mteb(model: SentenceTransformer, task: Task, places: Places) -> Mapping[str, float]:
    import mteb

    from harness.interop.mteb import local_task

    theirs = local_task(task.name, places.require_data(task.asset))
    results = mteb.evaluate(model, theirs, cache=None, co2_tracker=False, show_progress_bar=False)
    [[scores]] = results.task_results[0].scores.values()
    return {name: 100 * scores[f"cosine_{name}"] for name in ("spearman", "pearson")}


@dataclass(frozen=True)
class Program:
    """A package that scores pairs: its words in a reference, and how it is called.

    `evaluate` gives Spearman's and Pearson's correlation over all pairs of a task, in points.
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
    name: str, methods: Sequence[Method], tasks: Sequence[Task], places: Places, command: str
) -> Reference:
    """What a package gives for every method on every task.

    Raises UsageError for a method or a task that the package lacks, AssetMissing.
    """
    program, cells = PROGRAMS[name], []
    for method in methods:
        if method.post:
            raise UsageError(f"{method.id}: {name} has no post-processors; wanted a pooling alone")
        folder = places.encoder(method.encoder)
        length = method.encoder.identify(folder).max_length
        model = open_model(folder, method.pooling.name, length)
        for task in tasks:
            if task.graded is None:
                raise UsageError(f"{task.name}: wanted pairs with graded gold, found a decision")
            scores = program.evaluate(model, task, places)
            named = {f"{metric}.all": score for metric, score in scores.items()}
            cells.append(ReferenceCell(named, method.id, task.name))
    file = f"{name.replace('-', '_')}.json"
    packages = ("torch", "transformers", *dict.fromkeys((name, "sentence-transformers")))
    released = ", ".join(f"{package} {version(package)}" for package in reversed(packages))
    return Reference(file, program.program, program.what, command, tuple(cells), released)
