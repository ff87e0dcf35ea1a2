"""Scores, verdicts and claims computed a second time from the files, by none of the code.

What is read here is JSON and TOML alone; the harness is asked for what its pages print.
"""

import json
import math
import re
import tomllib
from collections import defaultdict
from decimal import Decimal
from itertools import product
from statistics import fmean, stdev

import pytest
from committed import FOLDER, RESULTS
from scipy import stats

from harness.conclusions.claims import Outcome
from harness.report.boards import seven_tasks
from harness.results.scorings import SCORINGS

SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
METRICS = ("spearman", "pearson", "auc", "edit_distance", "gold_similarity", "accuracy")
SEEDED = ("Flow(", "FamilyConfig(")  # in an identity: another seed gives another score


def read_records():
    """The records of each method and task by seed."""
    cells = defaultdict(dict)
    for path in sorted((RESULTS / "records").glob("*/*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            cells[record["method"], record["task"]][record["seed"]] = record
    return cells


RECORDS = read_records()


def scores_of(method, tasks, path):
    """The mean over tasks of each seed; None where a task or a score is missing."""
    by_seed = []
    for task in tasks:
        found = {}
        for seed, record in RECORDS.get((method, task), {}).items():
            score = record["scores"]
            for name in path:
                score = score.get(name) if isinstance(score, dict) else None
            found[seed] = score
        by_seed.append(found)
    seeds = sorted(set.intersection(*map(set, by_seed)))
    rows = [[found[seed] for found in by_seed] for seed in seeds]
    if not rows or any(None in row for row in rows):
        return None
    return [fmean(row) for row in rows]


def is_seeded(method, task):
    records = RECORDS[method, task].values()
    return len(records) > 1 or any(
        word in record["identity"] for record in records for word in SEEDED
    )


# Published numbers and their verdicts


def published_numbers():
    """Each printed number by its id: its digits in points, and where it is looked for."""
    for file in sorted((RESULTS / "papers").glob("*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        tasks = {column["id"]: column.get("task") for column in table["columns"]}
        for row, column in product(table["row"], table["columns"]):
            name = column["id"]
            if name not in row["values"]:
                continue
            metric = column.get("metric", table["metric"])
            is_fraction = table.get("scale", 100) == 1 and metric in METRICS
            digits = f"{Decimal(row['values'][name]).scaleb(2 if is_fraction else 0):f}"
            ways = [one.get("aggregation") for one in (column, row, table)]
            way = next(filter(None, ways), "all").replace("single set", "all")
            path = (metric, way) if metric in ("spearman", "pearson") else (metric,)
            method = row.get("methods", {}).get(name, row.get("method"))
            if "why_not" in row or "why_not" in column or metric not in METRICS:
                method = None
            tasks_of_row = tasks | row.get("tasks", {})
            of_number = [tasks_of_row[one] for one in column.get("average_of", [name])]
            yield f"{file.stem}/{row['id']}/{name}", digits, method, of_number, path


def verdict_of(digits, scores, seeded):
    """The rules of verdicts without a published spread, written a second time."""
    difference = abs(round(fmean(scores) - float(digits), 9))
    if not seeded:
        exact = max(0.005, 0.5 * 10.0 ** -len(digits.partition(".")[2]))
        limits = {"exact": exact, "match": 0.05, "close": 0.5}
        return next((w for w, most in limits.items() if difference <= most), "differs")
    k = len(scores)
    if k < 5:
        return "too few seeds"
    half = stats.t.ppf(0.975, k - 1) * stdev(scores) * math.sqrt(1 + 1 / k)
    if half > 2:
        return "inconclusive"
    return "consistent" if difference <= max(half, 0.05) else "differs"


def test_every_published_number_has_its_digits_its_scores_and_its_verdict():
    numbers = {number.number.id: number for number in FOLDER.all_reproductions}
    verdicts = defaultdict(int)
    for name, digits, method, tasks, path in published_numbers():
        number = numbers.pop(name)
        assert (number.number.in_points or number.number.value) == digits, name
        scores = scores_of(method, tasks, path) if method else None
        assert bool(number.scores) == (scores is not None), name
        if scores is not None:
            seeded = any(is_seeded(method, task) for task in tasks)
            found = scores if seeded else scores[:1]
            assert number.scores == pytest.approx(found, abs=1e-9), name
            assert str(number.state) == verdict_of(digits, found, seeded), name
            verdicts[str(number.state)] += 1
    assert numbers == {}
    assert verdicts["exact"] > 40


# Tables of methods


@pytest.mark.parametrize("scoring", SCORINGS, ids=lambda scoring: scoring.id)
def test_a_board_has_every_score_and_averages_of_whole_rows_alone(scoring):
    """Averages that skip what was not measured: embeddings-benchmark/mteb#4263."""
    methods = [*dict.fromkeys(method for method, _ in RECORDS)]
    ending = ".senteval" if scoring.text == "senteval" else ""
    path = scoring.correlation, scoring.aggregation
    due = {}
    for method in methods:
        scores = [scores_of(method, [task + ending], path) for task in SEVEN]
        if any(scores):
            means = [fmean(one) if one else None for one in scores]
            average = None if None in means else fmean(means)
            spreads = [stdev(one) if one and len(one) > 1 else None for one in scores]
            due[method] = [*zip(means, spreads, strict=True), (average, None)]
    board = seven_tasks(FOLDER.records.methods, scoring, FOLDER)
    rows = {row.key: row.cells[1:9] for row in board.rows if row.key}
    assert {*rows} == {*due}
    for method, cells in rows.items():
        for cell, wanted in zip(cells, due[method], strict=True):
            numbers = [float(text) for text in re.findall(r"-?\d+\.\d+", cell.text)]
            due_numbers = [number for number in wanted if number is not None]
            assert numbers == pytest.approx(due_numbers, abs=0.005 + 2e-9), method


# Claims, and scores of other programs


def test_a_claim_is_decided_by_its_corrected_tests_on_most_of_its_tasks():
    decided = 0
    for result in FOLDER.claim_results:
        tests = [finding.difference for finding in result.findings]
        ps = sorted(test.p for test in tests if test.p is not None)
        holm, largest = {}, 0.0
        for rank, p in enumerate(ps):
            largest = min(1.0, max(largest, p * (len(ps) - rank)))
            holm.setdefault(p, largest)
        for finding, test in zip(result.findings, tests, strict=True):
            [(task, path)] = test.contrast.scores
            sides = [scores_of(name, [task], path) for name in test.contrast.methods]
            if None in sides:
                assert test.points is None
                continue
            points = fmean(sides[0]) - fmean(sides[1])
            assert test.points == pytest.approx(points, abs=1e-9)
            if test.p is None:
                continue
            assert test.p_holm == pytest.approx(holm[test.p], abs=1e-12)
            sign = Outcome.HIGHER if points > 0 else Outcome.LOWER
            due = sign if holm[test.p] <= 0.05 else Outcome.UNDECIDED
            other = finding.other
            if other is None or other.outcome == due:
                assert finding.outcome == due
        for outcome in (Outcome.HIGHER, Outcome.LOWER):
            is_most = 2 * result.outcomes.count(outcome) > len(result.outcomes)
            if not result.claim.entry.conjunction:
                assert (result.outcome == outcome) == is_most
            decided += is_most
    assert decided > 10
