"""Embedded tasks and corpora: English that the project makes itself, so that nothing is downloaded.

`harness.tasks.english` draws scenes from an authored lexicon (who does what to what, where, how
many), edits them, and puts each into words through a template of its own. What two sentences of a
pair have in common is therefore known, and the gold follows from it alone:

    gold = low + (high - low) * core * kept

where `core` is the weighted likeness of event (4), patient (3) and agent (2) in the lexicon's trees
(Wu and Palmer 1994), and `kept` a product of one discount for each detail that differs: setting,
trait, number, denial. `english.gold` has the formula in full, and the two scales:

* `mini-sts`, 0 to 5: captions, headlines and questions, which are its groups. Words and templates
  vary freely, so that a paraphrase may share no content word with its original.
* `mini-sick`, 1 to 5: captions alone, edited as SICK was built (Marelli et al. 2014): paraphrase,
  wider word, other detail, negation, opposite, exchanged roles, other parts, unrelated.
* `mini-qnli`: questions about invented things, with sentences that answer them or do not.
* `mini-lexical`: similarity against edit distance on `mini-sts.dev`, as `lexical` is on STS-B.
* corpora to fit and train on: `mini-text` (sentences), `mini-nli` (labelled pairs) and
  `mini-triplets` (anchor, what follows, what it excludes), from `english.inference`.

Who does what to what decides the split of a scene, in all of these alike: no scene of a corpus or a
training split is ever in a development or test split. The same bytes come out everywhere and for
ever (`english.dice`): a digest holds every split and corpus, and a change asks for another name.
Text, lexicon and gold are released under CC0 1.0.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from harness.core.digests import rows_digest
from harness.core.errors import DataError
from harness.core.types import Corpus, Metric, Pairs, Task
from harness.tasks.readers import known_split

ASSET = "embedded"
LICENCE = "CC0 1.0"
CITE = "sentence-embedding-harness"

# The ends of the graded sets' gold; of each split the number of pairs and the `rows_digest`.
SCALES = {"mini-sts": (0.0, 5.0), "mini-sick": (1.0, 5.0)}
SPLITS = {
    "mini-sts": {
        "train": (2000, "c8d484ae11cecc01a2ce6b6b18a6fccb930f9a84744f1195cde05cbf627d57d6"),
        "dev": (1500, "44355dde870462566e458a2f22225487eff54aa83d512c9cab8dfa544320e34f"),
        "test": (1500, "6c7186657f40a0e35103a8219b39587702023f9a91c78e537838f15d86738786"),
    },
    "mini-sick": {
        "train": (2000, "d6e8468bb834ee5e5085dd3889f888b7e0f6c176be6f9351b4a02349bbf0fce6"),
        "dev": (1000, "3e733f5fe4816b387beadfd9143c15121053e61230f02870f0c7533660bb5ed0"),
        "test": (1000, "943606774eaec541b6b5b1e30670c52c9f1ad7a6709c9cac4142f4556a6ecd5c"),
    },
    "mini-qnli": {
        "dev": (1500, "616ffb93f2a00ea0049b4d0717b36f91e60750147e7a5d8a167094b2820d50c2"),
    },
}


@dataclass(frozen=True)
class MiniPairs:
    """Makes one split of a set; the data folder is not looked at."""

    name: str

    def __call__(self, data_dir: Path, split: str) -> Pairs:  # noqa: ARG002 - as tasks are loaded
        return made(self.name, known_split(split, SPLITS[self.name]))


@cache
def made(name: str, split: str) -> Pairs:
    """One split of a set, checked against its digest."""
    from harness.tasks.english import sets

    count, sha256 = SPLITS[name][split]
    found = sets.answers(count) if name == "mini-qnli" else sets.graded(name, split, count)
    unchanged(f"{name}, {split}", sha256, rows_digest(found))
    return found


def unchanged(what: str, wanted: str, found: str) -> None:
    """Raises DataError if what was made is not what this name has always meant."""
    if wanted != found:
        raise DataError(
            f"{what}: wanted sha256 {wanted[:16]}…, made {found[:16]}…: generator or lexicon were "
            "changed; restore them, or give what they make now a name of its own"
        )


@dataclass(frozen=True)
class Made:
    """A corpus that is made as it is read. Called with a data folder, which it does not look at.

    `make` is the function of `english.sets` that does. `sha256` is that of all sentences, each
    ended by LF, in UTF-8.
    """

    name: str
    make: str = field(repr=False)
    count: int
    sha256: str = field(repr=False)

    def __call__(self, data_dir: Path) -> Made:  # noqa: ARG002 - as corpora are read
        return self

    def __iter__(self) -> Iterator[str]:
        from harness.tasks.english import sets

        sha = hashlib.sha256()
        for sentence in getattr(sets, self.make)(self.count):
            sha.update(f"{sentence}\n".encode())
            yield sentence
        unchanged(self.name, self.sha256, sha.hexdigest())


def mini(name: str, of: str, scored: str, metric: Metric = "correlation", note: str = "") -> Task:
    """One embedded task: pairs of a set, scored on one split."""
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
        note=note,
    )


def corpus(made: Made, note: str) -> Corpus:
    """One embedded corpus."""
    return Corpus(made.name, made, ASSET, licence=LICENCE, note=note)


TASKS = (
    mini("mini-sts", "mini-sts", "test"),
    mini("mini-sts.dev", "mini-sts", "dev"),
    mini("mini-sts.train", "mini-sts", "train"),
    mini("mini-sick", "mini-sick", "test"),
    mini("mini-sick.dev", "mini-sick", "dev"),
    mini("mini-sick.train", "mini-sick", "train"),
    mini("mini-qnli", "mini-qnli", "dev", metric="auc"),
    mini("mini-lexical", "mini-sts", "dev", metric="edit-distance"),
)

CORPORA = (
    corpus(
        Made(
            "mini-text",
            "sentences",
            20_000,
            "dbea07d9607058254ad8ace6d69c3728ad698ba182cce62f149e3bf3a9d0cf52",
        ),
        "20,000 different sentences that the project makes: captions, headlines, questions",
    ),
    corpus(
        Made(
            "mini-nli",
            "texts_of_pairs",
            10_000,
            "c14ad3a2e06a65fe535e6765790bcb59c13e5ed698e8601e7411a0f7486eb882",
        ),
        "5,000 labelled pairs that the project makes; both sentences of each",
    ),
    corpus(
        Made(
            "mini-triplets",
            "texts_of_triplets",
            15_000,
            "85baacacd5bd9aa84d46959ab45649d8580a4d7967ec7573ad773525febdb8ca",
        ),
        "5,000 triplets that the project makes; all three sentences of each",
    ),
)
