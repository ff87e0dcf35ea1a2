"""A million sentences: what they take in memory, and whether one of them costs what it should."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import pytest
from process_memory import STATUS, memory

import harness.evaluation.embeddings
from harness.assets.places import Places
from harness.core.types import Progress
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.registry import load_registry

ENCODER, CORPUS = "bert-mini", "enwiki-1m"
MANY = 1_000_000  # sentences
FEW, SAMPLES = 10_000, 5  # sentences that are encoded alone, and how often on the way
GIB = 2**30
LIMIT = 1.5 * 1e9  # bytes above the loaded model
LEAST = 0.9  # of the cost per sentence: within 10 %
DISK = 9 * GIB  # that the encodings take, with room to spare


class Found(NamedTuple):
    """Bytes at the most above the loaded model; seconds of all sentences, and of each sample."""

    peak: int
    seconds: float
    samples: list[float]


def bench(folder):
    made = CachedEncoder.open(load_registry().encoders[ENCODER], Places(folder), perf_counter)
    made.loaded().encode(["One sentence."])  # loads the model, and chooses how its passes run
    return made


@dataclass
class Interleaved:
    """A run's progress, which stops on the way to encode a few of the sentences anew.

    In the same minute of the same process, as a run of so few sentences does: from nothing, into a
    cache of their own.
    """

    main: CachedEncoder
    folder: Path
    texts: list[str]
    every: int
    few: int
    done: int = 0
    due: int = 0
    away: float = 0.0
    samples: list[float] = field(default_factory=list)

    def phase(self, what, steps):
        """Nothing to say."""

    def step(self, steps):
        self.done += steps
        if self.done < self.due or len(self.samples) == SAMPLES:
            return
        self.due += self.every
        start = perf_counter()
        first = len(self.samples) * self.few
        self.sample(self.texts[first : first + self.few])
        self.away += perf_counter() - start

    def sample(self, texts):
        folder = self.folder / f"sample-{len(self.samples)}"
        alone = CachedEncoder(
            self.main.identity,
            EncoderCache.open(folder, self.main.identity.key),
            self.main.load,
            perf_counter,
            folder,
            encoder=self.main.encoder,
        )
        start = perf_counter()
        alone.ensure(texts, Progress())
        self.samples.append(perf_counter() - start)
        shutil.rmtree(folder)


def encode_all(data_dir, folder, count, few, shard):
    """In a process of its own, whose peak is nobody else's."""
    harness.evaluation.embeddings.SHARD = shard
    folder, made = Path(folder), bench(Path(folder))
    loaded = memory("VmRSS")
    texts = list(islice(load_registry().corpora[CORPUS].sentences(Path(data_dir)), count))
    told = Interleaved(made, folder, texts, count // SAMPLES, few)
    start = perf_counter()
    made.ensure(texts, told)
    seconds = perf_counter() - start - told.away
    assert not made.cache.missing(texts)
    return Found(memory("VmHWM") - loaded, seconds, told.samples)


@pytest.mark.data
@pytest.mark.skipif(not STATUS.exists(), reason="a process's peak is read from /proc")
def test_a_million_sentences(side_by_side, data_dir, tmp_path):
    count, few, shard = (MANY, FEW, SHARD) if side_by_side.on else (SAMPLES * 16, 16, 16)
    if side_by_side.on and shutil.disk_usage(tmp_path).free < DISK:
        pytest.skip(f"a million encodings take {DISK // GIB} GiB on the disk of {tmp_path}")
    found = []

    def ours():
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            found.append(alone.submit(encode_all, data_dir, tmp_path, count, few, shard).result())

    try:
        side_by_side.benchmark.pedantic(ours, rounds=1)
    finally:
        shutil.rmtree(tmp_path)
    [(peak, seconds, samples)] = found
    assert len(samples) == SAMPLES
    assert 0 < peak < LIMIT
    facts = {"sentences": count, "GB above the model": f"{peak / 1e9:.2f}"}
    side_by_side.require("memory-1m", [LIMIT / peak], 1.0, **facts)
    ratios = [sample / few / (seconds / count) for sample in samples]
    side_by_side.require("cost-1m", ratios, LEAST, sentences=count, of=few)
