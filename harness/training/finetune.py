"""From a checkpoint and sentences to a trained checkpoint: what the contrastive and the siamese
training share around the loop.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.core.digests import digest_of_files, sha256_of
from harness.core.metrics import cosine, spearman
from harness.core.types import Pairs, Progress
from harness.encoders.checkpoint import weights_files
from harness.training.checkpoint import Made, Pooling, require_new, write_checkpoint
from harness.training.encoder import SentenceEncoder, Setup, open_encoder
from harness.training.loop import CheckpointPolicy, Curve, Schedule, TrainingTask, train
from harness.transforms.pooling import Cls


@dataclass(frozen=True)
class Start:
    """The checkpoint that training starts from: a name, and its folder."""

    name: str
    folder: Path

    def digests(self) -> dict[str, str]:
        """Of its weights, by the checkpoint's name."""
        return {self.name: digest_of_files(weights_files(self.folder), sha256_of)}

    def open(self, setup: Setup, cache: Path, seed: int, stream: int = 0) -> SentenceEncoder:
        """The encoder, ready to be trained; each stream has a dropout of its own."""
        return open_encoder(self.name, self.folder, cache, setup, seed, stream)


@dataclass(frozen=True)
class Dev:
    """Pairs that choose the checkpoint to keep: the best Spearman, every so many steps."""

    name: str
    pairs: Pairs
    every: int = 125  # SimCSE's


def dev_score(tower: SentenceEncoder, dev: Dev) -> Callable[[], float]:
    """Spearman in points of the cosines of the vectors as they are at the time."""

    def score() -> float:
        vectors = tower.embed(dev.pairs.sentences)
        count = len(dev.pairs)
        found, _ = cosine(vectors[:count], vectors[count:])
        return spearman(found, dev.pairs.gold) or 0.0

    return score


def finetune(
    trainee: TrainingTask,
    tower: SentenceEncoder,
    schedule: Schedule,
    seed: int,
    out: Path,
    progress: Progress,
    *,
    start: Start,
    data: Mapping[str, str],
    settings: Any,
    command: str,
    dev: Dev | None = None,
    save_every: int = 250,
    half: bool = False,
    leads: bool = True,
) -> Curve:
    """Train, and write the checkpoint that scored best on `dev`, or the last one.

    `settings` is the frozen description of the training, `data` the digests of what it reads. What
    an interrupted run has done stands in `out/unfinished`. Of several processes one `leads`, and
    alone writes.
    """
    require_new(out)
    unfinished = out / "unfinished"
    about = _plain(asdict(settings)) | {"seed": seed, **start.digests(), **data}
    about |= {"dev": dev.name if dev else "none"}
    keeping = CheckpointPolicy(
        unfinished,
        save_every,
        dev_score(tower, dev) if dev else None,
        dev.every if dev else 1,
        about,
        leads,
    )
    curve = train(trainee, schedule, seed, progress, keeping)
    if not leads:
        return curve
    kept = about | {"schedule": asdict(schedule)}
    made = Made(command, kept, seed, data, curve, start.digests())
    pooling: Pooling = "cls" if isinstance(tower.setup.pooling, Cls) else "mean"
    length = tower.reader.max_length
    write_checkpoint(out, tower.encoder, start.folder, pooling, length, made, half)
    shutil.rmtree(unfinished, ignore_errors=True)
    return curve


def _plain(settings: Any) -> Any:
    """Nested settings as JSON has them; what is no number, text or list goes by its repr."""
    if isinstance(settings, dict):
        return {name: _plain(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [_plain(value) for value in settings]
    return settings if isinstance(settings, str | int | float | bool | None) else repr(settings)
