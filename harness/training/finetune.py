"""Fine-tuning of a checkpoint: the steps that SimCSE's and SBERT's training have in common.

An unfinished training leaves its state in the folder `unfinished`. A later training with
the same settings, recipe, seed and data goes on from there.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from harness.core.environment import environment
from harness.core.errors import UsageError
from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.core.pairs import Pairs
from harness.core.types import Progress
from harness.encoders.checkpoint import TRAINING_FILE, tokenizer_files
from harness.encoders.module_writer import (
    append_module,
    append_transformer,
    edit_json,
    pooling_modules,
    write_settings,
)
from harness.encoders.trained import recipe_of
from harness.training import loop
from harness.training.contrastive import ContrastiveTraining
from harness.training.encoder import SentenceEncoder
from harness.training.siamese import SiameseTraining


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
    start: Path,
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
        start: The folder that the task's encoder was opened from.
        out: The folder to write, which must not hold a checkpoint.
        progress: Counts the steps.
        seed: The seed of the task, which also seeds dropout.
        data: The digest of each training set, by its name.
        command: The command of `harness train`, for `training.json`.
        dev: The pairs that select the checkpoint, if any.
        half: Whether weights are written in 16 bits.
    """
    if (out / TRAINING_FILE).exists() or (out / "config.json").exists():
        raise UsageError(
            f"--out {out}: wanted a folder without a checkpoint, found one; take another folder"
        )
    encoder = task.encoder
    schedule = task.settings.schedule(task.batches.count)
    start_digests = {encoder.tokenizer.name: encoder.start_sha256}
    # As JSON has them, since a saved state and training.json hold them so.
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
    last_step = len(curve.losses)
    training = {
        "command": command,
        "settings": {**identity, "schedule": asdict(schedule)},
        "seed": seed,
        "data": dict(data),
        "start": start_digests,
        "steps": last_step,
        "curve": curve.thinned(),
        "before": curve.before,
        "scores": curve.scores,
        "kept": (curve.best or (last_step, None))[0],
        "seconds": round(curve.seconds, 1),
        "environment": environment() | {"threads": torch.get_num_threads()},
    }
    write_checkpoint(out, encoder, start, training, half=half)
    shutil.rmtree(unfinished, ignore_errors=True)
    return curve


def write_checkpoint(
    folder: Path,
    encoder: SentenceEncoder,
    tokenizer: Path,
    training: Mapping[str, Any],
    *,
    half: bool = False,
) -> None:
    """Write an encoder as a sentence-transformers folder, all files or none.

    Args:
        folder: The folder.
        encoder: The encoder. A head that was kept follows the pooling.
        tokenizer: The folder whose tokenizer it has.
        training: The content of `training.json`.
        half: Whether weights are written in 16 bits.
    """
    model: Any = encoder.transformer
    model = model.to("cpu", torch.float16 if half else torch.float32)
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
        for file in tokenizer_files(tokenizer):
            shutil.copy(file, new / file.name)
        append_transformer(new, encoder.reader.max_length)
        modules = pooling_modules(
            encoder.setup.pooling,
            depth=model.config.num_hidden_layers,
            width=model.config.hidden_size,
            summary=encoder.summary,
            pooler=model.pooler.dense if encoder.setup.head == "keep" else None,
        )
        for module in modules:
            append_module(new, module)
        write_settings(new / TRAINING_FILE, training)
        # The description comes last: a folder without it is no checkpoint yet.
        files = sorted(new.iterdir(), key=lambda path: path.name == TRAINING_FILE)
        for file in files:
            file.replace(folder / file.name)
