"""The card of an exported model.

Every number is of a record of these very weights and maps: encoder, texts of the fit and seed are
compared by their digests. Nothing else is listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import ModelCardData

from harness.core.interfaces import Hub
from harness.core.metrics import metric_of, metrics
from harness.core.types import Record, Task
from harness.evaluation.evaluate import FittedCell
from harness.results.index import Results, score_at
from harness.results.records import PlannedCell

TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]
LICENCES = ("apache-2.0", "mit", "bsd-3-clause")  # as the hub writes those that it knows

USE = """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{folder}")
vectors = model.encode(["A man is eating.", "Someone eats."])
```"""


@dataclass(frozen=True)
class CardScore:
    """A task's main score of an exported model, in points, its metric, and the mean over seeds."""

    task: Task
    metric: str
    points: float
    over_seeds: str
    record: Record


def scores_of(
    planned: PlannedCell, cell: FittedCell, tasks: Mapping[str, Task], results: Results
) -> list[CardScore]:
    """The scores that records hold of these weights and maps, by task."""
    scores = []
    method, exported = planned.method.id, (cell.identity.key, cell.fitted_on, planned.seed)
    for name, task in sorted(tasks.items()):
        path = metrics()[task.metric].main_score
        for record in results.records(method, name):
            measured = (record.digests.get("encoding"), record.digests.get("fit"), record.seed)
            points = score_at(record.scores, path)
            if measured == exported and points is not None:
                over_seeds = str(results.value(method, name, *path))
                scores.append(CardScore(task, ".".join(path), points, over_seeds, record))
    return scores


def write_card(
    folder: Path, planned: PlannedCell, cell: FittedCell, scores: Sequence[CardScore], citation: str
) -> None:
    """Write README.md into an exported folder: use, scores with their protocol, origin, citation.

    `citation` is BibTeX.
    """
    method, encoder = planned.method, planned.encoder
    source, licence = encoder.source, encoder.licence.lower()
    header = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=TAGS,
        base_model=source.repo if isinstance(source, Hub) and source.repo else None,
        license=licence if licence in LICENCES else None,
    )
    fitted = "Nothing is fitted behind the encoder."
    if method.post:
        fitted = (
            f"Fitted on `@{method.fit_on}`, seed {planned.seed}; sha256 of its sentences "
            f"`{cell.fitted_on}`."
        )
    digests = ", ".join(f"{name} `{digest[:12]}`" for name, digest in cell.identity.digests.items())
    parts = [
        f"---\n{header.to_yaml()}\n---",
        f"# {method.id}",
        f"Sentence embeddings of `{encoder.name}`, written by sentence-embedding-harness.",
        USE.format(folder=folder.name),
        "## Measured",
        _table(scores),
        "## Origin",
        f"{fitted} Encoder: {source}; sha256 of {digests}. Trained on: "
        f"{encoder.trained_on or 'not stated'}. Licence: {encoder.licence or 'not stated'}.",
        "## Citation",
        f"```bibtex\n{citation}\n```",
    ]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _table(scores: Sequence[CardScore]) -> str:
    if not scores:
        return "No record holds a score of these weights and maps."
    rows = [
        f"| {s.task.name} | {s.metric} | {s.points:.2f} | {s.over_seeds} | {_protocol(s)} |"
        for s in scores
    ]
    head = "| task | metric x100 | this model | all seeds | protocol |\n|:--|:--|--:|--:|:--|"
    by_environment = Counter(map(_environment, scores)).most_common()
    environments = (f"* {count} of the scores: {words}." for words, count in by_environment)
    return "\n".join([head, *rows, "", *environments])


def _protocol(score: CardScore) -> str:
    """What was scored, and how."""
    task, metric = score.task, metric_of(score.task)
    text = "SentEval's text" if task.text == "senteval" else "raw text"
    name = score.metric.split(".")[0]
    compared = metric.words.get(name, name).format(metric.compared)
    return f"{score.record.pairs:,} scored ({'+'.join(task.scored)}, {text}), {compared}"


def _environment(score: CardScore) -> str:
    """The seed, the code and the libraries that a score was made with."""
    environment = score.record.environment
    packages = sorted((environment.get("packages") or {}).items())
    versions = ", ".join(f"{name} {version}" for name, version in packages)
    commit = str(environment.get("commit"))[:12]
    return f"seed {score.record.seed}; harness at commit {commit}, {versions}"
