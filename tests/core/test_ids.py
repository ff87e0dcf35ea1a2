"""Ids are written as they are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.types import METHOD_ID, MethodId


@given(st.from_regex(METHOD_ID, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_an_id_is_written_as_it_was_read(text):
    assert str(MethodId.parse(text)) == text


@pytest.mark.parametrize("text", ["bert", "bert.mean@", "bert.mean+", "BERT.mean"])
def test_a_text_of_another_form_is_no_id(text):
    assert MethodId.parse(text) is None
