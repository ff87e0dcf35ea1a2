"""Attacks on the harness: each test tries one a few times."""

import pytest


class Attacked:
    """What an attack asks of its fixture: how often it is tried."""

    rows = None

    def times(self, short, _long):
        return short

    def count(self, outcome, _times=1):
        assert outcome in ("right", "rebuilt", "refused")


@pytest.fixture
def attacked():
    return Attacked()
