"""Fine-tuning: the loop with AdamW, checkpoint selection and resumption, and the checkpoint.

A `TrainingTask` is a model and a loss that depends on the step number, the data and
torch's generator alone. The state to resume from is therefore weights, optimiser,
generator, and the losses and scores so far: the number of losses is the step number.
`finetune` keeps it in the folder `unfinished` until the checkpoint is written: a later
training with the same recipe and data goes on from there.
"""

from __future__ import annotations

import io
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from transformers.utils import logging as transformers_logging

from harness.core.arrays import Float
from harness.core.environment import environment
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.files import write_atomically, write_json
from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.core.pairs import Pairs
from harness.core.types import Progress
from harness.encoders.checkpoint import TRAINING_FILE, tokenizer_files
from harness.encoders.modules import edit_json, pooling_modules, write_modules
from harness.training.encoder import SentenceEncoder
from harness.training.objectives import EncoderTraining, Schedule
from harness.training.recipes import command_line, stated_settings

SAVE_SECONDS = 60.0  # between two saved states
STATED_LOSSES = 200  # points of the curve in training.json, at most
SHOWN_STEPS = 50  # steps whose mean loss the progress bar shows


@runtime_checkable
class TrainingTask(Protocol):
    """A model, and the loss of the batch of each step, in nats."""

    @property
    def model(self) -> nn.Module: ...

    def loss(self, step: int) -> Float[Tensor, ""]: ...


@dataclass
class Curve:
    """The course of a training.

    Attributes:
        losses: The loss of every step.
        scores: Pairs of a step and the development score after it.
        before: The development score of the starting weights.
        seconds: The time that the training took.
    """

    losses: list[float]
    scores: list[tuple[int, float]]
    before: float | None = None
    seconds: float = 0.0

    @property
    def best(self) -> tuple[int, float] | None:
        """The step with the highest score and that score; the first step of several."""
        return max(self.scores, key=lambda point: point[1], default=None)

    @property
    def thinned(self) -> list[tuple[int, float]]:
        """Mean losses over windows of equal length, each with its last step."""
        size = max(1, math.ceil(len(self.losses) / STATED_LOSSES))
        means = []
        for start in range(0, len(self.losses), size):
            window = self.losses[start : start + size]
            means.append((start + len(window), sum(window) / len(window)))
        return means


def train(
    task: TrainingTask,
    schedule: Schedule,
    seed: int,
    progress: Progress,
    *,
    score: Callable[[], float | None] | None = None,
    score_every: int = 125,
    state_file: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Curve:
    """Train the model in place; it ends with the weights that scored best, or the last ones.

    Args:
        task: The model and its loss.
        schedule: The learning rate of each step.
        seed: Seeds torch's generators, which dropout draws from.
        progress: Counts the steps.
        score: Scores the current weights on development data.
        score_every: The number of steps between two scores.
        state_file: The file of the unfinished state, to resume from; with None none is
            saved.
        settings: A saved state is resumed only under the same settings.
    """
    settings = settings or {}
    with seeded(seed):
        training = TrainingRun(task, schedule)
        curve = training.curve
        saved_at = time.perf_counter()
        if state_file is not None and state_file.exists():
            training.resume(state_file, settings)
        else:
            curve.before = training.score(score)
        started_at = saved_at - curve.seconds
        progress.phase("training", schedule.steps)
        progress.step(len(curve.losses))
        for step in range(len(curve.losses), schedule.steps):
            training.step(step)
            done = step + 1
            if done % score_every == 0 or done == schedule.steps:
                training.keep_best(training.score(score))
            progress.step(1)
            recent_losses = curve.losses[-SHOWN_STEPS:]
            note = f"loss {sum(recent_losses) / len(recent_losses):.4f}"
            if curve.scores:
                note += f", dev {curve.scores[-1][1]:.2f}"
            progress.note(note)
            now = time.perf_counter()
            curve.seconds = now - started_at
            if state_file is not None and now - saved_at >= SAVE_SECONDS:
                training.save(state_file, settings)
                saved_at = time.perf_counter()
        if training.best_weights:
            training.model.load_state_dict(training.best_weights)
        training.model.eval()
        return curve


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, which dropout draws from, and restore them on leaving."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.random.manual_seed(seed)
        yield


class TrainingRun:
    """The state of a training between two steps.

    Attributes:
        model: The model that is trained.
        curve: Losses and scores so far.
        best_weights: The weights that scored best; empty without a score.
    """

    def __init__(self, task: TrainingTask, schedule: Schedule) -> None:
        self.task, self.schedule = task, schedule
        self.model = task.model.train()
        self.curve = Curve([], [])
        self.best_weights: dict[str, Tensor] = {}
        trained = [p for p in self.model.parameters() if p.requires_grad]
        matrices: Any = {"params": [p for p in trained if p.ndim > 1]}
        vectors: Any = {"params": [p for p in trained if p.ndim < 2]}
        vectors["weight_decay"] = 0.0  # biases and norms do not decay
        self.optimiser = torch.optim.AdamW(
            [matrices, vectors],
            lr=schedule.learning_rate,
            eps=schedule.epsilon,
            weight_decay=schedule.weight_decay,
            fused=True,
        )

    def step(self, step: int) -> None:
        """One step of the optimiser."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule.rate(step)
        loss = self.task.loss(step)
        if not torch.isfinite(loss):
            raise ScoreError(
                f"the training diverged: its loss is {loss.item()} at step {step} of "
                f"{self.schedule.steps}; take a lower learning rate"
            )
        torch.autograd.backward(loss)
        if self.schedule.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=False)
        self.curve.losses.append(loss.item())

    def score(self, score: Callable[[], float | None] | None) -> float | None:
        """The development score of the current weights, if there is one; it draws no dropout."""
        if score is None:
            return None
        self.model.eval()
        with torch.random.fork_rng(devices=()):
            points = score()
        self.model.train()
        return points

    def keep_best(self, score: float | None) -> None:
        """Keep a score, and the weights if none was higher."""
        if score is None:
            return
        step = len(self.curve.losses)
        self.curve.scores.append((step, score))
        if self.curve.best == (step, score):  # the first of the highest
            self.best_weights = deepcopy(self.model.state_dict())

    def save(self, file: Path, settings: Mapping[str, Any]) -> None:
        """Write all that the next step depends on."""
        state = {
            "settings": settings,
            "curve": vars(self.curve),
            "model": self.model.state_dict(),
            "best_weights": self.best_weights,
            "optimiser": self.optimiser.state_dict(),
            "generator": torch.get_rng_state(),
        }
        content = io.BytesIO()
        torch.save(state, content)
        write_atomically(file, content.getvalue())

    def resume(self, file: Path, settings: Mapping[str, Any]) -> None:
        """Load a saved state. Raises DataError if it belongs to other settings."""
        state = torch.load(file, weights_only=True)
        differing = [
            name for name in settings if state["settings"].get(name) != settings[name]
        ]
        if differing:
            raise DataError(
                f"{file}: found an unfinished training with other settings "
                f"({', '.join(differing)}); finish it, take another folder, or remove that file"
            )
        torch.set_rng_state(state["generator"])
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best_weights = state["best_weights"]
        vars(self.curve).update(state["curve"])


# A checkpoint

STATE_FILE = Path("unfinished", "unfinished.pt")  # of the folder that is written


def dev_score(encoder: SentenceEncoder, pairs: Pairs) -> float | None:
    """Spearman of the pairs' cosines under the encoder's current weights, in points."""
    vectors = encoder.embed(pairs.sentences)
    similarities, _ = cosine(vectors[: len(pairs)], vectors[len(pairs) :])
    return spearman(similarities, pairs.gold)


def finetune(
    task: EncoderTraining,
    out: Path,
    progress: Progress,
    *,
    data: Mapping[str, str],
    dev: Pairs | None = None,
) -> Curve:
    """Train, and write the checkpoint that scored best on `dev`, or the last one.

    Args:
        task: The model and its batches.
        out: The folder to write, which must not hold a checkpoint.
        progress: Counts the steps.
        data: The digest of each training set, by its name.
        dev: The pairs of the recipe's development task, if any.
    """
    if (out / TRAINING_FILE).exists() or (out / "config.json").exists():
        raise UsageError(
            f"--out {out}: wanted a folder without a checkpoint, found one; take another folder"
        )
    encoder, recipe = task.encoder, task.recipe
    digest_of_start = {encoder.tokenizer.name: encoder.start_sha256}
    settings = {**stated_settings(recipe), **digest_of_start, **data}
    del settings["threads"]  # which is a fact of the environment
    settings["schedule"] = asdict(task.schedule)
    curve = train(
        task,
        task.schedule,
        recipe.seed,
        progress,
        score=None if dev is None else lambda: dev_score(encoder, dev),
        score_every=recipe.dev_every,
        state_file=out / STATE_FILE,
        settings=settings,
    )
    last_step = len(curve.losses)
    training = {
        "command": command_line(recipe),
        "settings": settings,
        "seed": recipe.seed,
        "data": dict(data),
        "start": digest_of_start,
        "steps": last_step,
        "curve": curve.thinned,
        "before": curve.before,
        "scores": curve.scores,
        "kept": (curve.best or (last_step, None))[0],
        "seconds": round(curve.seconds, 1),
        "environment": environment() | {"threads": torch.get_num_threads()},
    }
    write_checkpoint(out, encoder, training)
    shutil.rmtree((out / STATE_FILE).parent, ignore_errors=True)
    return curve


def write_checkpoint(
    folder: Path, encoder: SentenceEncoder, training: Mapping[str, Any]
) -> None:
    """Write an encoder as a sentence-transformers folder, all files or none.

    Args:
        folder: The folder.
        encoder: The encoder. A head that was kept follows the pooling.
        training: The content of `training.json`.
    """
    dtype = torch.float16 if encoder.recipe.half else torch.float32
    model: Any = encoder.transformer
    model = model.to("cpu", dtype)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}-"
    ) as scratch:
        new = Path(scratch)
        # Its bar of one file would be in the middle of ours.
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model.save_pretrained(new)
        # safetensors writes files that only their owner may read.
        shutil.copymode(new / "config.json", new / "model.safetensors")
        # In use, whatever is on disk.
        edit_json(new / "config.json", dtype="float32")
        for file in tokenizer_files(encoder.folder):
            shutil.copy(file, new / file.name)
        modules = pooling_modules(
            encoder.pooling,
            depth=model.config.num_hidden_layers,
            width=model.config.hidden_size,
            summary=encoder.summary,
            pooler=model.pooler.dense if encoder.head_use == "keep" else None,
        )
        write_modules(new, encoder.reader.max_length, modules)
        write_json(new / TRAINING_FILE, training)
        # The description comes last: a folder without it is no checkpoint yet.
        files = sorted(new.iterdir(), key=lambda path: path.name == TRAINING_FILE)
        for file in files:
            file.replace(folder / file.name)
