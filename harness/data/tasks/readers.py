"""Readers of evaluation files: where they are, their lines, fields and scores, their digests.

A sentence is kept exactly as its file has it: only the line end (LF or CRLF) and a
byte-order mark at the start of the file are removed. Tabs alone separate fields, quotes
are ordinary characters, and blanks around a sentence stay, since some tokenizers see
them. The rows are then compared with the digest of the published ones: a copy with
other line ends passes, any other change does not.

The same readers serve published files and the files of users. The remedy for a wrong line
differs, so that the callers add it to the message, by `advising`.
"""

from __future__ import annotations

import codecs
import gzip
import logging
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.core.digests import text_digest
from harness.core.errors import AssetMissing, DataError, UsageError
from harness.core.files import require_no_pointer
from harness.core.pairs import Pairs, rows_digest
from harness.core.toml import read_rows, read_typed
from harness.core.types import Task

LOG = logging.getLogger(__name__)

Text = Literal["raw", "senteval"]
ScoredPair = tuple[str, str, float]  # two sentences and their gold

# Where a text form may be under the data folder. The folder may itself be an unpacked
# senteval.tar, SentEval's `data`, or a checkout of a repository that holds SentEval.
FOLDERS: dict[Text, tuple[str, ...]] = {
    "raw": ("raw/",),
    "senteval": ("senteval/", "", "downstream/", "SentEval/data/downstream/"),
}

REFETCH_ADVICE = "this is not the published file: get it again"
CORRECT_ADVICE = "correct the file"


@contextmanager
def advising(remedy: str) -> Iterator[None]:
    """Add to the error of a file what is to be done about it, such as `REFETCH_ADVICE`."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from None


@dataclass(frozen=True)
class PublishedRows:
    """The scored pairs of a published file.

    Attributes:
        family: The task family.
        name: The split or subset.
        pairs: The number of pairs.
        sha256: The digest of the rows in each text form. `retokenised` is another public
            version, and `gold` the scores alone.
    """

    family: str
    name: str
    pairs: int
    sha256: Mapping[str, str]

    def versions(self, text: Text) -> tuple[str, ...]:
        """The digests of all public versions of a text form."""
        names = (text, "retokenised") if text == "senteval" else (text,)
        return tuple(self.sha256[name] for name in names if name in self.sha256)


@dataclass(frozen=True)
class PublishedSet:
    """Loads a split of a set: finds its files, parses them, compares the rows with the published.

    Attributes:
        family: The task family, by which the published rows are found.
        asset: The asset that holds the files.
        text: The text form of the files.
        parse: Reads the files of a split, given as arguments in their order.
        files: The files of each split.
        folders: The folders under the data folder where the files may be.
    """

    family: str
    asset: str
    text: Text
    parse: Callable[..., Pairs] = field(repr=False, compare=False)
    files: Mapping[str, Sequence[str]] = field(repr=False, compare=False)
    folders: tuple[str, ...] = field(repr=False)

    def __call__(self, data_dir: Path, split: str) -> Pairs:
        rows = published_rows(self.family)[split]
        paths = []
        for name in self.files[split]:
            candidates = [folder + name for folder in self.folders]
            paths.append(locate(data_dir, self.asset, *candidates))
        with advising(REFETCH_ADVICE):
            pairs = self.parse(*paths)
            self._require_known_version(pairs, paths[0], rows)
        return pairs

    def _require_known_version(
        self, pairs: Pairs, path: Path, rows: PublishedRows
    ) -> None:
        """Raise DataError unless pairs are a public version of the text form.

        SentEval's form with the published scores and texts of no known version is
        accepted with a warning; its scores have the state `other data`, and no verdict.
        """
        digest = rows_digest(pairs)
        if digest in rows.versions(self.text):
            return
        if len(pairs) != rows.pairs:
            raise DataError(
                f"{path}: wanted {rows.pairs} scored pairs, found {len(pairs)}"
            )
        gold_digest = text_digest(map(repr, pairs.gold.tolist()))
        if self.text != "senteval" or gold_digest != rows.sha256.get("gold"):
            raise DataError(
                f"{path}: wanted rows with sha256 {rows.sha256[self.text][:16]}…, found "
                f"{digest}"
            )
        LOG.warning(
            f"harness: {path}: other data: the scores are the published ones, the texts are "
            f"of no known version; please report rows {digest} of {rows.family} {rows.name}, "
            "and where the file is from, in an issue of the project; its scores have the "
            "state `other data`"
        )


@cache
def published_rows(family: str) -> Mapping[str, PublishedRows]:
    """The published rows of each split or subset of a task family."""
    file = Path(__file__).with_name("published_rows.toml")
    rows = read_rows(PublishedRows, file, "rows")
    return {row.name: row for row in rows if row.family == family}


def locate(data_dir: Path, asset: str, *candidates: str) -> Path:
    """The first candidate that is a file under the data folder. Raises AssetMissing."""
    for candidate in candidates:
        if (data_dir / candidate).is_file():
            return data_dir / candidate
    raise AssetMissing(
        f"wanted {' or '.join(candidates)} in {data_dir}, found none; "
        f"`harness fetch {asset}`, or name the folder that has it with --data-dir"
    )


def lines(
    path: Path, encoding: str = "utf-8", keep_ends: bool = False
) -> Iterator[tuple[str, str]]:
    """Every line of a file, each with its place `file:number`.

    Lines end at LF alone: str.splitlines would also cut at control characters inside a
    sentence. A file whose name ends with .xz or .gz is decompressed while it is read.

    Args:
        path: The file.
        encoding: Its encoding.
        keep_ends: Whether lines keep their ends.
    """
    number = 0
    open_packed: Any = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, Path.open)
    require_no_pointer(path)
    try:
        with open_packed(path, "rb") as file:
            for number, raw in enumerate(file, start=1):
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                # UTF-16 has a NUL byte in each letter of English, and is valid UTF-8.
                if b"\0" in raw:
                    raise DataError(
                        f"{path}:{number}: wanted UTF-8, found NUL bytes, as of UTF-16"
                    )
                line = raw.decode(encoding)
                if not keep_ends:
                    line = line.removesuffix("\n").removesuffix("\r")
                yield f"{path}:{number}", line
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}:{number}: wanted UTF-8, found {error.reason}"
        ) from None
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error) as error:
        place = f"{path}:{number + 1}"
        raise DataError(f"{place}: wanted a whole packed file, found {error}") from None


def body(path: Path, header: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The lines below the header. Raises DataError for another header."""
    places_and_lines = lines(path)
    place, first_line = next(places_and_lines, (f"{path}:1", ""))
    if first_line.split("\t") != list(header):
        raise DataError(
            f"{place}: wanted the header {' '.join(header)}, found {first_line!r}"
        )
    yield from places_and_lines


def fields(place: str, line: str, *counts: int) -> list[str]:
    """The tab-separated fields of a line. Raises DataError unless one of the counts is theirs."""
    texts = line.split("\t")
    if len(texts) not in counts:
        allowed = " or ".join(str(count) for count in counts)
        raise DataError(f"{place}: wanted {allowed} fields, found {len(texts)}")
    return texts


def number(place: str, text: str, scale: tuple[float, float]) -> float:
    """The gold score in a field. Raises DataError for one that is not on the scale."""
    low, high = scale
    try:
        value = float(text.replace("_", "?"))  # Python reads 1_0 as a number
    except ValueError:
        value = float("nan")
    if not low <= value <= high:  # nan is nowhere on the scale
        raise DataError(f"{place}: wanted a score from {low} to {high}, found {text!r}")
    return value


def class_of(place: str, label: str, classes: Sequence[str]) -> int:
    """The number of a class. Raises DataError for one that is not known."""
    if label not in classes:
        raise DataError(f"{place}: wanted {' or '.join(classes)}, found {label!r}")
    return classes.index(label)


def read_scored_pairs(
    path: Path,
    group: str,
    columns: tuple[int, int, int],
    gold: Callable[[str, str], float],
    counts: Sequence[int],
    header: Sequence[str] = (),
) -> Pairs:
    """Scored pairs, one a line: two sentences and a gold score, in these columns.

    `gold` reads the score, given its place; `counts` are the numbers of fields that a
    line may have. Raises DataError for any other line.
    """
    a, b, score = columns
    rows = []
    for place, line in body(path, header) if header else lines(path):
        texts = fields(place, line, *counts)
        rows.append((texts[a], texts[b], float(gold(place, texts[score]))))
    return pairs_of(rows, group)


def pairs_of(rows: Iterable[ScoredPair], group: str) -> Pairs:
    """Scored pairs, all of one group, as columns."""
    rows = list(rows)
    return Pairs(
        a=tuple(a for a, _, _ in rows),
        b=tuple(b for _, b, _ in rows),
        gold=np.array([gold for _, _, gold in rows], dtype=np.float64),
        group=(group,) * len(rows),
    )


# A file of one's own pairs as a task: `-t pairs.tsv` scores it without a plug-in

OWN_SUFFIX = ".tsv"


@dataclass(frozen=True)
class OwnPairs:
    """Reads lines of two sentences and a score, with tabs between; a heading may come first.

    Attributes:
        file: The file, by its absolute path.
    """

    file: Path

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - it is one file
        rows = []
        with advising(CORRECT_ADVICE):
            for place, line in lines(self.file):
                a, b, score = fields(place, line, 3)
                try:
                    rows.append((a, b, float(score)))
                except ValueError:
                    if rows or not place.endswith(":1"):
                        raise DataError(
                            f"{place}: wanted two sentences and a score, found {score!r:.40}"
                        ) from None
        return pairs_of(rows, self.file.stem)


def task_of_file(file: Path) -> Task:
    """The task of a file of pairs, whose name is the file's. Raises UsageError."""
    name = re.sub(r"[^a-z0-9]+", "-", file.stem.lower()).strip("-")
    if file.suffix != OWN_SUFFIX or not name:
        raise UsageError(
            f"-t {file}: wanted a file such as pairs{OWN_SUFFIX}: in each line two sentences and a "
            "score, with tabs between"
        )
    return Task(
        name=name,
        load=OwnPairs(file.absolute()),
        splits=("test",),
        scored=("test",),
        metric="correlation",
        asset="embedded",  # it needs no data folder
        text="raw",
        note="pairs of one's own",
    )


# Releases: the public versions of a data set, by the digests of their pairs

OTHER_DATA = "other data"


@cache
def releases() -> Mapping[str, Mapping[str, str]]:
    """The digest of the pairs of each release, by task and by its name.

    Only tasks with several public versions are among them.
    """
    file = Path(__file__).with_name("releases.toml")
    return read_typed(Mapping[str, Mapping[str, str]], file)


def release_of(task: str, pairs_digest: str | None) -> str | None:
    """The release that pairs of this digest belong to, or `other data`.

    None for a task with a single version, and where the digest is not known.
    """
    digests = releases().get(task)
    if digests is None or pairs_digest is None:
        return None
    for release, digest in digests.items():
        if digest == pairs_digest:
            return release
    return OTHER_DATA
