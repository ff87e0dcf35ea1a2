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
from harness.report.moved_pairs import MethodChoice, MovedPair, TaskMoves, move_key
from harness.results.layout import QUESTIONS, measured_for
from harness.results.records import Cell
from harness.results.store import Store
from harness.tasks.loader import TaskLoader

ROOT = Path(__file__).resolve().parents[1]
CHOICES = ROOT / "results" / QUESTIONS / "moved_pairs.toml"
COUNT = 10  # pairs that are stored for each task


def measure(
    choice: MethodChoice, task_name: str, registry: Registry, context: RunContext
) -> TaskMoves:
    """Run both methods on a task and compare their ranks. Raises HarnessError."""
    before_method = registry.parse(choice.before)
    after_method = registry.parse(choice.after)
    task = registry.tasks[task_name]
    cells = planned_cells([before_method, after_method], [task], 1)
    for outcome in execute(cells, context):
        if outcome.record is None:
            raise HarnessError(f"{outcome.cell}: {outcome.status}: {outcome.message}")
    before = context.store.cosines(Cell(before_method.id, task.name))
    after = context.store.cosines(Cell(after_method.id, task.name))
    pairs = context.loader.texts(task).pairs
    moved = []
    for move in most_moved(before, after, COUNT):
        index = move.pair - 1  # pairs are counted from 1
        sentences = (pairs.a[index], pairs.b[index]) if choice.sentences else ()
        moved.append(
            MovedPair(
                pair=move.pair,
                gold=round(float(pairs.gold[index]), 3),
                before=move.committed_rank,
                after=move.measured_rank,
                sentences=sentences,
            )
        )
    return TaskMoves(pairs=len(before), moved=tuple(moved))


def main() -> None:
    """Measure every choice anew and store it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    registry = load_registry()
    places = Places.from_environment(
        os.environ, cache=options.cache, data_dir=options.data_dir
    )
    loader = TaskLoader(places, registry.corpora)
    lines = []  # a choice on a task has a line
    with tempfile.TemporaryDirectory() as runs, progress_on(sys.stderr) as bar:
        context = RunContext(loader, Store(Path(runs)), bar)
        for choice in read_rows(MethodChoice, CHOICES):
            for task in choice.tasks:
                moved = json.dumps(asdict(measure(choice, task, registry, context)))
                lines.append(f"{json.dumps(move_key(choice, task))}: {moved}")
    head = f'{{"environment": {json.dumps(environment())}, "moved": {{\n'
    path = measured_for(CHOICES).with_suffix(".json")
    text = sealed(path.name, head + ",\n".join(lines) + "\n}}\n")
    write_atomically(path, text.encode())


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
