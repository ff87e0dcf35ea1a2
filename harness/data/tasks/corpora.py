"""Corpora that post-processors are fitted on: the papers' corpora, and free substitutes.

`nli`, `all-nli` and `wiki` are the papers' full corpora; a method that is fitted on
another corpus is another method. Sentences are read from the file on every pass and are
checked as they are read: by a digest where one is known, and at the end by their count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from harness.core.digests import TextDigest
from harness.core.errors import DataError
from harness.core.types import Corpus
from harness.data.tasks.readers import (
    REFETCH_ADVICE,
    advising,
    body,
    fields,
    lines,
    locate,
)


@dataclass(frozen=True)
class CorpusFile:
    """The file of a corpus; called with the data folder, it returns the sentences.

    Attributes:
        asset: The asset that holds the file.
        files: The paths where the file may be under the data folder.
        read: Reads the sentences of the file.
        count: The number of sentences.
        digests: Pairs of a number n and the sha256 of the first n sentences, each in
            UTF-8 and followed by a line feed.
        prefix: Whether the corpus is the first `count` sentences of the file; the rest
            is not read.
    """

    asset: str
    files: tuple[str, ...]
    read: Callable[[Path], Iterator[str]] = field(repr=False, compare=False)
    count: int
    digests: tuple[tuple[int, str], ...] = field(default=(), repr=False)
    prefix: bool = False

    def __call__(self, data_dir: Path) -> Iterator[str]:
        """The sentences, read from the file.

        Raises DataError where a digest differs, and at the end for a number of sentences
        other than `count`.
        """
        path = locate(data_dir, self.asset, *self.files)
        digest_by_number = dict(self.digests)
        digest = TextDigest()
        with advising(REFETCH_ADVICE):
            for sentence in islice(
                self.read(path), self.count if self.prefix else None
            ):
                digest.add(sentence)
                wanted = digest_by_number.get(digest.count)
                if wanted not in (None, digest.hexdigest()):
                    raise DataError(
                        f"{path}: wanted other sentences up to number {digest.count}, found "
                        f"sha256 {digest.hexdigest()}"
                    )
                yield sentence
            if digest.count != self.count:
                raise DataError(
                    f"{path}: wanted {self.count} sentences, found {digest.count}"
                )


def one_a_line(path: Path) -> Iterator[str]:
    """The lines of a file, each a sentence."""
    return (line for _, line in lines(path))


def snli_pairs(path: Path) -> Iterator[str]:
    """Both sentences of every pair, with repetitions.

    A line has two labels, the premise and the hypothesis.
    """
    for place, line in lines(path):
        _, _, premise, hypothesis = fields(place, line, 4)
        yield premise
        yield hypothesis


ALL_NLI_HEADER = ("split", "dataset", "filename", "sentence1", "sentence2", "label")

# The number of pairs with a gold label in each part of AllNLI that the papers fit on,
# as the releases of the data sets count them. The sum agrees with BERT-flow's
# checkpoint: step 60108, the end of an epoch, with batches of 16.
ALL_NLI = {
    ("snli", "train"): 549_367,
    ("snli", "dev"): 9_842,
    ("snli", "test"): 9_824,
    ("mnli", "train"): 392_702,
}
# The same with MultiNLI's matched and mismatched dev sets, which some papers fit on.
WHOLE_ALL_NLI = ALL_NLI | {("mnli", "dev"): 9_815, ("mnli", "test"): 9_832}


def all_nli_rows(
    path: Path, parts: Collection[tuple[str, str]]
) -> Iterator[tuple[str, str, str, str]]:
    """Every pair of these parts, with its place before it and its label behind it."""
    for place, line in body(path, ALL_NLI_HEADER):
        split, dataset, _, first, second, label = fields(place, line, 6)
        # MultiNLI is also written MNLI.
        part = (dataset.lower().replace("multi", "m"), split)
        if part not in WHOLE_ALL_NLI:
            raise DataError(
                f"{place}: wanted SNLI or MultiNLI, found {dataset} {split}"
            )
        if part in parts:
            yield place, first, second, label


def all_nli_pairs(path: Path, parts: Collection[tuple[str, str]]) -> Iterator[str]:
    """Both sentences of every pair of these parts."""
    for _, first, second, _ in all_nli_rows(path, parts):
        yield first
        yield second


# The digests of its first sentences, by their number.
ENWIKI_DIGESTS = (
    (10_000, "e820f62c88cd060f1871ac0325921187b4cdbbb31ac0495e87fce5f6dd1bbd78"),
    (100_000, "3b3b18f6ebb23761d99f239cf6cc08547316e4470a7d6c678817ab1788177ac6"),
    (1_000_000, "81b7f7687816075a89ee46c775a61246e97da49265e90fa72dfa7fab20874ae4"),
)


def corpus(
    name: str, source: CorpusFile, licence: str, note: str, published: bool
) -> Corpus:
    """A corpus of the sentences of a file.

    Args:
        name: Its name, after the `@` of a method's id.
        source: The file.
        licence: Its licence.
        note: What it is, for people.
        published: Whether it is the whole of a corpus that the papers name.
    """
    return Corpus(
        name=name,
        sentences=source,
        asset=source.asset,
        published=published,
        licence=licence,
        note=note,
        count=source.count,
    )


def all_nli(
    name: str, parts: Mapping[tuple[str, str], int], description: str
) -> Corpus:
    """Parts of AllNLI, each with its number of pairs."""
    source = CorpusFile(
        asset="all-nli",
        files=("nli/AllNLI.tsv.gz", "nli/AllNLI.tsv"),
        read=partial(all_nli_pairs, parts=parts),
        count=2 * sum(parts.values()),
    )
    return corpus(
        name,
        source,
        licence="SNLI CC BY-SA 4.0, MultiNLI per source",
        note=f"{description}; checked by count: no digest is published",
        published=True,
    )


def enwiki(name: str, count: int) -> Corpus:
    """The first sentences of a file of a million, which are in random order."""
    source = CorpusFile(
        asset="enwiki-1m",
        files=("wiki/enwiki_1m_sentences.txt.xz",),
        read=one_a_line,
        count=count,
        digests=ENWIKI_DIGESTS,
        prefix=True,
    )
    return corpus(
        name,
        source,
        licence="CC BY-SA",
        note="random sentences of English Wikipedia; a substitute for SimCSE's million sentences",
        published=False,
    )


WIKI = CorpusFile(
    asset="wiki1m",
    files=("wiki/wiki1m_for_simcse.txt",),
    read=one_a_line,
    count=1_000_000,
    digests=(
        (11_914, "423e56115d182ab21d4f413473f6f615888d140fec81f06a750297b5940aa190"),
    ),
)
WIKI_NOTE = "SimCSE's million sentences; checked by count and by the first 11,914"

SNLI_18K = CorpusFile(
    asset="snli-18k",
    files=("nli/snli_18k/train.csv",),
    read=snli_pairs,
    count=36_000,
    digests=(
        (36_000, "99616c97921fef54fd8fd5a81f549a585d7957c03e86d06668f72ad72cd7e19b"),
    ),
)

CORPORA = (
    all_nli(
        "nli",
        ALL_NLI,
        "SNLI train, dev and test, and MultiNLI train, as in sentence-transformers' AllNLI",
    ),
    all_nli(
        "all-nli", WHOLE_ALL_NLI, "the whole AllNLI.tsv, MultiNLI's dev sets included"
    ),
    corpus("wiki", WIKI, licence="CC BY-SA", note=WIKI_NOTE, published=True),
    corpus(
        "snli-18k",
        SNLI_18K,
        licence="CC BY-SA 4.0",
        note="18,000 pairs of SNLI train",
        published=False,
    ),
    enwiki("enwiki-10k", 10_000),
    enwiki("enwiki-100k", 100_000),
    enwiki("enwiki-1m", 1_000_000),
)
