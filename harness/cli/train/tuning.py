"""What the commands that tune a checkpoint share: where they start, what they keep, the end."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.cli.options import say
from harness.core.errors import UsageError


@dataclass(frozen=True)
class Work:
    """Where a training starts, what chooses the checkpoint that is kept, and who else trains."""

    start: Any
    places: Any
    dev: Any
    group: Any

    def open(self, setup: Any, seed: int) -> Any:
        """The encoder, ready to be trained."""
        return self.start.open(setup, self.places.cache, seed, self.group.rank)

    def device(self, asked: str) -> str:
        """What was asked for; of several GPUs, this process's own."""
        return self.group.device or asked if asked != "cpu" else asked

    @property
    def cache(self) -> Path:
        """Where converted weights are kept."""
        return self.places.cache

    @property
    def config(self) -> Mapping[str, Any]:
        """The starting checkpoint's config.json."""
        from harness.encoders.checkpoint import read_json

        return read_json(self.start.folder / "config.json")

    def masked(self, settings: Any, encoder: Any) -> Any:
        """The starting checkpoint's head over masked words, if they are trained beside."""
        if not settings.masked_words:
            return None
        from harness.training.auxiliary_mlm import open_mlm_head

        return open_mlm_head(self.start.name, self.start.folder, self.cache, encoder)

    def run(
        self,
        task: Any,
        encoder: Any,
        schedule: Any,
        seed: int,
        out: Path,
        bar: Any,
        data: Mapping[str, str],
        settings: Any,
        command: str,
        half: bool,
    ) -> None:
        """Train, and say what came of it."""
        from harness.training.finetune import finetune

        curve = finetune(
            task,
            encoder,
            schedule,
            seed,
            out,
            bar,
            start=self.start,
            data=data,
            settings=settings,
            command=command,
            dev=self.dev,
            half=half,
            leads=self.group.rank == 0,
        )
        if self.group.rank:
            return
        line = f"{out}: {len(curve.losses):,} steps"
        if curve.best is not None:
            step, score = curve.best
            line += f", best on {self.dev.name}: {score:.2f} at step {step}"
        say(line)


def open_work(start: str, data_dir: Path | None, cache: Path | None, dev: str) -> Work:
    """The encoder by name or folder, and the pairs of a task, unless `dev` is none."""
    from harness.assets.places import Places
    from harness.registry import known, registry
    from harness.training.distributed import current_group
    from harness.training.finetune import DevSet, StartCheckpoint

    found = registry()
    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir)
    if Path(start).is_dir():
        begin = StartCheckpoint(Path(start).resolve().name, Path(start))
    else:
        begin = StartCheckpoint(start, places.encoder(known("encoder", start, found.encoders)))
    group = current_group(os.environ)
    if dev == "none":
        return Work(begin, places, None, group)
    task = known("task", dev, found.tasks)
    pairs = task.pairs(places.require_data(task.asset))
    return Work(begin, places, DevSet(dev, pairs), group)


def setup_of(
    pooling: str, head: str, max_length: int, dropout: float | None, precision: str, device: str
) -> Any:
    """How the encoder is opened for training; UsageError for a word that is not known."""
    from harness.registry import known
    from harness.training.encoder import Setup
    from harness.transforms.pooling import POOLINGS

    named = known("pooling", pooling, {p.name: p for p in POOLINGS})
    one_of("--head", head, ("none", "train", "keep"))
    one_of("--precision", precision, ("float32", "bf16", "fp16"))
    return Setup(named, head, max_length, dropout, precision, device)  # type: ignore[arg-type]


def one_of(option: str, value: str, words: Sequence[str]) -> None:
    """Raise UsageError for another word."""
    if value not in words:
        raise UsageError(f"{option} {value}: wanted one of {', '.join(words)}")


def changed(settings: Any, **change: Any) -> Any:
    """The settings with every change that is not None."""
    return replace(settings, **{name: value for name, value in change.items() if value is not None})
