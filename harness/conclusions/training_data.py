"""Whether a model was trained on the task of a published number, as mteb states it.

mteb lists the data sets that a model was trained on (`training_datasets`), with those that
are versions of them. `results/questions/training_data.toml` has the lists of the models
in published tables, written by `tools/mteb_training_data.py`. STS-B took its pairs from
STS12 to STS17, so that a model that was trained on its training split has seen pairs of
other tasks, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.conclusions.widths import pairs_of_task
from harness.core.toml import read_typed
from harness.results.published import PublishedNumber

STS_BENCHMARK = "STSBenchmark"  # in mteb; its training split is `sts-b.train` here
TRAIN_SPLIT = "sts-b.train"


def name_in_mteb(data_set: str) -> str:
    """mteb's name of the task of a data set: `STSBenchmark` for `sts-b`, `STS12` for `sts12`."""
    return STS_BENCHMARK if data_set == "sts-b" else data_set.upper()


@dataclass(frozen=True)
class SeenPairs:
    """How many pairs of a task are in the training split of STS-B, on which a model was trained.

    Attributes:
        task: The task.
        seen: The number of its pairs that are in the training split.
        pairs: The number of all of its pairs.
    """

    task: str
    seen: int
    pairs: int


@dataclass(frozen=True, kw_only=True)
class Contact:
    """What a model saw of the tasks of a published number when it was trained.

    Attributes:
        model: The model, as mteb names it.
        is_stated: Whether mteb states its training data.
        tasks: The tasks of the number that are among them, under mteb's names.
        seen: The further tasks whose pairs are in the training split of STS-B, if that
            is among them.
    """

    model: str
    is_stated: bool
    tasks: tuple[str, ...] = ()
    seen: tuple[SeenPairs, ...] = ()

    @property
    def is_trained_on_task(self) -> bool:
        """Whether it was trained on a task of the number, or on pairs of one."""
        return bool(self.tasks or self.seen)


@dataclass(frozen=True)
class TrainingData:
    """The training data of models, as far as they are data of tasks here.

    Attributes:
        mteb: The version of mteb that states them.
        models: The tasks that each model was trained on, under mteb's names.
        not_stated: The models of which mteb states no training data.
    """

    mteb: str = ""
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_stated: tuple[str, ...] = ()

    def contact(self, number: PublishedNumber) -> Contact | None:
        """What the model of a number saw of its tasks; None for a model that mteb does not have."""
        model = model_of(number)
        if model in self.not_stated:
            return Contact(model=model, is_stated=False)
        trained_on = self.models.get(model)
        if trained_on is None:
            return None
        names = {name_in_mteb(data_set): data_set for data_set in number.data_sets}
        tasks = tuple(name for name in names if name in trained_on)
        seen = []
        for name, data_set in names.items():
            pairs = pairs_of_task(data_set)
            if STS_BENCHMARK not in trained_on or name in tasks or pairs is None:
                continue
            in_split = pairs.in_training.get(TRAIN_SPLIT, 0)
            if in_split:
                seen.append(SeenPairs(name, in_split, pairs.pairs))
        return Contact(model=model, is_stated=True, tasks=tasks, seen=tuple(seen))


def model_of(number: PublishedNumber) -> str:
    """The repository of the model of a published number, without its revision and remarks."""
    return number.row.backbone.partition(" (")[0].partition("@")[0]


def read_training_data(path: Path) -> TrainingData:
    """The training data of a file; none where there is no file."""
    return read_typed(TrainingData, path) if path.exists() else TrainingData()
