"""Poolings: which hidden states each name averages, and what is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from tolerances import ROUNDING, relative_gap

from harness.contracts.samples import encoding
from harness.core.errors import UsageError
from harness.core.interfaces import Encoding
from harness.transforms.pooling import (
    CLS,
    FIRST_LAST,
    LAST2,
    LAST4,
    MAX,
    MEAN,
    MEAN_WITHOUT_CLS,
    MEAN_WITHOUT_SEP,
    MEAN_WITHOUT_SPECIAL,
    POOLER,
    POOLINGS,
    SECOND_LAST,
    SECOND_LAST_CLS,
    STATIC_LAST,
    FirstDimensions,
    Mean,
)


@pytest.mark.parametrize(
    ("pooling", "layers"),
    [
        (MEAN, [4]),
        (
            FIRST_LAST,
            [1, 4],
        ),  # BERT-flow's "last2avg", BERT-whitening's "first-last-avg"
        (STATIC_LAST, [0, 4]),  # "first-last avg." as printed in SimCSE's Table 5
        (LAST2, [3, 4]),
        (LAST4, [1, 2, 3, 4]),
        (SECOND_LAST, [3]),  # bert-as-service
    ],
)
def test_a_mean_is_over_the_hidden_states_that_its_name_stands_for(pooling, layers):
    whole = encoding(depth=4)
    plain = sum(whole.mean[:, layer].astype(np.float64) for layer in layers) / len(
        layers
    )
    assert relative_gap(pooling(whole), plain) <= ROUNDING
    assert pooling.hidden_states(4) == tuple(layers)


def test_the_summary_token_of_a_layer_is_read_by_its_number_or_from_the_last():
    whole = encoding(depth=4)
    for pooling in (CLS.with_argument("3"), SECOND_LAST_CLS):
        assert np.array_equal(pooling(whole), whole.layer_cls[:, 3])
    assert np.array_equal(CLS.with_argument("4")(whole), CLS(whole))
    assert np.array_equal(CLS.with_argument("0")(whole), whole.layer_cls[:, 0])
    with refused(UsageError, "this encoder has only 0..4, use cls"):
        CLS.with_argument("5")(whole)
    with refused(UsageError, "wanted the number of a layer, as in cls:1"):
        CLS.with_argument("-1")


def test_the_first_dimensions_are_fewer_than_there_are():
    whole = encoding(depth=4)
    width = MEAN(whole).shape[1]
    for count in (1, width - 1):
        first = FirstDimensions(MEAN, count)
        assert np.array_equal(first(whole), MEAN(whole)[:, :count])
        assert first.hidden_states(4) == (4,)
    with refused(UsageError, f"wanted vectors of more than {width} dimensions"):
        FirstDimensions(MEAN, width)(whole)


def test_a_mean_without_special_tokens_is_that_of_the_other_tokens():
    states = (
        np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    )  # of tokens
    whole = Encoding(
        layers=(2,),
        depth=2,
        mean=states.mean(axis=0)[None, None],
        layer_cls=states[None, None, 0],
        layer_sep=states[None, None, -1],
        layer_max=states.max(axis=0)[None, None],
        lengths=np.float32([[5]]),
    )
    for pooling, wanted in (
        (MEAN_WITHOUT_CLS, states[1:].mean(axis=0)),
        (MEAN_WITHOUT_SEP, states[:-1].mean(axis=0)),
        (MEAN_WITHOUT_SPECIAL.with_argument("2"), states[1:-1].mean(axis=0)),
        (MAX, states.max(axis=0)),
    ):
        assert relative_gap(pooling(whole)[0], wanted) <= ROUNDING
    # An empty text has the special tokens alone.
    empty = replace(whole, lengths=np.float32([[2]]))
    assert MEAN_WITHOUT_SPECIAL(empty).tolist() == [[0, 0, 0]]
    with refused(UsageError, r"^max: .* no maximum over the tokens .*; use layer:2"):
        MAX(replace(whole, layer_max=None))
    with refused(UsageError, "does not tell the tokens of a text; use mean"):
        MEAN_WITHOUT_CLS(replace(whole, lengths=None))


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=3), st.integers(0, 6))
def test_layers_count_as_pythons_indices_or_are_refused(layers, depth):
    states = list(range(depth + 1))
    try:
        expected = sorted(states[layer] for layer in layers)
    except IndexError:
        expected = []
    if expected and len(set(expected)) == len(expected):
        assert Mean("x", tuple(layers)).hidden_states(depth) == tuple(expected)
    else:
        with refused(UsageError, "this encoder has only 0"):
            Mean("x", tuple(layers)).hidden_states(depth)


@pytest.mark.parametrize(
    ("pooling", "others"),
    # Static vectors have one layer; an average of it with itself would pass for two.
    [(CLS, [MEAN]), (POOLER, [CLS, MEAN])]
    + [(pooling, [MEAN]) for pooling in (FIRST_LAST, STATIC_LAST, LAST2)],
)
def test_a_missing_part_is_refused_with_what_to_use_instead(pooling, others):
    with refused(UsageError, " use ") as error:
        pooling(Encoding((0,), 0, encoding().mean[:, :1]))
    words = re.findall(r"[\w-]+", str(error.value))
    names = {one.name for one in POOLINGS} - {pooling.name}
    assert [w for w in words if w in names] == [other.name for other in others]
