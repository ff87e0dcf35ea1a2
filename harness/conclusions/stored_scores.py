"""The scores in a clone of mteb's public results, in all of its commits.

mteb's results are a git repository with one file for each model, revision and task:
`results/ORG__MODEL/REVISION/TASK.json`. Of each version of the files of STS tasks this
module reads the correlations of the cosines, in points, and with which versions of
packages they were made, where the settings of runs beside the file state them.
"""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from harness.conclusions.mteb_files import (
    NO_SETTINGS,
    RUN_SETTINGS,
    RunSettings,
    SubsetKey,
    scores_of_subsets,
    settings_of_subsets,
)
from harness.core.errors import UsageError
from harness.results.verdict import Published

RESULT_FILES = ("results/*STS*.json", "results/*SICK-R*.json")
SETTINGS_FILES = f"results/*/{RUN_SETTINGS}"
SPLIT_NAMES = ("train", "dev", "validation", "test")
NOT_A_FILE = "0" * 40
# The folders of scores whose model's revision is not known: copied from its card, or of
# the first versions of mteb.
CARD_FOLDER = "external"
UNKNOWN_REVISIONS = (CARD_FOLDER, "no_revision_available")


@dataclass(frozen=True, kw_only=True)
class ScoredSubset:
    """What a score is of: a model, and the scored subset of a task."""

    model: str
    task: str
    split: str
    subset: str

    def __str__(self) -> str:
        parts = [self.task, self.split]
        if self.subset != "default":
            parts.append(self.subset)
        return " ".join(parts)


@dataclass(frozen=True, kw_only=True)
class StoredScore:
    """One score in one version of a file.

    Attributes:
        cell: What it is of.
        points: The Spearman correlation of the cosines, in points; NaN where the file has
            a null or NaN.
        pearson: The Pearson correlation of the cosines, in points; None without one.
        main: The main score beside it, in points; None without one.
        has_own_scale: Whether it is in points among fractions, or the other way round.
        path: The file.
        since: The commit that wrote this version of the file.
        since_date: Its date, as in 2026-08-20.
        until: The commit that changed or deleted it; empty for a file of today.
        data: The revision of the data set; empty if the file has none.
        mteb: The version of mteb; empty if the file has none.
        stated_task: The task that the file names.
        versions: The versions of packages with which it was made, by name, as far as they
            are stated.
    """

    cell: ScoredSubset
    points: float
    pearson: float | None
    main: float | None
    has_own_scale: bool
    path: str
    since: str
    since_date: str
    until: str
    data: str
    mteb: str
    stated_task: str
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def folder(self) -> str:
        """The folder of the file: the model's revision, or `external`."""
        return self.path.split("/")[2]

    @property
    def is_number(self) -> bool:
        """Whether the file has a number, and not null or NaN."""
        return math.isfinite(self.points)

    @cached_property
    def printed(self) -> Published:
        """The score as it is compared: JSON does not keep how many digits there were."""
        return Published(f"{self.points:.6f}")

    @property
    def command(self) -> str:
        """The command that shows the file as it was."""
        commit = f"{self.until[:9]}^" if self.until else "HEAD"
        return f"git show {commit}:{self.path}"


def read_scores(repository: Path) -> list[StoredScore]:
    """Every score of an STS task in every commit, the oldest first.

    Args:
        repository: A clone of mteb's results with its history, bare or not.

    Raises:
        UsageError: The folder is no git repository, or holds no results of STS tasks.
    """
    versions = list(_versions(repository))
    if not versions:
        raise UsageError(
            f"{repository}: wanted a clone of mteb's results, found no results/*STS*.json"
        )
    contents = _blobs(repository, {each.blob for each in versions}, json.loads)
    settings = _blobs(
        repository,
        {each.settings for each in versions if each.settings},
        settings_of_subsets,
    )
    scores: list[StoredScore] = []
    for version in versions:
        content = contents.get(version.blob)
        if isinstance(content, dict):
            scores += _scores_of(version, content, settings.get(version.settings) or {})
    return scores


def changed_files(repository: Path, since: str) -> frozenset[str]:
    """The result files that a branch has changed since it left another commit.

    Raises UsageError for an unknown commit.
    """
    files = _git(
        repository, *("diff", "--name-only", f"{since}...HEAD", "--", *RESULT_FILES)
    )
    return frozenset(files.decode().splitlines())


def newest_commit(repository: Path) -> tuple[str, str]:
    """The commit that is checked out, or a bare repository's newest, and its date."""
    head = _git(repository, "log", "-1", "--format=%H %cs", "HEAD")
    commit, date = head.decode().split()
    return commit, date


@dataclass(frozen=True, kw_only=True)
class _FileVersion:
    """The content that a file had from one commit to another.

    `settings` is the content of the settings of runs beside it, as the commit left them
    that wrote it; empty without.
    """

    path: str
    blob: str
    settings: str
    since: str
    since_date: str
    until: str = ""


def _versions(repository: Path) -> Iterator[_FileVersion]:
    """The versions of every file, in the order of the commits that wrote them."""
    log = _git(
        repository,
        *("log", "--reverse", "--raw", "--no-abbrev", "--no-renames"),
        *("--format=%x00%H %cs", "HEAD", "--", *RESULT_FILES, SETTINGS_FILES),
    )
    versions: list[_FileVersion] = []
    place_of_current: dict[str, int] = {}  # of each file that exists, in `versions`
    settings: dict[str, str] = {}  # of each folder
    for changes in log.decode().split("\0")[1:]:
        head, *lines = changes.splitlines()
        commit, date = head.split()
        # The settings of a commit belong to its result files, so that they come first.
        lines.sort(key=lambda line: not line.endswith(RUN_SETTINGS))
        for line in filter(None, lines):
            change, path = line.split("\t", 1)
            blob = change.split()[3]
            folder, _, name = path.rpartition("/")
            if name == RUN_SETTINGS:
                settings[folder] = blob if blob != NOT_A_FILE else ""
                continue
            place = place_of_current.pop(path, None)
            if place is not None:
                versions[place] = replace(versions[place], until=commit)
            if blob != NOT_A_FILE:
                place_of_current[path] = len(versions)
                version = _FileVersion(
                    path=path,
                    blob=blob,
                    settings=settings.get(folder, ""),
                    since=commit,
                    since_date=date,
                )
                versions.append(version)
    for version in versions:
        is_result = not version.path.endswith("model_meta.json")
        if is_result and version.path.count("/") == 3:
            yield version


def _blobs(
    repository: Path, names: Iterable[str], parse: Callable[[bytes], Any]
) -> dict[str, Any]:
    """The parsed content of files by their digest; None for what is malformed."""
    request = "\n".join(sorted(names)).encode()
    answer = _git(repository, "cat-file", "--batch", request=request)
    contents: dict[str, Any] = {}
    start = 0
    while start < len(answer):
        end = answer.index(b"\n", start)
        header = answer[start:end].split()
        start = end + 1
        if len(header) == 3:  # a missing file has two words
            name, size = header[0].decode(), int(header[2])
            try:
                contents[name] = parse(answer[start : start + size])
            except (ValueError, msgspec.DecodeError):
                contents[name] = None
            start += size + 1
    return contents


def _git(repository: Path, *arguments: str, request: bytes = b"") -> bytes:
    """The output of a git command. Raises UsageError for a folder without git."""
    command = ["git", "-C", str(repository), *arguments]
    result = subprocess.run(  # noqa: S603
        command, input=request, capture_output=True, check=False
    )
    if result.returncode:
        reason = result.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise UsageError(f"{repository}: {''.join(reason) or 'git failed'}")
    return result.stdout


def _scores_of(
    version: _FileVersion,
    content: Mapping[str, Any],
    runs: Mapping[SubsetKey, RunSettings],
) -> list[StoredScore]:
    """The scores of a file: those of mteb since 1.11, and those before."""
    _, model, _, file = version.path.split("/")
    stated_task = content.get("task_name") or content.get("mteb_dataset_name")
    stated_task = str(stated_task or "")
    rows = []
    for scores in scores_of_subsets(content):
        spearman = scores.cosine("spearman")
        main = scores.metrics.get("main_score")
        has_score = {"cosine_spearman", "main_score"} & scores.metrics.keys()
        if scores.split in SPLIT_NAMES and (spearman is not None or has_score):
            values = (main if spearman is None else spearman, main)
            rows.append((scores, *values, scores.cosine("pearson")))
    # Some files have points, most have fractions: what most of a file's numbers are. A
    # number above 1 is in points in any case.
    numbers = [abs(spearman) for _, spearman, *_ in rows if _is_number(spearman)]
    are_points = 2 * sum(number > 1 for number in numbers) >= len(numbers)
    has_points = any(number > 1 for number in numbers)

    def in_points(value: Any, spearman: Any) -> float | None:
        if not _is_number(value):
            return None
        is_large = _is_number(spearman) and abs(spearman) > 1
        return float(value if are_points or is_large else 100 * value)

    return [
        StoredScore(
            cell=ScoredSubset(
                model=model,
                task=file.removesuffix(".json"),
                split=scores.split,
                subset=scores.subset or "default",
            ),
            points=math.nan if points is None else points,
            pearson=in_points(pearson, spearman),
            main=in_points(main, spearman),
            has_own_scale=has_points
            and _is_number(spearman)
            and (abs(spearman) > 1) != are_points,
            path=version.path,
            since=version.since,
            since_date=version.since_date,
            until=version.until,
            data=str(content.get("dataset_revision") or ""),
            mteb=str(content.get("mteb_version") or ""),
            stated_task=stated_task,
            versions=runs.get(
                (stated_task, scores.split, scores.subset), NO_SETTINGS
            ).versions,
        )
        for scores, spearman, main, pearson in rows
        for points in (in_points(spearman, spearman),)
    ]


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a file is a number that is finite."""
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and math.isfinite(value)
