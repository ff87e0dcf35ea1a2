"""The loop that every gradient training shares: one optimiser, one schedule, one way to go on.

What is trained is a `TrainingTask`: a model and a `backward(step)` that depends on the step's
number, the data and torch's generator alone. So a state of weights, moments, generator and step
number is all that a training needs to go on, and an interrupted one ends with the very bits of
one that was not (on one device and thread count).
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import safetensors.torch
import torch
from safetensors import safe_open
from torch import Tensor, nn

from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.files import write_atomically
from harness.core.types import Progress

STATE = "unfinished.safetensors"
SHOWN = 50  # steps whose mean loss stands on the bar


@runtime_checkable
class TrainingTask(Protocol):
    """`backward` adds the gradient of one step's batch to the parameters and returns its loss."""

    @property
    def model(self) -> nn.Module: ...

    def backward(self, step: int) -> float: ...


@dataclass(frozen=True)
class Schedule:
    """AdamW whose rate rises over `warmup` steps, holds, and falls to 0 over the last `decay`.

    `decay` is a share of the steps: 1 is the linear decay of the papers. With less, the first
    steps do not depend on how many there are, so that a training can be prolonged.
    Biases and norms do not decay.
    """

    steps: int
    learning_rate: float
    warmup: int = 0
    decay: float = 1.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8
    clip: float = 1.0

    def __post_init__(self) -> None:
        if self.steps < 1 or not 0 <= self.decay <= 1 or not 0 <= self.warmup <= self.steps:
            raise UsageError(
                f"wanted a step or more, no longer warm-up and a share of decay from 0 to 1, found "
                f"{self.steps} steps, warm-up {self.warmup}, decay {self.decay}"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = (step + 1) / self.warmup if self.warmup else 1.0
        fall = (self.steps - step) / (self.decay * self.steps) if self.decay else 1.0
        return self.learning_rate * min(1.0, rise, fall)

    def agrees(self, other: Schedule, steps: int) -> bool:
        """Whether both do the same in the first so many steps."""
        same = replace(self, steps=1, warmup=0) == replace(other, steps=1, warmup=0)
        return same and all(self.rate(step) == other.rate(step) for step in range(steps))


@dataclass(frozen=True)
class Curve:
    """The loss of every step, the scores of some (`before` is the start's), and the seconds."""

    losses: tuple[float, ...] = ()
    scores: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0
    before: float | None = None

    @property
    def best(self) -> tuple[int, float] | None:
        """The step with the highest score, the first of several."""
        return max(self.scores, key=lambda found: found[1], default=None)

    def thinned(self, points: int = 200) -> list[tuple[int, float]]:
        """Means over equal stretches: the step that each ends with, and the mean loss."""
        size = max(1, math.ceil(len(self.losses) / points))
        parts = [self.losses[at : at + size] for at in range(0, len(self.losses), size)]
        ends = [min((n + 1) * size, len(self.losses)) for n in range(len(parts))]
        return [(end, sum(part) / len(part)) for end, part in zip(ends, parts, strict=True)]


@dataclass(frozen=True)
class CheckpointPolicy:
    """When to score, what to keep, and where to save: `folder` None saves nothing.

    With `score` the weights that score best are kept, else the last ones. `settings` are what a
    saved state must have been made with, besides the schedule. Without `leads` another process
    saves, and this one goes on from the same state.
    """

    folder: Path | None = None
    save_every: int = 500
    score: Callable[[], float] | None = None
    score_every: int = 125
    settings: Mapping[str, Any] = field(default_factory=dict)
    leads: bool = True


def train(
    trainee: TrainingTask,
    schedule: Schedule,
    seed: int,
    progress: Progress,
    keeping: CheckpointPolicy | None = None,
    clock: Callable[[], float] = time.perf_counter,
    what: str = "training",
) -> Curve:
    """Train the model in place; it ends with the weights that are kept.

    Raises ScoreError where a loss is not a finite number.
    """
    keeping = keeping or CheckpointPolicy()
    with seeded(seed):
        run = _Run(trainee, schedule, keeping, clock)
        done = run.resume() or run.start()
        progress.phase(what, schedule.steps)
        progress.step(done)
        for step in range(done, schedule.steps):
            run.step(step)
            progress.step(1)
            progress.note(run.told())
            if (step + 1) % keeping.save_every == 0 and step + 1 < schedule.steps:
                run.save()
        return run.end()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """torch's own generators at this seed inside, as they were after: dropout knows no other."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        if devices:
            torch.cuda.manual_seed_all(seed)
        yield


class _Run:
    """A training under way."""

    def __init__(
        self,
        trainee: TrainingTask,
        schedule: Schedule,
        keeping: CheckpointPolicy,
        clock: Callable[[], float],
    ) -> None:
        self.trainee, self.schedule, self.keeping, self.clock = trainee, schedule, keeping, clock
        self.model = trainee.model.train()
        self.curve = Curve()
        self.kept: dict[str, Tensor] = {}  # the weights that scored best
        self.started = clock()
        self.optimiser = torch.optim.AdamW(
            _groups(self.model, schedule.weight_decay),
            lr=schedule.learning_rate,
            betas=schedule.betas,
            eps=schedule.epsilon,
            fused=True,
        )

    def start(self) -> int:
        """Score the weights that there are before the first step; 0 steps are done."""
        if score := self.keeping.score:
            self.curve = replace(self.curve, before=self._scored(score))
        return 0

    def step(self, step: int) -> None:
        """One step, and a score where one is due."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.schedule.rate(step)
        loss = self.trainee.backward(step)
        if not math.isfinite(loss):
            raise ScoreError(
                f"the training diverged: its loss is {loss} at step {step} of "
                f"{self.schedule.steps}; take a lower learning rate"
            )
        if self.schedule.clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=False)
        scores = self.curve.scores
        due = (step + 1) % self.keeping.score_every == 0 or step + 1 == self.schedule.steps
        if self.keeping.score is not None and due:
            scores = (*scores, (step + 1, self._score(self.keeping.score)))
        self.curve = replace(self.curve, losses=(*self.curve.losses, loss), scores=scores)

    def _score(self, score: Callable[[], float]) -> float:
        """The score of the weights as they are; the best ones are put aside."""
        found = self._scored(score)
        if self.curve.best is None or found > self.curve.best[1]:
            self.kept = {name: value.clone() for name, value in self.model.state_dict().items()}
        return found

    def _scored(self, score: Callable[[], float]) -> float:
        self.model.eval()
        with torch.random.fork_rng(devices=()):
            found = score()
        self.model.train()
        return found

    def told(self) -> str:
        """The last losses and the last score, for people."""
        last = self.curve.losses[-SHOWN:]
        text = f"loss {sum(last) / len(last):.4f}"
        return text + (f", dev {self.curve.scores[-1][1]:.2f}" if self.curve.scores else "")

    def end(self) -> Curve:
        """Put the kept weights into the model; the saved state is of no more use."""
        if self.kept:
            self.model.load_state_dict(self.kept)
        self.model.eval()
        if self.keeping.folder is not None and self.keeping.leads:
            (self.keeping.folder / STATE).unlink(missing_ok=True)
        return replace(self.curve, seconds=self._seconds())

    def _seconds(self) -> float:
        return self.curve.seconds + self.clock() - self.started

    def save(self) -> None:
        """Everything that the next step depends on, in one file that is whole or absent."""
        if self.keeping.folder is None or not self.keeping.leads:
            return
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"kept.{name}": value for name, value in self.kept.items()}
        for name, state in self._moments():
            tensors |= {f"adam.{name}.{part}": value for part, value in state.items()}
        tensors["generator"] = torch.get_rng_state()
        if torch.cuda.is_available():
            tensors["generator.cuda"] = torch.cuda.get_rng_state()
        about = {
            "schedule": asdict(self.schedule),
            "settings": self.keeping.settings,
            "curve": asdict(replace(self.curve, seconds=self._seconds())),
        }
        metadata = {name: json.dumps(value) for name, value in about.items()}
        whole = {name: value.clone().contiguous() for name, value in tensors.items()}
        write_atomically(self.keeping.folder / STATE, safetensors.torch.save(whole, metadata))

    def resume(self) -> int:
        """Go on from the saved state, if there is one; returns the number of steps done."""
        path = self.keeping.folder / STATE if self.keeping.folder else None
        if path is None or not path.exists():
            return 0
        with safe_open(path, framework="pt") as file:
            about = {name: json.loads(text) for name, text in file.metadata().items()}
        found = about["curve"]
        done = len(found["losses"])
        self._require_same(path, about, done)
        tensors = safetensors.torch.load_file(path)
        torch.set_rng_state(tensors.pop("generator"))
        if torch.cuda.is_available() and "generator.cuda" in tensors:
            torch.cuda.set_rng_state(tensors.pop("generator.cuda"))
        self.model.load_state_dict(_under("model.", tensors))
        self.kept = _under("kept.", tensors)
        self._load_moments(_under("adam.", tensors))
        scores = tuple((int(step), float(value)) for step, value in found["scores"])
        self.curve = Curve(tuple(found["losses"]), scores, found["seconds"], found.get("before"))
        return done

    def _require_same(self, path: Path, about: Mapping[str, Any], done: int) -> None:
        schedule = about["schedule"] | {"betas": tuple(about["schedule"]["betas"])}
        here = json.loads(json.dumps(self.keeping.settings))
        if about["settings"] != here or not self.schedule.agrees(Schedule(**schedule), done):
            other = [n for n in here if about["settings"].get(n) != here[n]] or ["the schedule"]
            raise DataError(
                f"{path}: an unfinished training with other settings ({', '.join(other)}) stands "
                "there; finish it, take another folder, or remove that file"
            )

    def _moments(self) -> Iterator[tuple[str, dict[str, Tensor]]]:
        """The optimiser's state of each parameter, by the parameter's name."""
        for name, parameter in self.model.named_parameters():
            if parameter in self.optimiser.state:
                yield name, self.optimiser.state[parameter]

    def _load_moments(self, tensors: Mapping[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            state = _under(f"{name}.", tensors)
            if state:
                self.optimiser.state[parameter] = state


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    cut = len(prefix)
    return {name[cut:]: value for name, value in tensors.items() if name.startswith(prefix)}


def _groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay, biases and norms (vectors, all of them) do not."""
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
