"""How long encoding and applying a method took on the seven STS tasks, by the records."""

from __future__ import annotations

import math

from harness.core.types import Record
from harness.results.index import Results
from harness.results.scorings import SEVEN, Scoring


def milliseconds(results: Results, method: str, scoring: Scoring) -> float | None:
    """Milliseconds for each distinct sentence, for encoding it and applying the method.

    None where a record of one of the tasks lacks a timing or the number of sentences.
    """
    seconds: list[float] = []
    sentences = 0
    for record in _records(results, method, scoring):
        sentence_count = record.facts.get("distinct_sentences")
        encode_seconds = record.timings.get("encode")
        apply_seconds = record.timings.get("apply")
        if sentence_count is None or encode_seconds is None or apply_seconds is None:
            return None
        seconds += [encode_seconds, apply_seconds]
        sentences += sentence_count
    total_seconds = math.fsum(seconds)
    if not total_seconds or not sentences:
        return None
    return 1000 * total_seconds / sentences


def shared_the_machine(results: Results, method: str, scoring: Scoring) -> bool:
    """Whether one of the records was measured while other processes of the run worked."""
    records = _records(results, method, scoring)
    return any(record.facts.get("workers", 1) > 1 for record in records)


def _records(results: Results, method: str, scoring: Scoring) -> list[Record]:
    """The records of a method on the seven tasks."""
    records: list[Record] = []
    for task in SEVEN:
        records += results.records(method, scoring.task(task))
    return records
