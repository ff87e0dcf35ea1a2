"""Embedded tasks and corpora: English of the project's own, whose files come with the package.

A generator (docs/included.md says where it is) drew scenes from an authored lexicon
(who does what to what, where, how many), edited them, and put each into words through a
template of its own. What two sentences of a pair have in common is therefore known, and
the gold follows from it alone:

    gold = low + (high - low) * core * kept

where `core` is the weighted likeness of event (4), patient (3) and agent (2) in the
lexicon's trees (Wu and Palmer 1994), and `kept` a product of one discount for each
detail that differs: setting, trait, number, denial. `mini-sts` holds captions,
headlines and questions, its groups, in words that vary freely; `mini-sick` captions
alone, edited as SICK was built (Marelli et al. 2014); `mini-qnli` questions about
invented things, with sentences that answer them or do not.

Who does what to what decides the split of a scene, in tasks and corpora alike: no scene
of a corpus or a training split is ever in a development or test split. The files never
change: the catalogue holds their digests, and other content would need other names. All
of it is released under CC0 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.assets.catalogue import EMBEDDED_SHA256
from harness.assets.places import EMBEDDED_DATA
from harness.core.errors import DataError
from harness.core.texts import text_digest
from harness.core.types import Corpus, LeaderboardColumn, Pairs, Task
from harness.tasks.lexical import legend
from harness.tasks.readers import fields, known_split, lines

ASSET = "embedded"
LICENCE = "CC0 1.0"
CITE = "sentence-embedding-harness"

# The ends of the graded sets' gold; of each split, its number of pairs.
SCALES = {"mini-sts": (0.0, 5.0), "mini-sick": (1.0, 5.0)}
SPLITS = {
    "mini-sts": {"train": 2000, "dev": 1500, "test": 1500},
    "mini-sick": {"train": 2000, "dev": 1000, "test": 1000},
    "mini-qnli": {"dev": 1500},
}
PARAPHRASE = 3.0  # the least gold of class 1


def embedded_rows(name: str, columns: int) -> list[list[str]]:
    """The rows of an embedded file as so many fields each. Raises DataError if it was changed."""
    path = EMBEDDED_DATA / name
    frozen = EMBEDDED_SHA256[name]
    try:
        placed = list(lines(path))
        digest = text_digest(line for _, line in placed)
        if digest != frozen:
            raise DataError(
                f"{path}: wanted lines with sha256 {frozen[:16]}…, found {digest[:16]}…"
            )
    except DataError as error:
        raise DataError(
            f"{error}: the file was changed; install the package again"
        ) from None
    return [fields(place, line, columns) for place, line in placed]


def embedded_pairs(name: str, split: str) -> Pairs:
    """One split of an embedded set. A row is group, gold and two sentences."""
    rows = embedded_rows(f"{name.removeprefix('mini-')}-{split}.tsv", 4)
    group, gold, a, b = zip(*rows, strict=True)
    return Pairs(a, b, np.array(gold, dtype=np.float64), group)


@dataclass(frozen=True)
class MiniPairs:
    """Loads one split of an embedded set, labelled anew or not; it needs no data folder."""

    name: str
    relabel: Callable[[Pairs], Pairs] | None = None

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - as tasks are loaded
        pairs = embedded_pairs(self.name, known_split(split, SPLITS[self.name]))
        return self.relabel(pairs) if self.relabel else pairs


def by_kind(pairs: Pairs) -> Pairs:
    """The first sentences, whose class is their group."""
    kinds = sorted(set(pairs.group))
    return replace(
        pairs, b=(), gold=np.array([float(kinds.index(g)) for g in pairs.group])
    )


def by_paraphrase(pairs: Pairs) -> Pairs:
    """The pairs, of class 1 from a gold of 3 on."""
    return replace(pairs, gold=(pairs.gold >= PARAPHRASE).astype(np.float64))


@dataclass(frozen=True)
class EmbeddedText:
    """The sentences of an embedded corpus: the first columns of each row; needs no data folder."""

    file: str
    columns: int = field(repr=False)
    sentences: int = field(repr=False)  # of these columns

    def __call__(self, data_dir: Path) -> EmbeddedText:  # noqa: ARG002 - as corpora are read
        return self

    def __iter__(self) -> Iterator[str]:
        for row in embedded_rows(self.file, self.columns):
            yield from row[: self.sentences]


def mini(
    name: str, of: str, scored: str, heading: str = "", metric: str = "correlation"
) -> Task:
    """One embedded task, scored on one split of a set; with a heading, a leaderboard column."""
    return Task(
        name=name,
        load=MiniPairs(of),
        splits=tuple(SPLITS[of]),
        scored=(scored,),
        metric=metric,
        asset=ASSET,
        text="raw",
        train="train" if "train" in SPLITS[of] else None,
        graded=SCALES.get(of),
        geometry=of == "mini-sts" and metric == "correlation",
        cite=CITE,
        licence=LICENCE,
        columns=(LeaderboardColumn("embedded", heading),) if heading else (),
    )


def classes(name: str, relabel: Callable[[Pairs], Pairs]) -> Task:
    """One embedded task for a classifier, on the splits of `mini-sts`."""
    task = mini(name, "mini-sts", "test", f"{name} (accuracy)", "classification")
    return replace(task, load=MiniPairs("mini-sts", relabel), graded=None)


LEXICAL = LeaderboardColumn("embedded", "mini-lexical", legend=legend("mini-STS dev"))

TASKS = (
    mini("mini-sts", "mini-sts", "test", "mini-STS"),
    mini("mini-sts.dev", "mini-sts", "dev"),
    mini("mini-sts.train", "mini-sts", "train"),
    mini("mini-sick", "mini-sick", "test", "mini-SICK"),
    mini("mini-sick.dev", "mini-sick", "dev"),
    mini("mini-sick.train", "mini-sick", "train"),
    mini("mini-qnli", "mini-qnli", "dev", "mini-QNLI (AUC)", "auc"),
    replace(
        mini("mini-lexical", "mini-sts", "dev", metric="edit-distance"),
        columns=(LEXICAL,),
    ),
    classes("mini-kind", by_kind),
    classes("mini-paraphrase", by_paraphrase),
)


def embedded_corpus(name: str, text: EmbeddedText, count: int, note: str) -> Corpus:
    """One embedded corpus of so many sentences."""
    return Corpus(name, text, ASSET, licence=LICENCE, note=note, count=count)


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
