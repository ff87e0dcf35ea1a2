"""Ids are written as they are read."""

from hypothesis import given
from hypothesis import strategies as st

from harness.core.types import METHOD_ID, MethodId


@given(st.from_regex(METHOD_ID, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_an_id_is_written_as_it_was_read(text):
    assert str(MethodId.parse(text)) == text
