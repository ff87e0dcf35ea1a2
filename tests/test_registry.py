"""The grammar of ids, and what several patterns select."""

from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import made_record
from hypothesis import given
from hypothesis import strategies as st

from harness import registry
from harness.core.errors import UsageError
from harness.registry import TARGETS, load_registry
from harness.results.index import Results
from harness.results.records import Cell
from harness.results.reproduction import stale_cells
from harness.results.store import Store

FOUND = load_registry()
CUT = sorted(name for name, e in FOUND.encoders.items() if hasattr(e, "max_length"))

# Ids in the one form that they are written back in: no leading zero, no needless
# argument.
COUNT = st.integers(1, 999).map(str)
POSTS = st.one_of(
    st.sampled_from(["+sn", "+whitening"]),
    st.tuples(st.sampled_from(["+natsv:", "+natsv-c:", "+whitening:"]), COUNT).map(
        "".join
    ),
)
ENCODERS = st.one_of(
    st.sampled_from(sorted(FOUND.encoders)),
    st.tuples(st.sampled_from(CUT), st.just(":"), COUNT).map("".join),
)
PLAIN = st.tuples(ENCODERS, st.just("."), st.sampled_from(sorted(FOUND.poolings))).map(
    "".join
)
CALIBRATED = st.tuples(
    PLAIN,
    st.lists(POSTS, min_size=1, max_size=3).map("".join),
    st.just("@"),
    st.sampled_from([*TARGETS, *FOUND.corpora]),
).map("".join)
IDS = PLAIN | CALIBRATED


@given(IDS)
def test_any_composition_reads_back_as_it_is_written(text):
    method = FOUND.parse(text)
    assert method.id == text
    assert FOUND.parse(method.id) == method


def test_registered_methods_have_their_own_identity_and_their_own_file_whatever_the_case():
    methods = FOUND.methods.values()
    assert len({method.identity for method in methods}) == len(methods)
    paths = {str(Store(Path()).path(Cell(m.id, "sts-b"))).lower() for m in methods}
    assert len(paths) == len(methods)


def test_what_several_patterns_select_is_selected_once_in_their_order():
    composed = "minilm.last2+whitening:7+sn@target"
    patterns = [composed, "minilm.mean", "minilm.mean*"]
    ids = [method.id for method in FOUND.select_methods(patterns)]
    globbed = [name for name in FOUND.methods if name.startswith("minilm.mean")]
    assert ids == [composed, *dict.fromkeys(["minilm.mean", *globbed])]


def test_an_encoder_given_by_hand_is_known_to_the_new_registry_alone():
    minilm = FOUND.encoders["minilm"]
    mine, other = replace(minilm, name="mine"), replace(minilm, repo="someone/else")
    grown = FOUND.with_encoders([mine, other])
    assert grown.parse("mine:32.cls").id == "mine:32.cls"
    assert grown.encoders["minilm"] == minilm  # a registered name keeps its meaning
    with pytest.raises(UsageError, match="unknown encoder 'mine'"):
        FOUND.parse("mine.cls")


def test_methods_that_nothing_registers_cost_no_search_for_similar_names(monkeypatch):
    searches = []
    monkeypatch.setattr(
        registry, "nearest", lambda name, _: searches.append(name) or ""
    )
    records = [made_record(f"mine-{n}.mean", "mini-sts", {}) for n in range(20)]
    assert stale_cells(Results.of(records), FOUND) == frozenset()
    assert not searches


def test_the_similar_names_are_offered_by_another_process_too():
    with pytest.raises(UsageError, match="did you mean bert-mini") as caught:
        FOUND.parse("bert-mimi.mean")
    assert str(copy(caught.value)) == str(caught.value)
