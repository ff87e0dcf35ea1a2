"""Data sets to train on: sentences, labelled pairs or triplets; registered by name, or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    """Sentences that can be iterated repeatedly, and their name in `training.json`.

    `first` limits them to so many.
    """

    name: str
    source: Iterable[str] = field(repr=False)
    first: int | None = None

    def __iter__(self) -> Iterator[str]:
        return islice(iter(self.source), self.first)

    def digest(self) -> str:
        """The hex sha256 of the sentences, each ended by LF, in UTF-8, in one pass.

        Raises DataError where there are fewer than `first`.
        """
        digest = TextDigest.of(self)
        if self.first is not None and digest.count < self.first:
            raise DataError(f"{self.name}: wanted {self.first} sentences, found {digest.count}")
        return digest.hexdigest()


@dataclass(frozen=True)
class OneALine:
    """The lines of a text file, packed (.gz, .xz) or not, without empty ones."""

    path: Path

    def __iter__(self) -> Iterator[str]:
        return (line for _, line in lines(self.path) if line.strip())


def open_text(
    name: str, corpora: Mapping[str, Corpus], places: Places, first: int | None = None
) -> Text:
    """A registered corpus by name, or a text file, named without its folder.

    Raises AssetMissing, UsageError.
    """
    if name in corpora:
        corpus = corpora[name]
        return Text(name, corpus.sentences(places.require_data(corpus.asset)), first)
    path = require_text(name, corpora)
    return Text(path.name, OneALine(path), first)


def require_text(name: str, corpora: Mapping[str, Corpus]) -> Path:
    """The path of a text file, or of none if a corpus has that name. Raises UsageError."""
    path = Path(name)
    if name not in corpora and not path.is_file():
        raise UsageError(
            f"--corpus {name}: wanted a file or a corpus ({', '.join(sorted(corpora))}), "
            "found neither"
        )
    return path


@dataclass(frozen=True)
class TrainingSet(Generic[Content]):
    """Labelled pairs or triplets, their name, and the digest that `training.json` states."""

    name: str
    digest: str
    content: Content


NLI_TRIPLETS = ("nli-for-simcse", "snli-triplets", "mini-triplets")
NLI_PAIRS = ("all-nli", "snli-18k", "mini-nli")


def open_triplets(name: str, places: Places) -> TrainingSet[Columns]:
    """Triplets by name, or a CSV file of them. Raises AssetMissing, DataError, UsageError."""
    if name != "mini-triplets":
        return _open(name, NLI_TRIPLETS, read_triplets, places)
    columns = tuple(zip(*embedded_rows("triplets.tsv", 3), strict=True))
    return TrainingSet(name, EMBEDDED_SHA256["triplets.tsv"], columns)


def open_positives(name: str, pairs: str, places: Places) -> TrainingSet[Columns]:
    """Triplets; or of labelled pairs those of one label, unless `pairs` is `none`.

    Raises AssetMissing, DataError, UsageError.
    """
    if pairs == "none":
        return open_triplets(name, places)
    labelled = open_labelled_pairs(name, places)
    return TrainingSet(labelled.name, labelled.digest, labelled.content.of_kind(pairs))


def open_labelled_pairs(name: str, places: Places, held_out: bool = False) -> TrainingSet[Labelled]:
    """Labelled pairs by name, or a file of them; `held_out` adds SNLI's dev and test splits.

    Raises AssetMissing, DataError, UsageError.
    """
    if name != "mini-nli":
        return _open(name, NLI_PAIRS, partial(read_labelled, held_out=held_out), places)
    if held_out:
        raise UsageError(f"--held-out: wanted AllNLI, which tells splits apart, found {name}")
    premises, hypotheses, labels = zip(*embedded_rows("nli.tsv", 3), strict=True)
    pairs = Labelled(premises, hypotheses, tuple(map(LABELS.index, labels)))
    return TrainingSet(name, EMBEDDED_SHA256["nli.tsv"], pairs)


def require_file(name: str, known: Sequence[str]) -> None:
    """Raise UsageError for a name that is no data set to train on, and no file."""
    if name not in known and not Path(name).is_file():
        raise UsageError(
            f"--file {name}: wanted a file or one of {', '.join(known)}, found neither"
        )


def _open(
    name: str, known: Sequence[str], read: Callable[[Path], Content], places: Places
) -> TrainingSet[Content]:
    """An asset, whose file must be the catalogue's if that knows its digest, or a file by path."""
    path = Path(name)
    if name in known:
        asset = asset_named(name)
        path = places.data(asset) or places.require_data(name)  # the latter says what is missing
        digest = sha256_of(path)
        if asset.sha256 not in (None, digest):
            raise DataError(f"{path}: wanted sha256 {asset.sha256}, found {digest}; {AGAIN}")
        return TrainingSet(name, digest, read(path))
    require_file(name, known)
    return TrainingSet(path.name, sha256_of(path), read(path))
