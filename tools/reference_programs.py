"""References made by other programs: sentence-transformers and mteb, on files that lie here.

    python tools/reference_programs.py make sentence-transformers -m minilm.mean -t
    sts-b python tools/reference_programs.py make mteb -m minilm.mean -t
    'sts1?.senteval' python tools/reference_programs.py train
    results/questions/conformance/ranking-loss.toml python tools/reference_programs.py
    results DIR OWNER/MODEL=minilm.mean

Each writes a file of `results/references`. The first two score methods by the package's
own tokens, forward pass, pooling and correlation. The third trains by
sentence-transformers on the batches of a `harness train`; its trainer seeds the global
generators of Python, NumPy and torch. The last reads result files of mteb: a clone of
its results repository, or the cache of one's own evaluations.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mteb
import torch
from datasets import Dataset
from mteb.results.task_result import TaskResult
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

from harness.assets.fetch.http import reason_of
from harness.assets.places import Places
from harness.cli.train import recipe_from
from harness.core.errors import DataError, HarnessError, UsageError
from harness.core.files import write_atomically
from harness.core.types import Method, Pairs, Task
from harness.interop.mteb import COUNTERPARTS, local_task
from harness.registry import load_registry
from harness.results.conformance import REFERENCE_TOLERANCE, Reference, ReferenceCell
from harness.results.layout import REFERENCES
from harness.results.questions import read_search
from harness.training.contrastive import ContrastiveTraining
from harness.training.loop import Curve, Schedule
from harness.training.siamese import SiameseTraining

COMMAND = "python tools/reference_programs.py"
POOLINGS = ("cls", "mean")  # whose names and meanings are the same there
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

# In points: results of mteb were computed on other hardware, with other versions.
OTHER_HARDWARE = 0.05
REASON = (
    "computed on other hardware with other versions, which sum in another order: the gate allows "
    "as much between platforms"
)


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
    methods: Sequence[Method],
    tasks: Sequence[Task],
    places: Places,
    command: str,
) -> Reference:
    """What a package gives for every method on every task.

    Raises UsageError for a method or a task that the package lacks, AssetMissing.
    """
    program, cells = PROGRAMS[name], []
    for method in methods:
        if method.post:
            raise UsageError(
                f"{method.id}: {name} has no post-processors; wanted a pooling alone"
            )
        folder = places.encoder(method.encoder)
        length = method.encoder.identify(folder).max_length
        model = open_model(folder, method.pooling.name, length)
        for task in tasks:
            if task.graded is None:
                raise UsageError(
                    f"{task.name}: wanted pairs with graded gold, found a decision"
                )
            scores = program.evaluate(model, task, places)
            named = {f"{metric}.all": score for metric, score in scores.items()}
            cells.append(ReferenceCell(named, method.id, task.name))
    file = f"{name.replace('-', '_')}.json"
    packages = (
        "torch",
        "transformers",
        *dict.fromkeys((name, "sentence-transformers")),
    )
    released = ", ".join(
        f"{package} {version(package)}" for package in reversed(packages)
    )
    return Reference(
        file, program.program, program.what, command, tuple(cells), released
    )


# Trainings


def train(
    task: ContrastiveTraining | SiameseTraining, folder: Path, dev: Pairs
) -> Curve:
    """The training of a task by the library's trainer and loss, from the checkpoint in a folder.

    The batches, the learning rate of each step, AdamW's settings, the classifier's
    first weights and the bound on the gradient are the task's; tokens, forward pass,
    loss, optimiser and scores are the library's. Raises UsageError for settings that it
    lacks.
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


def _loss(
    task: ContrastiveTraining | SiameseTraining, model: SentenceTransformer
) -> nn.Module:
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


def _losses(
    model: SentenceTransformer, loss: nn.Module, task: Any
) -> tuple[float, ...]:
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
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(columns),
            loss=loss,
        )
        trainer.schedule, trainer.losses = schedule, []
        trainer.train()
    return tuple(trainer.losses)


def train_reference(
    specs: Sequence[Path], data_dir: Path | None, cache: Path | None
) -> Reference:
    """What sentence-transformers gives for the trainings of searches, with seed 0."""
    cells: list[ReferenceCell] = []
    for search in map(read_search, specs):
        for row in search.rows:
            command = search.command(row)
            recipe = recipe_from(
                command, Path("out"), seed=0, data_dir=data_dir, cache=cache
            )
            if recipe.dev_set is None:
                raise UsageError(
                    "wanted a development task to score on: --dev sts-b.senteval.dev"
                )
            training = recipe.prepare().training
            curve = train(training, recipe.checkpoint.folder, recipe.dev_set.pairs)
            scores: dict[str, Any] = {
                "before": curve.before,
                "best": curve.scores[-1][1],
                "loss": curve.losses[-1],
            }
            cells.append(ReferenceCell(scores, training=command))
    packages = ("sentence-transformers", "transformers", "torch")
    return Reference(
        "sentence_transformers_training.json",
        "sentence-transformers, SentenceTransformerTrainer with its own losses",
        "Spearman x100 of its EmbeddingSimilarityEvaluator on the development set before and "
        "after, and the loss of the last step in nats; seed 0. Batches, learning rates, first "
        "weights of the classifier are those of harness train; the norm of the gradient is "
        "bounded over the classifier too, as its first training loop did",
        " ".join([COMMAND, "train", *(spec.as_posix() for spec in specs)]),
        tuple(cells),
        ", ".join(f"{package} {version(package)}" for package in packages),
    )


# Result files of mteb

# mteb's names of the scores that a record has.
NAMES = {"spearman.all": "cosine_spearman", "pearson.all": "cosine_pearson"}
TASK_OF = {
    theirs.metadata.name: name for name, theirs in COUNTERPARTS.items()
}  # by mteb's name


@dataclass(frozen=True)
class MtebResults:
    """Scores that another harness measured, and a line for each file that holds none of them."""

    reference: Reference
    left_out: tuple[str, ...]


def read_mteb_results(
    folder: Path, methods: Mapping[str, str], command: str
) -> MtebResults:
    """Read result files of mteb as a reference.

    `methods` maps names of mteb's models to ids of methods. Raises UsageError for a
    model without results, DataError for a file that mteb refuses, for a score that is
    no fraction, and for a task that stands in two revisions of a model.
    """
    cells: dict[tuple[str, str], ReferenceCell] = {}
    left_out: list[str] = []
    versions: set[str] = set()
    for path, method in _result_files(folder, methods):
        if "experiments" in path.relative_to(folder).parts:
            left_out.append(
                f"{path}: of one fit or seed, which a reference does not tell apart"
            )
            continue
        try:
            result = TaskResult.from_disk(path)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            reason = f"{path} is no result file of mteb ({reason_of(error)})"
            if (
                path.stem in TASK_OF
            ):  # mteb names a file by its task; other programs write here too
                raise DataError(f"{reason}; get it again") from None
            left_out.append(reason)
            continue
        cell = _cell(method, result, path)
        if isinstance(cell, str):
            left_out.append(f"{path}: {cell}")
        elif cells.setdefault(cell.what, cell) is not cell:
            raise DataError(
                f"{path}: {method} has another result on {cell.task}; name one folder"
            )
        else:
            versions.add(f"mteb {result.mteb_version}")
    if not cells:
        raise UsageError(
            "; ".join([f"{folder} holds no scores on tasks of the harness", *left_out])
        )
    reference = Reference(
        file="mteb_results.json",
        program="mteb, results of its repository or folders",
        what="Scores x100 of mteb's own evaluation on its copies of the data; ties are broken by "
        "rounding noise",
        command=command,
        cells=tuple(cells.values()),
        version=", ".join(sorted(versions)),
        tolerance=OTHER_HARDWARE,
        reason=REASON,
    )
    return MtebResults(reference, tuple(left_out))


def _result_files(
    folder: Path, methods: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    """The result files of the models, and the method of each."""
    for model, method in methods.items():
        places = folder.rglob(model.replace("/", "__"))
        paths = [path for place in places for path in place.rglob("*.json")]
        if not paths:
            raise UsageError(f"{folder} holds no results of {model}")
        yield from (
            (path, method) for path in sorted(paths) if path.name != "model_meta.json"
        )


def _cell(method: str, result: TaskResult, path: Path) -> ReferenceCell | str:
    """The scores of a file as a cell, or why it holds none."""
    if result.task_name not in TASK_OF:
        return f"no task of the harness scores the pairs of {result.task_name}"
    task = TASK_OF[result.task_name]
    meta = COUNTERPARTS[task].metadata
    if result.dataset_revision != meta.dataset["revision"]:
        wanted = meta.dataset["revision"]
        return f"wanted data of revision {wanted}, found {result.dataset_revision}"
    split = meta.eval_splits[0]
    subsets = result.scores.get(split, [])
    if not subsets:
        return f"wanted scores of the split {split}, found {', '.join(result.scores) or 'none'}"
    if len(subsets) > 1:
        names = ", ".join(str(subset.get("hf_subset")) for subset in subsets)
        return f"wanted scores of one subset of the split {split}, found {len(subsets)}: {names}"
    points: dict[str, float] = {}
    for score, current in NAMES.items():
        for name in (
            current.replace("cosine", "cos_sim"),
            current,
        ):  # before mteb 1.11, and since
            if name not in subsets[0]:
                continue
            fraction = subsets[0][name]
            if type(fraction) not in (int, float) or math.isnan(fraction):
                return f"wanted a number as {name}, found {fraction}: mteb could not compute it"
            if not -1 <= fraction <= 1:
                raise DataError(
                    f"{path}: wanted {name} as a fraction from -1 to 1, found {fraction}; divide "
                    "points by 100, or get the file again"
                )
            points[score] = 100 * fraction
    return (
        ReferenceCell(points, method, task)
        if points
        else "it holds no score of cosines"
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
    results = commands.add_parser("results", help="take scores of result files of mteb")
    results.add_argument("folder", type=Path)
    results.add_argument("models", nargs="+", metavar="MODEL=METHOD")
    options = parser.parse_args(arguments)
    if options.does == "make":
        registry = load_registry()
        chosen = [("-m", name) for name in options.method] + [
            ("-t", t) for t in options.task
        ]
        made = make_reference(
            options.program,
            registry.select_methods(options.method),
            registry.select_tasks(options.task),
            Places.from_environment(
                os.environ, cache=options.cache, data_dir=options.data_dir
            ),
            " ".join([COMMAND, "make", options.program, *map(shlex.join, chosen)]),
        )
    elif options.does == "train":
        made = train_reference(options.specs, options.data_dir, options.cache)
    else:
        methods = dict(text.split("=", 1) for text in options.models if "=" in text)
        if len(methods) < len(options.models):
            raise UsageError(
                f"wanted MODEL=METHOD once for each model, found {options.models}"
            )
        command = f"{COMMAND} {shlex.join(['results', 'DIR', *options.models])}"
        taken = read_mteb_results(options.folder, methods, command)
        for line in taken.left_out:
            print(f"left out: {line}")
        made = taken.reference
    write_atomically(options.out / made.file, encoded(made))
    print(
        f"{options.out / made.file}: {len(made.cells)} cells; harness report shows them"
    )


def encoded(reference: Reference) -> bytes:
    """The file of a reference: what has its default is left out."""
    cells = [
        {k: v for k, v in asdict(cell).items() if v and k != "scores"}
        | {"scores": cell.scores}
        for cell in reference.cells
    ]
    head = {
        k: v for k, v in asdict(reference).items() if v and k not in ("file", "cells")
    }
    if reference.tolerance == REFERENCE_TOLERANCE:
        del head["tolerance"]
    return f"{json.dumps({**head, 'cells': cells}, indent=1, ensure_ascii=False)}\n".encode()


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
