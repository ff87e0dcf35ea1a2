"""The contracts of metrics, of tasks and of corpora.

Tasks and corpora whose files come with the harness are read. Of the others, the
description is tested, and the error if their files are missing.
"""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from harness.assets.places import every_asset
from harness.contracts.requirements import refused, require, require_equal, untouched
from harness.contracts.samples import MISSING_FOLDER, rows
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.metrics import Metric, PairRows
from harness.core.pairs import Pairs, pairs_digest
from harness.core.types import Task

# Metrics


def check_a_metric_does_not_write_into_shared_pairs(metric: Metric) -> None:
    """A metric writes neither into vectors, pairs and gold scores nor into its own values."""
    x = rows(120, 8)
    split_count = 3 if metric.learns else 1  # the scored split, and two to learn from
    rows_of_splits = np.split(np.arange(len(x)), split_count)
    for largest_gold in (1.0, 1 / 7):  # classes 0 and 1, and graded scores
        splits = [_pair_rows(numbers, largest_gold) for numbers in rows_of_splits]
        scored, labelled = splits[0], splits[1:]
        pairs = Pairs(
            a=tuple(f"sentence {row}" for row in scored.a),
            b=tuple(f"sentence {row}" for row in scored.b),
            gold=scored.gold,
            group=("all",) * len(scored.gold),
        )
        golds = [split.gold for split in splits]
        shared_arrays = (x, scored.a, scored.b, pairs.gold, *golds)
        # A metric may refuse one of the two kinds of gold.
        with untouched(*shared_arrays), suppress(HarnessError):
            values, _ = metric.compare(x, scored, labelled)
            with untouched(values):
                metric.score(values, pairs)


def _pair_rows(row_numbers: np.ndarray, largest_gold: float) -> PairRows:
    """Pairs of the first two rows, the next two, ...; gold is 0 and `largest_gold` in turn."""
    a, b = row_numbers[0::2], row_numbers[1::2]
    gold = np.arange(len(a)) % 2 * largest_gold
    return PairRows(a=a, b=b, gold=gold)


METRIC_CONTRACTS = (check_a_metric_does_not_write_into_shared_pairs,)


# Tasks and corpora

# A name is a word of the command line, and a folder of records.
TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_its_name_is_a_word(task: Task) -> None:
    """A task's name is a word of letters, digits, dots, hyphens and underscores."""
    is_word = TASK_NAME.fullmatch(task.name) is not None
    require(is_word, "a name as in my-task, of 100 characters at most", repr(task.name))


def check_its_splits_hold_what_is_scored_and_trained_on(task: Task) -> None:
    """The splits that a task scores and trains on are among its splits."""
    used_splits = set(task.scored)
    if task.train:
        used_splits.add(task.train)
    require(bool(task.scored), "a split that is scored", "none")
    requirement = f"some of the splits {', '.join(task.splits)}"
    require(used_splits <= set(task.splits), requirement, used_splits)


def check_another_split_is_wrong_usage(task: Task) -> None:
    """A task raises UsageError for a split that it does not have."""
    with refused(UsageError, "no-such-split"):
        task.load(MISSING_FOLDER, "no-such-split")


def check_only_graded_scores_have_a_scale(task: Task) -> None:
    """A task states the scale of its gold scores if, and only if, they are graded."""
    is_graded = task.metric not in ("auc", "classification", "word-frequency")
    has_scale = task.graded is not None
    scale = "a scale" if is_graded else "no scale"
    requirement = f"{scale} for the metric {task.metric}"
    require(has_scale == is_graded, requirement, task.graded)


def check_geometry_goes_with_correlation(task: Task) -> None:
    """Alignment and uniformity are computed only where the metric is correlation."""
    if task.geometry:
        require_equal(task.metric, "correlation", "the metric")


def check_it_names_its_licence(task: Task) -> None:
    """A task names the licence of its data."""
    require(bool(task.licence), "the licence of its data", "none")


TASK_CONTRACTS = (
    check_its_name_is_a_word,
    check_its_splits_hold_what_is_scored_and_trained_on,
    check_another_split_is_wrong_usage,
    check_only_graded_scores_have_a_scale,
    check_geometry_goes_with_correlation,
    check_it_names_its_licence,
)


def check_its_asset_says_how_to_get_it(thing: Any) -> None:
    """The asset of a task or corpus is in the catalogue, with the way to get it."""
    assets = [asset for asset in every_asset() if asset.name == thing.asset]
    require(len(assets) == 1, f"one asset {thing.asset!r}, as in ASSETS", len(assets))
    require(bool(assets[0].get), "how to get it", "nothing")


def check_missing_files_are_named_in_one_line(thing: Any) -> None:
    """A task or corpus whose files are missing raises AssetMissing in a line that names them."""
    with refused(AssetMissing, str(MISSING_FOLDER)):
        if isinstance(thing, Task):
            thing.pairs(MISSING_FOLDER)
        else:
            thing.sentences(MISSING_FOLDER)


def check_it_needs_no_folder_and_is_the_same_again(thing: Any) -> None:
    """Embedded data are read without a folder of data, and are the same each time."""
    if isinstance(thing, Task):
        first_digest = pairs_digest(thing.pairs(MISSING_FOLDER))
        second_digest = pairs_digest(thing.pairs(MISSING_FOLDER))
        require_equal(second_digest, first_digest, "pairs with the digest")
    else:
        first_sentences = list(islice(thing.sentences(MISSING_FOLDER), 50))
        second_sentences = list(islice(thing.sentences(MISSING_FOLDER), 50))
        is_same = second_sentences == first_sentences
        require(is_same, "the same first 50 sentences", "others")


def check_a_task_does_not_write_into_what_it_gave(thing: Any) -> None:
    """Pairs that a task returned keep their gold when it is read again."""
    if isinstance(thing, Task):
        pairs = [thing.load(MISSING_FOLDER, split) for split in thing.splits]
        with untouched(*(split_pairs.gold for split_pairs in pairs)):
            for split in thing.splits:
                thing.load(MISSING_FOLDER, split)


ASSET_CONTRACTS = (check_its_asset_says_how_to_get_it,)
FILE_CONTRACTS = (check_missing_files_are_named_in_one_line,)
EMBEDDED_CONTRACTS = (
    check_it_needs_no_folder_and_is_the_same_again,
    check_a_task_does_not_write_into_what_it_gave,
)
