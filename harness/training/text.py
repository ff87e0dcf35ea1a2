"""The sentences that a training reads: a registered corpus by name, or a file with one a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from harness.assets.places import Places
from harness.core.digests import TextDigest
from harness.core.errors import DataError, UsageError
from harness.core.types import Corpus
from harness.tasks.readers import lines


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
