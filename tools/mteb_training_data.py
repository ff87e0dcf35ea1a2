"""Write which models of published tables were trained on a task, as mteb states it.

    python tools/mteb_training_data.py

writes `results/questions/training_data.toml`. mteb is needed, and nothing is downloaded: the
lists are in its package. A test compares the file with the mteb that is installed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import mteb
from mteb.models.model_meta import ModelMeta

from harness.conclusions.training_data import TrainingData, model_of, name_in_mteb
from harness.core.files import write_atomically
from harness.results.layout import COMMITTED, PAPERS, QUESTIONS
from harness.results.published import PublishedNumber
from harness.results.published_tables import load_tables

FILE = COMMITTED / QUESTIONS / "training_data.toml"
HEAD = """\
# The tasks that each model of the published tables was trained on, by `training_datasets` of mteb,
# with the versions of a task that mteb counts as it; by `python tools/mteb_training_data.py`.
"""


def stated(numbers: Iterable[PublishedNumber]) -> TrainingData:
    """What the mteb that is installed states of the models of published numbers."""
    known = {meta.name: meta for meta in mteb.get_model_metas()}
    tasks: set[str] = set()
    metas: dict[str, ModelMeta] = {}
    for number in numbers:
        model = model_of(number)
        if model in known:
            metas[model] = known[model]
            tasks.update(map(name_in_mteb, number.data_sets))
    models, not_stated = {}, []
    for model, meta in sorted(metas.items()):
        training = meta.get_training_datasets()
        if training is None:
            not_stated.append(model)
        else:
            models[model] = tuple(sorted(training & tasks))
    return TrainingData(mteb.__version__, models, tuple(not_stated))


def toml(data: TrainingData) -> str:
    """The text of the file."""
    lines = [f'{HEAD}mteb = "{data.mteb}"', "not_stated = ["]
    lines += [f'  "{model}",' for model in data.not_stated]
    lines += ["]", "", "[models]"]
    for model, tasks in data.models.items():
        names = ", ".join(f'"{task}"' for task in tasks)
        lines.append(f'"{model}" = [{names}]')
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the file."""
    tables = load_tables(COMMITTED / PAPERS)
    data = stated(number for table in tables for number in table.numbers)
    write_atomically(FILE, toml(data).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
