"""Training data: sentences, triplets, labelled pairs, and shuffled batches of them.

Triplets are CSV with a header (SimCSE's `nli_for_simcse.csv`). Labelled pairs are
tab-separated lines without quoting: an extract of SNLI, or AllNLI. `open_text`,
`open_triplets` and `open_labelled_pairs` open them by name or path, with the digest that
`training.json` states.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from harness.core.arrays import Int64, read_only
from harness.core.digests import sha256_of, text_digest
from harness.core.errors import DataError, UsageError
from harness.core.types import Corpus
from harness.data.catalogue import EMBEDDED_SHA256
from harness.data.places import Places, asset_named
from harness.data.tasks.corpora import ALL_NLI, ALL_NLI_HEADER
from harness.data.tasks.mini import embedded_rows
from harness.data.tasks.readers import (
    CORRECT_ADVICE,
    REFETCH_ADVICE,
    advising,
    body,
    fields,
    lines,
)

# Columns of equal length: row n of all columns is one example.
TextColumns = tuple[tuple[str, ...], ...]

TRIPLETS_HEADER = ("sent0", "sent1", "hard_neg")
# In sentence-transformers' order, which numbers them.
NLI_LABELS = ("contradiction", "entailment", "neutral")
# The numbers of labels in the extract of SNLI.
LABEL_OF_NUMBER = {"1": "neutral", "2": "contradiction", "3": "entailment"}


# Examples


@dataclass(frozen=True)
class Labelled:
    """Labelled pairs: premises, hypotheses, and labels as indices into NLI_LABELS."""

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[int, ...]

    @property
    def columns(self) -> TextColumns:
        """The premises and the hypotheses."""
        return self.premises, self.hypotheses

    def pairs_of_kind(self, kind: str) -> TextColumns:
        """Premises and hypotheses of one label, or of `all`.

        Raises UsageError for another kind, and DataError where there is no such pair.
        """
        if kind not in (*NLI_LABELS, "all"):
            raise UsageError(
                f"--pairs {kind}: wanted one of {', '.join(NLI_LABELS)}, all"
            )
        pairs = []
        rows = zip(self.premises, self.hypotheses, self.labels, strict=True)
        for premise, hypothesis, label in rows:
            if kind in ("all", NLI_LABELS[label]):
                pairs.append((premise, hypothesis))
        if not pairs:
            raise DataError(f"wanted labelled pairs of {kind}, found none")
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
    sampled_columns = []
    for column in columns:
        sampled_columns.append(tuple(column[row] for row in rows))
    return tuple(sampled_columns)


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


def read_labelled(path: Path, held_out: bool = False) -> Labelled:
    """Labelled pairs: AllNLI's train splits, or lines of label, label, premise, hypothesis.

    `held_out` adds SNLI's dev and test splits to AllNLI's. Raises DataError with the
    line.
    """
    _, first_line = next(lines(path), ("", ""))
    is_all_nli = first_line.split("\t") == list(ALL_NLI_HEADER)
    if held_out and not is_all_nli:
        raise UsageError(
            f"--held-out: wanted AllNLI, which names splits, found {path.name}"
        )
    rows = _pairs_with_numbers(path)
    if is_all_nli:
        rows = _all_nli_pairs(path, held_out)
    pairs = list(rows)
    if not pairs:
        raise DataError(f"{path}: wanted labelled pairs, found none")
    premises, hypotheses, labels = zip(*pairs, strict=True)
    return Labelled(premises, hypotheses, labels)


def _pairs_with_numbers(path: Path) -> Iterator[tuple[str, str, int]]:
    """Premise, hypothesis and label of each line of the extract, which numbers labels from 1."""
    for line_name, line in lines(path):
        label, _, premise, hypothesis = fields(line_name, line, 4)
        if label not in LABEL_OF_NUMBER:
            raise DataError(f"{line_name}: wanted a label from 1 to 3, found {label!r}")
        yield premise, hypothesis, NLI_LABELS.index(LABEL_OF_NUMBER[label])


def _all_nli_pairs(path: Path, held_out: bool) -> Iterator[tuple[str, str, int]]:
    """Premise, hypothesis and label of each pair of AllNLI.

    They are of the train splits of SNLI and MultiNLI, as sentence-transformers trains on
    them. With `held_out` they are of all splits of SNLI, too, as in BERT-flow.
    """
    for line_name, line in body(path, ALL_NLI_HEADER):
        split, dataset, _, premise, hypothesis, label = fields(line_name, line, 6)
        dataset = dataset.lower().replace("multi", "m")
        is_wanted_split = held_out or split == "train"
        if (dataset, split) not in ALL_NLI or not is_wanted_split:
            continue
        if label not in NLI_LABELS:
            raise DataError(
                f"{line_name}: wanted one of {', '.join(NLI_LABELS)}, found {label!r}"
            )
        yield premise, hypothesis, NLI_LABELS.index(label)


# By the name of a corpus or an asset, or by the path of a file

NLI_TRIPLETS = ("nli-for-simcse", "snli-triplets", "mini-triplets")
NLI_PAIRS = ("all-nli", "snli-18k", "mini-nli")

Content = TypeVar("Content", TextColumns, Labelled)


@dataclass(frozen=True)
class TrainingSet(Generic[Content]):
    """Examples, their name, and the digest that `training.json` states."""

    name: str
    digest: str
    content: Content


def open_text(
    name: str, corpora: Mapping[str, Corpus], places: Places, count: int | None = None
) -> TrainingSet[TextColumns]:
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
            sentences = tuple(islice(_text_lines(Path(name)), count))
    else:
        names = ", ".join(sorted(corpora))
        raise UsageError(
            f"--corpus {name}: wanted a file or a corpus ({names}), found neither"
        )
    if len(sentences) < (count or 1):
        raise DataError(
            f"{name}: wanted {count or 'some'} sentences, found {len(sentences)}"
        )
    return TrainingSet(Path(name).name, text_digest(sentences), (sentences,))


def _text_lines(path: Path) -> Iterator[str]:
    """The lines of a text file that are not empty, each a sentence.

    Raises DataError for a line that holds a CR: editors of old systems end lines with it
    alone.
    """
    for place, line in lines(path):
        if "\r" in line:
            raise DataError(
                f"{place}: wanted lines that end with LF or CRLF, found CR in one"
            )
        if line.strip():
            yield line


def open_triplets(name: str, places: Places) -> TrainingSet[TextColumns]:
    """Triplets by name, or a CSV file of them. Raises AssetMissing, DataError, UsageError."""
    if name == "mini-triplets":
        columns = tuple(zip(*embedded_rows("triplets.tsv", 3), strict=True))
        return TrainingSet(name, EMBEDDED_SHA256["triplets.tsv"], columns)
    return _open(name, NLI_TRIPLETS, read_triplets, places)


def open_positives(name: str, pairs: str, places: Places) -> TrainingSet[TextColumns]:
    """Sentences and their positives, by the name of an asset or the path of a file.

    `pairs` is `none` for triplets, or the label whose pairs are taken of labelled pairs;
    `all` takes the pairs of all labels.
    """
    if pairs == "none":
        return open_triplets(name, places)
    labelled_set = open_labelled_pairs(name, places)
    columns = labelled_set.content.pairs_of_kind(pairs)
    return TrainingSet(labelled_set.name, labelled_set.digest, columns)


def open_labelled_pairs(
    name: str, places: Places, held_out: bool = False
) -> TrainingSet[Labelled]:
    """Labelled pairs by name, or a file of them; `held_out` adds SNLI's dev and test splits."""
    if name != "mini-nli":
        return _open(name, NLI_PAIRS, partial(read_labelled, held_out=held_out), places)
    if held_out:
        raise UsageError(f"--held-out: wanted AllNLI, which names splits, found {name}")
    premises, hypotheses, labels = zip(*embedded_rows("nli.tsv", 3), strict=True)
    label_indices = tuple(NLI_LABELS.index(label) for label in labels)
    pairs = Labelled(premises, hypotheses, label_indices)
    return TrainingSet(name, EMBEDDED_SHA256["nli.tsv"], pairs)


def _open(
    name: str,
    asset_names: Sequence[str],
    read: Callable[[Path], Content],
    places: Places,
) -> TrainingSet[Content]:
    """The content of an asset, or of a file by its path.

    Raises DataError for an asset whose file is not the one that the catalogue pins.
    """
    if name in asset_names:
        asset = asset_named(name)
        # Without a file, `require_data` raises, and says how to get it.
        path = places.data(asset) or places.require_data(name)
        digest = sha256_of(path)
        if asset.sha256 not in (None, digest):
            raise DataError(
                f"{path}: wanted sha256 {asset.sha256}, found {digest}; {REFETCH_ADVICE}"
            )
        with advising(REFETCH_ADVICE):
            return TrainingSet(name, digest, read(path))
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"--file {name}: wanted a file or one of {', '.join(asset_names)}, found neither"
        )
    with advising(CORRECT_ADVICE):
        return TrainingSet(path.name, sha256_of(path), read(path))
