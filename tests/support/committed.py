"""The committed results, each file read once in a process; no test may change these objects."""

from functools import cache

from processes import ROOT

from harness.conclusions.folder import Conclusions
from harness.core.types import Record
from harness.results.index import Results
from harness.results.store import Store

RESULTS = ROOT / "results"
FOLDER = Conclusions(RESULTS)
TABLES = FOLDER.tables


@cache
def committed_results() -> Results:
    """The committed records, by cell."""
    return Results.read(Store(RESULTS))


def committed_records() -> list[Record]:
    """Every committed record."""
    cells = committed_results().by_cell.values()
    return [record for records in cells for record in records]
