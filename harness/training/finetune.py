"""Fine-tune a checkpoint: the frame around SimCSE's and SBERT's training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from harness.core.digests import digest_of_files
from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.core.types import Pairs, Progress
from harness.encoders.checkpoint import weights_files
from harness.encoders.trained import recipe_of
from harness.training import loop
from harness.training.contrastive import ContrastiveTraining
from harness.training.encoder import SentenceEncoder, Setup, open_encoder
from harness.training.siamese import SiameseTraining


@dataclass(frozen=True)
class StartCheckpoint:
    """The checkpoint that fine-tuning starts from: its name and its folder."""

    name: str
    folder: Path

    def digests(self) -> dict[str, str]:
        """The digest of its weights, by its name."""
        return {self.name: digest_of_files(weights_files(self.folder))}

    def open(self, setup: Setup, cache: Path, seed: int) -> SentenceEncoder:
        return open_encoder(self.name, self.folder, cache, setup, seed)


@dataclass(frozen=True)
class DevSet:
    """Pairs that select the checkpoint: the best Spearman among those of every so many steps."""

    name: str
    pairs: Pairs
    steps_between_scores: int = 125  # SimCSE's

    def score(self, encoder: SentenceEncoder) -> float | None:
        """Spearman of the cosines under the encoder's current weights, in points."""
        vectors = encoder.embed(self.pairs.sentences)
        similarities, _ = cosine(vectors[: len(self.pairs)], vectors[len(self.pairs) :])
        return spearman(similarities, self.pairs.gold)


def finetune(
    task: ContrastiveTraining | SiameseTraining,
    start: StartCheckpoint,
    out: Path,
    progress: Progress,
    *,
    seed: int,
    data: Mapping[str, str],
    command: str,
    dev: DevSet | None = None,
    half: bool = False,
) -> loop.Curve:
    """Train, and write the checkpoint that scored best on `dev`, or the last one."""
    loop.require_new(out)
    unfinished, encoder = out / "unfinished", task.encoder
    schedule = task.settings.schedule(task.batches.count)
    identity = json.loads(json.dumps(asdict(task.settings), default=repr))
    weights = {
        start.name: encoder.start_sha256
    }  # of what was read, whatever is there by now
    identity |= {"recipe": recipe_of(command), "seed": seed, **weights, **data}
    identity |= {"dev": dev.name if dev else "none"}
    scorer = partial(dev.score, encoder) if dev else None
    steps_between_scores = dev.steps_between_scores if dev else 1
    policy = loop.CheckpointPolicy(unfinished, scorer, steps_between_scores, identity)
    curve = loop.train(task, schedule, seed, progress, policy)
    described = identity | {"schedule": asdict(schedule)}
    info = loop.TrainingInfo(command, described, seed, data, curve, weights)
    pooling, length = encoder.setup.pooling, encoder.reader.max_length
    loop.write_checkpoint(
        out,
        encoder.transformer,
        start.folder,
        pooling,
        length,
        info,
        half,
        encoder.summary,
    )
    shutil.rmtree(unfinished, ignore_errors=True)
    return curve
