"""Training data: columns of sentences, and shuffled batches of them.

Triplets are CSV with a header (SimCSE's `nli_for_simcse.csv`). Labelled pairs are
tab-separated lines without quoting: an extract of SNLI, or AllNLI. Data are opened by the
name of a corpus or asset, or by the path of a file, with the digest that `training.json`
states.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

import numpy as np

from harness.core.arrays import Int64, read_only
from harness.core.digests import sha256_of, text_digest
from harness.core.errors import DataError, UsageError
from harness.core.pairs import pairs_digest
from harness.core.types import Corpus, Task
from harness.data.catalogue import EMBEDDED_SHA256
from harness.data.places import Places, asset_named
from harness.data.tasks.corpora import ALL_NLI, ALL_NLI_HEADER, all_nli_rows
from harness.data.tasks.mini import embedded_rows
from harness.data.tasks.readers import (
    CORRECT_ADVICE,
    REFETCH_ADVICE,
    advising,
    fields,
    lines,
)

# Columns of equal length: row n of all columns is one example.
TextColumns = tuple[tuple[str, ...], ...]
# Columns, and the digest of their file or text by its name.
Opened = tuple[TextColumns, dict[str, str]]

TRIPLETS_HEADER = ("sent0", "sent1", "hard_neg")
# In sentence-transformers' order, which numbers them.
NLI_LABELS = ("contradiction", "entailment", "neutral")
# The numbers of labels in the extract of SNLI.
LABEL_OF_NUMBER = {"1": "neutral", "2": "contradiction", "3": "entailment"}
# Names of data sets, and the files of those that are embedded.
NLI_TRIPLETS = ("nli-for-simcse", "snli-triplets", "mini-triplets")
NLI_PAIRS = ("all-nli", "snli-18k", "mini-nli")
EMBEDDED_FILES = {"mini-triplets": "triplets.tsv", "mini-nli": "nli.tsv"}


# By the name of a corpus or an asset, or by the path of a file


def open_text(
    name: str, corpora: Mapping[str, Corpus], places: Places, count: int | None = None
) -> Opened:
    """One column: the sentences of a registered corpus, or the lines of a text file.

    Args:
        name: The name of the corpus, or the path of the file.
        corpora: All corpora by their names.
        places: Where their files are.
        count: How many sentences are taken, from the first on; None takes all.
    """
    if name in corpora:
        corpus = corpora[name]
        data = places.require_data(corpus.asset)
        sentences = tuple(islice(corpus.sentences(data), count))
    elif Path(name).is_file():
        with advising(CORRECT_ADVICE):
            texts = (line for _, line in lines(Path(name)) if line.strip())
            sentences = tuple(islice(texts, count))
    else:
        names = ", ".join(sorted(corpora))
        raise UsageError(
            f"--corpus {name}: wanted a file or a corpus ({names}), found neither"
        )
    if len(sentences) < (count or 1):
        raise DataError(
            f"{name}: wanted {count or 'some'} sentences, found {len(sentences)}"
        )
    return (sentences,), {Path(name).name: text_digest(sentences)}


def open_triplets(name: str, places: Places) -> Opened:
    """Sentences, their positives and, if there are any, their hard negatives."""
    return _open(name, NLI_TRIPLETS, read_triplets, places)


def open_labelled_pairs(name: str, places: Places, held_out: bool = False) -> Opened:
    """Premises, hypotheses and labels; `held_out` adds SNLI's dev and test splits."""
    if held_out and name in EMBEDDED_FILES:
        raise UsageError(f"--held-out: wanted AllNLI, which names splits, found {name}")
    return _open(name, NLI_PAIRS, partial(read_labelled, held_out=held_out), places)


def open_scored_pairs(
    task: Task, places: Places
) -> tuple[TextColumns, list[float], dict[str, str]]:
    """The pairs of a task, a score from 0 to 1 for each, and their digest by its name."""
    if task.graded is None:
        raise UsageError(
            f"--task {task.name}: wanted pairs with graded gold, as sts-b.train"
        )
    pairs = task.pairs(places.require_data(task.asset))
    low, high = task.graded
    scores = [(gold - low) / (high - low) for gold in pairs.gold.tolist()]
    return pairs.columns, scores, {task.name: pairs_digest(pairs)}


def _open(
    name: str,
    data_sets: tuple[str, ...],
    read: Callable[[Path], TextColumns],
    places: Places,
) -> Opened:
    """The content of a data set, or of a file by its path.

    Raises DataError for a data set whose file is not the one that the catalogue pins.
    """
    if name in data_sets and name in EMBEDDED_FILES:
        file = EMBEDDED_FILES[name]
        columns = tuple(zip(*embedded_rows(file, 3), strict=True))
        return columns, {name: EMBEDDED_SHA256[file]}
    if name in data_sets:
        asset = asset_named(name)
        # Without a file, `require_data` raises, and says how to get it.
        path = places.data(asset) or places.require_data(name)
        digest = sha256_of(path)
        if asset.sha256 not in (None, digest):
            raise DataError(
                f"{path}: wanted sha256 {asset.sha256}, found {digest}; {REFETCH_ADVICE}"
            )
        with advising(REFETCH_ADVICE):
            return read(path), {name: digest}
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"--file {name}: wanted a file or one of {', '.join(data_sets)}, found neither"
        )
    with advising(CORRECT_ADVICE):
        return read(path), {path.name: sha256_of(path)}


# Files


def read_triplets(path: Path) -> TextColumns:
    """The two or three columns of a CSV file: sentence, positive, hard negative.

    Quoting follows RFC 4180; the file may be compressed (.gz, .xz). Raises DataError with
    the line.
    """
    examples: list[tuple[str, ...]] = []
    rows = csv.reader((line for _, line in lines(path, keep_ends=True)), strict=True)
    try:
        header = tuple(next(rows, ()))
        if header not in (TRIPLETS_HEADER, TRIPLETS_HEADER[:2]):
            raise DataError(
                f"{path}:1: wanted the header {','.join(TRIPLETS_HEADER)} or its first two, found "
                f"{','.join(header)!r}"
            )
        for row in rows:
            if len(row) != len(header) or not all(cell.strip() for cell in row):
                raise DataError(
                    f"{path}:{rows.line_num}: wanted {len(header)} sentences, found {row!r}"
                )
            examples.append(tuple(row))
    except csv.Error as error:
        raise DataError(f"{path}:{rows.line_num}: wanted CSV, found {error}") from None
    if not examples:
        raise DataError(f"{path}: wanted rows after the header, found none")
    return tuple(zip(*examples, strict=True))


def read_labelled(path: Path, held_out: bool = False) -> TextColumns:
    """Premises, hypotheses and labels of AllNLI's train splits, or of the extract's lines.

    Of AllNLI they are the train splits of SNLI and MultiNLI, as sentence-transformers
    trains on them; `held_out` adds SNLI's dev and test splits, as BERT-flow does. A line
    of the extract is label, label, premise, hypothesis. Raises DataError with the line.
    """
    _, first_line = next(lines(path), ("", ""))
    is_all_nli = first_line.split("\t") == list(ALL_NLI_HEADER)
    if held_out and not is_all_nli:
        raise UsageError(
            f"--held-out: wanted AllNLI, which names splits, found {path.name}"
        )
    pairs = []
    if is_all_nli:
        parts = [part for part in ALL_NLI if held_out or part[1] == "train"]
        for place, premise, hypothesis, label in all_nli_rows(path, parts):
            if label not in NLI_LABELS:
                raise DataError(
                    f"{place}: wanted one of {', '.join(NLI_LABELS)}, found {label!r}"
                )
            pairs.append((premise, hypothesis, label))
    else:
        for place, line in lines(path):
            number, _, premise, hypothesis = fields(place, line, 4)
            if number not in LABEL_OF_NUMBER:
                raise DataError(
                    f"{place}: wanted a label from 1 to 3, found {number!r}"
                )
            pairs.append((premise, hypothesis, LABEL_OF_NUMBER[number]))
    if not pairs:
        raise DataError(f"{path}: wanted labelled pairs, found none")
    return tuple(zip(*pairs, strict=True))


# Some of the examples


def pairs_of_label(columns: TextColumns, label: str) -> TextColumns:
    """Premises and hypotheses of one label, or of `all`, as sentences and their positives.

    Raises UsageError for another label, and DataError where there is no such pair.
    """
    if label not in (*NLI_LABELS, "all"):
        raise UsageError(f"--pairs {label}: wanted one of {', '.join(NLI_LABELS)}, all")
    pairs = []
    for premise, hypothesis, label_of_pair in zip(*columns, strict=True):
        if label in ("all", label_of_pair):
            pairs.append((premise, hypothesis))
    if not pairs:
        raise DataError(f"wanted labelled pairs of {label}, found none")
    return tuple(zip(*pairs, strict=True))


def sample(columns: TextColumns, count: int, seed: int) -> TextColumns:
    """Draw `count` of the examples, and keep their order. Raises DataError if there are fewer."""
    example_count = len(columns[0])
    if example_count < count:
        raise DataError(
            f"--sample {count}: wanted so many examples, found {example_count}"
        )
    order = np.random.default_rng((seed, 6, count)).permutation(example_count)
    rows = np.sort(order[:count])
    return tuple(tuple(column[row] for row in rows) for column in columns)


@dataclass(frozen=True)
class Batches:
    """The batches of a training: the examples in a new order in each epoch.

    The last batch of an epoch is the remainder. A remainder of one example is left out,
    since it has no in-batch negative.

    Args:
        count: The number of examples.
        size: The number of examples in a batch.
        seed: Seeds the orders.

    Raises:
        UsageError: There are fewer than two examples, in all or in a batch.
    """

    count: int
    size: int
    seed: int

    def __post_init__(self) -> None:
        if self.count < 2 or self.size < 2:
            raise UsageError(
                f"wanted two examples or more, and two or more a batch, found {self.count} in "
                f"batches of {self.size}; give more sentences, or a larger --batch"
            )

    @property
    def steps(self) -> int:
        """The number of batches in an epoch."""
        full_batches, remainder = divmod(self.count, self.size)
        return full_batches + (1 if remainder > 1 else 0)

    def __call__(self, step: int) -> Int64[np.ndarray, " B"]:
        """The numbers of the examples in a step's batch; B is at most `size`."""
        epoch, batch_number = divmod(step, self.steps)
        start = batch_number * self.size
        return _order(self.count, self.seed, epoch)[start : start + self.size]


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Int64[np.ndarray, " N"]:
    """The order of the examples in an epoch. It is cached, since every step uses it."""
    return read_only(np.random.default_rng((seed, epoch)).permutation(count))
