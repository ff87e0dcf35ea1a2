"""The training loop: AdamW, a learning-rate schedule, checkpoint selection, and resumption.

A `TrainingTask` is a model and a `backward(step)` that depends on the step number, the
data and torch's generator alone. The state to resume from is therefore weights,
optimiser moments, generator and step number, and an interrupted training ends with the
same bits as an uninterrupted one (on one device and thread count).
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
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

from harness.core.environment import environment
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.files import write_atomically
from harness.core.interfaces import Pooling
from harness.core.json_text import parse_json
from harness.core.types import Progress
from harness.encoders.checkpoint import tokenizer_files
from harness.encoders.module_writer import (
    LinearLayer,
    append_pooling,
    append_transformer,
    write_json,
)
from harness.encoders.trained import TRAINING_FILE

STATE_FILE = "unfinished.safetensors"
SAVE_SECONDS, SAVE_SHARE = (
    5.0,
    0.05,
)  # between two states, and of the time that saving may take
SHOWN_STEPS = 50  # steps whose mean loss the progress bar shows


@runtime_checkable
class TrainingTask(Protocol):
    """A model and its batches; `backward` adds a step's gradient and returns the step's loss."""

    @property
    def model(self) -> nn.Module: ...

    def backward(self, step: int) -> float: ...


@dataclass(frozen=True)
class Schedule:
    """AdamW with linear warm-up, a constant learning rate, and linear decay to 0.

    `warmup` is a number of steps (transformers' first has rate 0), `decay` a share: 1
    is linear. Weight decay (decoupled: Loshchilov & Hutter 2019, arXiv 1711.05101)
    leaves out biases and norms; `clip` bounds the norm of the whole gradient, 0 does
    not.
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
        if (
            self.steps < 1
            or not 0 <= self.decay <= 1
            or not 0 <= self.warmup <= self.steps
        ):
            raise UsageError(
                f"wanted a step or more, no longer warm-up and a share of decay from 0 to 1, found "
                f"{self.steps} steps, warm-up {self.warmup}, decay {self.decay}"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = (step + 1) / self.warmup if self.warmup else 1.0
        fall = (self.steps - step) / (self.decay * self.steps) if self.decay else 1.0
        return self.learning_rate * min(1.0, rise, fall)


@dataclass(frozen=True)
class Curve:
    """The training curve: the loss of every step, development scores by step, and the seconds.

    `before` is the score of the starting weights.
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
        windows = [
            self.losses[at : at + size] for at in range(0, len(self.losses), size)
        ]
        ends = [min((n + 1) * size, len(self.losses)) for n in range(len(windows))]
        return [
            (end, sum(losses) / len(losses))
            for end, losses in zip(ends, windows, strict=True)
        ]


@dataclass(frozen=True)
class CheckpointPolicy:
    """Where to save, and how often to score; `folder` None saves nothing.

    A state is saved SAVE_SECONDS after the last, if saving takes SAVE_SHARE of the time
    at most. With `score` the weights that score best are kept, else the last ones. A
    saved state is resumed only under equal `settings` and an equal schedule.
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
    policy = policy or CheckpointPolicy()
    with seeded(seed):
        run = _Run(task, schedule, policy)
        done = run.resume()
        progress.phase("training", schedule.steps)
        progress.step(done)
        for step in range(done, schedule.steps):
            run.step(step)
            progress.step(1)
            progress.note(run.summary())
            if step + 1 < schedule.steps and run.unsaved_for_long():
                run.save()
        return run.end()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's global generators, which dropout draws from, and restore them on leaving."""
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.random.manual_seed(seed)
        yield


class _Run:
    """The state of a training between two steps."""

    def __init__(
        self, task: TrainingTask, schedule: Schedule, policy: CheckpointPolicy
    ) -> None:
        self.task, self.schedule, self.policy = task, schedule, policy
        self.state = policy.folder / STATE_FILE if policy.folder else None
        settings = {**policy.settings, "schedule": asdict(schedule)}
        self.settings = json.loads(json.dumps(settings))  # as a saved state has them
        self.model = task.model.train()
        self.curve = Curve()
        self.best_weights: dict[str, Tensor] = {}
        self.started_at = self.saved_at = time.perf_counter()
        self.saving = 0.0  # seconds that the last state took to save
        # Matrices decay; biases and norms, all of them vectors, do not.
        trained = [p for p in self.model.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained if p.ndim > 1]},
            {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(
            groups,
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
        loss = self.task.backward(step)
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
        if (step + 1) % self.policy.score_every == 0 or step + 1 == self.schedule.steps:
            score = self.score()
            if score is not None:
                if self.curve.best is None or score > self.curve.best[1]:
                    weights = self.model.state_dict()
                    self.best_weights = {
                        name: tensor.clone() for name, tensor in weights.items()
                    }
                scores = (*scores, (step + 1, score))
        self.curve = replace(
            self.curve, losses=(*self.curve.losses, loss), scores=scores
        )

    def score(self) -> float | None:
        """The development score of the current weights, if there is one; it draws no dropout."""
        if self.policy.score is None:
            return None
        self.model.eval()
        with torch.random.fork_rng(devices=()):
            score = self.policy.score()
        self.model.train()
        return score

    def summary(self) -> str:
        """The mean of the last losses, and the last score."""
        recent = self.curve.losses[-SHOWN_STEPS:]
        text = f"loss {sum(recent) / len(recent):.4f}"
        return text + (
            f", dev {self.curve.scores[-1][1]:.2f}" if self.curve.scores else ""
        )

    def end(self) -> Curve:
        """Load the kept weights into the model and remove the saved state."""
        if self.best_weights:
            self.model.load_state_dict(self.best_weights)
        self.model.eval()
        if self.state:
            self.state.unlink(missing_ok=True)
        return self.timed_curve()

    def timed_curve(self) -> Curve:
        """The curve with the seconds up to now."""
        seconds = self.curve.seconds + time.perf_counter() - self.started_at
        return replace(self.curve, seconds=seconds)

    def unsaved_for_long(self) -> bool:
        """Whether the last state is old enough for another."""
        wait = max(SAVE_SECONDS, self.saving / SAVE_SHARE)
        return time.perf_counter() - self.saved_at > wait

    def save(self) -> None:
        """Write everything that the next step depends on into one file, atomically."""
        if self.state is None:
            return
        start = time.perf_counter()
        tensors = {
            f"model.{name}": value for name, value in self.model.state_dict().items()
        }
        tensors |= {f"kept.{name}": value for name, value in self.best_weights.items()}
        for name, parameter in self.model.named_parameters():
            moments = self.optimiser.state.get(parameter, {})
            tensors |= {
                f"adam.{name}.{moment}": value for moment, value in moments.items()
            }
        tensors["generator"] = torch.get_rng_state()
        metadata = {
            "settings": json.dumps(self.settings),
            "curve": json.dumps(asdict(self.timed_curve())),
        }
        copies = {name: value.clone().contiguous() for name, value in tensors.items()}
        write_atomically(self.state, safetensors.torch.save(copies, metadata))
        self.saved_at = time.perf_counter()
        self.saving = self.saved_at - start

    def resume(self) -> int:
        """Load the saved state, or score the starting weights; returns the number of steps done."""
        if self.state is None or not self.state.exists():
            self.curve = replace(self.curve, before=self.score())
            return 0
        with safe_open(self.state, framework="pt") as file:
            metadata = {
                name: parse_json(text, finite=False)
                for name, text in file.metadata().items()
            }
        saved_settings = metadata["settings"]
        differing = [
            name
            for name, value in self.settings.items()
            if saved_settings.get(name) != value
        ]
        if differing:
            raise DataError(
                f"{self.state}: found an unfinished training with other settings "
                f"({', '.join(differing)}); finish it, take another folder, or remove that file"
            )
        tensors = safetensors.torch.load_file(self.state)
        torch.set_rng_state(tensors.pop("generator"))
        self.model.load_state_dict(_under("model.", tensors))
        self.best_weights = _under("kept.", tensors)
        for name, parameter in self.model.named_parameters():
            if moments := _under(f"adam.{name}.", tensors):
                on_device = {
                    name: value.to(parameter.device) for name, value in moments.items()
                }
                self.optimiser.state[parameter] = on_device
        curve = metadata["curve"]
        scores = tuple((int(step), float(value)) for step, value in curve["scores"])
        self.curve = Curve(
            tuple(curve["losses"]), scores, curve["seconds"], curve["before"]
        )
        return len(self.curve.losses)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    named = {name: value for name, value in tensors.items() if name.startswith(prefix)}
    return {name.removeprefix(prefix): value for name, value in named.items()}


@dataclass(frozen=True)
class TrainingInfo:
    """The provenance of a checkpoint; `data` and `start` are digests by name."""

    command: str
    settings: Mapping[str, Any]
    seed: int
    data: Mapping[str, str]
    curve: Curve
    start: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            **{name: value for name, value in asdict(self).items() if name != "curve"},
            "steps": len(self.curve.losses),
            "curve": self.curve.thinned(),
            "before": self.curve.before,
            "scores": self.curve.scores,
            "kept": (self.curve.best or (len(self.curve.losses), None))[0],
            "seconds": round(self.curve.seconds, 1),
            "environment": environment() | {"threads": torch.get_num_threads()},
        }


def require_new(folder: Path) -> None:
    """Raise UsageError for a folder that already holds a checkpoint."""
    if (folder / TRAINING_FILE).exists() or (folder / "config.json").exists():
        raise UsageError(
            f"--out {folder}: wanted a folder without a checkpoint, found one; take another "
            "folder"
        )


def write_checkpoint(
    folder: Path,
    model: Any,
    tokenizer: Path,
    pooling: Pooling,
    max_length: int,
    info: TrainingInfo,
    half: bool = False,
    summary: int | None = 0,
) -> None:
    """Write model, its pooling and a folder's tokenizer, all files or none.

    `half` writes the weights in 16 bits, and `summary` is the place of the summary
    token. A pooler of the model goes after the pooling, since it is a head that was
    kept.
    """
    require_new(folder)
    dtype, config = torch.float16 if half else torch.float32, model.config
    dense = getattr(getattr(model, "pooler", None), "dense", None)
    pooler = None
    if dense is not None:
        weight, bias = (
            tensor.detach().cpu().to(dtype).float()
            for tensor in (dense.weight, dense.bias)
        )
        pooler = LinearLayer(weight, bias)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}-"
    ) as place:
        new = Path(place)
        _write_model(new, model, dtype)
        for file in tokenizer_files(tokenizer):
            shutil.copy(file, new / file.name)
        append_transformer(new, max_length)
        append_pooling(
            new,
            pooling,
            depth=config.num_hidden_layers,
            width=config.hidden_size,
            summary=summary,
            pooler=pooler,
        )
        write_json(new / TRAINING_FILE, info.as_json())
        # The description comes last: a folder without it is no checkpoint yet.
        for file in sorted(new.iterdir(), key=lambda path: path.name == TRAINING_FILE):
            file.replace(folder / file.name)


def _write_model(folder: Path, model: Any, dtype: torch.dtype) -> None:
    """Write the configuration, and the weights with tied tensors once; loading ties them again."""
    model.config.architectures = [type(model).__name__]
    model.config.dtype = torch.float32  # in use, whatever is on disk
    write_json(folder / "config.json", model.config.to_dict())
    first_names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first_names.setdefault(id(tensor), name)
    state = model.state_dict()
    weights = {
        name: state[name]
        .to(dtype if state[name].is_floating_point() else None)
        .contiguous()
        for name in first_names.values()
    }
    data = safetensors.torch.save(weights, {"format": "pt"})
    write_atomically(folder / "model.safetensors", data)
