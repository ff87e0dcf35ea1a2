"""What the harness does on a machine with a GPU: one command of a few minutes.

    python benchmarks/gpu.py --output DIR [--wheels build/gpu-wheels]

Three steps: the tests of GPUs, the gate on cells of `bert-mini`, and the speed of
encoding beside sentence-transformers. Encoders have the shapes of real ones and random
weights, texts are sentences of the embedded corpus. With `--tiny` every step runs on a CPU,
with little work.

The machine needs PyTorch, transformers and sentence-transformers. Other packages come
from a folder of wheels, which `make gpu-wheels` fills, so harness and NumPy are imported
inside functions, after these are unpacked. `gpu.json` in DIR is written after each step,
and a step that fails does not end the others. In `results/records/gpu`, under the name
of the card, it is shown on the page of speed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMPORT_FOLDERS = (ROOT, ROOT / "tests" / "support", ROOT / "benchmarks")
PRECISIONS = ("float32", "bfloat16")
PEER_BATCHES = (32, 256)  # sentences in a batch of sentence-transformers: 32 by default
SENTENCES, FEW = 20_000, 48
ROUNDS = 3  # of each measurement of speed
CELLS = "-m bert-mini.mean bert-mini.mean+whitening@target -t mini-sts mini-sick"
# What differs from BERT-base, which is transformers' default.
SHAPES: Mapping[str, Mapping[str, int]] = {
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536},
    "bert-base": {},
}
TINY_SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


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


def check_cells(device: str, scratch: Path) -> None:
    """Measure cells on this device, and compare them with the committed ones by the gate."""
    runs = str(scratch / "runs")
    harness = ("-m", "harness")
    where = ("--device", device, "-o", runs, "--cache", str(scratch / "cache"))
    run(*harness, "run", *CELLS.split(), *where)
    run(*harness, "check", *CELLS.split(), "--results", runs)


# Speed


def time_encoding(device: str, scratch: Path, tiny: bool) -> dict[str, Any]:
    """What encoding took at the shapes of encoders, in each precision."""
    from peers import model_of_berts_shape, peer

    from harness.core.hardware import Hardware
    from harness.data.places import EMBEDDED_DATA
    from harness.encoders.transformer import TransformerConfig

    lines = (EMBEDDED_DATA / "text.txt").read_text(encoding="utf-8").splitlines()
    texts = lines[: FEW if tiny else SENTENCES]
    cases = {}
    for shape, sizes in SHAPES.items():
        folder = model_of_berts_shape(
            scratch / shape,
            EMBEDDED_DATA.parent / "bert-mini",
            **(TINY_SHAPE if tiny else sizes),
        )
        for precision in PRECISIONS:
            hardware = Hardware(device, precision)
            config = TransformerConfig(shape, "none", max_length=256).on(hardware)
            encoder = config.load(folder, scratch)
            model = peer(folder, device)
            if precision == "bfloat16":
                model.bfloat16()
            case = compare_encoders(device, texts, encoder, model)
            cases[f"{shape}, {precision}"] = case
    return cases


def compare_encoders(
    device: str, texts: Sequence[str], encoder: Any, model: Any
) -> dict[str, Any]:
    """Time an encoder of the harness and a SentenceTransformer of the same weights on texts.

    They take turns, so that a slow moment of the machine is everybody's.
    """
    programs: dict[str, Callable[[], Any]] = {"harness": partial(encoder.encode, texts)}
    for batch in PEER_BATCHES:
        programs[f"sentence-transformers, {batch}"] = partial(
            model.encode, texts, batch_size=batch, show_progress_bar=False
        )
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        program()  # what is done only once is not timed
    for _ in range(ROUNDS):
        for name, program in programs.items():
            wait_for(device)
            start = perf_counter()
            program()
            wait_for(device)
            seconds[name].append(perf_counter() - start)
    typical = {name: median(seconds[name]) for name in programs}
    ours, *peers = typical.values()
    case: dict[str, Any] = {"sentences": len(texts), "seconds": typical}
    case["sentences_per_second"] = round(len(texts) / ours, 1)
    case["times_as_fast"] = round(min(peers) / ours, 3)
    return case


def wait_for(device: str) -> None:
    """Wait until a device of torch has done its work."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


# The command


def use_wheels(folder: Path, into: Path) -> None:
    """Unpack wheels, and put the project and their packages on the path of imports.

    Packages that the machine has come before those of wheels.
    """
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(into)
    sys.path[:0] = [str(folder) for folder in IMPORT_FOLDERS]
    sys.path.append(str(into))


def environment(device: str) -> dict[str, Any]:
    """The card, the driver's libraries, the packages and the processor."""
    import torch

    from harness.core.environment import environment as harness_environment

    card = platform.processor() or "cpu"
    if device != "cpu":
        card = torch.cuda.get_device_name(0)
    return {**harness_environment(), "device": card, "cuda": torch.version.cuda}


def measure(
    file: Path, content: dict[str, Any], steps: Mapping[str, Callable[[], Any]]
) -> None:
    """Run steps, and write what each gave, or its error, into the file with the content."""
    from harness.core.files import write_json

    content["steps"] = {}
    for name, step in steps.items():
        try:
            entry = {"state": "measured", "values": step()}
        except Exception as error:  # noqa: BLE001 - the next step may succeed
            entry = {"state": "failed", "why": f"{type(error).__name__}: {error}"}
        content["steps"][name] = entry
        write_json(file, content)
        sys.stderr.write(f"{name}: {entry['state']} {entry.get('why', '')}\n")


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
        device = "cpu" if options.tiny else "cuda"
        content = {"tiny": options.tiny, "environment": environment(device)}
        steps = {
            "tests": run_tests,
            "gate": partial(check_cells, device, scratch),
            "encoding": partial(time_encoding, device, scratch, options.tiny),
        }
        measure(options.output / "gpu.json", content, steps)


if __name__ == "__main__":
    main()
