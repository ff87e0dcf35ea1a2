"""Errors that a user can act on, each with the exit status that it ends the command line with."""

from __future__ import annotations


class HarnessError(Exception):
    """Something the user can act on: one line that says what was wanted, found, and to be done.

    `exit_status` is what the command line ends with: 1 a cell failed, 2 wrong usage, 3 something
    could not run because an asset is missing.
    """

    exit_status = 1


class UsageError(HarnessError):
    """The request itself is wrong: an unknown id, an impossible composition, an empty selection."""

    exit_status = 2


class AssetMissing(HarnessError):
    """A file that the work needs is not on this machine; the message ends with how to get it.

    `get` is the command or the step that gets it, alone, for a list of many.
    """

    exit_status = 3

    def __init__(self, message: str, get: str = "") -> None:
        super().__init__(message)
        self.get = get


class DataError(HarnessError):
    """A file is there and is not what it should be: names file, line, wanted and found."""


class ScoreError(HarnessError):
    """Numbers that cannot be scored: not finite, degenerate, or of the wrong shape."""
