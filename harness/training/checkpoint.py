"""A trained checkpoint as a folder that `--encoder` and sentence-transformers load.

Its `training.json` holds the command, every setting, seed, digests of the data and of the starting
checkpoint, the training curve, seconds, device, threads and package versions; `curve.svg` draws the
curve.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import safetensors.torch
import torch
from torch import nn

from harness.core import charts
from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.core.provenance import environment
from harness.encoders.checkpoint import tokenizer_files
from harness.training.loop import STATE, Curve

Pooling = Literal["mean", "cls"]
TRAINING = "training.json"
CURVE = "curve.svg"
ST_MODULES = "sentence_transformers.models"  # where modules.json finds the classes


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
        """The content of training.json."""
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


def curve_svg(losses: Sequence[charts.Point], scores: Sequence[charts.Point]) -> str:
    """The training curve as SVG: loss and, below it, development scores over the steps.

    Points are (step, value). The last loss and the best score are marked.
    """
    curves = {"loss": losses} | ({"dev score": scores} if scores else {})
    end = max(step for step, _ in (*losses, *scores))
    marked = "the last loss and the best score are marked" if scores else "the last loss is marked"
    note = f"{end:,} step{'s' if end != 1 else ''}; {marked}"
    hints = {}
    with charts.style():
        figure, panels = charts.panels("Training curve", [note], (3, 2)[: len(curves)])
        for axes, (name, points) in zip(panels, curves.items(), strict=True):
            step, value = points[-1] if name == "loss" else max(points, key=lambda p: p[1])
            axes.plot(*zip(*points, strict=True), color="C0", marker="")
            axes.plot(step, value, "o", color="C0", clip_on=False, zorder=3, gid=name)
            hints[name] = f"{name} at step {step:,}"
            axes.set(xlim=(0, end), ylabel=name)
            axes.locator_params("x", integer=True)
            axes.xaxis.set_major_formatter("{x:,.0f}")
            digits = 3 if name == "loss" else 2
            charts.write_labels(axes, {f"{value:.{digits}f}": (step, value)})
        panels[-1].set_xlabel("steps")
        return charts.svg(figure, hints)


def require_new(folder: Path) -> None:
    """Raise UsageError for a folder that already holds a checkpoint."""
    if (folder / TRAINING).exists() or (folder / "config.json").exists():
        raise UsageError(f"--out {folder}: a checkpoint stands there; take another folder")


def write_checkpoint(
    folder: Path,
    model: Any,
    tokenizer: Path,
    pooling: Pooling,
    max_length: int,
    info: TrainingInfo,
    half: bool = False,
) -> None:
    """Write model and tokenizer, all files or none; `half` stores the weights in 16 bits.

    `tokenizer` is a folder whose tokenizer files are copied. Raises UsageError for a folder that
    already holds a checkpoint.
    """
    require_new(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
        new = Path(place)
        _write_model(new, model, half)
        for file in tokenizer_files(tokenizer):
            shutil.copy(file, new / file.name)
        _write_modules(new, model.config.hidden_size, pooling, max_length)
        _write_json(new / TRAINING, info.as_json())
        if info.curve.losses:
            picture = curve_svg(info.curve.thinned(), info.curve.scores)
            (new / CURVE).write_text(picture, encoding="utf-8")
        # The description comes last: a folder without it is no checkpoint yet.
        for file in sorted(new.iterdir(), key=lambda path: path.name == TRAINING):
            file.replace(folder / file.name)
    (folder / STATE).unlink(missing_ok=True)


def _write_model(folder: Path, model: Any, half: bool) -> None:
    dtype = torch.float16 if half else torch.float32
    model.config.architectures = [type(model).__name__]
    model.config.dtype = torch.float32  # in use, whatever is on disk
    _write_json(folder / "config.json", model.config.to_dict())
    data = safetensors.torch.save(_weights(model, dtype), {"format": "pt"})
    write_atomically(folder / "model.safetensors", data)


def _weights(model: nn.Module, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """The state dict with tied tensors once; loading ties them again."""
    once: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        once.setdefault(id(tensor), name)
    state = model.state_dict()
    return {
        name: state[name].to(dtype if state[name].is_floating_point() else None).contiguous()
        for name in once.values()
    }


def _write_modules(folder: Path, size: int, pooling: Pooling, max_length: int) -> None:
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"))
    _write_json(
        folder / "modules.json",
        [
            {"idx": n, "name": str(n), "path": path, "type": f"{ST_MODULES}.{kind}"}
            for n, (path, kind) in enumerate(modules)
        ],
    )
    _write_json(
        folder / "sentence_bert_config.json",
        {"max_seq_length": max_length, "do_lower_case": False},
    )
    (folder / "1_Pooling").mkdir()
    _write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": size,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
