"""Encodes sentences when it is asked to, by the harness or by sentence-transformers.

    python benchmarks/encoding_child.py CACHE FOLDER SENTENCES [FOLDER SENTENCES ...]

It is a process of its own, since a processor's instructions are chosen by environment
variables, which libraries read when they are loaded. FOLDER is a checkpoint, SENTENCES a
file with a sentence a line. A line of stdin has the number of a folder, and `ours` or a
batch size of sentence-transformers: `0 ours`. It is answered by a line of JSON when all
sentences of this folder are encoded: the instructions that torch uses, and the first
coordinates of the first vector.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
from peers import peer

from harness.encoders.transformer import TransformerConfig

LENGTH = 256  # tokens, at most
COORDINATES = 8  # of a vector of length 1, by which both are compared


def main(cache, *folders_and_sentences):
    """Answer each line of stdin."""
    config = TransformerConfig("measured", "none", max_length=LENGTH)
    cases = []
    for folder, sentences in zip(
        folders_and_sentences[::2], folders_and_sentences[1::2], strict=True
    ):
        texts = Path(sentences).read_text(encoding="utf-8").splitlines()
        ours = config.load(Path(folder), Path(cache))
        cases.append((texts, ours, peer(folder, length=LENGTH)))
    for line in sys.stdin:
        number, program = line.split()
        texts, ours, theirs = cases[int(number)]
        if program == "ours":
            vectors = ours.encode(texts).mean[:, -1]
        else:
            vectors = theirs.encode(
                texts, batch_size=int(program), show_progress_bar=False
            )
        first = vectors[0] / np.linalg.norm(vectors[0])
        answer = {
            "instructions": torch.backends.cpu.get_cpu_capability(),
            "first": first[:COORDINATES].tolist(),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
