"""Natural language inference as training data: triplets, labelled pairs, and shuffled batches.

Triplets are CSV with a header (SimCSE's `nli_for_simcse.csv`), labelled pairs
tab-separated lines without quoting: an extract of SNLI, or AllNLI.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import Places, asset_named
from harness.core.arrays import Int64, read_only
from harness.core.digests import sha256_of
from harness.core.errors import DataError, UsageError
from harness.core.texts import TextDigest
from harness.core.types import Corpus
from harness.tasks.corpora import ALL_NLI, ALL_NLI_HEADER
from harness.tasks.mini import embedded_rows
from harness.tasks.readers import (
    REFETCH_ADVICE,
    body,
    fields,
    lines,
    published,
    reading_own_file,
    whole_lines,
)

TextColumns = tuple[
    tuple[str, ...], ...
]  # of equal length; row n of all columns is one example

TRIPLETS = ("sent0", "sent1", "hard_neg")
NLI_LABELS = (
    "contradiction",
    "entailment",
    "neutral",
)  # in sentence-transformers' order
LABEL_OF_NUMBER = {"1": "neutral", "2": "contradiction", "3": "entailment"}


@dataclass(frozen=True)
class Labelled:
    """Labelled pairs: premises, hypotheses, and labels as indices into NLI_LABELS."""

    premises: tuple[str, ...]
    hypotheses: tuple[str, ...]
    labels: tuple[int, ...]

    @property
    def columns(self) -> TextColumns:
        return self.premises, self.hypotheses

    def pairs_of_kind(self, kind: str) -> TextColumns:
        """Premises and hypotheses of one label, or of `all`. Raises UsageError for another."""
        if kind not in (*NLI_LABELS, "all"):
            raise UsageError(
                f"--pairs {kind}: wanted one of {', '.join(NLI_LABELS)}, all"
            )
        rows = [
            (premise, hypothesis)
            for premise, hypothesis, label in zip(
                *self.columns, self.labels, strict=True
            )
            if kind in ("all", NLI_LABELS[label])
        ]
        if not rows:
            raise DataError(f"wanted labelled pairs of {kind}, found none")
        return tuple(zip(*rows, strict=True))

    def triplets(self) -> TextColumns:
        """Premise, entailment and contradiction: the n-th of each kind that a premise has."""
        hypotheses: dict[str, dict[str, list[str]]] = {}
        for premise, hypothesis, label in zip(*self.columns, self.labels, strict=True):
            by_label = hypotheses.setdefault(premise, {name: [] for name in NLI_LABELS})
            by_label[NLI_LABELS[label]].append(hypothesis)
        rows = []
        for premise, by_label in hypotheses.items():
            positives, negatives = by_label["entailment"], by_label["contradiction"]
            for positive, negative in zip(positives, negatives, strict=False):
                rows.append((premise, positive, negative))
        if not rows:
            raise DataError(
                "wanted a premise with an entailment and a contradiction, found none"
            )
        return tuple(zip(*rows, strict=True))


def read_triplets(path: Path) -> TextColumns:
    """The two or three columns of a CSV file: sentence, positive, hard negative.

    Quoting follows RFC 4180; the file may be packed (.gz, .xz). Raises DataError with
    the line.
    """
    examples: list[tuple[str, ...]] = []
    rows = csv.reader((line for _, line in whole_lines(path)), strict=True)
    try:
        header = tuple(next(rows, ()))
        if header not in (TRIPLETS, TRIPLETS[:2]):
            raise DataError(
                f"{path}:1: wanted the header {','.join(TRIPLETS)} or its first two, found "
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
        raise DataError(f"{path}: wanted rows behind the header, found none")
    return tuple(zip(*examples, strict=True))


def sample(columns: TextColumns, count: int, seed: int) -> TextColumns:
    """So many examples at random, in their order. Raises DataError where there are fewer."""
    if len(columns[0]) < count:
        raise DataError(
            f"--sample {count}: wanted so many examples, found {len(columns[0])}"
        )
    drawn = np.random.default_rng((seed, 6, count)).permutation(len(columns[0]))[:count]
    return tuple(tuple(column[row] for row in np.sort(drawn)) for column in columns)


def read_labelled(path: Path, held_out: bool = False) -> Labelled:
    """Labelled pairs: AllNLI's train splits, or lines of label, label, premise, hypothesis.

    `held_out` adds SNLI's dev and test splits to AllNLI's. Raises DataError with the
    line.
    """
    _, first = next(lines(path), ("", ""))
    is_all_nli = first.split("\t") == list(ALL_NLI_HEADER)
    if held_out and not is_all_nli:
        raise UsageError(
            f"--held-out: wanted AllNLI, which names splits, found {path.name}"
        )
    rows = _all_nli(path, held_out) if is_all_nli else _numbered(path)
    columns = tuple(zip(*rows, strict=True))
    if not columns:
        raise DataError(f"{path}: wanted labelled pairs, found none")
    return Labelled(*columns)


def _numbered(path: Path) -> Iterator[tuple[str, str, int]]:
    for place, line in lines(path):
        label, _, premise, hypothesis = fields(place, line, 4)
        if label not in LABEL_OF_NUMBER:
            raise DataError(f"{place}: wanted a label from 1 to 3, found {label!r}")
        yield premise, hypothesis, NLI_LABELS.index(LABEL_OF_NUMBER[label])


def _all_nli(path: Path, held_out: bool) -> Iterator[tuple[str, str, int]]:
    """AllNLI's train splits, which sentence-transformers trains on; BERT-flow on all of SNLI."""
    for place, line in body(path, ALL_NLI_HEADER):
        split, dataset, _, premise, hypothesis, label = fields(place, line, 6)
        if (dataset.lower().replace("multi", "m"), split) in ALL_NLI and (
            held_out or split == "train"
        ):
            if label not in NLI_LABELS:
                raise DataError(
                    f"{place}: wanted one of {', '.join(NLI_LABELS)}, found {label!r}"
                )
            yield premise, hypothesis, NLI_LABELS.index(label)


@dataclass(frozen=True)
class Batches:
    """The batches of a training: examples shuffled in each epoch, its last batch the remainder.

    A remainder of one example is dropped, since it has no in-batch negative.
    """

    count: int
    size: int
    seed: int

    def __post_init__(self) -> None:
        if self.count < 2 or self.size < 2:
            raise UsageError(
                f"wanted two examples or more, and two or more a batch, found {self.count} "
                f"examples in batches of {self.size}"
            )

    @property
    def steps(self) -> int:
        """The number of batches in an epoch."""
        return self.count // self.size + (self.count % self.size > 1)

    def __call__(self, step: int) -> Int64[np.ndarray, " B"]:
        """The numbers of the examples in a step's batch."""
        epoch, place = divmod(step, self.steps)
        return _order(self.count, self.seed, epoch)[
            place * self.size : (place + 1) * self.size
        ]


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Int64[np.ndarray, " N"]:
    return read_only(np.random.default_rng((seed, epoch)).permutation(count))


Content = TypeVar("Content", TextColumns, Labelled)


@dataclass(frozen=True)
class Text:
    """Sentences that can be iterated repeatedly, and their name in `training.json`.

    `first` limits them to so many.
    """

    name: str
    source: Iterable[str] = field(repr=False)
    first: int | None = None

    def __iter__(self) -> Iterator[str]:
        return islice(iter(self.source), self.first)

    def digest(self) -> str:
        """The hex sha256 of the sentences, each ended by LF, in UTF-8, in one pass."""
        digest = TextDigest(self)
        if self.first is not None and digest.count < self.first:
            raise DataError(
                f"{self.name}: wanted {self.first} sentences, found {digest.count}"
            )
        return digest.hexdigest()


@dataclass(frozen=True)
class OneALine:
    """The lines of a text file, packed (.gz, .xz) or not, without empty ones."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        with reading_own_file():
            for _, line in lines(self.path):
                if line.strip():
                    yield line


def open_text(
    name: str, corpora: Mapping[str, Corpus], places: Places, first: int | None = None
) -> Text:
    """A registered corpus by name, or a text file, named without its folder."""
    if name in corpora:
        corpus = corpora[name]
        return Text(name, corpus.sentences(places.require_data(corpus.asset)), first)
    path = Path(name)
    if not path.is_file():
        names = ", ".join(sorted(corpora))
        raise UsageError(
            f"--corpus {name}: wanted a file or a corpus ({names}), found neither"
        )
    return Text(path.name, OneALine(path), first)


@dataclass(frozen=True)
class TrainingSet(Generic[Content]):
    """Labelled pairs or triplets, their name, and the digest that `training.json` states."""

    name: str
    digest: str
    content: Content


NLI_TRIPLETS = ("nli-for-simcse", "snli-triplets", "mini-triplets")
NLI_PAIRS = ("all-nli", "snli-18k", "mini-nli")


def open_triplets(name: str, places: Places) -> TrainingSet[TextColumns]:
    """Triplets by name, or a CSV file of them. Raises AssetMissing, DataError, UsageError."""
    if name != "mini-triplets":
        return _open(name, NLI_TRIPLETS, read_triplets, places)
    columns = tuple(zip(*embedded_rows("triplets.tsv", 3), strict=True))
    return TrainingSet(name, EMBEDDED_SHA256["triplets.tsv"], columns)


def open_positives(name: str, pairs: str, places: Places) -> TrainingSet[TextColumns]:
    """Triplets; or of labelled pairs those of one label, unless `pairs` is `none`."""
    if pairs == "none":
        return open_triplets(name, places)
    labelled = open_labelled_pairs(name, places)
    return TrainingSet(
        labelled.name, labelled.digest, labelled.content.pairs_of_kind(pairs)
    )


def open_labelled_pairs(
    name: str, places: Places, held_out: bool = False
) -> TrainingSet[Labelled]:
    """Labelled pairs by name, or a file of them; `held_out` adds SNLI's dev and test splits."""
    if name != "mini-nli":
        return _open(name, NLI_PAIRS, partial(read_labelled, held_out=held_out), places)
    if held_out:
        raise UsageError(f"--held-out: wanted AllNLI, which names splits, found {name}")
    premises, hypotheses, labels = zip(*embedded_rows("nli.tsv", 3), strict=True)
    pairs = Labelled(premises, hypotheses, tuple(map(NLI_LABELS.index, labels)))
    return TrainingSet(name, EMBEDDED_SHA256["nli.tsv"], pairs)


def _open(
    name: str,
    registered: Sequence[str],
    read: Callable[[Path], Content],
    places: Places,
) -> TrainingSet[Content]:
    """An asset, whose file must be the catalogue's if that knows its digest, or a file by path."""
    path = Path(name)
    if name in registered:
        asset = asset_named(name)
        path = places.data(asset) or places.require_data(
            name
        )  # the latter says what is missing
        digest = sha256_of(path)
        if asset.sha256 not in (None, digest):
            raise DataError(
                f"{path}: wanted sha256 {asset.sha256}, found {digest}; {REFETCH_ADVICE}"
            )
        with published():
            return TrainingSet(name, digest, read(path))
    if not path.is_file():
        names = ", ".join(registered)
        raise UsageError(
            f"--file {name}: wanted a file or one of {names}, found neither"
        )
    with reading_own_file():
        return TrainingSet(path.name, sha256_of(path), read(path))
