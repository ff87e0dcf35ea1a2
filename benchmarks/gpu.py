"""What the harness does on a machine with a GPU: one command of a few minutes.

    python benchmarks/gpu.py --output DIR [--wheels build/gpu-wheels]

Three steps: the tests of GPUs, the gate on cells of `bert-mini`, and the speed of
encoding beside sentence-transformers. Encoders have the shapes of real ones and random
weights. Texts have the lengths of the STS tasks and of Wikipedia. With `--tiny` every
step runs on a CPU, with little work.

The machine needs PyTorch, transformers and sentence-transformers. Other packages come
from a folder of wheels, which `make gpu-wheels` fills, so harness and NumPy are imported
inside functions, after these are unpacked. `gpu.json` in DIR is written after each
measurement, and a step that fails does not end the others.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORT_FOLDERS = (ROOT, ROOT / "tests" / "support", ROOT / "benchmarks")
FILE = "gpu.json"
PRECISIONS = ("float32", "bfloat16")
PEER_BATCHES = (32, 256)  # sentences in a batch of sentence-transformers: 32 by default
MATRIX_ROWS = 4096  # of the matrices whose products are timed
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


@dataclass(frozen=True)
class Load:
    """How much is measured.

    Attributes:
        sentences: How many are encoded.
        rounds: How often each measurement of speed is repeated.
        products: How often the matrix products of a layer are repeated in a round.
        cells: The methods and tasks of the gate, as options of `harness run`.
        shapes: The sizes of the encoders, by their names.
    """

    sentences: int = 20_000
    rounds: int = 3
    products: int = 50
    cells: str = (
        "-m bert-mini.mean bert-mini.mean+whitening@target -t mini-sts mini-sick"
    )
    shapes: Mapping[str, Mapping[str, int]] = field(default_factory=lambda: SHAPES)


TINY = Load(
    sentences=48,
    rounds=1,
    products=1,
    cells="-m bert-mini.mean -t mini-sts",
    shapes={"minilm": TINY_SHAPE, "bert-base": TINY_SHAPE},
)


# Whether results are right: tests and the gate


def run(*words: str) -> None:
    """Run a program of Python on the packages of this process. Raises an error if it fails."""
    import_paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": import_paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{words}: {(done.stdout + done.stderr).strip()[-600:]}")


def run_tests() -> None:
    """Run every test that is marked `gpu`."""
    options = "-q -m gpu -p no:cacheprovider -o addopts= -o filterwarnings="
    run("-m", "pytest", *options.split(), "tests/encoders", "tests/training")


def check_cells(device: str, scratch: Path, cells: str) -> None:
    """Measure cells on this device, and compare them with the committed ones by the gate."""
    runs = str(scratch / "runs")
    harness = ("-m", "harness")
    where = ("--device", device, "-o", runs, "--cache", str(scratch / "cache"))
    run(*harness, "run", *cells.split(), *where)
    run(*harness, "check", *cells.split(), "--results", runs)


# Speed


@dataclass(frozen=True)
class Timer:
    """Times work on a device of torch."""

    device: str

    def seconds(self, call: Callable[[], Any]) -> float:
        """The seconds of a call, with the work that it left to the device."""
        self._wait()
        start = perf_counter()
        call()
        self._wait()
        return perf_counter() - start

    def _wait(self) -> None:
        """Wait until the device has done its work."""
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize()


def time_encoding(
    timer: Timer, scratch: Path, load: Load
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Encode by the harness and by sentence-transformers in turn, at the shapes of encoders.

    For each shape and precision, the texts are those of both distributions of lengths.
    Yields the name of a case and what was measured.
    """
    from peers import peer

    from harness.core.hardware import Hardware
    from harness.encoders.transformer import TransformerConfig

    for shape, sizes in load.shapes.items():
        folder = write_encoder(scratch / shape, sizes)
        for precision in PRECISIONS:
            rate = matrix_rate(timer, load, sizes, precision)
            hardware = Hardware(timer.device, precision)
            config = TransformerConfig(shape, "none", max_length=256).on(hardware)
            encoder = config.load(folder, scratch)
            model = peer(folder, timer.device)
            if precision == "bfloat16":
                model.bfloat16()
            for name, lengths in LENGTHS.items():
                texts = sentences(lengths, load.sentences)
                case = compare_encoders(timer, load.rounds, texts, encoder, model)
                # If the bare matrix products took all of the time.
                operations = 2 * _multiplications(sizes) * case["tokens"]
                case["harness"]["share_of_matrix_rate"] = round(
                    operations / rate / case["harness"]["seconds"], 4
                )
                yield f"{shape}, {precision}, {name}", case


def compare_encoders(
    timer: Timer, rounds: int, texts: Sequence[str], encoder: Any, model: Any
) -> dict[str, Any]:
    """Time an encoder of the harness and a SentenceTransformer of the same weights on texts.

    They take turns, so that a slow moment of the machine is everybody's.
    """
    programs: dict[str, Callable[[], Any]] = {"harness": lambda: encoder.encode(texts)}
    for batch in PEER_BATCHES:
        programs[f"sentence-transformers, {batch}"] = lambda batch=batch: model.encode(
            texts, batch_size=batch, show_progress_bar=False
        )
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        program()  # what is done only once is not timed
    for _ in range(rounds):
        for name, program in programs.items():
            seconds[name].append(timer.seconds(program))
    tokens = sum(len(ids) for ids in encoder.tokenizer(texts))
    case: dict[str, Any] = {"sentences": len(texts), "tokens": tokens}
    for name in programs:
        typical = median(seconds[name])
        speed = round(len(texts) / typical, 1)
        case[name] = {"seconds": typical, "sentences_per_second": speed}
    ours, *peers = (case[name]["seconds"] for name in programs)
    case["times_as_fast"] = round(min(peers) / ours, 3)
    return case


def _multiplications(sizes: Mapping[str, int]) -> int:
    """Multiplications of a token's states with the matrices of all layers."""
    width, inner_width = sizes["hidden_size"], sizes["intermediate_size"]
    of_a_layer = 4 * width * width + 2 * width * inner_width
    return sizes["num_hidden_layers"] * of_a_layer


def matrix_rate(
    timer: Timer, load: Load, sizes: Mapping[str, int], precision: str
) -> float:
    """Operations a second of the bare matrix products of a layer."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False  # as the harness multiplies
    width, inner_width = sizes["hidden_size"], sizes["intermediate_size"]

    def random_matrix(rows: int, columns: int) -> Any:
        dtype = getattr(torch, precision)
        return torch.randn(rows, columns, device=timer.device, dtype=dtype)

    states = random_matrix(MATRIX_ROWS, width)
    inner_states = random_matrix(MATRIX_ROWS, inner_width)
    products = (
        (states, random_matrix(width, 3 * width)),  # queries, keys and values
        (states, random_matrix(width, width)),  # the output of attention
        (states, random_matrix(width, inner_width)),
        (inner_states, random_matrix(inner_width, width)),
    )

    def multiply() -> None:
        for _ in range(load.products):
            for left, right in products:
                torch.mm(left, right)

    multiply()  # what is done only once is not timed
    seconds = median(timer.seconds(multiply) for _ in range(load.rounds))
    of_a_row = _multiplications({**sizes, "num_hidden_layers": 1})
    return 2 * load.products * MATRIX_ROWS * of_a_row / seconds


# Packages, encoders and texts


def use_wheels(folder: Path, into: Path) -> None:
    """Unpack wheels, and put the project and their packages on the path of imports.

    Packages that the machine has come before those of wheels.
    """
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(into)
    sys.path[:0] = [str(folder) for folder in IMPORT_FOLDERS]
    sys.path.append(str(into))


def write_encoder(folder: Path, shape: Mapping[str, int]) -> Path:
    """Write a checkpoint with random weights and the embedded tokenizer."""
    import torch
    import transformers

    from harness.data.places import EMBEDDED_DATA

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.BertModel(transformers.BertConfig(**shape))
    model.save_pretrained(folder)
    for file in (EMBEDDED_DATA.parent / "bert-mini").glob("tokenizer*"):
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


# The command


@dataclass
class Report:
    """What was measured so far, in a file that is written after each measurement.

    A step is `measured`, or `failed` with its error.
    """

    path: Path
    content: dict[str, Any]

    @contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Run a step in a block, which is given a dictionary for its values."""
        entry: dict[str, Any] = {"state": "measured", "values": {}}
        self.content["steps"][name] = entry
        try:
            yield entry["values"]
        except Exception as error:  # noqa: BLE001 - the next step may succeed
            entry["state"] = "failed"
            entry["why"] = f"{type(error).__name__}: {error}"
        self.write()
        sys.stderr.write(f"{name}: {entry['state']} {entry.get('why', '')}\n")

    def write(self) -> None:
        """Replace the file in one step, so that it is always whole."""
        from harness.core.json_text import write_json

        write_json(self.path, self.content)


def environment(device: str) -> dict[str, Any]:
    """The card, the driver's libraries, the packages and the processor."""
    import torch

    from harness.core.environment import environment as harness_environment

    card = platform.processor() or "cpu"
    if device != "cpu":
        card = torch.cuda.get_device_name(0)
    return {**harness_environment(), "device": card, "cuda": torch.version.cuda}


def main(words: Sequence[str] | None = None) -> None:
    """Run the steps, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--output", type=Path, default=Path(os.environ.get("OUT", "build/gpu"))
    )
    parser.add_argument("--wheels", type=Path, default=ROOT / "build" / "gpu-wheels")
    parser.add_argument(
        "--tiny", action="store_true", help="every step with little, on a CPU"
    )
    options = parser.parse_args(words)
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        scratch = Path(folder)
        use_wheels(options.wheels, scratch / "packages")
        try:
            import torch
        except ImportError:
            raise SystemExit(
                f"wanted a Python with PyTorch, found {sys.executable} without it; name another: "
                "make gpu PYTHON=..."
            ) from None

        if not options.tiny and not torch.cuda.is_available():
            raise SystemExit("wanted a CUDA device, found none; --tiny runs on a CPU")
        device, load = ("cpu", TINY) if options.tiny else ("cuda", Load())
        content = {
            "tiny": options.tiny,
            "environment": environment(device),
            "steps": {},
        }
        report = Report(options.output / FILE, content)
        with report.step("tests"):
            run_tests()
        with report.step("gate"):
            check_cells(device, scratch, load.cells)
        with report.step("encoding") as values:
            for name, case in time_encoding(Timer(device), scratch, load):
                values[name] = case
                report.write()


if __name__ == "__main__":
    main()
