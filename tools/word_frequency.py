"""Measure BERT-flow's Table 1 on the word embeddings of a checkpoint.

    python tools/word_frequency.py NAME CHECKPOINT COUNTS

writes `results/records/word-frequency/NAME.json`: for the words of each range of ranks,
the mean norm of their embeddings, and the means of the distances and dot products to
their k nearest neighbours. CHECKPOINT is a folder with `model.safetensors` and `vocab.txt`,
COUNTS a file of words, the most frequent first (`vectors/enwiki_vocab_min200.txt` of the
data folder). It takes half a minute.

The paper states neither what ranks the words nor among what their neighbours are. Both
are measured under two readings, and distances also squared. A word that is not one piece
of the vocabulary has no embedding, and its rank stays empty.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from jaxtyping import Int
from safetensors import safe_open

from harness.core.arrays import Float
from harness.core.digests import sha256_of
from harness.core.errors import DataError, HarnessError
from harness.core.files import write_json
from harness.report.word_frequency import FOLDER, SQUARED, Reading, WordFrequencies
from harness.results.layout import COMMITTED, RECORDS

MATRIX = "embeddings.word_embeddings.weight"  # the end of its name in a checkpoint
RANGES = ((0, 100), (100, 500), (500, 5_000), (5_000, 10_000))
NEIGHBOURS = (3, 5, 7)
CHUNK = 256  # words whose products with all others are in memory at once
FIRST_WORD = "the"  # of BERT's vocabulary, whose words are in the order of frequency

Ranks = Mapping[int, int]  # the piece of each rank that has one


def readings(
    matrix: Float[np.ndarray, "V D"], pieces: Sequence[str], counted: Sequence[str]
) -> Iterator[Reading]:
    """The statistics under every reading.

    Args:
        matrix: The embedding of each piece of the vocabulary.
        pieces: The vocabulary.
        counted: Words, the most frequent first.
    """
    row_of = {piece: row for row, piece in enumerate(pieces)}
    by_count = {
        rank: row_of[word] for rank, word in enumerate(counted) if word in row_of
    }
    after_the = range(row_of[FIRST_WORD], len(pieces))
    words = [row for row in after_the if not pieces[row].startswith("##")]
    for name, ranks in (
        ("ranks by Wikipedia's counts", by_count),
        ("ranks by the order of BERT's vocabulary", dict(enumerate(words))),
    ):
        ranked = {rank: row for rank, row in ranks.items() if rank < RANGES[-1][1]}
        rows = np.array([*ranked.values()])
        for neighbours, candidates in (
            ("these words", rows),
            ("all pieces", np.arange(len(pieces))),
        ):
            values = statistics(matrix, np.array([*ranked]), rows, candidates)
            yield Reading(name, neighbours, len(rows), values)


def statistics(
    matrix: Float[np.ndarray, "V D"],
    ranks: Int[np.ndarray, " N"],
    rows: Int[np.ndarray, " N"],
    candidates: Int[np.ndarray, " M"],
) -> Mapping[str, list[float]]:
    """The statistics of each range of ranks, by the id of the printed row.

    A word is no neighbour of itself.

    Args:
        matrix: The embedding of each piece.
        ranks: The rank of each word.
        rows: The row of each word in the matrix.
        candidates: The rows among which neighbours are looked for.
    """
    others = matrix[candidates].astype(np.float64)
    squares = (others**2).sum(axis=1)
    of_word: dict[str, list[Float[np.ndarray, " n"]]] = {}
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        x = matrix[chunk].astype(np.float64)
        norms = (x**2).sum(axis=1)
        dots = x @ others.T
        itself = candidates == chunk[:, None]
        squared = np.maximum(norms[:, None] + squares - 2 * dots, 0)
        squared[itself] = np.inf
        dots[itself] = -np.inf
        most = max(NEIGHBOURS)
        near = np.sort(np.partition(squared, most, axis=1)[:, :most], axis=1)
        high = -np.sort(np.partition(-dots, most, axis=1)[:, :most], axis=1)
        found = {"mean-l2-norm": np.sqrt(norms)}
        for k in NEIGHBOURS:
            distance = f"mean-k-nn-l2-dist-k-{k}"
            found[distance] = np.sqrt(near[:, :k]).mean(axis=1)
            found[distance + SQUARED] = near[:, :k].mean(axis=1)
            found[f"mean-k-nn-dot-product-k-{k}"] = high[:, :k].mean(axis=1)
        for name, values in found.items():
            of_word.setdefault(name, []).append(values)
    means = {}
    for name, parts in of_word.items():
        values = np.concatenate(parts)
        means[name] = [
            round(float(values[(ranks >= low) & (ranks < high)].mean()), 6)
            for low, high in RANGES
        ]
    return means


def measured(encoder: str, checkpoint: Path, counts: Path) -> WordFrequencies:
    """The statistics of a checkpoint. Raises DataError if it has no word embeddings."""
    weights = checkpoint / "model.safetensors"
    with safe_open(weights, "np") as file:
        names = [name for name in file.keys() if name.endswith(MATRIX)]  # noqa: SIM118
        if len(names) != 1:
            raise DataError(
                f"{weights}: wanted one tensor …{MATRIX}, found {len(names)}; name the folder "
                "of a BERT"
            )
        matrix = file.get_tensor(names[0])
    pieces = (checkpoint / "vocab.txt").read_text(encoding="utf-8").split("\n")
    lines = counts.read_text(encoding="utf-8").splitlines()
    counted = [line.split(" ")[0] for line in lines]
    digests = {"weights": sha256_of(weights), "counts": sha256_of(counts)}
    found = tuple(readings(matrix, pieces[: len(matrix)], counted))
    return WordFrequencies(encoder, digests, found)


def main(arguments: Sequence[str]) -> int:
    """Write the file; status 1 where a file is missing or no checkpoint."""
    try:
        [encoder, checkpoint, counts] = arguments
        content = asdict(measured(encoder, Path(checkpoint), Path(counts)))
        file = COMMITTED / RECORDS / FOLDER / f"{encoder}.json"
        file.parent.mkdir(exist_ok=True)
        write_json(file, content)
    except (ValueError, OSError, HarnessError) as error:
        print(f"word_frequency: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
