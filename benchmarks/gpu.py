"""What the harness does on a machine with a GPU: one command of at most eight minutes.

    python benchmarks/gpu.py --output DIR [--wheels build/gpu-wheels] [--seconds 480]

Six steps are run in the order of STEPS: the tests of GPUs, the golden vectors, the gate,
and then the speed of encoding, of fits of flows, and of training. Encoders have the
shapes of real ones and random weights. Texts have the lengths of the STS tasks and of
Wikipedia. With `--tiny` every step runs on a CPU, with little work.

The machine needs PyTorch, transformers and sentence-transformers. Other packages come
from a folder of wheels, which `make gpu-wheels` fills, so harness and NumPy are imported
inside functions, after these are unpacked. `gpu.json` in DIR is written after each step:
nothing that was measured is lost when time runs out.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gpu_machine import (
    GOLDEN_ENCODER,
    LENGTHS,
    ROOT,
    TINY,
    Load,
    Machine,
    Report,
    sentences,
    use_wheels,
    write_encoder,
)

SCHEMA = 1
SECONDS = 480.0
FILE = "gpu.json"
PRECISIONS = ("float32", "bfloat16")
PEER_BATCHES = (32, 256)  # sentences in a batch of sentence-transformers: 32 by default
MATRIX_ROWS = 4096  # of the matrices whose products are timed
TRAINING_LENGTH = 32  # tokens of a text in training, as in SimCSE
# The largest difference of a coordinate of a unit vector between a GPU and the CPU.
GOLDEN_LIMITS = {"float32": 1e-5, "bfloat16": 0.1}
GATE_POINTS = 0.01  # how far scores of devices may differ, which sum in other orders


# Whether results are right: tests, golden vectors, the gate


def run_tests(machine: Machine, values: dict[str, Any]) -> None:
    """Run every test that is marked `gpu`, in a process of its own."""
    options = "-q -m gpu -p no:cacheprovider -o addopts= -o filterwarnings="
    command = [sys.executable, "-m", "pytest", *options.split()]
    command += ["tests/encoders", "tests/gate"]
    import_paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": import_paths},
        capture_output=True,
        text=True,
        timeout=max(1.0, machine.report.seconds_left),
        check=False,
    )
    values["status"] = done.returncode
    counts = re.findall(r"(\d+) (passed|failed|skipped|errors?)\b", done.stdout)
    for number, outcome in counts:
        values[outcome] = int(number)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip()[-300:])


def compare_golden_vectors(machine: Machine, values: dict[str, Any]) -> None:
    """Compare golden vectors of this device with those of the CPU, under real weights."""
    import numpy as np

    from harness.core.hardware import Hardware
    from harness.core.metrics import directions
    from harness.data.places import Places
    from harness.gate.golden_vectors import encode_golden_sentences
    from harness.registry import load_registry

    places = Places(machine.scratch / "cache")
    config = load_registry().encoders[GOLDEN_ENCODER]
    on_cpu = encode_golden_sentences(GOLDEN_ENCODER, config, places)
    for precision, limit in GOLDEN_LIMITS.items():
        on_device = config.on(Hardware(machine.device, precision))
        measured = encode_golden_sentences(GOLDEN_ENCODER, on_device, places)
        differences = directions(on_cpu.vectors) - directions(measured.vectors)
        largest = float(np.abs(differences).max())
        values[precision] = {"largest_difference": largest, "limit": limit}
        if not largest <= limit:  # so that NaN is refused
            raise RuntimeError(
                f"{precision}: wanted {limit:g} at most, found {largest:g}"
            )


def check_cells(machine: Machine, values: dict[str, Any]) -> None:
    """Measure cells on this device, and compare them with the committed ones by the gate."""
    from harness.cli import main
    from harness.results.index import Results
    from harness.results.store import Store

    runs, baseline = machine.scratch / "runs", ROOT / "results"
    methods, tasks = machine.load.gate_methods, machine.load.gate_tasks
    cells = ["-m", *methods, "-t", *tasks]
    run = ["run", *cells, "--device", machine.device, "-o", str(runs)]
    run += ["--cache", str(machine.scratch / "cache")]
    check = ["check", *cells, "--results", str(runs), "--baseline", str(baseline)]
    values["run_status"] = _status(main, run)
    values["check_status"] = _status(main, check)
    measured = Results.read(Store(runs))
    committed = Results.read(Store(baseline))
    differences: list[float] = []
    for method in methods:
        for task in tasks:
            scores = spearman_of(measured, method, task)
            committed_scores = spearman_of(committed, method, task)
            for score, other in zip(scores, committed_scores, strict=True):
                differences.append(abs(score - other))
    values["cells"] = len(differences)
    if len(differences) < len(methods) * len(tasks):
        raise RuntimeError(
            f"wanted a score of {len(methods) * len(tasks)} cells or more, "
            f"found {len(differences)}"
        )
    values["largest_difference_points"] = max(differences)
    if max(differences) > GATE_POINTS:
        raise RuntimeError(
            f"wanted {GATE_POINTS} points at most, found {max(differences)}"
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


# Speed: encoding


def time_encoding(machine: Machine, values: dict[str, Any]) -> None:
    """Encode by the harness and by sentence-transformers in turn, at the shapes of encoders.

    For each shape and precision, the texts are those of both distributions of lengths.
    """
    from peers import peer

    from harness.core.hardware import Hardware
    from harness.encoders.transformer import TransformerConfig

    for shape, sizes in machine.load.shapes.items():
        folder = write_encoder(machine.scratch / shape, sizes)
        for precision in PRECISIONS:
            operations = 2 * _multiplications(sizes)
            token_seconds = operations / matrix_rate(machine, sizes, precision)
            hardware = Hardware(machine.device, precision)
            config = TransformerConfig(shape, "none", max_length=256).on(hardware)
            encoder = config.load(folder, machine.scratch)
            peer_model = peer(folder, machine.device)
            if precision == "bfloat16":
                peer_model.bfloat16()
            for name, lengths in LENGTHS.items():
                if machine.report.seconds_left < 30:
                    return
                texts = sentences(lengths, machine.load.sentences)
                case: dict[str, Any] = {}
                values[f"{shape}, {precision}, {name}"] = case
                compare_encoders(
                    machine,
                    case,
                    texts,
                    token_seconds,
                    encoder=encoder,
                    peer_model=peer_model,
                )
                machine.report.write()


def compare_encoders(
    machine: Machine,
    case: dict[str, Any],
    texts: Sequence[str],
    token_seconds: float,
    *,
    encoder: Any,
    peer_model: Any,
) -> None:
    """Time both encoders on texts, and note how far their vectors differ.

    The encoders take turns, so that a slow moment of the machine is everybody's.

    Args:
        machine: Where they run, and how often.
        case: What is measured is added to it.
        texts: Sentences.
        token_seconds: The time of a token if the bare matrix products took all of it.
        encoder: An encoder of the harness.
        peer_model: A SentenceTransformer of the same weights.
    """
    import numpy as np
    from peers import unit

    def encode_by_peer(texts: Sequence[str], batch: int) -> Any:
        return peer_model.encode(texts, batch_size=batch, show_progress_bar=False)

    tokens = sum(len(ids) for ids in encoder.tokenizer(texts))
    case |= {"sentences": len(texts), "tokens": tokens}
    few = texts[: machine.load.batch]
    vectors = unit(encoder.encode(few).mean[:, -1])
    peer_vectors = unit(np.asarray(encode_by_peer(few, PEER_BATCHES[0]), np.float32))
    case["largest_difference"] = float(np.abs(vectors - peer_vectors).max())

    calls: dict[str, Callable[[], Any]] = {"harness": partial(encoder.encode, texts)}
    for batch in PEER_BATCHES:
        calls[f"sentence-transformers, {batch}"] = partial(encode_by_peer, texts, batch)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(machine.load.rounds):
        for name, call in calls.items():
            with machine.peak_memory(case.setdefault(name, {})):
                seconds[name].append(machine.seconds(call))
    peer_speeds = []
    for name in calls:
        typical_seconds = median(seconds[name])
        speed = round(len(texts) / typical_seconds, 1)
        share = tokens * token_seconds / typical_seconds
        case[name]["sentences_per_second"] = speed
        case[name]["share_of_matrix_rate"] = round(share, 4)
        if name != "harness":
            peer_speeds.append(speed)
    ratio = case["harness"]["sentences_per_second"] / max(peer_speeds)
    case["times_as_fast"] = round(ratio, 3)


def _multiplications(sizes: Mapping[str, int]) -> int:
    """Multiplications of a token's states with the matrices of all layers."""
    width, inner_width = sizes["hidden_size"], sizes["intermediate_size"]
    of_a_layer = 4 * width * width + 2 * width * inner_width
    return sizes["num_hidden_layers"] * of_a_layer


def matrix_rate(machine: Machine, sizes: Mapping[str, int], precision: str) -> float:
    """Operations a second of the bare matrix products of a layer."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False  # as the harness multiplies
    width, inner_width = sizes["hidden_size"], sizes["intermediate_size"]

    def random_matrix(rows: int, columns: int) -> Any:
        dtype = getattr(torch, precision)
        return torch.randn(rows, columns, device=machine.device, dtype=dtype)

    states = random_matrix(MATRIX_ROWS, width)
    inner_states = random_matrix(MATRIX_ROWS, inner_width)
    products = (
        (states, random_matrix(width, 3 * width)),  # queries, keys and values
        (states, random_matrix(width, width)),  # the output of attention
        (states, random_matrix(width, inner_width)),
        (inner_states, random_matrix(inner_width, width)),
    )

    def multiply() -> None:
        for _ in range(machine.load.products):
            for left, right in products:
                torch.mm(left, right)

    multiply()  # what is done only once is not timed
    seconds = median(machine.seconds(multiply) for _ in range(machine.load.rounds))
    of_a_row = _multiplications({**sizes, "num_hidden_layers": 1})
    return 2 * machine.load.products * MATRIX_ROWS * of_a_row / seconds


# Speed: flows and training


def fit_flows(machine: Machine, values: dict[str, Any]) -> None:
    """Time one pass with dropout at base size, and one fit of each flow at that size."""
    import numpy as np

    from harness.core.hardware import Hardware
    from harness.encoders.transformer import TransformerConfig
    from harness.registry import load_registry

    sizes = machine.load.shapes["bert-base"]
    folder = write_encoder(machine.scratch / "bert-base", sizes)
    config = TransformerConfig("bert-base", "none", max_length=256)
    encoder = config.on(Hardware(machine.device)).load(folder, machine.scratch)
    encoder_with_dropout = encoder.with_dropout(seed=0)
    texts = sentences(LENGTHS["wikipedia"], machine.load.dropout_sentences)
    seconds = machine.seconds(lambda: encoder_with_dropout.encode(texts))
    values["dropout"] = {"sentences_per_second": round(len(texts) / seconds, 1)}
    machine.report.write()

    size = (machine.load.flow_rows, sizes["hidden_size"])
    rows = np.random.default_rng(0).normal(size=size).astype(np.float32)
    post_processors = load_registry().posts
    for name in sorted(post_processors):
        if not name.startswith("flow"):
            continue
        if machine.report.seconds_left < 20:
            return
        flow: Any = post_processors[name]()
        fit = partial(flow.fit, rows, np.random.default_rng(0))
        values[name] = {"seconds": round(machine.seconds(fit), 3), "rows": len(rows)}
        machine.report.write()


def time_training(machine: Machine, values: dict[str, Any]) -> None:
    """Time a step of SimCSE at base size, and the same step of sentence-transformers."""
    from test_bench_training import our_steps, their_steps

    from harness.training.loop import seeded

    shape = machine.load.shapes["bert-base"]
    folder = write_encoder(machine.scratch / "bert-base", shape)
    batch = machine.load.batch
    columns = (tuple(sentences(LENGTHS["wikipedia"], 8 * batch)),)
    for precision in ("float32", "bfloat16"):
        where: Any = {"precision": precision, "device": machine.device}
        steps_by_program = {
            "harness": our_steps(
                "bert-base", folder, machine.scratch, columns, batch, **where
            ),
            "sentence-transformers": their_steps(folder, columns, batch, **where),
        }
        case: dict[str, Any] = {"batch": batch, "length": TRAINING_LENGTH}
        values[precision] = case
        with seeded(0):
            for program, steps in steps_by_program.items():
                case[program] = _timed_steps(machine, steps)
        peer_seconds = case["sentence-transformers"]["seconds_a_step"]
        our_seconds = case["harness"]["seconds_a_step"]
        case["times_as_fast"] = round(peer_seconds / our_seconds, 3)
        machine.report.write()


def _timed_steps(machine: Machine, steps: Iterator[float]) -> dict[str, Any]:
    """The loss of the first step, and the seconds of each of those that follow."""
    result: dict[str, Any] = {}
    with machine.peak_memory(result):
        result["first_loss"] = next(steps)
        seconds = []
        for _ in range(machine.load.steps):
            seconds.append(machine.seconds(lambda: next(steps)))
    result["seconds_a_step"] = round(median(seconds), 5)
    return result


# The command


@dataclass(frozen=True)
class Step:
    """A step: its name, the seconds that it needs at least, and the function that runs it."""

    name: str
    seconds_needed: float
    run: Callable[[Machine, dict[str, Any]], None]


STEPS = (
    Step("tests", 60, run_tests),
    Step("golden vectors", 20, compare_golden_vectors),
    Step("gate", 30, check_cells),
    Step("encoding", 60, time_encoding),
    Step("dropout and flows", 30, fit_flows),
    Step("training", 30, time_training),
)


def environment(device: str, wheels: Sequence[str]) -> dict[str, Any]:
    """The card, the driver's libraries, the packages and the processor."""
    import torch

    from harness.core.environment import environment as harness_environment

    name = platform.processor() or "cpu"
    memory = None
    if device != "cpu":
        name = torch.cuda.get_device_name(0)
        memory = torch.cuda.get_device_properties(0).total_memory
    return {
        **harness_environment(),
        "device": name,
        "device_memory_bytes": memory,
        "cuda": torch.version.cuda,
        "cores": os.cpu_count(),
        "wheels": list(wheels),
    }


def main(words: Sequence[str] | None = None) -> Path:
    """Run the steps, and return the file of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path(os.environ.get("OUT", "build/gpu"))
    )
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "gpu-wheels")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument(
        "--tiny", action="store_true", help="every step with little, on a CPU"
    )
    options = parser.parse_args(words)
    options.output.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"schema": SCHEMA, "tiny": options.tiny, "steps": {}}
    report = Report(options.output / FILE, options.seconds, content)
    report.write()
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        scratch = Path(folder)
        wheels = use_wheels(options.wheels, scratch / "packages")
        try:
            import torch
        except ImportError:
            raise SystemExit(
                f"wanted a Python with PyTorch, found {sys.executable} without it; name another: "
                "make gpu PYTHON=..."
            ) from None

        if not options.tiny and not torch.cuda.is_available():
            raise SystemExit("wanted a CUDA device, found none; --tiny runs on a CPU")
        device = "cpu" if options.tiny else "cuda"
        content["environment"] = environment(device, wheels)
        load = TINY if options.tiny else Load()
        machine = Machine(device, scratch, load, report)
        for step in STEPS:
            seconds_needed = 0.0 if options.tiny else step.seconds_needed
            report.run(step.name, seconds_needed, partial(step.run, machine))
    content["seconds"] = round(options.seconds - report.seconds_left, 1)
    report.write()
    return report.path


if __name__ == "__main__":
    main()
