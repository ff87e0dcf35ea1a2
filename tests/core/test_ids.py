"""Ids are written as they are read; the names of aggregations and legends stand once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.metrics.correlation import correlations
from harness.core.pairs import Pairs
from harness.core.types import AGGREGATIONS, METHOD_ID, MethodId, is_method_id
from harness.report.sentences import AGGREGATION_WORDS


@given(st.from_regex(METHOD_ID, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_an_id_is_written_as_it_was_read(text):
    assert str(MethodId.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("bert:64.mean", True),
        ("bert.mean+sn+natsv:6@target", True),
        ("bert.mean+sn", False),
        ("bert.mean@target", False),
    ],
)
def test_post_processors_and_their_corpus_come_together(text, complete):
    assert MethodId.parse(text) is not None
    assert is_method_id(text) is complete


def test_a_correlation_has_every_aggregation_and_each_has_its_words():
    pairs = Pairs(("a",) * 4, ("b",) * 4, np.arange(4.0), ("x", "x", "y", "y"))
    for scores in correlations(np.arange(4.0), pairs).values():
        assert set(scores) == {*AGGREGATIONS, "groups"}
    assert set(AGGREGATION_WORDS) == {*AGGREGATIONS}
