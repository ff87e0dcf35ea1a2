"""A search for a row's protocol: all columns at once, one choice before two, chance said."""

from dataclasses import replace

import pytest

from harness.conclusions.found_protocols import Choice
from harness.core.errors import UsageError
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.evaluation import row_search
from harness.evaluation.row_search import (
    Protocol,
    RowScores,
    Target,
    changed,
    search_row,
)
from harness.registry import load_registry
from harness.report.row_search import row_search_lines
from harness.results.verdict import CellState, Published
from harness.transforms.pooling import FIRST_LAST, MEAN, STATIC_LAST

REGISTRY = load_registry()
NAMES = ("mini-sts", "mini-sts.dev", "mini-sick", "mini-sick.dev")
TASKS = {name: replace(limited(REGISTRY.tasks[name], 60), name=name) for name in NAMES}
WHITENED = REGISTRY.parse("bert-mini.first-last+whitening@target")


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Scores of four tasks, and three poolings to choose from."""
    places = Places(tmp_path_factory.mktemp("cache"))
    registry = replace(REGISTRY, tasks=TASKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_search, "LENGTHS", (16,))
        patch.setattr(
            row_search, "_poolings", lambda _: [MEAN, FIRST_LAST, STATIC_LAST]
        )
        yield RowScores(TaskLoader(places, {}), registry)


def targets_of(scores, protocol, digits=2):
    """The scores of a protocol on all tasks, as a row that states another may print them."""
    targets = []
    for name, task in TASKS.items():
        target = Target(name, task, "cosine", "spearman", "all", Published("0"))
        score = scores.score(target, protocol)
        targets.append(replace(target, number=Published(f"{score:.{digits}f}")))
    return targets


def stated(method):
    return Protocol(method.encoder, method.pooling, method.post, method.fit_on)


def test_the_pooling_before_whitening_is_found_by_all_columns(scores):
    protocol = replace(stated(WHITENED), pooling=STATIC_LAST)
    found = search_row(WHITENED, targets_of(scores, protocol), scores)
    assert [each.words for each in found.given] == [
        "pooling static-last instead of first-last"
    ]
    assert (found.is_found, found.state) == (True, CellState.EXACT)


def test_two_choices_are_found_where_one_is_not_enough(scores):
    choices = (
        Choice("pooling", MEAN, "pooling mean instead of first-last"),
        Choice("correlation", "pearson", "correlation pearson"),
    )
    protocol = changed(stated(WHITENED), choices)
    found = search_row(WHITENED, targets_of(scores, protocol), scores)
    assert [each.choices for each in found.given] == [choices]


def test_one_column_among_many_protocols_decides_nothing(scores):
    protocol = replace(stated(WHITENED), pooling=STATIC_LAST)
    [target, *_] = targets_of(scores, protocol, digits=0)
    found = search_row(WHITENED, [target], scores)
    assert found.given
    assert not found.is_found
    [answer, *_] = row_search_lines("mini-sts", found)
    assert "a single column cannot decide" in answer
    assert f"of {found.tried} protocols" in answer


def test_a_row_with_a_misprint_is_no_finding_and_names_the_column(scores):
    targets = targets_of(scores, stated(WHITENED))
    wrong = Published(f"{targets[2].number.points + 9:.2f}")
    targets[2] = replace(targets[2], number=wrong)
    found = search_row(WHITENED, targets, scores, most_encodings=0)
    assert not found.given
    assert found.nearly[0].missed == (targets[2].column,)
    assert found.nearly[0].choices == ()
    text = "\n".join(row_search_lines("row", found))
    assert f"All but {targets[2].column} are given by no other choice" in text


def test_what_is_cached_is_measured_and_nothing_is_encoded(scores):
    protocol = replace(stated(WHITENED), pooling=STATIC_LAST)
    targets = targets_of(scores, protocol)
    fresh = RowScores(scores.loader, scores.registry)
    phases = []
    fresh.progress.phase = lambda name, _: phases.append(name)
    assert search_row(WHITENED, targets, fresh).is_found
    assert phases == []


def test_a_search_without_numbers_or_with_random_fits_is_refused(scores):
    with pytest.raises(UsageError, match="found none"):
        search_row(WHITENED, [], scores)
    flow = REGISTRY.parse("bert-mini.mean+flow@target")
    with pytest.raises(UsageError, match="random numbers"):
        search_row(flow, targets_of(scores, stated(WHITENED)), scores)
