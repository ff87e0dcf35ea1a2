"""Measured scores in the hub's formats: `model-index` of a card, and `.eval_results/*.yaml`.

Each number states its protocol and the version of the harness. Only the main scores of
graded pairs are written, since other programs know these by mteb's names of tasks and
scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import (
    EvalResult,
    EvalResultEntry,
    ModelCard,
    eval_result_entries_to_yaml,
)

from harness.core.files import write_atomically
from harness.core.scores import score_at
from harness.core.types import Record, Task
from harness.results.card_statements import CARD_FILE, EVAL_RESULTS_FOLDER
from harness.results.cards import OWN_DATA_SETS, DataSet, data_sets

EVAL_RESULTS_FILE = "sentence-embedding-harness.yaml"
REPORTED_SCORE = ("spearman", "all")
FRACTION_DECIMALS = 6  # in which two runs of a model agree


@dataclass(frozen=True)
class ReportedScore:
    """A measured main score, and the names that the hub has for its task.

    Attributes:
        task: The task here.
        data_set: The data set as cards name it.
        split: Its split there.
        fraction: The score from -1 to 1.
        notes: The protocol, and the version of the harness.
    """

    task: Task
    data_set: DataSet
    split: str
    fraction: float
    notes: str


def reported_scores(
    records: Iterable[Record], tasks: Mapping[str, Task]
) -> Iterator[ReportedScore]:
    """The main score of each record of graded pairs, with its names on the hub."""
    version = version_of("sentence-embedding-harness")
    for record in records:
        points = score_at(record.scores, REPORTED_SCORE)
        task = tasks.get(record.task)
        if points is None or task is None:
            continue
        data_set, split = _names_on_hub(task)
        text = "SentEval text" if task.text == "senteval" else "raw text"
        length = record.facts.get("max_length")
        notes = (
            f"Spearman of cosines, {text}, {'+'.join(task.scored)} ({record.pairs} pairs, subsets "
            f"concatenated), method {record.method}, max length {length}; "
            f"sentence-embedding-harness {version}"
        )
        yield ReportedScore(
            task=task,
            data_set=data_set,
            split=split,
            fraction=round(points / 100, FRACTION_DECIMALS),
            notes=notes,
        )


def _names_on_hub(task: Task) -> tuple[DataSet, str]:
    """The data set and split of a task as the hub names them, or else by the task's name."""
    for data_set in data_sets():
        for split, name in data_set.tasks.items():
            if name == task.name and data_set.revisions:
                return data_set, split
    split = "+".join(task.scored)
    return DataSet(name=task.name, tasks={split: task.name}), split


def write_model_index(folder: Path, name: str, scores: Iterable[ReportedScore]) -> int:
    """Put scores into the front matter of the card in a folder. Returns their number."""
    results = [
        EvalResult(
            task_type="sentence-similarity",
            task_name="STS",
            dataset_type=score.data_set.id or f"{OWN_DATA_SETS}{score.task.name}",
            dataset_name=score.data_set.name,
            dataset_config="default",
            dataset_split=score.split,
            dataset_revision=_first_revision(score.data_set),
            metric_type="cosine_spearman",
            metric_name="cosine_spearman",
            metric_value=score.fraction,
            metric_args={"notes": score.notes},
        )
        for score in scores
    ]
    card: Any = ModelCard((folder / CARD_FILE).read_text(encoding="utf-8"))
    card.data.model_name = name
    card.data.eval_results = results
    if results:
        write_atomically(folder / CARD_FILE, str(card).encode())
    return len(results)


def _first_revision(data_set: DataSet) -> str | None:
    """The first of the commits that hold the pairs of a data set; None if none is known."""
    revisions = list(data_set.revisions)
    return revisions[0] if revisions else None


def write_eval_results(folder: Path, scores: Iterable[ReportedScore], date: str) -> int:
    """Write the scores of data sets that the hub has into `.eval_results`.

    `date` is the day of the measurement, as 2026-01-31. Returns the number of scores.
    """
    entries = [
        EvalResultEntry(
            dataset_id=score.data_set.id,
            task_id=f"{score.data_set.name}_default_{score.split}",
            value=round(100 * score.fraction, FRACTION_DECIMALS - 2),  # in points
            dataset_revision=_first_revision(score.data_set),
            date=date,
            notes=score.notes,
        )
        for score in scores
        if score.data_set.id
    ]
    if entries:
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
        (folder / EVAL_RESULTS_FOLDER).mkdir(exist_ok=True)
        write_atomically(
            folder / EVAL_RESULTS_FOLDER / EVAL_RESULTS_FILE, text.encode()
        )
    return len(entries)
