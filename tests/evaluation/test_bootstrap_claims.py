"""The intervals of claims: those of the paired bootstrap, made where nothing else decides."""

from pathlib import Path

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, library
from fakes import registry as fake_registry

from harness.core.errors import DataError
from harness.core.types import Record
from harness.evaluation.compare import RESAMPLES, SEED, compare_claims
from harness.evaluation.runner import RunContext
from harness.results.claims import (
    Contrast,
    Interval,
    Intervals,
    intervals_file,
    read_claims,
    read_intervals,
    write_intervals,
)
from harness.results.comparisons import bootstrap_scores, compare_resamples
from harness.results.published import load_table
from harness.results.records import SCHEMA, Store

REGISTRY = fake_registry(FakeConfig())
TABLE = """
paper = "Nobody et al. 1999"
table = "Table 1"
title = "Two rows"
cite = "nobody1999"
source = "made up"
metric = "spearman"
aggregation = "all"
columns = [
  { id = "toy", label = "TOY", task = "toy" },
  { id = "sts-b", label = "STS-B", task = "sts-b" },
]
[[row]]
id = "high"
label = "High"
why_not = "quoted"
backbone = "none"
fit = "none"
supervision = "none"
values = { toy = "70.00", sts-b = "60.00" }
[[row]]
id = "low"
label = "Low"
why_not = "quoted"
backbone = "none"
fit = "none"
supervision = "none"
values = { toy = "50.00", sts-b = "50.00" }
"""
CLAIMS = """
about = "About the model."
[rows."made-up"]
high = "fake.mean"
low = "fake.cls"
[[claim]]
id = "high-above-low"
claim = "High lies above low."
table = "made-up"
better = "high"
worse = "low"
"""
ALL = ("spearman", "all")
PATHS = {"toy": ("toy", ALL), "sts-b": ("sts-b", ALL)}
ON_TOY = Contrast("fake.mean", "fake.cls", (PATHS["toy"],))
AVERAGE = Contrast("fake.mean", "fake.cls", (PATHS["toy"], PATHS["sts-b"]))


def claims_of(folder: Path):
    (folder / "made-up.toml").write_text(TABLE)
    (folder / "claims.toml").write_text(CLAIMS)
    return read_claims(folder / "claims.toml", [load_table(folder / "made-up.toml")])


def measured(
    folder: Path, loader, *, scores: dict[str, float]
) -> dict[tuple[str, str], np.ndarray]:
    """Records of both methods on both tasks, with similarities drawn at random."""
    rng, columns = np.random.default_rng(7), {}
    for method, score in scores.items():
        for task in (TOY, OTHER):
            cosines = rng.normal(size=len(loader.inputs(task).pairs)).astype(np.float32)
            made = Record(
                SCHEMA, method, repr(REGISTRY.parse(method)), task.name, 0,
                {"spearman": {"all": score}}, len(cosines), {}, {}, {},
            )  # fmt: skip
            Store(folder).write(made, cosines, {})
            columns[method, task.name] = cosines
    return columns


def compared(folder: Path, loader, known=None) -> Intervals:
    context = RunContext(loader, Store(folder))
    return compare_claims(claims_of(folder), REGISTRY, context, known or {})


def test_an_interval_is_the_paired_bootstraps_and_an_averages_that_of_the_mean(tmp_path):
    loader = library(tmp_path / "library")
    columns = measured(tmp_path, loader, scores={"fake.mean": 61.0, "fake.cls": 58.5})
    found = compared(tmp_path, loader)
    resampled = {}
    for task in (TOY, OTHER):
        pairs = loader.inputs(task).pairs
        both = np.stack([columns[method, task.name] for method in ("fake.mean", "fake.cls")])
        rng = np.random.default_rng(SEED)
        resampled[task.name] = bootstrap_scores(
            both, pairs.gold, pairs.group, resamples=RESAMPLES, rng=rng
        )
    for contrast, scores in (
        (ON_TOY, resampled["toy"]),
        (AVERAGE, (resampled["toy"] + resampled["sts-b"]) / 2),
    ):
        wanted, interval = compare_resamples(*scores), found[contrast]
        assert (interval.low, interval.high) == pytest.approx((wanted.low, wanted.high), abs=1e-4)
        assert (interval.difference, interval.resamples) == (2.5, RESAMPLES)
    assert len(found) == 3


def test_a_known_interval_stays_until_its_difference_moves(tmp_path):
    loader = library(tmp_path / "library")
    measured(tmp_path, loader, scores={"fake.mean": 61.0, "fake.cls": 58.5})
    known = {ON_TOY: Interval(ON_TOY, 2.5, -1.0, 1.0, 9, 0)}
    assert compared(tmp_path, loader, known)[ON_TOY] == known[ON_TOY]
    moved = {ON_TOY: Interval(ON_TOY, 2.4, -1.0, 1.0, 9, 0)}
    assert compared(tmp_path, loader, moved)[ON_TOY].difference == 2.5


def test_what_was_not_measured_here_keeps_what_is_known_and_gets_nothing_new(tmp_path):
    loader = library(tmp_path / "library")
    measured(tmp_path, loader, scores={"fake.mean": 61.0})
    known = {ON_TOY: Interval(ON_TOY, 2.5, -1.0, 1.0, 9, 0)}
    assert compared(tmp_path, loader, known) == known
    measured(tmp_path, loader, scores={"fake.cls": 58.5})
    for similarities in tmp_path.rglob("fake.mean/**/*.safetensors"):
        similarities.unlink()
    assert compared(tmp_path, loader) == {}


def test_an_accuracy_is_the_share_of_right_classes_in_every_resample():
    gold = np.array([0.0, 1.0, 1.0, 0.0, 2.0])
    columns = np.array([gold, 1 - gold, [0.0, 1.0, 0.0, 0.0, 2.0]])
    group = ("g",) * len(gold)
    scores = bootstrap_scores(
        columns, gold, group, metric="accuracy", resamples=50, rng=np.random.default_rng(0)
    )
    drawn = np.random.default_rng(0).integers(len(gold), size=(50, len(gold)))
    np.testing.assert_allclose(scores[2], 100 * (columns[2] == gold)[drawn].mean(axis=1))
    assert (scores[0] == 100).all()
    assert (scores[1] == 0).all()


def test_intervals_are_read_as_they_were_written(tmp_path):
    assert read_intervals(tmp_path) == {}
    known = {
        AVERAGE: Interval(AVERAGE, 2.5, -1.0, 1.0, 9, 0),
        ON_TOY: Interval(ON_TOY, 1.0, 0.5, 2.0, 9, 0),
    }
    write_intervals(tmp_path, known)
    assert read_intervals(tmp_path) == known
    file = intervals_file(tmp_path)
    file.write_text(file.read_text().replace("low", "lowest"))
    with pytest.raises(DataError, match=r"claims\.json, row 1: unknown key .lowest."):
        read_intervals(tmp_path)
