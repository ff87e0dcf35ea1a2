"""Sets of pairs and triplets that a training reads: registered ones by name, others as files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from harness.assets.places import Places, asset_named
from harness.core.digests import sha256_of, text_digest
from harness.core.errors import DataError, UsageError
from harness.tasks.english import sets
from harness.tasks.readers import AGAIN
from harness.training.nli import LABELS, Columns, Labelled, read_labelled, read_triplets

Content = TypeVar("Content", Columns, Labelled)

# English's inference numbers its labels in another order.
MADE_LABELS = ("entailment", "neutral", "contradiction")
MADE = 5_000  # rows of an embedded set


@dataclass(frozen=True)
class Rows(Generic[Content]):
    """What is read: its name, the digest that `training.json` states, and its content."""

    name: str
    digest: str
    content: Content


def mini_triplets() -> Columns:
    """The embedded triplets: anchor, what follows, what it excludes."""
    return tuple(zip(*sets.triplets(MADE), strict=True))


def mini_nli() -> Labelled:
    """The embedded labelled pairs."""
    premises, hypotheses, labels = zip(*sets.labelled(MADE), strict=True)
    return Labelled(premises, hypotheses, tuple(LABELS.index(MADE_LABELS[n]) for n in labels))


# By name: how an embedded set is made, or None for an asset of the catalogue.
TRIPLETS: Mapping[str, Callable[[], Columns] | None] = {
    "nli-for-simcse": None,
    "snli-triplets": None,
    "mini-triplets": mini_triplets,
}
PAIRS: Mapping[str, Callable[[], Labelled] | None] = {
    "all-nli": None,
    "snli-18k": None,
    "mini-nli": mini_nli,
}


def open_triplets(wanted: str, places: Places) -> Rows[Columns]:
    """Triplets by name, or a CSV file of them. Raises AssetMissing, DataError, UsageError."""
    return _open(wanted, TRIPLETS, read_triplets, places)


def open_labelled_pairs(wanted: str, places: Places) -> Rows[Labelled]:
    """Labelled pairs by name, or a file of them. Raises AssetMissing, DataError, UsageError."""
    return _open(wanted, PAIRS, read_labelled, places)


def _open(
    wanted: str,
    named: Mapping[str, Callable[[], Content] | None],
    read: Callable[[Path], Content],
    places: Places,
) -> Rows[Content]:
    make = named.get(wanted)
    if make is not None:
        made = make()
        return Rows(wanted, text_digest(_lines(made)), made)
    if wanted in named:
        return Rows(wanted, *_asset(wanted, read, places))
    path = Path(wanted)
    if not path.is_file():
        raise UsageError(
            f"--file {wanted}: wanted a file or one of {', '.join(named)}, found neither"
        )
    return Rows(path.name, sha256_of(path), read(path))


def _asset(name: str, read: Callable[[Path], Content], places: Places) -> tuple[str, Content]:
    """Digest and content of an asset's file, which must be the catalogue's if that knows it."""
    asset = asset_named(name)
    path = places.data(asset) or places.require_data(name)  # the latter says what is missing
    digest = sha256_of(path)
    if asset.sha256 not in (None, digest):
        raise DataError(f"{path}: wanted sha256 {asset.sha256}, found {digest}; {AGAIN}")
    return digest, read(path)


def _lines(content: Columns | Labelled) -> Iterable[str]:
    """Rows as lines: their sentences, and the label where there is one."""
    if isinstance(content, Labelled):
        names = tuple(LABELS[label] for label in content.labels)
        return map("\t".join, zip(*content.columns, names, strict=True))
    return map("\t".join, zip(*content, strict=True))
