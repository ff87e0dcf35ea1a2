"""The pairs of each task whose rank by similarity a choice of method moves most.

`results/questions/moved_pairs.toml` names the choices. What is measured goes to
`results/records/moved_pairs.json`; `harness report` writes the page. Ranks count from
1, the least similar pair; pairs from 1, in the order of the data set.

    python benchmarks/moved_pairs.py --data-dir DIR
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from harness.assets.places import Places
from harness.core.environment import environment
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.json_text import sealed
from harness.core.progress import progress_on
from harness.core.toml import read_rows
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.gate.drift import most_moved
from harness.registry import Registry, load_registry
from harness.report.measured import MethodChoice, Moved, MovedPair, move_key
from harness.results.layout import QUESTIONS, measured_for
from harness.results.records import Cell, Store
from harness.tasks.loader import TaskLoader

ROOT = Path(__file__).resolve().parents[1]
CHOICES = ROOT / "results" / QUESTIONS / "moved_pairs.toml"
COUNT = 10  # pairs of a task


def measure(
    choice: MethodChoice, task_name: str, registry: Registry, context: RunContext
) -> Moved:
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
            (pairs.a[move.pair - 1], pairs.b[move.pair - 1])
            if choice.sentences
            else (),
        )
        for move in most_moved(before, after, COUNT)
    )
    return Moved(len(before), moved)


def main() -> None:
    """Measure every choice anew and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path)
    given, registry = parser.parse_args(), load_registry()
    places = Places.from_environment(
        os.environ, cache=given.cache, data_dir=given.data_dir
    )
    loader = TaskLoader(places, registry.corpora)
    with tempfile.TemporaryDirectory() as runs, progress_on(sys.stderr) as bar:
        context = RunContext(loader, Store(Path(runs)), bar)
        measured = {
            move_key(choice, task): asdict(measure(choice, task, registry, context))
            for choice in read_rows(MethodChoice, CHOICES)
            for task in choice.tasks
        }
    lines = (
        f"{json.dumps(name)}: {json.dumps(moved)}" for name, moved in measured.items()
    )
    head = f'{{"environment": {json.dumps(environment())}, "moved": {{\n'
    path = measured_for(CHOICES).with_suffix(".json")
    text = sealed(path.name, head + ",\n".join(lines) + "\n}}\n")
    write_atomically(path, text.encode())


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
