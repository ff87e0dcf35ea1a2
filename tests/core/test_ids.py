"""Ids are written as they are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.types import METHOD_ID, MethodId, is_method_id

LETTERS = "abcdefghijklmnopqrstuvwxyz-"
DIGITS = "0123456789"
NAME = st.text(LETTERS + DIGITS, min_size=1)


def with_argument(name, argument):
    return st.one_of(name, st.tuples(name, argument).map(":".join))


POST = with_argument(st.text(LETTERS, min_size=1), st.text(LETTERS + DIGITS + ".", min_size=1))


@given(
    with_argument(NAME, st.text(DIGITS, min_size=1)),
    NAME,
    st.lists(POST).map(tuple),
    st.none() | NAME,
)
def test_parts_come_back_from_the_id_that_they_make(encoder, pooling, post, fit_on):
    parts = MethodId(encoder, pooling, post, fit_on)
    assert MethodId.parse(str(parts)) == parts


@given(st.from_regex(METHOD_ID, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_an_id_is_written_as_it_was_read(text):
    assert str(MethodId.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bert",
        "bert.",
        ".mean",
        "Bert.mean",
        "bert:x.mean",
        "bert.mean+",
        "bert.mean@",
        "bert.mean ",
    ],
)
def test_what_has_another_form_is_no_id(text):
    assert MethodId.parse(text) is None
    assert not is_method_id(text)


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
