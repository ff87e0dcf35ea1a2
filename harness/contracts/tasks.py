"""The contracts of metrics, tasks and corpora."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np

from harness.assets.places import every_asset
from harness.contracts.requirements import refused, require, require_equal, untouched
from harness.contracts.samples import MISSING_FOLDER, rows
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.metrics import Metric, PairRows
from harness.core.types import Pairs, Task, pairs_digest

# --- metrics -------------------------------------------------------------------------------------


def check_a_metric_does_not_write_into_shared_pairs(metric: Metric) -> None:
    """A metric writes into neither the vectors, the pairs, their gold nor its own values."""
    x = rows(120, 8)
    splits = np.split(np.arange(len(x)), 3 if metric.learns else 1)
    for classes in (False, True):
        gold = [
            np.arange(len(split) // 2) % 2 / (1 if classes else 7) for split in splits
        ]
        scored, *labelled = (
            PairRows(split[0::2], split[1::2], of_split)
            for split, of_split in zip(splits, gold, strict=True)
        )
        texts = tuple(f"sentence {row}" for row in splits[0])
        pairs = Pairs(texts[0::2], texts[1::2], gold[0], ("all",) * len(gold[0]))
        shared = (x, scored.a, scored.b, pairs.gold, *gold)
        with (
            untouched(*shared),
            suppress(HarnessError),
        ):  # another kind of gold than it scores
            values, _ = metric.compare(x, scored, labelled)
            with untouched(values):
                metric.score(values, pairs)


METRIC_CONTRACTS = (check_a_metric_does_not_write_into_shared_pairs,)


# --- tasks and corpora ---------------------------------------------------------------------------


def check_its_splits_hold_what_is_scored_and_trained_on(task: Task) -> None:
    """The splits that a task scores and trains on are among its splits."""
    used = {*task.scored, *([task.train] if task.train else [])}
    require(bool(task.scored), "a split that is scored", "none")
    require(
        used <= set(task.splits), f"some of the splits {', '.join(task.splits)}", used
    )


def check_another_split_is_wrong_usage(task: Task) -> None:
    """A task raises UsageError for a split that it does not have."""
    with refused(UsageError, "no-such-split"):
        task.load(MISSING_FOLDER, "no-such-split")


def check_only_graded_scores_have_a_scale(task: Task) -> None:
    """A task states the scale of its gold scores if its metric compares graded ones."""
    ungraded = ("auc", "classification", "word-frequency")
    needs_none = task.metric in ungraded
    wanted = f"{'no scale' if needs_none else 'a scale'} for the metric {task.metric}"
    require((task.graded is None) == needs_none, wanted, task.graded)


def check_geometry_goes_with_correlation(task: Task) -> None:
    """Alignment and uniformity are computed only where the metric is correlation."""
    require(
        not task.geometry or task.metric == "correlation", "correlation", task.metric
    )


def check_it_names_its_licence(task: Task) -> None:
    """A task names the licence of its data."""
    require(bool(task.licence), "the licence of its data", "none")


TASK_CONTRACTS = (
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
    read = thing.pairs if isinstance(thing, Task) else thing.sentences
    with refused(AssetMissing, str(MISSING_FOLDER)):
        read(MISSING_FOLDER)


def check_it_needs_no_folder_and_is_the_same_again(thing: Any) -> None:
    """Embedded data are read without a folder of data, and are the same each time."""
    if isinstance(thing, Task):
        digest = pairs_digest(thing.pairs(MISSING_FOLDER))
        require_equal(
            pairs_digest(thing.pairs(MISSING_FOLDER)), digest, "pairs with the digest"
        )
    else:
        sentences = list(islice(thing.sentences(MISSING_FOLDER), 50))
        repeated = list(islice(thing.sentences(MISSING_FOLDER), 50))
        require(repeated == sentences, "the same first 50 sentences", "others")


def check_a_task_does_not_write_into_what_it_gave(thing: Any) -> None:
    """Pairs that a task returned keep their gold when it is read again."""
    if isinstance(thing, Task):
        pairs = [thing.load(MISSING_FOLDER, split) for split in thing.splits]
        with untouched(*(part.gold for part in pairs)):
            for split in thing.splits:
                thing.load(MISSING_FOLDER, split)


ASSET_CONTRACTS = (check_its_asset_says_how_to_get_it,)
FILE_CONTRACTS = (check_missing_files_are_named_in_one_line,)
EMBEDDED_CONTRACTS = (
    check_it_needs_no_folder_and_is_the_same_again,
    check_a_task_does_not_write_into_what_it_gave,
)
