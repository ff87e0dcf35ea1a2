"""What a run says: its scores beside published numbers, what moved, what did not run."""

from pathlib import Path

import numpy as np
from committed import TABLES
from fakes import made_record

from harness.cli.summary import (
    LINES_SHOWN,
    count_in_words,
    lines_of_differing_numbers,
    lines_of_failures,
    numbers_beside,
    score_in_words,
    score_table,
)
from harness.evaluation.run import Outcome
from harness.registry import load_registry
from harness.results.index import LOW_COVERAGE, Results
from harness.results.records import Cell
from harness.results.store import Store

REGISTRY = load_registry()
FEW_TABLES = [table for table in TABLES if table.id in ("mteb.1-12-75", "simcse.b2")]
STS = ("minilm.mean", "sts-b")
SBERT = [
    ("sbert-nli-base.mean", f"{task}.senteval")
    for task in ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
]


def measured(cell, score=50.0, **facts):
    """A record of a cell with this score, of the method as it is registered."""
    scores = {"spearman": {"all": score, "wmean": 40.0}, "pearson": {"all": score - 1}}
    identity = REGISTRY.parse(cell[0]).identity
    return made_record(*cell, scores, identity=identity, facts=facts)


RUNS = {
    "A number is reproduced": [measured(STS, 82.03247)],
    "It is close": [measured(STS, 82.33)],
    "It differs": [measured(STS, 85.03)],
    "All tasks of an average": [*map(measured, SBERT)],
    "All but one": [*map(measured, SBERT[1:])],
    "Few words are known": [
        measured(("glove-mini.mean", "mini-sts"), 10.41, coverage=LOW_COVERAGE - 0.001),
        measured(("glove-mini.mean", "mini-sick"), 10.41, coverage=LOW_COVERAGE),
        measured(STS, 10.41, coverage=0.24),
    ],
    "A score is undefined": [
        made_record("a.mean", "t", {"auc": None}, facts={"undefined": "equal"})
    ],
}


def test_what_is_said_at_the_end_of_a_run_is_golden(approved):
    page = ""
    for what, records in RUNS.items():
        results = Results.of(records)
        numbers = numbers_beside(results, FEW_TABLES, REGISTRY)
        lines = [
            *map(score_in_words, records),
            score_table(results, numbers),
            count_in_words(numbers, len(records)),
            *lines_of_differing_numbers(numbers, Path("results")),
        ]
        page += "\n".join([f"# {what}", "", *lines, "", ""])
    failed = []
    for number in range(1, LINES_SHOWN + 4):
        get = {"status": "asset missing", "remedy": f"harness fetch {number}"}
        for task in range(number):
            failed.append(Outcome(cell=Cell("a.mean", f"{number}-{task}"), **get))
    page += "\n".join(["# Many cells did not run", "", *lines_of_failures(failed), ""])
    assert page == approved("screens/summary.txt")


def test_a_file_that_lacks_the_words_of_a_task_is_an_error_unless_allowed(
    call, tmp_path
):
    words = ("a", "the", "man", "dog")
    vectors = np.eye(len(words), 4, dtype=np.float32)
    np.savez(tmp_path / "few.npz", words=np.array(words), vectors=vectors)
    command = "run -m few.mean -t mini-sts --encoder few=few.npz"
    # Not measured; measured since it is allowed; done, and not allowed any more.
    for options, status in (("", 1), ("--min-coverage 0", 0), ("", 1)):
        answer = call(f"{command} {options}")
        assert answer.status == status
        if status == 1:
            assert "wanted a vector for 20 % of the tokens" in answer.complaint
            assert "allow it with --min-coverage 0" in answer.complaint
    [record] = Store(tmp_path / "runs").records()
    assert 0 < record.facts["coverage"] < 0.2
