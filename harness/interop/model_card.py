"""The card of an exported model, and its results in the hub's own format.

Every number is of a record of these very weights and maps: encoder, texts of the fit and seed are
compared by their digests. Nothing else is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import EvalResultEntry, ModelCardData, eval_result_entries_to_yaml
from huggingface_hub.utils import yaml_dump  # type: ignore[attr-defined]

from harness.core.interfaces import Hub
from harness.core.metrics import metric_of, metrics
from harness.core.types import Record, Task
from harness.evaluation.evaluate import FittedCell
from harness.interop.exported import FLOW
from harness.results.index import Results, score_at
from harness.results.planned import PlannedCell

RESULTS = ".eval_results"
TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]
LICENCES = ("apache-2.0", "mit", "bsd-3-clause")  # as the hub writes those that it knows

# The benchmarks of the hub that hold the very pairs of a task, and their names there.
BENCHMARKS: Mapping[str, tuple[str, str]] = {
    "sts-b": ("mteb/stsbenchmark-sts", "STSBenchmark"),
    "sick-r.all": ("mteb/sickr-sts", "SICK-R"),
    **{
        f"sts{year}.senteval": (f"mteb/sts{year}-sts", f"STS{year}")
        for year in (12, 13, 14, 15, 16)
    },
}

USE = """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{folder}")
vectors = model.encode(["A man is eating.", "Someone eats."])
```"""
USE_FLOW = """The last step is a normalising flow, which is no module of sentence-transformers: this
model needs the loader `load.py` beside it, and the package sentence-embedding-harness.

```python
from load import encode

vectors = encode(["A man is eating.", "Someone eats."])
```"""


@dataclass(frozen=True)
class Score:
    """A task's main score of an exported model, in points, its metric, and the seeds measured."""

    task: Task
    metric: str
    points: float
    over_seeds: str
    record: Record


def scores_of(
    planned: PlannedCell, cell: FittedCell, tasks: Mapping[str, Task], results: Results
) -> list[Score]:
    """The scores that records hold of these weights and maps, by task."""
    found = []
    method, seed = planned.method.id, planned.seed
    for name, task in sorted(tasks.items()):
        path = metrics()[task.metric].main_score
        for record in results.records(method, name):
            digests = record.digests
            same = (digests.get("encoding"), digests.get("fit"), record.seed) == (
                cell.identity.key,
                cell.fitted_on,
                seed,
            )
            points = score_at(record.scores, path)
            if same and points is not None:
                spread = str(results.value(method, name, *path))
                found.append(Score(task, ".".join(path), points, spread, record))
    return found


def write_card(
    folder: Path, planned: PlannedCell, cell: FittedCell, scores: Sequence[Score], citation: str
) -> None:
    """Write README.md and `.eval_results` into an exported folder; `citation` is BibTeX."""
    (folder / "README.md").write_text(card(folder, planned, cell, scores, citation), "utf-8")
    for score in scores:
        if score.task.name in BENCHMARKS:
            benchmark, task_id = BENCHMARKS[score.task.name]
            notes = f"{_protocol(score)}, {_environment(score)}"
            entry = EvalResultEntry(benchmark, task_id, round(score.points, 4), notes=notes)
            file = folder / RESULTS / f"{score.task.name}.yaml"
            file.parent.mkdir(exist_ok=True)
            file.write_text(yaml_dump(eval_result_entries_to_yaml([entry])), "utf-8")


def card(
    folder: Path, planned: PlannedCell, cell: FittedCell, scores: Sequence[Score], citation: str
) -> str:
    """The card: use, measured numbers with their protocol, origin, citation."""
    method, encoder = planned.method, planned.encoder
    use = USE_FLOW if (folder / FLOW).exists() else USE.format(folder=folder.name)
    fitted = (
        f"Fitted on `@{method.fit_on}`, seed {planned.seed}; sha256 of its sentences "
        f"`{cell.fitted_on}`."
        if method.post
        else "Nothing is fitted behind the encoder."
    )
    digests = ", ".join(f"{name} `{digest[:12]}`" for name, digest in cell.identity.digests.items())
    parts = [
        f"---\n{_metadata(planned)}\n---",
        f"# {method.id}",
        f"Sentence embeddings of `{encoder.name}`, written by sentence-embedding-harness.",
        use,
        "## Measured",
        _table(scores),
        "## Origin",
        f"{fitted} Encoder: {encoder.source}; sha256 of {digests}. Trained on: "
        f"{encoder.trained_on or 'not stated'}. Licence: {encoder.licence or 'not stated'}.",
        "## Citation",
        f"```bibtex\n{citation}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _table(scores: Sequence[Score]) -> str:
    if not scores:
        return "No record holds a score of these weights and maps."
    rows = [
        f"| {s.task.name} | {s.metric} | {s.points:.2f} | {s.over_seeds} | {_protocol(s)} |"
        for s in scores
    ]
    head = "| task | metric x100 | this model | all seeds | protocol |\n|:--|:--|--:|--:|:--|"
    made = Counter(map(_environment, scores))
    counted = (f"* {count} of the scores: {words}." for words, count in made.most_common())
    return "\n".join([head, *rows, "", *counted])


def _protocol(score: Score) -> str:
    """What was scored, and how."""
    task, metric = score.task, metric_of(score.task)
    text = "SentEval's text" if task.text == "senteval" else "raw text"
    name = score.metric.split(".")[0]
    of = metric.words.get(name, name).format(metric.compared)
    return f"{score.record.pairs:,} scored ({'+'.join(task.scored)}, {text}), {of}"


def _environment(score: Score) -> str:
    """The seed, the code and the libraries that a score was made with."""
    environment = score.record.environment
    packages = sorted((environment.get("packages") or {}).items())
    made = ", ".join(f"{name} {version}" for name, version in packages)
    commit = str(environment.get("commit"))[:12]
    return f"seed {score.record.seed}; harness at commit {commit}, {made}"


def _metadata(planned: PlannedCell) -> str:
    """The card's YAML header."""
    source, licence = planned.encoder.source, planned.encoder.licence.lower()
    header = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=TAGS,
        base_model=source.repo if isinstance(source, Hub) and source.repo else None,
        license=licence if licence in LICENCES else None,
    )
    return header.to_yaml()
