"""Fine-tuning of a checkpoint: the steps that SimCSE's and SBERT's training have in common.

An unfinished training leaves its state in the folder `unfinished`. A later training with
the same recipe and data goes on from there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from harness.core.environment import environment
from harness.core.errors import UsageError
from harness.core.files import write_json
from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.core.pairs import Pairs
from harness.core.types import Progress
from harness.encoders.checkpoint import TRAINING_FILE, tokenizer_files
from harness.encoders.module_writer import edit_json, pooling_modules, write_modules
from harness.training import loop
from harness.training.encoder import SentenceEncoder
from harness.training.objectives import EncoderTraining
from harness.training.recipes import command_line, stated_settings

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
) -> loop.Curve:
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
    curve = loop.train(
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
        "settings": {**settings, "schedule": asdict(task.schedule)},
        "seed": recipe.seed,
        "data": dict(data),
        "start": digest_of_start,
        "steps": last_step,
        "curve": curve.thinned(),
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
