"""Texts that are approved: files that hold what a test makes. `make snapshots` writes them anew."""

from pathlib import Path

from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode


class ApprovedText(SingleFileSnapshotExtension):
    """A text in a file of its own, which a test names by its path from the test's folder."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_location(cls, *, test_location, index):
        return str(Path(test_location.filepath).parent / index)

    @classmethod
    def matches_test_location(cls, *, test_location, snapshot_location):
        return True

    def discover_snapshots(self, *, test_location, ignore_extensions=None):
        """None: what else lies in a folder is not of this test."""
        return SnapshotCollections()
