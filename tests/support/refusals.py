"""Refusals: the table of tests/refusals.toml, and a check that a message is one line."""

import tomllib
from contextlib import contextmanager

import pytest
from processes import ROOT

REFUSALS = tomllib.loads((ROOT / "tests/refusals.toml").read_text(encoding="utf-8"))


@contextmanager
def refused(kind, words):
    """An error of this kind, in one line that holds these words."""
    with pytest.raises(kind, match=words) as error:
        yield error
    assert len(str(error.value).splitlines()) == 1
