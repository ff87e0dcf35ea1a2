"""What the harness does on a machine with a GPU: one command of at most eight minutes.

    python benchmarks/gpu.py --output DIR [--wheels build/gpu-wheels] [--seconds 480]
    [--tiny]

It needs PyTorch, transformers and sentence-transformers; what else is missing comes
from a folder of wheels, which `make gpu-wheels` fills. `gpu.json` in DIR is written
after each step, so that what was measured is kept when time runs out. Encoders have
true shapes and random weights, which are made here, and texts have the lengths of the
STS tasks and of Wikipedia. `--tiny` runs every step with little on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLACES = (ROOT, ROOT / "tests" / "support", ROOT / "tools", ROOT / "benchmarks")
SCHEMA = 1
SECONDS = 480.0
FILE = "gpu.json"

# Twentieths of the distribution of tokens a sentence, special ones included, by BERT's
# vocabulary: of the 21,166 distinct sentences of STS12-16 and STS-B, and of 10,000 of
# English Wikipedia.
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
PRECISIONS = ("float32", "bfloat16")
ROWS = 4096  # of the matrices whose products are measured
LENGTH = 32  # tokens of a text in training, as in SimCSE
GOLDEN_ENCODER = "bert-mini"
GOLDEN_LIMITS = {"float32": 1e-5, "bfloat16": 0.1}  # of a coordinate of a unit vector
GATE_METHODS = ("bert-mini.mean", "bert-mini.cls", "bert-mini.mean+whitening@target")
GATE_TASKS = ("mini-sts", "mini-sick")
GATE_POINTS = 0.01  # between devices: sums in another order


@dataclass(frozen=True)
class Load:
    """How much is measured."""

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

    A step is `measured`, `failed` with the first line of its error, or `left out` where
    less time is left than it needs.
    """

    path: Path
    seconds: float
    content: dict[str, Any]
    began: float = field(default_factory=monotonic)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.seconds - (monotonic() - self.began)

    def run(
        self, name: str, least: float, step: Callable[[dict[str, Any]], None]
    ) -> None:
        """Run a step that needs `least` seconds; what it wrote before an error is kept."""
        entry: dict[str, Any] = {"state": "left out", "values": {}}
        self.content["steps"][name] = entry
        if self.left >= least:
            start = perf_counter()
            entry["state"] = "measured"
            try:
                step(entry["values"])
            except Exception as error:  # noqa: BLE001 - the next step may do
                entry["state"] = "failed"
                line = next(iter(str(error).splitlines()), "")
                entry["why"] = f"{type(error).__name__}: {line}"
            entry["seconds"] = round(perf_counter() - start, 1)
        self.write()
        sys.stderr.write(f"{name}: {entry['state']} {entry.get('why', '')}\n")

    def write(self) -> None:
        """Write the file anew, whole or not at all."""
        scratch = self.path.with_suffix(".new")
        scratch.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        scratch.replace(self.path)


@dataclass(frozen=True)
class Machine:
    """Where it runs: a torch device, scratch space, and how much is measured."""

    device: str
    scratch: Path
    load: Load
    report: Report

    @property
    def is_gpu(self) -> bool:
        return self.device != "cpu"

    def synchronize(self) -> None:
        """Wait for what the device was given."""
        if self.is_gpu:
            import torch

            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any]) -> float:
        """The seconds of a call and of what it left to the device."""
        self.synchronize()
        start = perf_counter()
        call()
        self.synchronize()
        return perf_counter() - start

    @contextmanager
    def peak_memory(self, values: dict[str, Any]) -> Iterator[None]:
        """Note the most bytes of the device that are held within; none of a CPU."""
        import torch

        if self.is_gpu:
            torch.cuda.reset_peak_memory_stats()
        yield
        if self.is_gpu:
            values["peak_memory_bytes"] = torch.cuda.max_memory_allocated()


# Packages and models


def use_wheels(folder: Path, into: Path) -> list[str]:
    """Unpack wheels behind the packages of the machine, which go before them; their names."""
    wheels = sorted(folder.glob("*.whl"))
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(into)
    sys.path[:0] = [str(place) for place in PLACES]
    if wheels:
        sys.path.append(str(into))
    return [wheel.name for wheel in wheels]


def write_encoder(folder: Path, shape: Mapping[str, int]) -> Path:
    """A checkpoint of a shape with random weights, and the embedded tokenizer."""
    import shutil

    import torch
    import transformers

    from harness.assets.places import packaged
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
    """Texts of the embedded corpus, cut or joined to numbers of words of that distribution."""
    import numpy as np

    from harness.assets.places import EMBEDDED_DATA

    lines = (EMBEDDED_DATA / "text.txt").read_text(encoding="utf-8").split()
    rng = np.random.default_rng(0)
    places = rng.uniform(0, len(lengths) - 1, size=count)
    words = np.maximum(1, np.interp(places, range(len(lengths)), lengths) - 2).astype(
        int
    )
    starts = rng.integers(0, len(lines) - int(words.max()), size=count)
    return [" ".join(lines[s : s + n]) for s, n in zip(starts, words, strict=True)]


# The steps


def run_tests(machine: Machine, values: dict[str, Any]) -> None:
    """Every test that is marked `gpu`, in a process of its own."""
    paths = os.pathsep.join(filter(None, sys.path))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "gpu",
        "-p",
        "no:cacheprovider",
    ]
    command += [
        "-o",
        "addopts=",
        "-o",
        "filterwarnings=",
        "tests/encoders",
        "tests/gate",
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=max(1.0, machine.report.left),
        check=False,
    )
    counts = re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", done.stdout)
    values |= {
        "status": done.returncode,
        **{word: int(number) for number, word in counts},
    }
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip()[-300:])


def compare_golden_vectors(machine: Machine, values: dict[str, Any]) -> None:
    """The golden sentences under an encoder with real weights: this device beside the CPU."""
    import numpy as np

    from harness.assets.places import Places
    from harness.core.hardware import Hardware
    from harness.core.metrics import directions
    from harness.gate.golden_vectors import encode_encoder
    from harness.registry import load_registry

    places = Places(machine.scratch / "cache")
    config = load_registry().encoders[GOLDEN_ENCODER]
    on_cpu = encode_encoder(GOLDEN_ENCODER, config, places)
    for precision, limit in GOLDEN_LIMITS.items():
        on_device = config.on(Hardware(machine.device, precision))
        measured = encode_encoder(GOLDEN_ENCODER, on_device, places)
        gap = np.abs(directions(on_cpu.vectors) - directions(measured.vectors)).max()
        values[precision] = {"largest_difference": float(gap), "limit": limit}
        if not gap <= limit:
            raise RuntimeError(f"{precision}: wanted {limit:g} at most, found {gap:g}")


def check_cells(machine: Machine, values: dict[str, Any]) -> None:
    """The gate: cells that are measured on this device, against the committed ones."""
    from harness.cli import main
    from harness.results.index import Results
    from harness.results.records import Store

    runs = machine.scratch / "runs"
    methods, tasks = machine.load.gate_methods, machine.load.gate_tasks
    chosen = ["-m", *methods, "-t", *tasks]
    run = ["run", *chosen, "--device", machine.device, "-o", str(runs)]
    run += ["--cache", str(machine.scratch / "cache")]
    check = [
        "check",
        "--results",
        str(runs),
        "--baseline",
        str(ROOT / "results"),
        *chosen,
    ]
    values["run_status"] = _status(main, run)
    values["check_status"] = _status(main, check)
    here, committed = (
        Results.read(Store(folder)) for folder in (runs, ROOT / "results")
    )
    gaps = [
        abs(score - other)
        for method in methods
        for task in tasks
        for score, other in zip(
            *(spearman_of(results, method, task) for results in (here, committed)),
            strict=True,
        )
    ]
    values["cells"] = len(gaps)
    values["largest_difference_points"] = max(gaps)
    if len(gaps) < len(methods) * len(tasks) or max(gaps) > GATE_POINTS:
        raise RuntimeError(
            f"wanted {GATE_POINTS} points at most, found {max(gaps, default=None)}"
        )


def spearman_of(results: Any, method: str, task: str) -> list[float]:
    """The main score of each seed of a cell."""
    return [
        record.scores["spearman"]["all"] for record in results.records(method, task)
    ]


def _status(main: Callable[[list[str]], Any], words: list[str]) -> int:
    """The exit status of a command line."""
    try:
        main(words)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def time_encoding(machine: Machine, values: dict[str, Any]) -> None:
    """Encoding beside sentence-transformers in one run, at true shapes.

    Its batches are of 32 sentences, its default, and of 256. The share is that of the
    rate at which the device multiplies matrices of the shape of a layer.
    """
    import numpy as np
    from peers import peer, unit

    from harness.core.hardware import Hardware
    from harness.encoders.transformer import TransformerConfig

    for shape, sizes in machine.load.shapes.items():
        folder = write_encoder(machine.scratch / shape, sizes)
        for precision in PRECISIONS:
            rate = matrix_rate(machine, sizes, precision)
            config = TransformerConfig(shape, "none", max_length=256)
            encoder = config.on(Hardware(machine.device, precision)).load(
                folder, machine.scratch
            )
            theirs = peer(folder, machine.device)
            if precision == "bfloat16":
                theirs.bfloat16()
            for lengths, distribution in LENGTHS.items():
                if machine.report.left < 30:
                    return
                texts = sentences(distribution, machine.load.sentences)
                tokens = sum(map(len, encoder.tokenizer(texts)))
                case: dict[str, Any] = {"sentences": len(texts), "tokens": tokens}
                values[f"{shape}, {precision}, {lengths}"] = case

                def encode_theirs(
                    size: int, texts: list[str] = texts, theirs: Any = theirs
                ) -> Any:
                    return theirs.encode(
                        texts, batch_size=size, show_progress_bar=False
                    )

                calls: dict[str, Callable[[], Any]] = {
                    "harness": lambda encoder=encoder, texts=texts: encoder.encode(
                        texts
                    ),
                    "sentence-transformers, 32": lambda: encode_theirs(32),
                    "sentence-transformers, 256": lambda: encode_theirs(256),
                }
                few = texts[: machine.load.batch]
                ours = unit(encoder.encode(few).mean[:, -1])
                others = unit(np.asarray(encode_theirs(32, few), np.float32))
                case["largest_difference"] = float(np.abs(ours - others).max())
                seconds: dict[str, list[float]] = {name: [] for name in calls}
                for _ in range(machine.load.rounds):
                    for name, call in calls.items():
                        with machine.peak_memory(case.setdefault(name, {})):
                            seconds[name].append(machine.seconds(call))
                for name, measured in seconds.items():
                    speed = len(texts) / median(measured)
                    flops = tokens * _multiplications(sizes) * 2 / median(measured)
                    case[name] |= {
                        "sentences_per_second": round(speed, 1),
                        "share_of_matrix_rate": round(flops / rate, 4),
                    }
                best = max(
                    case[n]["sentences_per_second"] for n in calls if n != "harness"
                )
                case["times_as_fast"] = round(
                    case["harness"]["sentences_per_second"] / best, 3
                )
                machine.report.write()


def _multiplications(sizes: Mapping[str, int]) -> int:
    """Multiplications of a token with the matrices of all layers."""
    size, wide = sizes["hidden_size"], sizes["intermediate_size"]
    return sizes["num_hidden_layers"] * (4 * size * size + 2 * size * wide)


def matrix_rate(machine: Machine, sizes: Mapping[str, int], precision: str) -> float:
    """Operations a second of the bare matrix products of a layer."""
    import torch

    size, wide = sizes["hidden_size"], sizes["intermediate_size"]
    torch.backends.cuda.matmul.allow_tf32 = False  # as the harness multiplies
    kind: Any = {"device": machine.device, "dtype": getattr(torch, precision)}
    narrow, broad = torch.randn(ROWS, size, **kind), torch.randn(ROWS, wide, **kind)
    qkv, out = torch.randn(size, 3 * size, **kind), torch.randn(size, size, **kind)
    up, down = torch.randn(size, wide, **kind), torch.randn(wide, size, **kind)

    def layer() -> None:
        for _ in range(machine.load.products):
            for x, weight in (
                (narrow, qkv),
                (narrow, out),
                (narrow, up),
                (broad, down),
            ):
                torch.mm(x, weight)

    layer()
    seconds = median(machine.seconds(layer) for _ in range(machine.load.rounds))
    multiplied = ROWS * (4 * size * size + 2 * size * wide)
    return machine.load.products * multiplied * 2 / seconds


def fit_flows(machine: Machine, values: dict[str, Any]) -> None:
    """One pass with dropout at base size, and one fit of each flow on vectors of that size."""
    import numpy as np

    from harness.core.hardware import Hardware
    from harness.encoders.transformer import TransformerConfig
    from harness.registry import load_registry

    sizes = machine.load.shapes["bert-base"]
    folder = write_encoder(machine.scratch / "bert-base", sizes)
    config = TransformerConfig("bert-base", "none", max_length=256).on(
        Hardware(machine.device)
    )
    encoder = config.load(folder, machine.scratch)
    texts = sentences(LENGTHS["wikipedia"], machine.load.dropout_sentences)
    noisy = encoder.with_dropout(seed=0)
    seconds = machine.seconds(lambda: noisy.encode(texts))
    values["dropout"] = {"sentences_per_second": round(len(texts) / seconds, 1)}
    machine.report.write()
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(machine.load.flow_rows, sizes["hidden_size"])).astype(
        np.float32
    )
    posts = load_registry().posts
    for word in sorted(name for name in posts if name.startswith("flow")):
        if machine.report.left < 20:
            return
        post: Any = posts[word]()
        fit = lambda post=post: post.fit(rows, np.random.default_rng(0))  # noqa: E731
        values[word] = {"seconds": round(machine.seconds(fit), 3), "rows": len(rows)}
        machine.report.write()


def time_training(machine: Machine, values: dict[str, Any]) -> None:
    """A step of SimCSE at base size, beside the step of sentence-transformers' trainer."""
    from test_bench_training import our_steps, their_steps

    from harness.training.loop import seeded

    folder = write_encoder(
        machine.scratch / "bert-base", machine.load.shapes["bert-base"]
    )
    size = machine.load.batch
    columns = (tuple(sentences(LENGTHS["wikipedia"], 8 * size)),)
    for precision in ("float32", "bf16"):
        where: Any = {"precision": precision, "device": machine.device}
        ours = our_steps("bert-base", folder, machine.scratch, columns, size, **where)
        theirs = their_steps(folder, columns, size, **where)
        case: dict[str, Any] = {"batch": size, "length": LENGTH}
        values[precision] = case
        with seeded(0):
            for name, steps in (("harness", ours), ("sentence-transformers", theirs)):
                with machine.peak_memory(case.setdefault(name, {})):
                    case[name]["first_loss"] = next(steps)
                    measured = [
                        machine.seconds(lambda steps=steps: next(steps))
                        for _ in range(machine.load.steps)
                    ]
                case[name]["seconds_a_step"] = round(median(measured), 5)
        peer_seconds = case["sentence-transformers"]["seconds_a_step"]
        case["times_as_fast"] = round(
            peer_seconds / case["harness"]["seconds_a_step"], 3
        )
        machine.report.write()


# In this order, with the seconds that each needs at the least.
STEPS: tuple[tuple[str, float, Callable[[Machine, dict[str, Any]], None]], ...] = (
    ("tests", 60, run_tests),
    ("golden vectors", 20, compare_golden_vectors),
    ("gate", 30, check_cells),
    ("encoding", 60, time_encoding),
    ("dropout and flows", 30, fit_flows),
    ("training", 30, time_training),
)


def environment(device: str, wheels: Sequence[str]) -> dict[str, Any]:
    """The card, the driver's libraries, the packages and the processor."""
    import torch

    from harness.core.environment import environment as of_harness

    is_gpu = device != "cpu"
    card = torch.cuda.get_device_properties(0) if is_gpu else None
    return {
        **of_harness(),
        "device": torch.cuda.get_device_name(0)
        if is_gpu
        else platform.processor() or "cpu",
        "device_memory_bytes": card.total_memory if card else None,
        "cuda": torch.version.cuda,
        "cores": os.cpu_count(),
        "wheels": list(wheels),
    }


def main(words: Sequence[str] | None = None) -> Path:
    """Measure, and return the file of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path(os.environ.get("OUT", "build/gpu"))
    )
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "gpu-wheels")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument(
        "--tiny", action="store_true", help="every step with little, on a CPU"
    )
    chosen = parser.parse_args(words)
    chosen.output.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"schema": SCHEMA, "tiny": chosen.tiny, "steps": {}}
    report = Report(chosen.output / FILE, chosen.seconds, content)
    report.write()
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        scratch = Path(folder)
        wheels = use_wheels(chosen.wheels, scratch / "packages")
        import torch

        if not chosen.tiny and not torch.cuda.is_available():
            raise SystemExit("wanted a CUDA device, found none; --tiny runs on a CPU")
        device = "cpu" if chosen.tiny else "cuda"
        content["environment"] = environment(device, wheels)
        machine = Machine(device, scratch, TINY if chosen.tiny else Load(), report)
        for name, least, step in STEPS:
            needed = 0.0 if chosen.tiny else least
            report.run(name, needed, lambda values, step=step: step(machine, values))
    content["seconds"] = round(chosen.seconds - report.left, 1)
    report.write()
    return report.path


if __name__ == "__main__":
    main()
