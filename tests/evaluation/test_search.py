"""A search for a row's protocol: all columns at once, one choice before two, chance said."""

from dataclasses import replace

import pytest

from harness.core.errors import UsageError
from harness.data.places import Places
from harness.data.tasks.loader import limited
from harness.evaluation import neighbours, run
from harness.evaluation.protocol import Model, Protocol, Target
from harness.evaluation.row_search import search_row
from harness.evaluation.search import Search
from harness.registry import load_registry
from harness.results.verdict import CellState, Published
from harness.transforms.pooling import FIRST_LAST, MEAN, STATIC_LAST

REGISTRY = load_registry()
NAMES = ("mini-sts", "mini-sts.dev", "mini-sick", "mini-sick.dev")
TASKS = {name: replace(limited(REGISTRY.tasks[name], 60), name=name) for name in NAMES}
FEW = replace(REGISTRY, tasks=TASKS)
WHITENED = REGISTRY.parse("bert-mini.first-last+whitening@target")
STATIC = replace(Protocol(Model(WHITENED)), pooling=STATIC_LAST)


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The places of all searches, which have three poolings and a length to choose from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "LENGTHS", (16,))
        patch.setattr(
            neighbours, "_poolings", lambda _: [MEAN, FIRST_LAST, STATIC_LAST]
        )
        yield Places(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def search(places):
    return Search.of(WHITENED, places, FEW)


def targets_of(search, protocol, digits=2):
    """The scores of a protocol on all tasks, as a row that states another may print them."""
    targets = []
    for name, task in TASKS.items():
        target = Target(name, task, "cosine", "spearman", "all", ())
        score = target.score(search.scores(protocol, task), protocol)
        number = Published(f"{score:.{digits}f}")
        targets.append(replace(target, readings=(number,)))
    return targets


def test_the_pooling_before_whitening_is_found_by_all_columns(search):
    found = search_row(search, targets_of(search, STATIC))
    assert [each.words for each in found.given] == [
        "pooling static-last instead of first-last"
    ]
    assert (found.is_found, found.state) == (True, CellState.EXACT)


def test_a_program_that_forgets_the_second_sentence_is_found(places):
    search = Search.of(REGISTRY.parse("bert-mini.mean+natsv:3@target"), places, FEW)
    post = REGISTRY.parse_posts("natsv-first:3")
    targets = targets_of(search, replace(Protocol(search.model), post=post))
    [found] = search_row(search, targets).given
    assert found.words == "nulled in the first sentence of each pair alone"


def test_what_is_cached_is_measured_and_nothing_is_encoded(search, places):
    targets = targets_of(search, STATIC)
    fresh, phases, notes = Search.of(WHITENED, places, FEW, note=[].append), [], []
    fresh.note = notes.append
    fresh.context.progress.phase = lambda name, _: phases.append(name)
    assert search_row(fresh, targets).is_found
    assert "encoding tokens" not in phases
    assert all("from the cache" in note for note in notes)


def test_a_search_that_was_killed_goes_on_where_it_stood(search, tmp_path, monkeypatch):
    places = Places(tmp_path)
    targets = targets_of(search, STATIC)
    measured = []
    measure = run.measure

    def killed(task, *arguments):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(task.name)
        return measure(task, *arguments)

    monkeypatch.setattr(run, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        search_row(Search.of(WHITENED, places, FEW), targets)
    monkeypatch.setattr(run, "measure", measure)
    again = Search.of(WHITENED, places, FEW)
    assert len([*again.context.store.records()]) == 3
    monkeypatch.setattr(
        run, "measure", lambda *args: measured.append(args[0].name) or measure(*args)
    )
    assert search_row(again, targets).is_found
    records = [*again.context.store.records()]
    assert len(measured) == len(records)


def test_a_search_without_numbers_or_with_random_fits_is_refused(search, places):
    with pytest.raises(UsageError, match="found none"):
        search_row(search, [])
    flow = REGISTRY.parse("bert-mini.mean+flow@target")
    targets = targets_of(search, Protocol(search.model))
    with pytest.raises(UsageError, match="random numbers"):
        search_row(Search.of(flow, places, FEW), targets)
