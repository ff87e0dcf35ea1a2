"""Memory that encoding takes, and whether one sentence of a million costs what it should."""

import re
import shutil
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import pytest

from harness.data.places import Places
from harness.evaluation.embeddings import CachedEncoder
from harness.registry import load_registry

STATUS = Path("/proc/self/status")
CORPUS = "enwiki-1m"
MANY, MANY_OF_BASE = 1_000_000, 8_000  # sentences; of an encoder 100 times as slow
SAMPLE, SAMPLES = 10_000, 5  # sentences that are encoded alone, and how often
FEW = 80  # sentences, where nothing is measured
LIMIT = 1.5 * 1e9  # bytes above the loaded model
LEAST = 0.9  # of the cost per sentence: within 10 %

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(
        not STATUS.exists(), reason="a process's peak is read from /proc"
    ),
]


def memory(name):
    """Bytes that this process takes (VmRSS), or took at the most so far (VmHWM).

    What `getrusage` gives begins with the peak of the process that started this one.
    """
    [kilobytes] = re.findall(rf"{name}:\s+(\d+) kB", STATUS.read_text())
    return int(kilobytes) * 1024


def encode_into_cache(name, encoder_folder, data_dir, folder, counts):
    """Encode the first sentences of Wikipedia, so many at a time, each into an empty cache.

    Returns the peak of bytes above the loaded model, and the seconds of each count. It
    runs in a process of its own, whose peak is nobody else's.
    """
    config = load_registry().encoders[name]
    sentences = load_registry().corpora[CORPUS].sentences(data_dir)
    texts = list(islice(sentences, max(counts)))
    seconds = []
    loaded = 0
    for number, count in enumerate(counts):
        cache = folder / str(number)
        places = Places(cache, encoders={name: encoder_folder})
        encoder = CachedEncoder.open(config, places)
        encoder.loaded.encode(["One sentence."])  # loads the model
        loaded = loaded or memory("VmRSS")
        start = perf_counter()
        sum(encoder.encode(texts[:count]))
        seconds.append(perf_counter() - start)
        assert not encoder.cache.missing(texts[:count])
        shutil.rmtree(cache)
    return memory("VmHWM") - loaded, seconds


def measure(side_by_side, row, *arguments):
    """Require the memory of a row; returns the seconds of each count."""
    found = []

    def encode():
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            found.append(process.submit(encode_into_cache, *arguments).result())

    side_by_side.seconds({"ours": encode}, rounds=1)
    [(peak, seconds)] = found
    side_by_side.require(row, [LIMIT / peak], 1.0)
    return seconds


def test_a_million_sentences(side_by_side, folder_of, data_dir, tmp_path):
    many, sample = (MANY, SAMPLE) if side_by_side.on else (FEW, FEW // 5)
    counts, bert = (*[sample] * SAMPLES, many), ("bert-mini", folder_of("bert-mini"))
    *sample_seconds, all_seconds = measure(
        side_by_side, "memory-1m", *bert, data_dir, tmp_path, counts
    )
    cost = all_seconds / many
    ratios = [alone / sample / cost for alone in sample_seconds]
    side_by_side.require("cost-1m", ratios, LEAST, sentences=many, of=sample)


@pytest.mark.weights
def test_base_size(side_by_side, folder_of, data_dir, tmp_path):
    counts = (MANY_OF_BASE if side_by_side.on else FEW,)
    base = ("mpnet-base", folder_of("mpnet-base"))
    measure(side_by_side, "memory-mpnet-base", *base, data_dir, tmp_path, counts)
