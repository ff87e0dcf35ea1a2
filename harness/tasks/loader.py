"""The texts of a run: pairs to score, sentences to fit on, and their digests, each read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.assets.places import Places
from harness.core.digests import pairs_digest, text_digest
from harness.core.metrics import metric_of
from harness.core.types import Corpus, Pairs, Task

# What `@` may name besides a corpus: the sentences of the task itself.
TARGETS = ("target", "target-train")


@dataclass
class Library:
    """The texts of a run, each file read once."""

    places: Places
    corpora: Mapping[str, Corpus]
    read: dict[tuple[str, str], Pairs] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    needed: dict[tuple[Task, str | None], frozenset[str]] = field(default_factory=dict)

    def sentences(self, task: Task, fit_on: str | None) -> frozenset[str]:
        """The distinct sentences that a cell needs encoded; a corpus streams past and is not kept.

        Raises AssetMissing for data, the corpus included, that are not here.
        """
        if (task, fit_on) not in self.needed:
            self.require(task, fit_on)
            splits = (self.split(task, split).sentences for split in needed_splits(task, fit_on))
            self.needed[task, fit_on] = frozenset().union(*splits)
        return self.needed[task, fit_on]

    def require(self, task: Task, fit_on: str | None) -> None:
        """Raise AssetMissing if the data that a cell reads, its corpus included, are not here."""
        self.places.require_data(task.asset)
        if fit_on and fit_on not in TARGETS:
            self.places.require_data(self.corpora[fit_on].asset)

    def split(self, task: Task, split: str) -> Pairs:
        """One split of a task, checked."""
        data_dir = self.places.require_data(task.asset)
        name = (repr(task.load), split)
        if name not in self.read:
            self.read[name] = task.load(data_dir, split)
        return self.read[name]

    def pairs(self, task: Task) -> Pairs:
        """The scored pairs."""
        first, *rest = (self.split(task, split) for split in task.scored)
        return first.concatenate(*rest) if rest else first

    def labelled(self, task: Task) -> tuple[Pairs, ...]:
        """The pairs of the splits that the task's metric learns from; mostly none."""
        return tuple(self.split(task, split) for split in metric_of(task).labelled)

    def pairs_digest(self, task: Task) -> str:
        """Digest of the scored rows."""
        name = f"{task.load!r} {task.scored}"
        if name not in self.digests:
            self.digests[name] = pairs_digest(self.pairs(task))
        return self.digests[name]

    def target(self, task: Task, fit_on: str) -> tuple[str, ...]:
        """The task's own sentences, with repetitions: of all splits, or of the training split."""
        splits = task.splits if fit_on == "target" else (str(task.train),)
        return sum((self.split(task, split).sentences for split in splits), ())

    def target_digest(self, task: Task, fit_on: str) -> str:
        """Digest of those sentences."""
        name = f"{task.load!r} {fit_on}"
        if name not in self.digests:
            self.digests[name] = text_digest(self.target(task, fit_on))
        return self.digests[name]


def needed_splits(task: Task, fit_on: str | None) -> tuple[str, ...]:
    """The splits whose sentences a cell needs encoded: to be scored, to learn from, to fit on."""
    fitted = {"target": task.splits, "target-train": (str(task.train),)}.get(fit_on or "", ())
    return tuple(dict.fromkeys((*task.scored, *metric_of(task).labelled, *fitted)))
