"""Encoding beside sentence-transformers, by all instructions of a processor and by AVX2 alone."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from peers import model_of_berts_shape, peer

from harness.encoders.transformer import TransformerConfig

EQUAL = 1e-5  # in every coordinate of a unit vector: float32 sums in another order
BATCHES = (16, 32, 64, 128)  # of sentence-transformers
WANTED = 1.3
# Half of all processors have AVX2 and no AVX-512. These variables make one of the others
# compute as they do.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
WANTED_WITH_AVX2 = {"minilm": 1.45, "bert-base": 1.35}
FEW = 8  # sentences, where nothing is measured

pytestmark = [pytest.mark.data, pytest.mark.weights]


def unit(x):
    """Rows of length 1."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def compare(side_by_side, name, folder, texts, cache):
    """Our encoding, and the peer's at each batch size, in turn."""
    texts = texts if side_by_side.on else texts[:FEW]
    encoder = TransformerConfig(name, "none", max_length=256).load(folder, cache)
    theirs = peer(folder)

    def encode(size):
        return theirs.encode(texts, batch_size=size, show_progress_bar=False)

    ours = unit(encoder.encode(texts).mean[:, -1])  # and the first pass is not timed
    assert np.abs(ours - unit(encode(BATCHES[0]))).max() <= EQUAL
    programs = {size: partial(encode, size) for size in BATCHES}
    programs["ours"] = partial(encoder.encode, texts)
    seconds = side_by_side.seconds(programs)
    best = min(BATCHES, key=lambda size: np.median(seconds[size]))
    facts = {"sentences": len(texts), "batch": best, **encoder.facts}
    ratios = seconds[best] / seconds["ours"]
    side_by_side.require(f"encode-{name}", ratios, WANTED, **facts)


def test_minilm(side_by_side, minilm, sentences, tmp_path):
    compare(side_by_side, "minilm", minilm, sentences[:4000], tmp_path)


def test_a_model_of_the_shape_of_bert_base(side_by_side, minilm, sentences, tmp_path):
    folder = model_of_berts_shape(tmp_path / "bert-base", minilm)
    compare(side_by_side, "bert-base", folder, sentences[:600], tmp_path)


def test_mpnet_base(side_by_side, folder_of, sentences, tmp_path):
    folder = folder_of("mpnet-base")
    compare(side_by_side, "mpnet-base", folder, sentences[:600], tmp_path)


class Child:
    """A process that encodes the sentences of some checkpoints, with AVX2 alone."""

    def __init__(self, cases, scratch):
        arguments = [scratch / "cache"]
        for number, (folder, texts) in enumerate(cases):
            sentences = scratch / f"sentences-{number}.txt"
            # A sentence is a line.
            lines = [" ".join(text.split()) for text in texts]
            sentences.write_text("\n".join(lines), encoding="utf-8")
            arguments += [folder, sentences]
        script = Path(__file__).with_name("encoding_child.py")
        self.process = subprocess.Popen(
            [sys.executable, script, *arguments],
            env=os.environ | AVX2,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def encode(self, case, program):
        """What the child answers once `ours`, or a batch size of the peer, has encoded all."""
        print(case, program, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()  # it ends with its stdin


def test_with_avx2_alone(side_by_side, minilm, sentences, tmp_path):
    bert_base = model_of_berts_shape(tmp_path / "bert-base", minilm)
    sizes = (2000, 300) if side_by_side.on else (FEW, FEW)
    cases = [
        (folder, sentences[:size])
        for folder, size in zip((minilm, bert_base), sizes, strict=True)
    ]
    with Child(cases, tmp_path) as child:
        programs = {}
        for case, name in enumerate(WANTED_WITH_AVX2):
            ours, theirs = (child.encode(case, each) for each in ("ours", BATCHES[0]))
            if ours["instructions"] != "AVX2":
                found = ours["instructions"]
                pytest.skip(f"wanted a processor with AVX2, found {found}")
            assert ours["first"] == pytest.approx(theirs["first"], abs=EQUAL)
            for program in (*BATCHES, "ours"):
                programs[name, program] = partial(child.encode, case, program)
        seconds = side_by_side.seconds(programs)
    for (name, wanted), size in zip(WANTED_WITH_AVX2.items(), sizes, strict=True):
        best = min(BATCHES, key=lambda batch: np.median(seconds[name, batch]))
        ratios = seconds[name, best] / seconds[name, "ours"]
        facts = {"sentences": size, "batch": best}
        side_by_side.require(f"encode-{name}-avx2", ratios, wanted, **facts)
