"""Word vectors by weighted least squares on the logarithms of co-occurrence counts.

Pennington, Socher & Manning (2014, EMNLP), Global Vectors for Word Representation, sections 3 and
4.2: over all pairs that met, lower f(X_ij) (w_i . c_j + b_i + d_j - log X_ij)^2 by AdaGrad; w + c
is a word's vector.

The update is that of the authors' released code, and with blocks of one word it is nothing else.
Different here: how entries come together in a step. The words are dealt into blocks, and the
matrix into strata: sets of block pairs of which no two share a row or a column (Gemulla et al.
2011, KDD). Pairs of blocks in a stratum do not touch each other; inside of one, every entry's step
is computed from the values before it, and the steps are added. That is dense arithmetic, and so
one core does 25 epochs over 31 million entries in minutes.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from harness.core.arrays import Float, Float32, Float64, Int32, Int64
from harness.core.errors import DataError, ScoreError, UsageError
from harness.core.files import write_atomically
from harness.core.types import Progress
from harness.encoders.word_vector_files import write_vectors
from harness.training.checkpoint import CURVE, TRAINING, Made, drawn, require_new
from harness.training.datasets import Text
from harness.training.glove_counts import Cooccurrences, Counting, count
from harness.training.loop import Curve
from harness.transforms.flows import one_thread

VECTORS = "vectors.safetensors"
AT_ONCE = 16  # pairs of blocks whose numbers fit into a core's cache; moves no result


@dataclass(frozen=True)
class Recipe:
    """What is minimised, and how."""

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
        """What the squared error of each count is worth: equation 9."""
        return np.minimum(1.0, (counts / self.x_max) ** self.alpha)


@one_thread()
def train_vectors(
    corpus: Text,
    recipe: Recipe,
    seed: int,
    out: Path,
    progress: Progress,
    command: str,
    clock: Callable[[], float] = time.perf_counter,
) -> Curve:
    """Count the co-occurrences of a corpus, fit vectors to them, and write both into a new folder.

    The vectors are stored in 16 bits, far finer than what another seed moves. The same seed gives
    the same bits on one kind of processor. Raises DataError for a corpus without co-occurrences and
    ScoreError where the cost stops being a finite number; then nothing is written.
    """
    require_new(out)
    start = clock()
    found = count(corpus, recipe.counting, progress)
    if corpus.first is not None and found.sentences < corpus.first:
        raise DataError(f"{corpus.name}: wanted {corpus.first} sentences, found {found.sentences}")
    vectors, losses = fit_vectors(found, recipe, np.random.default_rng(seed), progress)
    curve = Curve(losses, seconds=clock() - start)
    made = Made(command, asdict(recipe), seed, {corpus.name: found.digest}, curve)
    out.mkdir(parents=True, exist_ok=True)
    write_vectors(out / VECTORS, found.words, vectors.astype(np.float16))
    write_atomically(out / CURVE, drawn(made.curve).encode())
    told = json.dumps(made.told() | {"counted": found.facts()}, indent=1, ensure_ascii=False)
    write_atomically(out / TRAINING, f"{told}\n".encode())  # last: without it, no checkpoint
    return curve


def fit_vectors(
    found: Cooccurrences, recipe: Recipe, rng: np.random.Generator, progress: Progress
) -> tuple[Float32[np.ndarray, "V D"], tuple[float, ...]]:
    """The vectors of the words, and the mean cost of each epoch."""
    places, strata = stratify(found, recipe, rng)
    model = Model.start(strata[0].blocks, recipe, rng)
    entries = sum(stratum.entries for stratum in strata)
    losses: list[float] = []
    progress.phase("training", recipe.epochs * len(strata))
    for _ in range(recipe.epochs):
        cost = 0.0
        for number in rng.permutation(len(strata)):
            cost += model.step(strata[number], recipe.learning_rate)
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
    """Block a of the rows meets block a + shift of the columns, for every a, round and round.

    `at` says where each of the n entries stands in a (blocks, B, B) tensor of such pairs. If
    `mirrored`, block a + shift of the rows meets block a of the columns in the same counts.
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
        """How many entries it covers, those of its mirror image included."""
        return len(self.at) * (1 + self.mirrored)

    def dense(self, values: Float[Tensor, " n"]) -> Float[Tensor, "blocks B B"]:
        """The values where they belong, and 0 elsewhere."""
        cells = values.new_zeros(self.blocks * self.block**2)
        cells[self.at] = values
        return cells.view(self.blocks, self.block, self.block)

    def groups(self) -> Iterator[tuple[slice, slice]]:
        """A few consecutive blocks of the rows, and the blocks of the columns that they meet."""
        turn = self.blocks - self.shift
        for start, stop, move in ((0, turn, self.shift), (turn, self.blocks, -turn)):
            for low in range(start, stop, AT_ONCE):
                high = min(low + AT_ONCE, stop)
                yield slice(low, high), slice(low + move, high + move)


def stratify(
    found: Cooccurrences, recipe: Recipe, rng: np.random.Generator
) -> tuple[Int64[np.ndarray, " V"], list[Stratum]]:
    """Deal the words into blocks; the place that each one gets, and the strata.

    The matrix is symmetric, so of two strata that mirror each other one is made.
    """
    size, block = len(found.words), recipe.block
    blocks = math.ceil(size / block)
    places = rng.permutation(size)
    rows, columns, counts = _both_ways(found, places)
    shifts = (columns // block - rows // block) % blocks
    needed = np.flatnonzero(shifts <= blocks // 2)
    needed = needed[np.argsort(shifts[needed], kind="stable")]
    at = torch.from_numpy(rows[needed].astype(np.int64) * block + columns[needed] % block)
    logs = torch.from_numpy(np.log(counts[needed]).astype(np.float32))
    weights = torch.from_numpy(recipe.weights(counts[needed]).astype(np.float32))
    ends = np.searchsorted(shifts[needed], np.arange(blocks // 2 + 2))
    return places, [
        Stratum(shift, blocks, block, 0 < 2 * shift != blocks, at[a:b], logs[a:b], weights[a:b])
        for shift, (a, b) in enumerate(pairwise(ends))
    ]


def _both_ways(
    found: Cooccurrences, places: Int64[np.ndarray, " V"]
) -> tuple[Int32[np.ndarray, " m"], Int32[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """Every entry of the symmetric matrix, words by their places."""
    one, other = (places[x].astype(np.int32) for x in (found.rows, found.columns))
    apart = one != other
    rows = np.concatenate([one, other[apart]])
    columns = np.concatenate([other, one[apart]])
    return rows, columns, np.concatenate([found.counts, found.counts[apart]])


@dataclass(frozen=True, eq=False)
class Side:
    """The vectors of the words, or of the contexts, and AdaGrad's sums of squared steps.

    Behind a vector stand its bias and a one, which meets the bias of the other side; so a product
    of two rows is what the logarithm is compared with. The sum of a one is infinite: it stays.
    """

    values: Float[Tensor, "blocks B E"]
    squares: Float[Tensor, "blocks B E"]

    def part(self, blocks: slice) -> Side:
        """Some blocks of it, in the same memory."""
        return Side(self.values[blocks], self.squares[blocks])

    def move(self, steps: Float[Tensor, "b B E"], squares: Float[Tensor, "b B E"]) -> None:
        """AdaGrad: a step is divided by the root of 1 + the squares of all before it."""
        self.values.addcmul_(steps, self.squares.rsqrt(), value=-1)
        self.squares.add_(squares)


@dataclass(frozen=True, eq=False)
class Model:
    """Both sides. Their last two columns are bias and one, one and bias."""

    words: Side
    contexts: Side

    @classmethod
    def start(cls, blocks: int, recipe: Recipe, rng: np.random.Generator) -> Model:
        """Uniform in -0.5 to 0.5, divided by the numbers of a row, as in the released code."""
        shape = (blocks, recipe.block, recipe.dimensions + 2)
        sides = []
        for one in (-1, -2):
            values = (rng.random(shape, np.float32) - np.float32(0.5)) / (recipe.dimensions + 1)
            squares = np.ones(shape, np.float32)
            values[..., one], squares[..., one] = 1.0, np.inf
            sides.append(Side(torch.from_numpy(values), torch.from_numpy(squares)))
        return cls(*sides)

    def step(self, stratum: Stratum, rate: float) -> float:
        """Take the entries of a stratum; returns the sum of what they cost before."""
        logs, weights = stratum.dense(stratum.logs), stratum.dense(stratum.weights)
        sides = [(self.words, self.contexts), (self.contexts, self.words)]
        cost = 0.0
        for one, other in sides[: 1 + stratum.mirrored]:
            for rows, columns in stratum.groups():
                group = logs[rows], weights[rows]
                cost += descend(one.part(rows), other.part(columns), *group, rate)
        return cost

    def vectors(self) -> Float[np.ndarray, "places D"]:
        """Words and contexts added, without the biases."""
        total = (self.words.values + self.contexts.values).flatten(0, 1)[:, :-2]
        return total.numpy()


def descend(
    one: Side,
    other: Side,
    logs: Float[Tensor, "b B B"],
    weights: Float[Tensor, "b B B"],
    rate: float,
) -> float:
    """A step of every entry where the blocks of two sides meet; returns the cost before it.

    Squares are those of single entries, as AdaGrad's are, and not of their sum.
    """
    w, c = one.values, other.values
    errors = torch.bmm(w, c.mT).sub_(logs)
    steps = errors * weights
    cost = 0.5 * torch.dot(steps.flatten(), errors.flatten()).item()
    steps *= rate
    squares = steps.square()
    of_one = torch.bmm(steps, c), torch.bmm(squares, c.square())
    of_other = torch.bmm(steps.mT, w), torch.bmm(squares.mT, w.square())
    one.move(*of_one)
    other.move(*of_other)
    return cost
