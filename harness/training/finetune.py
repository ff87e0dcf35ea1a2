"""Fine-tuning of a checkpoint: the steps that SimCSE's and SBERT's training have in common.

An unfinished training leaves its state in the folder `unfinished`. A later training with
the same settings, recipe, seed and data goes on from there.
"""

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
from harness.core.pairs import Pairs
from harness.core.types import Progress
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
        """The encoder to train; the seed draws the weights of a new head."""
        return open_encoder(self.name, self.folder, cache, setup, seed)


@dataclass(frozen=True)
class DevSet:
    """Pairs that select the checkpoint: the weights with the highest Spearman are kept.

    Attributes:
        name: The name of the set.
        pairs: The pairs with their gold scores.
        steps_between_scores: How many steps are trained between two scores; the default
            is SimCSE's.
    """

    name: str
    pairs: Pairs
    steps_between_scores: int = 125

    def score(self, encoder: SentenceEncoder) -> float | None:
        """Spearman of the cosines under the encoder's current weights, in points."""
        vectors = encoder.embed(self.pairs.sentences)
        count = len(self.pairs)
        similarities, _ = cosine(vectors[:count], vectors[count:])
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
    """Train, and write the checkpoint that scored best on `dev`, or the last one.

    Args:
        task: The model and its batches.
        start: The checkpoint that the task's encoder was opened from.
        out: The folder to write, which must not hold a checkpoint.
        progress: Counts the steps.
        seed: The seed of the task, which also seeds dropout.
        data: The digest of each training set, by its name.
        command: The command of `harness train`, for `training.json`.
        dev: The pairs that select the checkpoint, if any.
        half: Whether weights are written in 16 bits.
    """
    loop.require_new(out)
    encoder = task.encoder
    schedule = task.settings.schedule(task.batches.count)
    # The digest of the weights that were read: the folder may hold others by now.
    start_digests = {start.name: encoder.start_sha256}
    # An unfinished training is continued if it has the same identity. It is read from
    # JSON, so settings are converted as JSON converts them.
    settings = json.loads(json.dumps(asdict(task.settings), default=repr))
    identity = {
        **settings,
        "recipe": recipe_of(command),
        "seed": seed,
        **start_digests,
        **data,
        "dev": "none" if dev is None else dev.name,
    }
    unfinished = out / "unfinished"
    policy = loop.CheckpointPolicy(
        folder=unfinished,
        score=None if dev is None else partial(dev.score, encoder),
        score_every=1 if dev is None else dev.steps_between_scores,
        settings=identity,
    )
    curve = loop.train(task, schedule, seed, progress, policy)
    info = loop.TrainingInfo(
        command=command,
        settings={**identity, "schedule": asdict(schedule)},
        seed=seed,
        data=data,
        curve=curve,
        start=start_digests,
    )
    loop.write_checkpoint(
        out,
        model=encoder.transformer,
        tokenizer=start.folder,
        pooling=encoder.setup.pooling,
        max_length=encoder.reader.max_length,
        info=info,
        half=half,
        summary=encoder.summary,
    )
    shutil.rmtree(unfinished, ignore_errors=True)
    return curve
