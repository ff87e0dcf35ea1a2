"""How long encoding and applying a method took on the seven STS tasks, by the records."""

from __future__ import annotations

import math

from harness.core.types import Record
from harness.results.index import Results
from harness.results.scorings import SEVEN, Scoring


def milliseconds(results: Results, method: str, scoring: Scoring) -> float | None:
    """Milliseconds for each distinct sentence, for encoding and applying a method.

    None where a record of the tasks does not say how long it took, or of how many
    sentences.
    """
    seconds: list[float] = []
    sentences = 0
    for record in _records(results, method, scoring):
        count = record.facts.get("distinct_sentences")
        encoding, applying = record.timings.get("encode"), record.timings.get("apply")
        if count is None or encoding is None or applying is None:
            return None
        seconds += [encoding, applying]
        sentences += count
    total = math.fsum(seconds)
    if not total or not sentences:
        return None
    return 1000 * total / sentences


def shared_the_machine(results: Results, method: str, scoring: Scoring) -> bool:
    """Whether a record was measured while other processes of the run worked, too."""
    records = _records(results, method, scoring)
    return any(record.facts.get("workers", 1) > 1 for record in records)


def _records(results: Results, method: str, scoring: Scoring) -> list[Record]:
    """The records of a method on the seven tasks."""
    records: list[Record] = []
    for task in SEVEN:
        records += results.records(method, scoring.task(task))
    return records
