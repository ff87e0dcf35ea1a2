"""How far each coordinate of an encoding moves when only the way of computing it changes.

The same sentences are encoded under other instruction sets, numbers of threads, orders
and sizes of batches, and by the model's own forward pass; each instruction set in a
process of its own, since libraries choose their kernels when they are loaded. The noise
of a coordinate is the root mean square, over sentences and ways, of its difference to
the mean of all ways. Its deviation over sentences is the signal. What is measured goes
to `results/records/encoding_noise.json`; `harness/transforms/flows.py` takes its floor
from it, and docs/flows.md has a table of it.

    python benchmarks/encoding_noise.py --data-dir DIR --cache DIR
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from harness.assets.places import Places
from harness.core.environment import environment
from harness.core.hardware import Hardware
from harness.core.json_text import write_sealed
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry
from harness.report.flow_floors import Coordinate, EncodingNoise
from harness.tasks.loader import TaskLoader

ROOT = Path(__file__).resolve().parents[1]
STORED = ROOT / "results" / "records" / "encoding_noise.json"
ENCODERS = ("bert-mini", "minilm", "mpnet-base")
TASK = "sts-b"
SENTENCES = 256  # spread evenly over those of the task, which are sorted by source
# Of the last layer, where a coordinate without scale is constant.
POOLINGS = ("mean", "cls")
LEAST = 5  # how many coordinates are stored of a pooling: the least signal over noise

# As the environment sets them. AVX2: as make test-processors does; SSE 4: the oldest
# processors.
INSTRUCTIONS: Mapping[str, Mapping[str, str]] = {
    "here": {},
    "AVX2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "SSE 4": {
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
}
# Threads beyond the cores wait asleep, or they take the time of those that compute.
WAITING = {"OMP_WAIT_POLICY": "passive"}


@dataclass(frozen=True)
class Way:
    """A way of computing the same encodings.

    Attributes:
        name: The way in words.
        instructions: A name of INSTRUCTIONS.
        threads: The number of torch's threads.
        plain: Whether the model's own forward pass is used, and not the packed one.
        tokens: The tokens of a batch; None for the usual number.
        shuffled: Whether the sentences are encoded in another order.
    """

    name: str
    instructions: str = "here"
    threads: int = 1
    plain: bool = False
    tokens: int | None = None
    shuffled: bool = False


WAYS = (
    Way("as it runs here, one thread"),
    Way("two threads", threads=2),
    Way("four threads", threads=4),
    Way("another order", shuffled=True),
    Way("one sentence at a time", tokens=1),
    Way("the model's own forward pass", plain=True),
    Way("AVX2", "AVX2"),
    Way(
        "the model's own forward pass, AVX2, batches of 4,096",
        "AVX2",
        plain=True,
        tokens=4096,
    ),
    Way("SSE 4", "SSE 4"),
)


def sentences_of(places: Places) -> list[str]:
    """The sentences that are encoded."""
    registry = load_registry()
    pairs = TaskLoader(places, registry.corpora).texts(registry.tasks[TASK]).pairs
    distinct = list(dict.fromkeys([*pairs.a, *pairs.b]))
    chosen = np.linspace(0, len(distinct) - 1, SENTENCES).round().astype(int)
    return [distinct[number] for number in chosen]


def encode(
    encoder: str, way: Way, texts: Sequence[str], places: Places, out: Path
) -> None:
    """Encode texts in a way, and save the last layer's mean and CLS in the texts' order."""
    import torch

    torch.set_num_threads(way.threads)
    config = load_registry().encoders[encoder]
    if not isinstance(config, TransformerConfig):
        raise TypeError(f"wanted a transformer, found {encoder}")
    config = replace(config, plain_pass=way.plain).on(Hardware(batch_tokens=way.tokens))
    order = np.arange(len(texts))
    if way.shuffled:
        order = np.random.default_rng(0).permutation(len(texts))
    loaded_encoder = config.load(places.encoder(config), places.cache)
    encoding = loaded_encoder.encode([texts[number] for number in order])
    if encoding.cls is None:
        raise TypeError(f"{encoder}: wanted CLS vectors")
    rows = np.argsort(order)  # the row of each text
    np.savez(out, mean=encoding.mean[rows, -1], cls=encoding.cls[rows])


def noise_of(encoder: str, pooling: str, ways: Sequence[np.ndarray]) -> EncodingNoise:
    """The noise of every coordinate: its deviation over the ways of computing it.

    `ways` has a matrix (N, D) for each way; the first is as this machine runs.
    """
    vectors = np.stack(ways).astype(np.float64)
    noise = np.sqrt(np.square(vectors - vectors.mean(axis=0)).mean(axis=(0, 1)))
    here = vectors[0]
    spread = np.ptp(here, axis=0)
    coordinates = []
    for number in range(here.shape[1]):
        coordinates.append(
            Coordinate(
                number,
                float(here[:, number].mean()),
                float(here[:, number].std()),
                float(spread[number] / spread.max()),
                float(noise[number]),
            )
        )
    coordinates.sort(key=lambda coordinate: coordinate.ratio)
    largest = np.abs(here).max(axis=0)
    rounding = noise / np.where(largest == 0, 1, largest) / np.finfo(np.float32).eps
    ratios = np.array([coordinate.ratio for coordinate in coordinates])
    return EncodingNoise(
        encoder,
        pooling,
        here.shape[1],
        float(noise.max() / spread.max()),
        _quantiles(rounding),
        _quantiles(ratios),
        tuple(coordinates[:LEAST]),
    )


def _quantiles(values: np.ndarray) -> tuple[float, float, float]:
    """The least, the median and the largest value."""
    return tuple(round(float(v), 4) for v in np.quantile(values, [0, 0.5, 1]))


def encode_in_ways(instructions: str, places: Places, folder: Path) -> None:
    """Encode in all ways of these instructions, each into a file of the folder.

    Instructions are chosen when a process starts, so each has a process of its own.
    """
    texts = sentences_of(places)
    for encoder in ENCODERS:
        for number, way in enumerate(WAYS):
            if way.instructions == instructions:
                out = folder / f"{encoder}-{number}.npz"
                encode(encoder, way, texts, places, out)


def main() -> None:
    """Encode in every way, and store the noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument(
        "--into", nargs=2, metavar=("INSTRUCTIONS", "FOLDER"), help="encode alone"
    )
    options = parser.parse_args()
    if options.into:
        instructions, folder = options.into
        places = Places.from_environment(
            os.environ, cache=options.cache, data_dir=options.data_dir
        )
        encode_in_ways(instructions, places, Path(folder))
        return
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        for instructions, variables in INSTRUCTIONS.items():
            command = [sys.executable, __file__, *sys.argv[1:]]
            command += ["--into", instructions, folder]
            process_variables = {**os.environ, **WAITING, **variables}
            subprocess.run(command, check=True, env=process_variables)
        for encoder in ENCODERS:
            for pooling in POOLINGS:
                ways = read(Path(folder), encoder, pooling)
                measured.append(asdict(noise_of(encoder, pooling, ways)))
    stored = {
        "environment": environment(),
        "task": TASK,
        "sentences": SENTENCES,
        "ways": [way.name for way in WAYS],
        "noise": measured,
    }
    write_sealed(STORED, stored)


def read(folder: Path, encoder: str, pooling: str) -> list[np.ndarray]:
    """The matrices of all ways."""
    return [
        np.load(folder / f"{encoder}-{number}.npz")[pooling]
        for number in range(len(WAYS))
    ]


if __name__ == "__main__":
    main()
