"""Memory that encoding takes, and whether one sentence of a million costs what it should."""

import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import pytest
from process_memory import STATUS, memory

import harness.evaluation.embeddings
from harness.core.types import Progress
from harness.data.places import Places
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation.embeddings import SHARD, CachedEncoder
from harness.registry import load_registry

CORPUS = "enwiki-1m"
MANY = 1_000_000  # sentences
FEW, SAMPLES = 10_000, 5  # sentences that are encoded alone, and how often on the way
OF_BASE, FEW_OF_BASE = 8_000, 64  # of an encoder that is 100 times as slow
GIB = 2**30
LIMIT = 1.5 * 1e9  # bytes above the loaded model
LEAST = 0.9  # of the cost per sentence: within 10 %
DISK = 9 * GIB  # that the encodings take, with room to spare


class Found(NamedTuple):
    """Bytes at the most above the loaded model; seconds of all sentences, and of each sample."""

    peak: int
    seconds: float
    samples: list[float]


def opened(name, folder, encoders):
    config = load_registry().encoders[name]
    made = CachedEncoder.open(config, Places(folder, encoders=encoders))
    made.loaded.encode(
        ["One sentence."]
    )  # loads the model, and chooses how its passes run
    return made


@dataclass
class Interleaved:
    """A run's progress, which stops on the way to encode a few of the sentences anew.

    In the same minute of the same process, as a run of so few sentences does: from
    nothing, into a cache of their own.
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
        cache = EncoderCache.open(folder, self.main.identity.key)
        alone = replace(self.main, cache=cache, folder=folder)
        alone.loaded = self.main.loaded
        start = perf_counter()
        alone.ensure(texts, Progress())
        self.samples.append(perf_counter() - start)
        shutil.rmtree(folder)


def encode_all(name, data_dir, folder, count, few, shard, encoders):
    """In a process of its own, whose peak is nobody else's."""
    harness.evaluation.embeddings.SHARD = shard
    made = opened(name, folder, encoders)
    loaded = memory("VmRSS")
    texts = list(islice(load_registry().corpora[CORPUS].sentences(data_dir), count))
    told = Interleaved(made, folder, texts, count // SAMPLES, few)
    start = perf_counter()
    made.ensure(texts, told)
    seconds = perf_counter() - start - told.away
    assert not made.cache.missing(texts)
    return Found(memory("VmHWM") - loaded, seconds, told.samples)


def measure(side_by_side, name, data_dir, folder, count, few, encoders):
    """What so many sentences of Wikipedia take, and as few of them on the way."""
    counts = (count, few, SHARD) if side_by_side.on else (SAMPLES * 16, 16, 16)
    found = []

    def ours():
        with ProcessPoolExecutor(1, get_context("spawn")) as alone:
            asked = (name, data_dir, folder, *counts, encoders)
            found.append(alone.submit(encode_all, *asked).result())

    try:
        side_by_side.benchmark.pedantic(ours, rounds=1)
    finally:
        shutil.rmtree(folder)
    assert len(found[0].samples) == SAMPLES
    assert 0 < found[0].peak < LIMIT
    return found[0]


reads_proc = pytest.mark.skipif(
    not STATUS.exists(), reason="a process's peak is read from /proc"
)


@pytest.mark.data
@reads_proc
def test_a_million_sentences(side_by_side, data_dir, tmp_path):
    if side_by_side.on and shutil.disk_usage(tmp_path).free < DISK:
        pytest.skip(
            f"a million encodings take {DISK // GIB} GiB on the disk of {tmp_path}"
        )
    found = measure(side_by_side, "bert-mini", data_dir, tmp_path, MANY, FEW, {})
    facts = {"sentences": MANY, "GB above the model": f"{found.peak / 1e9:.2f}"}
    side_by_side.require("memory-1m", [LIMIT / found.peak], 1.0, **facts)
    ratios = [sample / FEW / (found.seconds / MANY) for sample in found.samples]
    side_by_side.require("cost-1m", ratios, LEAST, sentences=MANY, of=FEW)


@pytest.mark.data
@pytest.mark.weights
@reads_proc
def test_base_size(side_by_side, data_dir, tmp_path, mpnet_base):
    encoders = {"mpnet-base": mpnet_base}
    found = measure(
        side_by_side, "mpnet-base", data_dir, tmp_path, OF_BASE, FEW_OF_BASE, encoders
    )
    facts = {"sentences": OF_BASE, "GB above the model": f"{found.peak / 1e9:.2f}"}
    side_by_side.require("memory-mpnet-base", [LIMIT / found.peak], 1.0, **facts)
