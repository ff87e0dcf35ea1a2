"""The scores in a result file of mteb, whichever version wrote it, and the settings beside it.

Since 1.11 a file has `scores`: for each split a list of subsets, each with its metrics by
name. Before, the splits were next to the other keys, a metric was a pair of names
(`{"cos_sim": {"spearman": 0.75}}`), and a split was one subset or several by their
names. Version 1.12 wrote correlations with their p: `[0.75, 0.0]`.

Beside result files of newer versions is `run_settings.jsonl`, which has the arguments of
`encode` and the versions of packages of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypedDict

import msgspec

# Keys of a subset that are no metrics, with those of times.
NOT_METRICS = ("hf_subset", "languages", "scores_per_experiment", "mteb_version")
RUN_SETTINGS = "run_settings.jsonl"


@dataclass(frozen=True, kw_only=True)
class SubsetScores:
    """The scores of one subset in one split.

    Attributes:
        split: The split.
        subset: The subset; empty where the file does not name it.
        languages: The languages of its texts as mteb writes them, `eng-Latn`; none where
            the file does not name them.
        metrics: The values by the names of their metrics, values that are no numbers
            included.
    """

    split: str
    subset: str
    languages: tuple[str, ...]
    metrics: Mapping[str, Any]

    def cosine(self, correlation: str) -> Any:
        """The correlation of the cosines with gold, `spearman` or `pearson`; None without one."""
        names = (f"cosine_{correlation}", f"cos_sim_{correlation}", correlation)
        for name in names:
            if self.metrics.get(name) is not None:
                return self.metrics[name]
        return None


def scores_of_subsets(content: Mapping[str, Any]) -> Iterator[SubsetScores]:
    """The scores of every subset in the content of a result file; malformed ones are left out."""
    for split, part in content.get("scores", content).items():
        subsets: list[tuple[str, Any]] = []
        if isinstance(part, list):
            for row in part:
                subset = row.get("hf_subset") if isinstance(row, dict) else None
                subsets.append((str(subset or ""), row))
        elif isinstance(part, dict):
            for subset, row in part.items():
                if isinstance(row, dict) and "cos_sim" in row:
                    subsets.append((subset, row))
            subsets = subsets or [("", part)]
        for subset, row in subsets:
            if isinstance(row, dict):
                languages = row.get("languages")
                yield SubsetScores(
                    split=split,
                    subset=subset,
                    languages=tuple(languages) if isinstance(languages, list) else (),
                    metrics=dict(_metrics(row)),
                )


def _metrics(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name and value of every metric of a subset."""
    for name, value in row.items():
        if isinstance(value, dict):
            for correlation, score in value.items():
                yield f"{name}_{correlation}", _without_p(score)
        elif name not in NOT_METRICS and "time" not in name:
            yield name, _without_p(value)


def _without_p(value: Any) -> Any:
    """The value of a metric; of a correlation that is written as `[r, p]`, r."""
    return value[0] if isinstance(value, list) and len(value) == 2 else value


# The settings of runs

# What a line is of: a task, a split and a subset.
SubsetKey = tuple[str | None, str | None, str | None]


@dataclass(frozen=True)
class RunSettings:
    """With what mteb measured the scores of a subset.

    Attributes:
        arguments: The arguments of `encode`, by name.
        versions: The versions of packages, by name, of those that were installed.
    """

    arguments: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


NO_SETTINGS = RunSettings()


class _Line(TypedDict, total=False):
    """A line of the file, which has one split and one subset, or several."""

    task: str | None
    split: str | None
    splits: list[str | None] | None
    subset: str | None
    subsets: list[str | None] | None
    encode_kwargs: dict[str, Any] | None
    version: dict[str, str | None] | None


def settings_of_subsets(lines: bytes) -> Mapping[SubsetKey, RunSettings]:
    """The settings by task, split and subset; of several runs, those of the last.

    Raises msgspec.DecodeError for a line that is no such object.
    """
    settings: dict[SubsetKey, RunSettings] = {}
    for line in msgspec.json.Decoder(_Line).decode_lines(lines):
        versions = line.get("version") or {}
        run = RunSettings(
            arguments=line.get("encode_kwargs") or {},
            versions={name: version for name, version in versions.items() if version},
        )
        splits = line.get("splits") or [line.get("split")]
        subsets = line.get("subsets") or [line.get("subset")]
        for split, subset in product(splits, subsets):
            settings[line.get("task"), split, subset] = run
    return settings
