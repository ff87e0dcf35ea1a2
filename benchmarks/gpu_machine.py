"""Where the steps of `gpu.py` run: the time limit, the device, models and texts.

`Report` keeps what was measured and knows the time that is left. `Machine` is the device
and how much is measured. The other functions unpack wheels, write encoders with random
weights, and make texts with the lengths of real ones.
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORT_FOLDERS = (ROOT, ROOT / "tests" / "support", ROOT / "benchmarks")
# Quantiles, in steps of 5 %, of the number of tokens of a sentence by BERT's vocabulary,
# with special tokens: of the 21,166 distinct sentences of STS12-16 and STS-B, and of
# 10,000 sentences of English Wikipedia.
LENGTHS = {
    "sts": (3, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 14, 15, 16, 17, 19, 21, 24, 30, 93),
    "wikipedia": (
        9, 13, 15, 17, 18, 20, 21, 23, 24, 26, 27, 29, 30, 32, 34, 36, 39, 42, 47, 55, 125,
    ),
}  # fmt: skip
SHAPES: Mapping[str, Mapping[str, int]] = {
    "minilm": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    },
    "bert-base": {
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
}
TINY_SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
GOLDEN_ENCODER = "bert-mini"
GATE_METHODS = ("bert-mini.mean", "bert-mini.cls", "bert-mini.mean+whitening@target")
GATE_TASKS = ("mini-sts", "mini-sick")


@dataclass(frozen=True)
class Load:
    """How much is measured.

    Attributes:
        sentences: How many are encoded.
        rounds: How often each measurement of speed is repeated.
        products: How often the matrix products of a layer are repeated in a round.
        dropout_sentences: How many are encoded with dropout.
        flow_rows: The number of vectors that a flow is fitted on.
        batch: Sentences in a batch of training.
        steps: Steps of training that are timed.
        gate_methods: The methods of the cells of the gate.
        gate_tasks: The tasks of the cells of the gate.
        shapes: The sizes of the encoders, by their names.
    """

    sentences: int = 20_000
    rounds: int = 3
    products: int = 50
    dropout_sentences: int = 2048
    flow_rows: int = 2048
    batch: int = 64
    steps: int = 10
    gate_methods: tuple[str, ...] = GATE_METHODS
    gate_tasks: tuple[str, ...] = GATE_TASKS
    shapes: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: SHAPES)


TINY = Load(
    sentences=48,
    rounds=1,
    products=1,
    dropout_sentences=16,
    flow_rows=96,
    batch=4,
    steps=2,
    gate_methods=GATE_METHODS[:1],
    gate_tasks=GATE_TASKS[:1],
    shapes={"minilm": TINY_SHAPE, "bert-base": TINY_SHAPE},
)


@dataclass
class Report:
    """What was measured so far, in a file that is written after each step.

    A step is `measured`, `failed` with the first line of its error, or `left out` if less
    time is left than it needs.

    Attributes:
        path: The file.
        seconds: The time limit.
        content: What was measured.
        start_time: When the clock began.
    """

    path: Path
    seconds: float
    content: dict[str, Any]
    start_time: float = field(default_factory=monotonic)

    @property
    def seconds_left(self) -> float:
        return self.seconds - (monotonic() - self.start_time)

    def run(
        self, name: str, seconds_needed: float, step: Callable[[dict[str, Any]], None]
    ) -> None:
        """Run a step if there is time. Values that it wrote before an error are kept."""
        entry: dict[str, Any] = {"state": "left out", "values": {}}
        self.content["steps"][name] = entry
        if self.seconds_left >= seconds_needed:
            start = perf_counter()
            entry["state"] = "measured"
            try:
                step(entry["values"])
            except Exception as error:  # noqa: BLE001 - the next step may succeed
                entry["state"] = "failed"
                first_line, _, _ = str(error).partition("\n")
                entry["why"] = f"{type(error).__name__}: {first_line}"
            entry["seconds"] = round(perf_counter() - start, 1)
        self.write()
        sys.stderr.write(f"{name}: {entry['state']} {entry.get('why', '')}\n")

    def write(self) -> None:
        """Replace the file in one step, so that it is always whole."""
        scratch = self.path.with_suffix(".new")
        scratch.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        scratch.replace(self.path)


@dataclass(frozen=True)
class Machine:
    """Where the steps run, and how much they measure.

    Attributes:
        device: A device of torch.
        scratch: A folder for models, caches and runs.
        load: How much is measured.
        report: Knows the time that is left, and writes what was measured.
    """

    device: str
    scratch: Path
    load: Load
    report: Report

    @property
    def is_gpu(self) -> bool:
        return self.device != "cpu"

    def synchronize(self) -> None:
        """Wait until the device has done its work."""
        if self.is_gpu:
            import torch

            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any]) -> float:
        """The seconds of a call, with the work that it left to the device."""
        self.synchronize()
        start = perf_counter()
        call()
        self.synchronize()
        return perf_counter() - start

    @contextmanager
    def peak_memory(self, values: dict[str, Any]) -> Iterator[None]:
        """Note the peak memory of a GPU within the block, in bytes."""
        import torch

        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats()
        yield
        if self.is_gpu:
            values["peak_memory_bytes"] = torch.cuda.max_memory_allocated()


# Packages and models


def use_wheels(folder: Path, into: Path) -> list[str]:
    """Unpack wheels, and put the project and their packages on the path of imports.

    Packages that the machine has come before those of wheels. Returns the wheels' names.
    """
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(into)
    sys.path[:0] = [str(folder) for folder in IMPORT_FOLDERS]
    if wheels:
        sys.path.append(str(into))
    return [wheel.name for wheel in wheels]


def write_encoder(folder: Path, shape: Mapping[str, int]) -> Path:
    """Write a checkpoint with random weights and the embedded tokenizer, if there is none."""
    import torch
    import transformers

    from harness.data.places import packaged
    from harness.registry import load_registry

    if not folder.exists():
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = transformers.BertModel(transformers.BertConfig(**shape))
        model.save_pretrained(folder)
        embedded = packaged(load_registry().encoders[GOLDEN_ENCODER])
        for file in (embedded or folder).glob("tokenizer*"):
            shutil.copyfile(file, folder / file.name)
    return folder


def sentences(lengths: Sequence[int], count: int) -> list[str]:
    """Make texts of words of the embedded corpus, with a distribution of lengths.

    `lengths` are equidistant quantiles of the number of tokens, two of which are special.
    """
    import numpy as np

    from harness.data.places import EMBEDDED_DATA

    words = (EMBEDDED_DATA / "text.txt").read_text(encoding="utf-8").split()
    rng = np.random.default_rng(0)
    positions = rng.uniform(0, len(lengths) - 1, size=count)
    token_counts = np.interp(positions, range(len(lengths)), lengths)
    word_counts = np.maximum(1, token_counts - 2).astype(int)
    starts = rng.integers(0, len(words) - int(word_counts.max()), size=count)
    texts = []
    for start, word_count in zip(starts, word_counts, strict=True):
        texts.append(" ".join(words[start : start + word_count]))
    return texts
