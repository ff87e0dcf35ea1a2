"""What the floor of a flow's coordinates moves, and what the noise of an encoding is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.scores import score_at
from harness.core.toml import read_sealed
from harness.registry import load_registry
from harness.report.flow_floors import (
    FloorRow,
    MeasuredNoise,
    floors_part,
    read_floors,
    summary_table,
)
from harness.results.claim_tests import ClaimOutcome, correct_for_tasks, decide
from harness.results.folder import ResultsFolder
from harness.results.index import SeedScores
from harness.transforms.flows import LEAST_RANGE

COMMITTED = Path(__file__).parents[2] / "results"
RECORDS = COMMITTED / "records"
FLOORS = RECORDS / "flow_floors.json"
FLOWS = ("flow", "nice", "glow")
UNMOVED = "first-last"  # no coordinate of this pooling is between the floors


def moves(method):
    """Whether the floor moves a method of mpnet-base: a flow on the last layer."""
    pooling, _, post = method.partition(".")[2].partition("+")
    return pooling != UNMOVED and post.partition("@")[0].partition(":")[0] in FLOWS


def test_the_floor_is_above_the_largest_noise_and_not_far_above_it():
    """Also that every coordinate is far above its own: nothing is left out for that."""
    measured = read_sealed(MeasuredNoise, RECORDS / "encoding_noise.json")
    largest = max(noise.of_widest for noise in measured.noise)
    assert largest < LEAST_RANGE < 10 * largest
    assert min(noise.ratios[0] for noise in measured.noise) > 1000


def test_the_noise_of_a_coordinate_is_what_moves_from_way_to_way(monkeypatch):
    monkeypatch.syspath_prepend(COMMITTED.parent / "benchmarks")
    from encoding_noise import noise_of

    rng = np.random.default_rng(0)
    signal = rng.normal(size=(400, 3)) * [1.0, 0.5, 1e-4]
    ways = [
        signal + rng.normal(size=signal.shape) * [1e-3, 1e-6, 1e-3] for _ in range(8)
    ]
    noise = noise_of("made-up", "mean", ways)
    by_number = {coordinate.number: coordinate for coordinate in noise.least}
    # The mean of 8 ways takes an eighth of the variance with it.
    assert by_number[0].noise == pytest.approx(1e-3 * np.sqrt(7 / 8), rel=0.05)
    assert by_number[1].ratio == pytest.approx(5e5, rel=0.2)
    assert noise.least[0].number == 2
    assert noise.of_widest == pytest.approx(1e-3 / np.ptp(ways[0][:, 0]), rel=0.1)


def test_every_row_that_the_floor_moves_is_stored_with_what_is_committed():
    results, rows = ResultsFolder(COMMITTED).records, read_floors(FLOORS)
    assert {(row.method, row.task) for row in rows} == {
        cell
        for cell in results.by_cell
        if cell[0].startswith("mpnet-base.") and moves(cell[0])
    }
    for row in rows:
        records = sorted(
            results.records(row.method, row.task), key=lambda record: record.seed
        )
        wanted = row.low if row.floor == "1e-6" else row.high
        found = [score_at(record.scores, row.score) for record in records]
        assert found == pytest.approx(wanted, abs=1e-4), row
        assert {record.facts["dimensions"] for record in records} == {
            764 + (row.floor == "1e-6")
        }


def test_the_page_names_every_method_that_the_floor_moves():
    rows = read_floors(FLOORS)
    shown = " ".join(floors_part(rows).split())
    assert all(f"`{row.method}`" in shown for row in rows)
    assert "| `mpnet-base.mean+flow@target` | sts-b | spearman all" in shown
    # The same where there is one subset.
    assert "| sts-b | spearman wmean" not in shown


def test_the_summary_has_the_extremes_of_each_flow_and_corpus():
    rows = [
        FloorRow(
            "m.cls+flow@target", "a", ("auc",), (50.0, 52.0), (60.0, 61.0), "1e-6"
        ),
        FloorRow(
            "m.mean+flow@target", "a", ("auc",), (50.0, 55.0), (50.5, 50.5), "1e-6"
        ),
        FloorRow("m.mean+flow@wiki", "a", ("auc",), (50.0, 50.5), (50.0, 50.0), "1e-6"),
        FloorRow("m.cls+glow@target", "a", ("auc",), (), (60.0, 61.0), "3e-5"),
    ]
    _, _, *lines = summary_table(rows).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells == [
        ["`flow@target`", "2", "-2.00 to +9.50", "5.00", "1.00"],
        ["`flow@wiki`", "1", "-0.25 to -0.25", "0.50", "0.00"],
    ]


def test_a_claim_that_turns_on_the_floor_is_undecided():
    folder = ResultsFolder(COMMITTED, load_registry())
    stored = {(row.method, row.task, row.score): row for row in read_floors(FLOORS)}
    claims = []
    for result in folder.claim_results:
        under_other_floor, moved = [], False
        for finding in result.findings:
            [(task, path)] = finding.contrast.scores
            sides = []
            for method, side in zip(result.claim.methods, finding.sides, strict=True):
                row = stored.get((method, task, path))
                moved |= row is not None
                scores = row.high if row else ()
                sides.append(
                    SeedScores(dict(enumerate(scores)), seeded=True) if scores else side
                )
            under_other_floor.append(
                replace(
                    finding,
                    published=None,
                    sides=(sides[0], sides[1]),
                    decision=decide(*sides),
                )
            )
        if moved:
            claims.append(result.claim.id)
            corrected = tuple(correct_for_tasks(under_other_floor))
            under_other = replace(result, findings=corrected, average=None).outcome
            assert result.outcome in (under_other, ClaimOutcome.UNDECIDED)
    assert claims == ["flow-above-sn-natsv-mpnet", "flow-less-lexical-mpnet"]
