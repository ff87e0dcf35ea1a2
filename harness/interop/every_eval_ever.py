"""Measured scores in the schema of Every Eval Ever (github.com/evaleval/every_eval_ever).

Every Eval Ever is one schema for the results of evaluations, whoever made them. A file has
one model and its scores on several data sets; here it is a method with a seed. What the
schema has no field for (the protocol, the published number and the verdict) is in the
details of each score, whose values are texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.conclusions.cards import data_sets
from harness.core.interfaces import Hub
from harness.core.metrics import metric_of
from harness.core.types import Task
from harness.registry import Registry
from harness.results.reproduction import compose_method
from harness.results.score_rows import ScoreRow

SCHEMA_VERSION = "0.3.0"
DISTRIBUTION = "sentence-embedding-harness"

# The range of a score in points, by the names of metrics; other scores state none.
RANGES: Mapping[str, tuple[float, float]] = {
    "spearman": (-100.0, 100.0),
    "pearson": (-100.0, 100.0),
    "accuracy": (0.0, 100.0),
    "auc": (0.0, 100.0),
}
KINDS: Mapping[str, str] = {
    "spearman": "correlation",
    "pearson": "correlation",
    "auc": "auroc",
}


def every_eval_ever(
    rows: Iterable[ScoreRow], registry: Registry, timestamp: int
) -> dict[tuple[str, int], dict[str, Any]]:
    """The content of a file for each method and seed, in the form of JSON.

    Args:
        rows: The measured scores; undefined ones, and those made under other settings
            than the method has now, are left out.
        registry: Methods and tasks by name.
        timestamp: The time of the export, in seconds since 1970.
    """
    files: dict[tuple[str, int], list[ScoreRow]] = {}
    for row in rows:
        if row.score is not None and row.state == "measured":
            files.setdefault((row.method, row.seed), []).append(row)
    return {
        (method, seed): _content(rows_of_file, registry, timestamp)
        for (method, seed), rows_of_file in files.items()
    }


def _content(
    rows: list[ScoreRow], registry: Registry, timestamp: int
) -> dict[str, Any]:
    """The content of the file of one method and seed."""
    first = rows[0]
    model = _model_info(first, registry)
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{DISTRIBUTION}/{model['id']}/{timestamp}",
        "retrieved_timestamp": str(timestamp),
        "source_metadata": {
            "source_name": DISTRIBUTION,
            # Its files have scores, and not the similarities of single pairs.
            "source_type": "documentation",
            "source_organization_name": DISTRIBUTION,
            "evaluator_relationship": "third_party",
        },
        "eval_library": {
            "name": DISTRIBUTION,
            "version": first.harness or "unknown",
            "additional_details": _texts(commit=first.commit, plugin=first.plugin),
        },
        "model_info": model,
        "evaluation_results": [_result(row, registry) for row in rows],
    }


def _model_info(row: ScoreRow, registry: Registry) -> dict[str, Any]:
    """The method: its repository on the hub if it has one, and all of its parts."""
    method = compose_method(row.method, registry)
    source = None if method is None else method.encoder.source
    is_open = isinstance(source, Hub)
    return {
        "name": row.method,
        "id": source.repo if isinstance(source, Hub) else row.encoder,
        "additional_details": {
            "deployment_type": "self_deployed",
            "model_availability": "open_weights" if is_open else "unknown",
            **_texts(
                revision=source.revision if isinstance(source, Hub) else None,
                pooling=row.pooling,
                post_processors=row.post,
                fitted_on=row.fit_on,
                transductive=row.transductive,
                seed=row.seed,
                weights_sha256=row.weights,
                dtype=row.dtype,
                device=row.device,
            ),
        },
    }


def _result(row: ScoreRow, registry: Registry) -> dict[str, Any]:
    """One score with its data set, its metric, and what is published for it."""
    task = registry.tasks.get(row.task)
    is_lower_better = task is not None and metric_of(task).direction != "higher"
    metric: dict[str, Any] = {
        "evaluation_description": "of the cosine of each pair and gold"
        if row.metric in ("spearman", "pearson")
        else row.metric,
        "metric_id": row.metric,
        "metric_kind": KINDS.get(row.metric, row.metric),
        "metric_unit": "points",
        "lower_is_better": is_lower_better,
        "additional_details": _texts(aggregation=row.aggregation),
    }
    if row.metric in RANGES:
        low, high = RANGES[row.metric]
        metric |= {"score_type": "continuous", "min_score": low, "max_score": high}
    return {
        "evaluation_name": row.task,
        "source_data": _source_data(row, task),
        "metric_config": metric,
        "score_details": {
            "score": row.score,
            "details": _texts(
                text_form=None if task is None else task.text,
                split=None if task is None else "+".join(task.scored),
                pairs=row.pairs,
                published=row.published,
                published_in=row.published_in,
                evidence=row.evidence,
                difference=row.difference,
                verdict=row.verdict,
            ),
        },
    }


def _source_data(row: ScoreRow, task: Task | None) -> dict[str, Any]:
    """The data set: its repository where a card's name for the task has one."""
    details = _texts(pairs_sha256=row.data, release=row.release)
    for data_set in data_sets():
        splits = [split for split, name in data_set.tasks.items() if name == row.task]
        if splits and data_set.ids:
            return {
                "dataset_name": data_set.name,
                "source_type": "hf_dataset",
                "hf_repo": data_set.ids[0],
                "hf_split": splits[0],
                "samples_number": row.pairs,
                "additional_details": details,
            }
    name = row.task if task is None else task.name
    return {"dataset_name": name, "source_type": "other", "additional_details": details}


def _texts(**facts: object) -> dict[str, str]:
    """Facts as texts, as the schema wants them; what is not known is left out."""
    return {
        name: str(fact).lower() if isinstance(fact, bool) else f"{fact}"
        for name, fact in facts.items()
        if fact not in (None, "")
    }
