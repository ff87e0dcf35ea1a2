"""The committed results: complete, within reach of what is published, and measured again here."""

import re
from pathlib import Path

import numpy as np
import pytest
from tiny_models import in_batches

from baselines.glove import ON_SICK
from baselines.minilm import CALIBRATIONS, GRID, MINILM
from harness.assets.places import Places
from harness.core.metrics import cosine
from harness.core.metrics.correlation import aggregations, spearman
from harness.core.types import Method
from harness.evaluation.select import default_tasks, meaningful
from harness.gate.drift import ACROSS_PLATFORMS
from harness.registry import load_registry
from harness.results.index import Results, score_at
from harness.results.published import load_tables
from harness.results.records import Store, encode_committed, read_committed
from harness.results.reproduction import reproductions
from harness.results.verdict import CellState
from harness.transforms.pooling import MEAN

COMMITTED = Path(__file__).parents[2] / "results"
ANCHORS = 0.01  # points from mteb's published numbers, which agree between years to 1e-4


@pytest.fixture(scope="module")
def results() -> Results:
    return Results.read(Store(COMMITTED))


def test_committed_records_are_files_that_a_promotion_would_write_in_6_mb():
    files = sorted((COMMITTED / "records").glob("*.jsonl"))
    assert all(
        path.read_bytes() == encode_committed(read_committed(path).values()) for path in files
    )
    assert 0 < sum(path.stat().st_size for path in files) < 6e6
    assert not list((COMMITTED / "records").rglob("seed-*.json"))


def test_what_the_results_hold_is_told_and_nothing_else():
    told = re.findall(r"^\| `(\S+?)/?` \|", (COMMITTED / "README.md").read_text(), re.MULTILINE)
    assert {*told, "README.md"} == {path.name for path in COMMITTED.iterdir()} - {"not-run.json"}


def test_the_grid_of_minilm_is_committed_on_every_task(results):
    methods = [Method(MINILM, pooling) for pooling in GRID]
    methods += [Method(MINILM, p, post, "target") for p in GRID for post in CALIBRATIONS]
    tasks = default_tasks(load_registry())
    cells = [(m.id, t.name) for m in methods for t in meaningful(m, tasks)]
    assert [cell for cell in cells if not results.records(*cell)] == []


def test_glove_is_committed_under_at_least_three_tokenisations(results):
    found = [results.value(f"{e.name}.mean", "sick-r", "spearman", "all").mean for e in ON_SICK]
    scores = [value for value in found if value is not None]
    assert len(set(scores)) >= 3
    assert min(scores) >= 54.2
    assert max(scores) <= 56.5


def test_sif_s_average_on_sick_is_reproduced_from_sick_s_part_of_the_vectors(results):
    [table] = (t for t in load_tables(COMMITTED / "papers") if t.id == "sif.t1")
    found = reproductions(table, results, load_registry())["sif.t1/avg-glove/sick-r"]
    assert found.cell.method == "glove-840b-sick-lower.mean"
    assert found.state is CellState.EXACT


@pytest.mark.parametrize("table", ["mteb.1-12-75", "mteb.0-0-2"])
def test_minilm_meets_every_number_that_mteb_publishes(results, table):
    tables = {t.id: t for t in load_tables(COMMITTED / "papers")}
    judged = reproductions(tables[table], results, load_registry()).values()
    anchors = [j for j in judged if j.cell.method == "minilm.mean"]
    off = {j.cell.id: j.verdict.difference for j in anchors if j.measured is None}
    off |= {j.cell.id: d for j in anchors if (d := j.verdict.difference) and abs(d) > ANCHORS}
    assert len(anchors) >= 14
    assert off == {}


@pytest.mark.data
@pytest.mark.weights
@pytest.mark.slow
def test_batches_order_and_threads_move_no_score(data_dir, tmp_path, results, minilm_folder):
    """Nor is the committed record another number than what is measured now."""
    import torch

    task = load_registry().tasks["sts13.senteval"]
    pairs = task.pairs(data_dir)
    texts = list(dict.fromkeys(pairs.sentences))
    encoder = MINILM.load(minilm_folder, tmp_path)
    shuffled = list(np.random.default_rng(0).permutation(texts))
    scores = [_score(encoder, texts, pairs)]
    scores.append(_score(in_batches(encoder, 700), shuffled, pairs))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        scores.append(_score(in_batches(encoder, 2048), texts, pairs))
    finally:
        torch.set_num_threads(threads)
    assert np.ptp(scores) <= 1e-3
    [record] = results.records("minilm.mean", task.name)
    committed = score_at(record.scores, ("spearman", "all"))
    assert scores[0] == pytest.approx(committed, abs=ACROSS_PLATFORMS)


def _score(encoder, texts, pairs) -> float:
    vectors = dict(zip(texts, MEAN(encoder.encode(texts)), strict=True))
    a, b = (np.stack([vectors[text] for text in side]) for side in (pairs.a, pairs.b))
    return aggregations(spearman, np.round(cosine(a, b)[0], 10), pairs)["all"]


@pytest.fixture
def minilm_folder(tmp_path) -> Path:
    places = Places(cache=tmp_path)
    if not places.has_encoder(MINILM):
        pytest.skip("the minilm extra is not installed")
    return places.encoder(MINILM)
