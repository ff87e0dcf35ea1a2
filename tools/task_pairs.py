"""Write how many pairs each task has and shares with others, from the data sets.

    python tools/task_pairs.py DATA_DIR

writes `harness/conclusions/task_pairs.toml`, from which widths of differences between
published numbers are computed (`harness.conclusions.widths`). A test compares the file
with the data sets.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.conclusions import widths
from harness.conclusions.widths import TaskPairs
from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.evaluation.bootstrap import item_texts
from harness.registry import load_registry

FILE = Path(widths.__file__).with_name("task_pairs.toml")
YEARS = tuple(f"sts{year}" for year in range(12, 17))
TASKS = (
    *YEARS,
    *("sts-b", "sts-b.dev", "sts-b.train", "sts-b.v2", "sts-b.v2.dev"),
    *("sick-r", "sick-r.dev", "sick-r.train", "sick-r.all"),
)
TRAINING_SPLITS = ("sts-b.train", "sick-r.train")
HEAD = """\
# The pairs of each task, by `python tools/task_pairs.py`: how many its subsets have, and for
# itself and every other task that has some of them, the sum over distinct pairs of the product
# of how often each has them. `in_training` is how many of its pairs a training split has. Pairs are
# equal in either order, whatever their case, blanks and punctuation.
"""


def counted(data_dir: Path) -> Iterator[TaskPairs]:
    """The pairs of every task, counted in the data sets."""
    tasks = load_registry().tasks
    pairs = {name: tasks[name].pairs(data_dir) for name in TASKS}
    items = {name: Counter(item_texts(pairs[name])) for name in TASKS}
    for name in TASKS:
        shared = {}
        for other in TASKS:
            products = sum(
                count * items[other][item] for item, count in items[name].items()
            )
            if products:
                shared[other] = products
        in_training = {
            split: sum(items[name][item] for item in items[split].keys() & items[name])
            for split in TRAINING_SPLITS
            if split in shared and split != name
        }
        subsets = Counter(pairs[name].group).values()
        yield TaskPairs(name, tuple(subsets), shared, in_training)


def toml(rows: Iterator[TaskPairs]) -> str:
    """The rows as the text of the file."""
    parts = [HEAD]
    for row in rows:
        parts.append(
            f'\n[[task]]\nname = "{row.name}"\nsubsets = {[*row.subsets]}\n'
            f"shared = {_inline(row.shared)}\n"
        )
        if row.in_training:
            parts.append(f"in_training = {_inline(row.in_training)}\n")
    return "".join(parts)


def _inline(counts: Mapping[str, int]) -> str:
    """Counts by name as an inline table."""
    entries = ", ".join(f'"{name}" = {count}' for name, count in counts.items())
    return f"{{ {entries} }}"


def main(arguments: Sequence[str]) -> int:
    """Write the file; status 1 where a data set is missing."""
    try:
        [data_dir] = arguments
        write_atomically(FILE, toml(counted(Path(data_dir))).encode())
    except (ValueError, HarnessError) as error:
        print(f"task_pairs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
