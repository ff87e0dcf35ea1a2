"""Refusals: the table of tests/refusals.toml, and a check that a message is one line."""

import tomllib
from contextlib import contextmanager
from pathlib import Path

import pytest

REFUSALS = tomllib.loads(
    (Path(__file__).resolve().parents[1] / "refusals.toml").read_text(encoding="utf-8")
)


@contextmanager
def refused(kind, words):
    """An error of this kind, in one line that holds these words."""
    with pytest.raises(kind, match=words) as error:
        yield error
    assert len(str(error.value).splitlines()) == 1
