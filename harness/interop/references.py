"""References that packages make on this machine: sentence-transformers and mteb.

Everything but the reading of the pairs is theirs: tokens, forward pass, pooling, cosine,
correlation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from sentence_transformers import SentenceTransformer

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.types import Method, Task
from harness.interop.sentence_transformers import evaluated, open_model
from harness.results.references import Reference, ReferenceCell

Evaluate = Callable[[SentenceTransformer, Task, Places], Mapping[str, float]]


@dataclass(frozen=True)
class Program:
    """A package that scores pairs: its words in a reference, and how it is called.

    `evaluate` gives Spearman's and Pearson's correlation over all pairs of a task, in points.
    """

    program: str
    what: str
    evaluate: Evaluate


def _by_sentence_transformers(
    model: SentenceTransformer, task: Task, places: Places
) -> Mapping[str, float]:
    return evaluated(model, task.pairs(places.require_data(task.asset)))


def _by_mteb(model: SentenceTransformer, task: Task, places: Places) -> Mapping[str, float]:
    import mteb

    from harness.interop.mteb import local_task

    theirs = local_task(task.name, places.require_data(task.asset))
    found = mteb.evaluate(model, theirs, cache=None, co2_tracker=False, show_progress_bar=False)
    [[scores]] = found.task_results[0].scores.values()
    return {name: 100 * scores[f"cosine_{name}"] for name in ("spearman", "pearson")}


PROGRAMS: Mapping[str, Program] = {
    "sentence-transformers": Program(
        "sentence-transformers, EmbeddingSimilarityEvaluator on its own Transformer and Pooling",
        "Spearman and Pearson x100 of cosine over all pairs of the task's files; "
        "ties are broken by rounding noise",
        _by_sentence_transformers,
    ),
    "mteb": Program(
        "mteb, its STS tasks on a SentenceTransformer",
        "Spearman and Pearson x100 of mteb's own cosine; the tasks are mteb's, their pairs those "
        "of the task's files; ties are broken by rounding noise",
        _by_mteb,
    ),
}


def make_reference(
    name: str, methods: Sequence[Method], tasks: Sequence[Task], places: Places, command: str
) -> Reference:
    """What a package gives for every method on every task.

    Raises UsageError for a method or a task that the package lacks, AssetMissing.
    """
    program, cells = PROGRAMS[name], []
    for method in methods:
        if method.post:
            raise UsageError(f"{method.id}: {name} has no post-processors; wanted a pooling alone")
        folder = places.encoder(method.encoder)
        length = method.encoder.identify(folder).max_length
        model = open_model(folder, method.pooling.name, length)
        for task in tasks:
            if task.graded is None:
                raise UsageError(f"{task.name}: wanted pairs with graded gold, found a decision")
            scores = program.evaluate(model, task, places)
            named = {f"{metric}.all": score for metric, score in scores.items()}
            cells.append(ReferenceCell(named, method.id, task.name))
    file = f"{name.replace('-', '_')}.json"
    packages = ("torch", "transformers", *dict.fromkeys((name, "sentence-transformers")))
    released = ", ".join(f"{package} {version(package)}" for package in reversed(packages))
    return Reference(file, program.program, program.what, command, tuple(cells), released)
