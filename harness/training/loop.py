"""The training loop: AdamW, a learning-rate schedule, checkpoint selection, and resumption.

A `TrainingTask` is a model and a loss that depends on the step number, the data and
torch's generator alone. The state to resume from is therefore weights, optimiser,
generator and the curve so far, whose length is the step number.
"""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from harness.core.arrays import Float
from harness.core.errors import DataError, ScoreError
from harness.core.files import write_atomically
from harness.core.types import Progress

STATE_FILE = "unfinished.pt"
SAVE_SECONDS = 20.0  # between two saved states
SAVE_COST = 20  # and this many times as long as the last one took to save
SHOWN_STEPS = 50  # steps whose mean loss the progress bar shows


@runtime_checkable
class TrainingTask(Protocol):
    """A model, and the loss of the batch of each step, in nats."""

    @property
    def model(self) -> nn.Module: ...

    def loss(self, step: int) -> Float[Tensor, ""]: ...


@dataclass(frozen=True)
class Schedule:
    """AdamW with linear warm-up, a constant learning rate, and linear decay to 0.

    Args:
        steps: The number of steps.
        learning_rate: The highest learning rate.
        warmup: The number of steps in which the rate rises to it. The first of them has
            a rate above 0, which transformers' has not.
        decay: The share of the steps in which the rate falls to 0.
        weight_decay: The decoupled weight decay (Loshchilov & Hutter 2019, arXiv
            1711.05101) of matrices; biases and norms do not decay.
        betas: The decay of the moments.
        epsilon: The number that is added to the denominator.
        clip: The largest norm of the whole gradient; with 0 it is not clipped.
    """

    steps: int
    learning_rate: float
    warmup: int = 0
    decay: float = 1.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    clip: float = 1.0

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = (step + 1) / self.warmup if self.warmup else 1.0
        fall = (self.steps - step) / (self.decay * self.steps) if self.decay else 1.0
        return self.learning_rate * min(1.0, rise, fall)


@dataclass(frozen=True)
class Curve:
    """The course of a training.

    Attributes:
        losses: The loss of every step.
        scores: Pairs of a step and the development score after it.
        seconds: The time that the training took.
        before: The development score of the starting weights.
    """

    losses: tuple[float, ...] = ()
    scores: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0
    before: float | None = None

    @property
    def best(self) -> tuple[int, float] | None:
        """The step with the highest score and that score; the first step of several."""
        return max(self.scores, key=lambda point: point[1], default=None)

    def thinned(self, points: int = 200) -> list[tuple[int, float]]:
        """Mean losses over windows of equal length, each with its last step."""
        size = max(1, math.ceil(len(self.losses) / points))
        means = []
        for start in range(0, len(self.losses), size):
            window = self.losses[start : start + size]
            means.append((start + len(window), sum(window) / len(window)))
        return means


@dataclass(frozen=True)
class CheckpointPolicy:
    """Where a training saves its state, and how it selects the weights that it keeps.

    Args:
        folder: The folder of the unfinished state; with None none is saved.
        score: Scores the current weights. The weights that score best are kept; without
            it, the last ones.
        score_every: The number of steps between two scores.
        settings: A saved state is resumed only under the same settings and schedule.
    """

    folder: Path | None = None
    score: Callable[[], float | None] | None = None
    score_every: int = 125
    settings: Mapping[str, Any] = field(default_factory=dict)


def train(
    task: TrainingTask,
    schedule: Schedule,
    seed: int,
    progress: Progress,
    policy: CheckpointPolicy | None = None,
) -> Curve:
    """Train the model in place, resuming from a saved state; it ends with the kept weights."""
    with seeded(seed):
        run = TrainingRun(task, schedule, policy or CheckpointPolicy())
        done = run.resume()
        progress.phase("training", schedule.steps)
        progress.step(done)
        for step in range(done, schedule.steps):
            run.step(step)
            progress.step(1)
            recent_losses = run.curve.losses[-SHOWN_STEPS:]
            note = f"loss {sum(recent_losses) / len(recent_losses):.4f}"
            if run.curve.scores:
                note += f", dev {run.curve.scores[-1][1]:.2f}"
            progress.note(note)
            if step + 1 < schedule.steps:
                run.save_if_due()
        return run.end()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, which dropout draws from, and restore them on leaving."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.random.manual_seed(seed)
        yield


class TrainingRun:
    """The state of a training between two steps."""

    def __init__(
        self, task: TrainingTask, schedule: Schedule, policy: CheckpointPolicy
    ) -> None:
        self.task, self.schedule, self.policy = task, schedule, policy
        self.state_file = policy.folder / STATE_FILE if policy.folder else None
        self.model = task.model.train()
        self.curve = Curve()
        self.best_weights: dict[str, Tensor] = {}
        self.started_at = self.saved_at = time.perf_counter()
        self.wait = SAVE_SECONDS  # seconds to the next saved state
        trained = [p for p in self.model.parameters() if p.requires_grad]
        # Biases and norms, all of them vectors, do not decay.
        vectors: Any = {"params": [p for p in trained if p.ndim < 2]}
        self.optimiser = torch.optim.AdamW(
            [
                {"params": [p for p in trained if p.ndim > 1]},
                {**vectors, "weight_decay": 0.0},
            ],
            lr=schedule.learning_rate,
            betas=schedule.betas,
            eps=schedule.epsilon,
            weight_decay=schedule.weight_decay,
            fused=True,
        )

    def step(self, step: int) -> None:
        """One optimiser step, and a score where one is due."""
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
        losses = (*self.curve.losses, loss.item())
        self.curve = replace(self.curve, losses=losses)
        done = step + 1
        if done % self.policy.score_every and done != self.schedule.steps:
            return
        score = self._score()
        if score is None:
            return
        best = self.curve.best
        if best is None or score > best[1]:
            weights = self.model.state_dict()
            self.best_weights = {name: x.clone() for name, x in weights.items()}
        scores = (*self.curve.scores, (done, score))
        self.curve = replace(self.curve, scores=scores)

    def end(self) -> Curve:
        """Load the kept weights into the model and remove the saved state."""
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        self.model.eval()
        if self.state_file:
            self.state_file.unlink(missing_ok=True)
        return self._timed_curve()

    def save_if_due(self) -> None:
        """Write all that the next step depends on, unless the last state is recent."""
        started_at = time.perf_counter()
        if self.state_file is None or started_at - self.saved_at < self.wait:
            return
        state = {
            "settings": self._settings(),
            "curve": asdict(self._timed_curve()),
            "model": self.model.state_dict(),
            "best_weights": self.best_weights,
            "optimiser": self.optimiser.state_dict(),
            "generator": torch.get_rng_state(),
        }
        content = io.BytesIO()
        torch.save(state, content)
        write_atomically(self.state_file, content.getvalue())
        self.saved_at = time.perf_counter()
        saving = self.saved_at - started_at
        self.wait = max(SAVE_SECONDS, SAVE_COST * saving)

    def resume(self) -> int:
        """Load the saved state, or score the starting weights; returns the number of steps done."""
        if self.state_file is None or not self.state_file.exists():
            self.curve = replace(self.curve, before=self._score())
            return 0
        state = torch.load(self.state_file, weights_only=True)
        settings = self._settings()
        differing = [
            name for name in settings if state["settings"].get(name) != settings[name]
        ]
        if differing:
            raise DataError(
                f"{self.state_file}: found an unfinished training with other settings "
                f"({', '.join(differing)}); finish it, take another folder, or remove that file"
            )
        torch.set_rng_state(state["generator"])
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.best_weights = state["best_weights"]
        self.curve = Curve(**state["curve"])
        return len(self.curve.losses)

    def _settings(self) -> dict[str, Any]:
        """The settings that a state belongs to, as JSON has them."""
        settings = {**self.policy.settings, "schedule": asdict(self.schedule)}
        return dict(json.loads(json.dumps(settings)))

    def _score(self) -> float | None:
        """The development score of the current weights, if there is one; it draws no dropout."""
        if self.policy.score is None:
            return None
        self.model.eval()
        with torch.random.fork_rng(devices=()):
            score = self.policy.score()
        self.model.train()
        return score

    def _timed_curve(self) -> Curve:
        """The curve with the seconds up to now."""
        seconds = self.curve.seconds + time.perf_counter() - self.started_at
        return replace(self.curve, seconds=seconds)
