"""Embedded tasks and corpora: English sentences that are included in the package.

The project made them with a generator (docs/included.md says where it is). It drew
scenes from a lexicon (who does what to what, where, how many), changed them, and
expressed each by a template. So it is known what the two sentences of a pair have in
common, and the gold score is computed from it:

    gold = low + (high - low) * core * kept

`core` is the weighted similarity of event (4), patient (3) and agent (2) in the trees
of the lexicon (Wu and Palmer 1994). `kept` is a product with a factor below 1 for each
detail that differs: setting, trait, number, denial. `mini-sts` has captions, headlines and
questions, which are its groups, in freely chosen words; `mini-sick` has captions,
changed in the way in which SICK was built (Marelli et al. 2014); `mini-qnli` has
questions about invented things, with sentences that answer them or do not.

A scene is assigned to a split by who does what to what, in tasks and corpora alike: no
scene of a corpus or a train split is in a dev or test split. The files never change:
the catalogue has their digests, and other content would get other names. All of them
are released under CC0 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.core.digests import text_digest
from harness.core.errors import DataError
from harness.core.pairs import Pairs
from harness.core.types import Corpus, LeaderboardColumn, Task
from harness.data.catalogue import EMBEDDED_SHA256
from harness.data.places import EMBEDDED_DATA
from harness.data.tasks.lexical import legend
from harness.data.tasks.readers import fields, lines

ASSET = "embedded"
LICENCE = "CC0 1.0"
CITE = "sentence-embedding-harness"

# The lowest and the highest gold score of each graded set.
SCALES = {"mini-sts": (0.0, 5.0), "mini-sick": (1.0, 5.0)}
# The number of pairs of each split.
SPLITS = {
    "mini-sts": {"train": 2000, "dev": 1500, "test": 1500},
    "mini-sick": {"train": 2000, "dev": 1000, "test": 1000},
    "mini-qnli": {"dev": 1500},
}
PARAPHRASE_SCORE = 3.0  # the lowest gold score of a paraphrase in `mini-paraphrase`


def embedded_rows(name: str, columns: int) -> list[list[str]]:
    """The fields of each row of an embedded file. Raises DataError if it was changed.

    `columns` is the number of fields in a row.
    """
    path = EMBEDDED_DATA / name
    released_digest = EMBEDDED_SHA256[name]
    try:
        places_and_lines = list(lines(path))
        digest = text_digest(line for _, line in places_and_lines)
        if digest != released_digest:
            raise DataError(
                f"{path}: wanted lines with sha256 {released_digest[:16]}…, found {digest[:16]}…"
            )
    except DataError as error:
        raise DataError(
            f"{error}: the file was changed; install the package again"
        ) from None
    return [fields(place, line, columns) for place, line in places_and_lines]


def embedded_pairs(name: str, split: str) -> Pairs:
    """One split of an embedded set. A row is group, gold and two sentences."""
    file = f"{name.removeprefix('mini-')}-{split}.tsv"
    groups, gold, a, b = zip(*embedded_rows(file, columns=4), strict=True)
    return Pairs(a, b, np.array(gold, dtype=np.float64), groups)


@dataclass(frozen=True)
class MiniPairs:
    """Loads one split of an embedded set. It needs no data folder.

    Attributes:
        name: The set.
        relabel: Makes labelled sentences or pairs of the graded ones; None keeps them.
    """

    name: str
    relabel: Callable[[Pairs], Pairs] | None = None

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - as tasks are loaded
        pairs = embedded_pairs(self.name, split)
        return pairs if self.relabel is None else self.relabel(pairs)


def labelled_by_kind(pairs: Pairs) -> Pairs:
    """The first sentences; their class is the number of their group."""
    groups = sorted(set(pairs.group))
    labels = [float(groups.index(group)) for group in pairs.group]
    return replace(pairs, b=(), gold=np.array(labels))


def labelled_by_paraphrase(pairs: Pairs) -> Pairs:
    """The pairs; their class is 1 if their gold score is at least 3, else 0."""
    labels = pairs.gold >= PARAPHRASE_SCORE
    return replace(pairs, gold=labels.astype(np.float64))


@dataclass(frozen=True)
class EmbeddedText:
    """The sentences of an embedded corpus. It needs no data folder.

    Attributes:
        file: The file.
        columns: The number of columns of a row.
        sentences: The number of first columns that are sentences.
    """

    file: str
    columns: int = field(repr=False)
    sentences: int = field(repr=False)

    def __call__(self, data_dir: Path) -> Iterator[str]:  # noqa: ARG002 - as corpora are read
        for row in embedded_rows(self.file, self.columns):
            yield from row[: self.sentences]


def mini(
    name: str,
    data_set: str,
    scored: str,
    heading: str = "",
    metric: str = "correlation",
) -> Task:
    """An embedded task, scored on one split of a set; with a heading, a leaderboard column."""
    return Task(
        name=name,
        load=MiniPairs(data_set),
        splits=tuple(SPLITS[data_set]),
        scored=(scored,),
        metric=metric,
        asset=ASSET,
        text="raw",
        train="train" if "train" in SPLITS[data_set] else None,
        graded=SCALES.get(data_set),
        geometry=data_set == "mini-sts" and metric == "correlation",
        cite=CITE,
        licence=LICENCE,
        columns=(LeaderboardColumn("embedded", heading),) if heading else (),
    )


def classification(name: str, relabel: Callable[[Pairs], Pairs]) -> Task:
    """An embedded task for a classifier, on the splits of `mini-sts`."""
    task = mini(
        name, "mini-sts", "test", heading=f"{name} (accuracy)", metric="classification"
    )
    return replace(task, load=MiniPairs("mini-sts", relabel), graded=None)


LEXICAL = LeaderboardColumn("embedded", "mini-lexical", legend=legend("mini-STS dev"))

TASKS = (
    mini("mini-sts", "mini-sts", "test", heading="mini-STS"),
    mini("mini-sts.dev", "mini-sts", "dev"),
    mini("mini-sts.train", "mini-sts", "train"),
    mini("mini-sick", "mini-sick", "test", heading="mini-SICK"),
    mini("mini-sick.dev", "mini-sick", "dev"),
    mini("mini-sick.train", "mini-sick", "train"),
    mini("mini-qnli", "mini-qnli", "dev", heading="mini-QNLI (AUC)", metric="auc"),
    replace(
        mini("mini-lexical", "mini-sts", "dev", metric="edit-distance"),
        columns=(LEXICAL,),
    ),
    classification("mini-kind", labelled_by_kind),
    classification("mini-paraphrase", labelled_by_paraphrase),
)


def embedded_corpus(name: str, text: EmbeddedText, count: int, note: str) -> Corpus:
    """An embedded corpus; `count` is its number of sentences."""
    return Corpus(
        name=name, sentences=text, asset=ASSET, licence=LICENCE, note=note, count=count
    )


CORPORA = (
    embedded_corpus(
        "mini-text",
        EmbeddedText("text.txt", columns=1, sentences=1),
        20_000,
        "20,000 different sentences that the project makes: captions, headlines, questions",
    ),
    embedded_corpus(
        "mini-nli",
        EmbeddedText("nli.tsv", columns=3, sentences=2),
        10_000,
        "5,000 labelled pairs that the project makes; both sentences of each",
    ),
    embedded_corpus(
        "mini-triplets",
        EmbeddedText("triplets.tsv", columns=3, sentences=3),
        15_000,
        "5,000 triplets that the project makes; all three sentences of each",
    ),
)
