"""The pairs of each task whose rank by similarity a choice of method moves most.

`results/questions/moved_pairs.toml` names the choices. What is measured goes to
`results/records/moved_pairs.json`; `tools/measured_pages.py` writes the page. Ranks count from 1,
the least similar pair; pairs from 1, in the order of the data set.

    python tools/moved_pairs.py --data-dir DIR
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.assets.places import Places
from harness.core.environment import environment
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.json_text import sealed
from harness.core.progress import progress_on
from harness.core.toml import read_rows, read_sealed
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.gate.drift import most_moved
from harness.registry import Registry, load_registry
from harness.report.markdown import escape, page_text, table
from harness.results.layout import QUESTIONS, digest_of_measured, measured_for
from harness.results.records import Cell, Store
from harness.tasks.loader import TaskLoader

ROOT = Path(__file__).resolve().parents[1]
CHOICES = ROOT / "results" / QUESTIONS / "moved_pairs.toml"
COUNT = 10  # pairs of a task
INTRODUCTION = (
    "The ten pairs of each task whose rank by similarity differs most between two methods. Rank 1 "
    "is the least similar pair; pairs are numbered from 1, in the order of the data set. Sentences "
    "are printed of the tasks that come with the harness. For any other: `harness run -m BEFORE "
    "AFTER -t TASK`, then `harness compare BEFORE AFTER -t TASK --pairs 10`."
)


@dataclass(frozen=True)
class Choice:
    """Two methods, tasks whose pairs both rank, and whether the page prints the sentences."""

    what: str
    before: str
    after: str
    tasks: tuple[str, ...]
    sentences: bool = False


@dataclass(frozen=True)
class MovedPair:
    """A pair with its gold score, ranks under both methods, and its sentences where allowed."""

    pair: int
    gold: float
    before: float
    after: float
    sentences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Moved:
    """How many pairs a task has, and those that a choice moved most."""

    pairs: int
    moved: tuple[MovedPair, ...]


@dataclass(frozen=True)
class Measured:
    """What moved, by the `key` of choice and task, and where it was measured."""

    environment: Mapping[str, Any]
    moved: Mapping[str, Moved]


def read_measured(choices: Path) -> Measured:
    """What was measured of these choices. Raises DataError for a damaged file."""
    return read_sealed(Measured, measured_for(choices).with_suffix(".json"))


def key(choice: Choice, task: str) -> str:
    """The name under which a choice is stored: `bert-mini.mean > bert-mini.cls, mini-sts`."""
    return f"{choice.before} > {choice.after}, {task}"


def measure(choice: Choice, task_name: str, registry: Registry, context: RunContext) -> Moved:
    """Run both methods on a task and compare their ranks. Raises HarnessError."""
    methods = [registry.parse(choice.before), registry.parse(choice.after)]
    task = registry.tasks[task_name]
    for outcome in execute(planned_cells(methods, [task], 1), context):
        if outcome.record is None:
            raise HarnessError(f"{outcome.cell}: {outcome.status}: {outcome.message}")
    before, after = (context.store.cosines(Cell(m.id, task.name)) for m in methods)
    pairs = context.loader.texts(task).pairs
    moved = tuple(
        MovedPair(
            move.pair,
            round(float(pairs.gold[move.pair - 1]), 3),
            move.committed_rank,
            move.measured_rank,
            (pairs.a[move.pair - 1], pairs.b[move.pair - 1]) if choice.sentences else (),
        )
        for move in most_moved(before, after, COUNT)
    )
    return Moved(len(before), moved)


def moved_pairs_page(path: Path) -> str:
    """The page: a table for each choice and task. Raises DataError for a damaged file."""
    choices, measured = read_rows(Choice, path), read_measured(path)
    commit, torch = measured.environment["commit"], measured.environment["packages"]["torch"]
    parts = [INTRODUCTION, f"Measured at commit {commit[:12]}, torch {torch}."]
    for choice in choices:
        parts.append(f"## {escape(choice.what)}, {choice.before.partition('.')[0]}")
        parts.append(f"From `{choice.before}` to `{choice.after}`.")
        for task in choice.tasks:
            found = measured.moved[key(choice, task)]
            head = ["pair", *(["first sentence", "second sentence"] if choice.sentences else [])]
            lines = [
                [p.pair, *map(escape, p.sentences), f"{p.gold:g}", f"{p.before:g}", f"{p.after:g}"]
                for p in found.moved
            ]
            shown = table([*head, "gold", "rank before", "rank after"], lines, words=len(head))
            parts += [f"### {task}: {found.pairs:,} pairs", shown]
    return page_text("Pairs that a choice moves most", parts, digest_of_measured(path))


def main() -> None:
    """Measure every choice anew and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path)
    given, registry = parser.parse_args(), load_registry()
    places = Places.from_environment(os.environ, cache=given.cache, data_dir=given.data_dir)
    loader = TaskLoader(places, registry.corpora)
    with tempfile.TemporaryDirectory() as runs, progress_on(sys.stderr) as bar:
        context = RunContext(loader, Store(Path(runs)), bar)
        measured = {
            key(choice, task): asdict(measure(choice, task, registry, context))
            for choice in read_rows(Choice, CHOICES)
            for task in choice.tasks
        }
    lines = (f"{json.dumps(name)}: {json.dumps(moved)}" for name, moved in measured.items())
    head = f'{{"environment": {json.dumps(environment())}, "moved": {{\n'
    path = measured_for(CHOICES).with_suffix(".json")
    text = sealed(path.name, head + ",\n".join(lines) + "\n}}\n")
    write_atomically(path, text.encode())


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
