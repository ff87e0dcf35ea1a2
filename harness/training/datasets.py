"""Data sets to train on: sentences, labelled pairs or triplets; registered by name, or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import Places, asset_named
from harness.core.digests import TextDigest, sha256_of
from harness.core.errors import DataError, UsageError
from harness.core.types import Corpus
from harness.tasks.mini import embedded_rows
from harness.tasks.readers import AGAIN, lines
from harness.training.nli import LABELS, Columns, Labelled, read_labelled, read_triplets

Content = TypeVar("Content", Columns, Labelled)


@dataclass(frozen=True)
class Text:
    """Sentences that can be read again and again, and what they are called in `training.json`."""

    name: str
    source: Iterable[str] = field(repr=False)
    first: int | None = None  # so many only

    def __iter__(self) -> Iterator[str]:
        return islice(iter(self.source), self.first)

    def digest(self) -> str:
        """The hex sha256 of the sentences, each ended by LF, in UTF-8. One pass."""
        digest = TextDigest.of(self)
        if self.first is not None and digest.count < self.first:
            raise DataError(f"{self.name}: wanted {self.first} sentences, found {digest.count}")
        return digest.hexdigest()


@dataclass(frozen=True)
class OneALine:
    """A text file, packed (.gz, .xz) or not, read anew on every pass; empty lines are skipped."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        return (line for _, line in lines(self.path) if line.strip())


def open_text(
    wanted: str, corpora: Mapping[str, Corpus], places: Places, first: int | None = None
) -> Text:
    """A corpus of the registry by its name, else a file. A file is known by its name alone."""
    if wanted in corpora:
        corpus = corpora[wanted]
        return Text(wanted, corpus.sentences(places.require_data(corpus.asset)), first)
    path = Path(wanted)
    if not path.is_file():
        raise UsageError(
            f"--corpus {wanted}: wanted a file or a corpus ({', '.join(sorted(corpora))}), "
            "found neither"
        )
    return Text(path.name, OneALine(path), first)


@dataclass(frozen=True)
class TrainingSet(Generic[Content]):
    """Labelled pairs or triplets, their name, and the digest that `training.json` states."""

    name: str
    digest: str
    content: Content


def mini_triplets() -> TrainingSet[Columns]:
    """The embedded triplets: anchor, what follows from it, what it excludes."""
    columns = tuple(zip(*embedded_rows("triplets.tsv", 3), strict=True))
    return TrainingSet("mini-triplets", EMBEDDED_SHA256["triplets.tsv"], columns)


def mini_nli() -> TrainingSet[Labelled]:
    """The embedded labelled pairs."""
    premises, hypotheses, names = zip(*embedded_rows("nli.tsv", 3), strict=True)
    pairs = Labelled(premises, hypotheses, tuple(map(LABELS.index, names)))
    return TrainingSet("mini-nli", EMBEDDED_SHA256["nli.tsv"], pairs)


# By name: how an embedded set is read, or None for an asset of the catalogue.
TRIPLETS: Mapping[str, Callable[[], TrainingSet[Columns]] | None] = {
    "nli-for-simcse": None,
    "snli-triplets": None,
    "mini-triplets": mini_triplets,
}
PAIRS: Mapping[str, Callable[[], TrainingSet[Labelled]] | None] = {
    "all-nli": None,
    "snli-18k": None,
    "mini-nli": mini_nli,
}


def open_triplets(wanted: str, places: Places) -> TrainingSet[Columns]:
    """Triplets by name, or a CSV file of them. Raises AssetMissing, DataError, UsageError."""
    return _open(wanted, TRIPLETS, read_triplets, places)


def open_labelled_pairs(wanted: str, places: Places) -> TrainingSet[Labelled]:
    """Labelled pairs by name, or a file of them. Raises AssetMissing, DataError, UsageError."""
    return _open(wanted, PAIRS, read_labelled, places)


def _open(
    wanted: str,
    named: Mapping[str, Callable[[], TrainingSet[Content]] | None],
    read: Callable[[Path], Content],
    places: Places,
) -> TrainingSet[Content]:
    if wanted in named:
        read_embedded = named[wanted]
        return read_embedded() if read_embedded else _asset(wanted, read, places)
    path = Path(wanted)
    if not path.is_file():
        raise UsageError(
            f"--file {wanted}: wanted a file or one of {', '.join(named)}, found neither"
        )
    return TrainingSet(path.name, sha256_of(path), read(path))


def _asset(name: str, read: Callable[[Path], Content], places: Places) -> TrainingSet[Content]:
    """The rows of an asset's file, which must be the catalogue's if that knows its digest."""
    asset = asset_named(name)
    path = places.data(asset) or places.require_data(name)  # the latter says what is missing
    digest = sha256_of(path)
    if asset.sha256 not in (None, digest):
        raise DataError(f"{path}: wanted sha256 {asset.sha256}, found {digest}; {AGAIN}")
    return TrainingSet(name, digest, read(path))
