"""GloVe: word vectors by weighted least squares on the logarithms of co-occurrence counts.

Pennington, Socher & Manning 2014 (EMNLP), sections 3 and 4.2: minimise over all entries X_ij > 0
the sum of f(X_ij) (w_i . c_j + b_i + d_j - log X_ij)^2 by AdaGrad; a word's vector is w + c.

The update is that of the authors' released code, and equal to it with blocks of one word. Different
here: how entries are grouped into steps. Words are assigned to blocks at random and the matrix is
divided into strata, sets of block pairs of which no two share a row or a column (Gemulla et al.
2011, KDD). The block pairs of a stratum are independent; inside a pair, the steps of all entries
are computed from the values before it and added. That is dense arithmetic, so that one core does 25
epochs over 31 million entries in minutes.

    python tools/embedded/glove_mini.py --out my-glove
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from command import command_line, open_corpus, run, training_parser
from cooccurrences import Cooccurrences, Counting, count
from torch import Tensor

from harness.core.arrays import Float, Float32, Float64, Int32, Int64
from harness.core.errors import ScoreError, UsageError
from harness.core.files import write_atomically
from harness.core.progress import Bar
from harness.core.types import Progress
from harness.encoders.word_vectors import write_vectors
from harness.training.datasets import Text
from harness.training.loop import TRAINING, Curve, TrainingInfo, require_new
from harness.transforms.flows import one_thread

VECTORS = "vectors.safetensors"
GROUP = 16  # block pairs whose values fit into a core's cache; does not affect the result


@dataclass(frozen=True)
class WordVectorSettings:
    """The objective (x_max and alpha of equation 9) and its optimisation.

    `block` is the number of words in a block.
    """

    counting: Counting = field(default_factory=Counting)
    dimensions: int = 100
    epochs: int = 25
    learning_rate: float = 0.05
    x_max: float = 10.0
    alpha: float = 0.75
    block: int = 64

    def __post_init__(self) -> None:
        if min(self.dimensions, self.epochs, self.block) < 1 or self.x_max <= 0:
            raise UsageError(
                "wanted a dimension, an epoch, a word in a block or more and an x_max above 0, "
                f"found {self.dimensions}, {self.epochs}, {self.block} and {self.x_max}"
            )

    def weights(self, counts: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """The weight f(X) of each count's squared error: min(1, (X / x_max)^alpha)."""
        return np.minimum(1.0, (counts / self.x_max) ** self.alpha)


@one_thread()
def train_vectors(
    corpus: Text,
    settings: WordVectorSettings,
    seed: int,
    out: Path,
    progress: Progress,
    command: str,
) -> Curve:
    """Count co-occurrences in a corpus, fit vectors to them, and write those into a new folder.

    Vectors are stored in 16 bits, far finer than the difference between seeds. A seed gives equal
    bits on one kind of processor. Raises DataError for a corpus that is too short or without
    co-occurrences, and ScoreError for a loss that is not finite; nothing is written then.
    """
    require_new(out)
    start = time.perf_counter()
    digest = corpus.digest()
    matrix = count(corpus, settings.counting, progress)
    vectors, losses = fit_vectors(matrix, settings, np.random.default_rng(seed), progress)
    curve = Curve(losses, seconds=time.perf_counter() - start)
    info = TrainingInfo(command, asdict(settings), seed, {corpus.name: digest}, curve)
    out.mkdir(parents=True, exist_ok=True)
    write_vectors(out / VECTORS, matrix.words, vectors.astype(np.float16))
    text = json.dumps(info.as_json() | {"counted": matrix.facts()}, indent=1, ensure_ascii=False)
    write_atomically(out / TRAINING, f"{text}\n".encode())  # last: without it, no checkpoint
    return curve


def fit_vectors(
    matrix: Cooccurrences,
    settings: WordVectorSettings,
    rng: np.random.Generator,
    progress: Progress,
) -> tuple[Float32[np.ndarray, "V D"], tuple[float, ...]]:
    """The vectors of the words, and the mean loss of each epoch. Raises ScoreError."""
    places, strata = stratify(matrix, settings, rng)
    model = Model.start(strata[0].blocks, settings, rng)
    entries = sum(stratum.entries for stratum in strata)
    losses: list[float] = []
    progress.phase("training", settings.epochs * len(strata))
    for _ in range(settings.epochs):
        cost = 0.0
        for number in rng.permutation(len(strata)):
            cost += model.step(strata[number], settings.learning_rate)
            progress.step(1)
        losses.append(cost / entries)
        if not math.isfinite(cost):
            raise ScoreError(
                f"the training diverged: its cost is {cost} in epoch {len(losses)}; take a lower "
                "learning rate or smaller blocks"
            )
        progress.note(f"loss {losses[-1]:.4f}")
    return model.vectors()[places], tuple(losses)


@dataclass(frozen=True, eq=False)
class Stratum:
    """The pairs of row block a and column block a + shift (mod blocks), for every a.

    `at` holds the places of the n entries in a (blocks, B, B) tensor of these pairs. If `mirrored`,
    the symmetric pairs of row block a + shift and column block a belong to the stratum too.
    """

    shift: int
    blocks: int
    block: int
    mirrored: bool
    at: Int64[Tensor, " n"]
    logs: Float[Tensor, " n"]
    weights: Float[Tensor, " n"]

    @property
    def entries(self) -> int:
        """The number of entries of the stratum, mirrored ones included."""
        return len(self.at) * (1 + self.mirrored)

    def dense(self, values: Float[Tensor, " n"]) -> Float[Tensor, "blocks B B"]:
        """The values at the places of the entries, and 0 elsewhere."""
        cells = values.new_zeros(self.blocks * self.block**2)
        cells[self.at] = values
        return cells.view(self.blocks, self.block, self.block)

    def groups(self) -> Iterator[tuple[slice, slice]]:
        """Runs of row blocks, each with the run of column blocks that it is paired with."""
        turn = self.blocks - self.shift
        for start, stop, move in ((0, turn, self.shift), (turn, self.blocks, -turn)):
            for low in range(start, stop, GROUP):
                high = min(low + GROUP, stop)
                yield slice(low, high), slice(low + move, high + move)


def stratify(
    matrix: Cooccurrences, settings: WordVectorSettings, rng: np.random.Generator
) -> tuple[Int64[np.ndarray, " V"], list[Stratum]]:
    """Assign words to random places, whose blocks divide the matrix; the places and the strata.

    The matrix is symmetric, so that one of two mirrored strata is built.
    """
    size, block = len(matrix.words), settings.block
    blocks = math.ceil(size / block)
    places = rng.permutation(size)
    rows, columns, counts = _both_ways(matrix, places)
    shifts = (columns // block - rows // block) % blocks
    needed = np.flatnonzero(shifts <= blocks // 2)
    needed = needed[np.argsort(shifts[needed], kind="stable")]
    at = torch.from_numpy(rows[needed].astype(np.int64) * block + columns[needed] % block)
    logs = torch.from_numpy(np.log(counts[needed]).astype(np.float32))
    weights = torch.from_numpy(settings.weights(counts[needed]).astype(np.float32))
    ends = np.searchsorted(shifts[needed], np.arange(blocks // 2 + 2))
    return places, [
        Stratum(shift, blocks, block, 0 < 2 * shift != blocks, at[a:b], logs[a:b], weights[a:b])
        for shift, (a, b) in enumerate(pairwise(ends))
    ]


def _both_ways(
    matrix: Cooccurrences, places: Int64[np.ndarray, " V"]
) -> tuple[Int32[np.ndarray, " m"], Int32[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """Row place, column place and count of every entry of the symmetric matrix."""
    a, b = (places[words].astype(np.int32) for words in (matrix.rows, matrix.columns))
    off = a != b  # off the diagonal
    counts = np.concatenate([matrix.counts, matrix.counts[off]])
    return np.concatenate([a, b[off]]), np.concatenate([b, a[off]]), counts


@dataclass(frozen=True, eq=False)
class Side:
    """Word or context vectors, and AdaGrad's sums of their squared gradients.

    Behind each vector stand its bias and a constant 1, which multiplies the bias of the other side:
    the dot product of a word's and a context's row is the model of log X_ij. The constant's sum of
    squares is infinite, so that it never moves.
    """

    values: Float[Tensor, "blocks B E"]
    squares: Float[Tensor, "blocks B E"]

    def part(self, blocks: slice) -> Side:
        """A view of some blocks."""
        return Side(self.values[blocks], self.squares[blocks])

    def move(self, steps: Float[Tensor, "b B E"], squares: Float[Tensor, "b B E"]) -> None:
        """AdaGrad: divide the steps by the root of 1 + all squares before them, and subtract."""
        self.values.addcmul_(steps, self.squares.rsqrt(), value=-1)
        self.squares.add_(squares)


@dataclass(frozen=True, eq=False)
class Model:
    """Words and contexts; their last two columns are (bias, 1) and (1, bias)."""

    words: Side
    contexts: Side

    @classmethod
    def start(cls, blocks: int, settings: WordVectorSettings, rng: np.random.Generator) -> Model:
        """Values uniform in (-0.5, 0.5) / (D + 1), as in the released code."""
        shape = (blocks, settings.block, settings.dimensions + 2)
        sides = []
        for constant in (-1, -2):
            values = (rng.random(shape, np.float32) - np.float32(0.5)) / (settings.dimensions + 1)
            squares = np.ones(shape, np.float32)
            values[..., constant], squares[..., constant] = 1.0, np.inf
            sides.append(Side(torch.from_numpy(values), torch.from_numpy(squares)))
        return cls(*sides)

    def step(self, stratum: Stratum, rate: float) -> float:
        """Update by all entries of a stratum; returns the sum of their losses before it."""
        logs, weights = stratum.dense(stratum.logs), stratum.dense(stratum.weights)
        sides = [(self.words, self.contexts), (self.contexts, self.words)]
        cost = 0.0
        for rows, columns in sides[: 1 + stratum.mirrored]:
            for a, b in stratum.groups():
                cost += descend(rows.part(a), columns.part(b), logs[a], weights[a], rate)
        return cost

    def vectors(self) -> Float[np.ndarray, "places D"]:
        """w + c, without the biases."""
        total = (self.words.values + self.contexts.values).flatten(0, 1)[:, :-2]
        return total.numpy()


def descend(
    rows: Side,
    columns: Side,
    logs: Float[Tensor, "b B B"],
    weights: Float[Tensor, "b B B"],
    rate: float,
) -> float:
    """One AdaGrad step by every entry of some block pairs; returns their loss before it.

    The squared gradients are those of single entries, not of their sum.
    """
    w, c = rows.values, columns.values
    errors = torch.bmm(w, c.mT).sub_(logs)
    steps = errors * weights
    cost = 0.5 * torch.dot(steps.flatten(), errors.flatten()).item()
    steps *= rate
    squares = steps.square()
    row_steps = torch.bmm(steps, c), torch.bmm(squares, c.square())
    column_steps = torch.bmm(steps.mT, w), torch.bmm(squares.mT, w.square())
    rows.move(*row_steps)
    columns.move(*column_steps)
    return cost


def main(arguments: list[str] | None = None) -> None:
    """The command."""
    parser = training_parser(__file__, __doc__)
    settings = WordVectorSettings()
    for name, kind, default, meaning in (
        ("words", int, settings.counting.words, "size of the vocabulary"),
        ("dimensions", int, settings.dimensions, "of a vector"),
        ("epochs", int, settings.epochs, "passes over the co-occurrences"),
        ("learning_rate", float, settings.learning_rate, "of AdaGrad"),
        ("x_max", float, settings.x_max, "counts above it weigh the same"),
    ):
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=meaning)
    options = parser.parse_args(arguments)
    settings = replace(
        settings,
        counting=Counting(words=options.words),
        dimensions=options.dimensions,
        epochs=options.epochs,
        learning_rate=options.learning_rate,
        x_max=options.x_max,
    )
    text, command = open_corpus(options), command_line(parser, options)
    with Bar(sys.stderr) as bar:
        curve = train_vectors(text, settings, options.seed, options.out, bar, command)
    print(f"{options.out}: {settings.epochs} epochs, loss {curve.losses[-1]:.4f}")


if __name__ == "__main__":
    run(main)
