"""The committed results: complete, within reach of what is published, and measured again here."""

import re

from committed import FOLDER, RESULTS
from documents import broken_links

from baselines.minilm import CALIBRATIONS, GRID, MINILM
from harness.core.types import Method
from harness.evaluation.select import default_tasks, tasks_meant_for
from harness.registry import load_registry
from harness.results.records import encode_committed, read_committed


def test_committed_records_are_lines_that_a_promotion_would_write():
    """In any order, after a merge."""
    files = sorted((RESULTS / "records").glob("*/*.jsonl"))
    assert len(files) > 200
    for path in files:
        written = encode_committed(read_committed(path).values())
        assert set(path.read_bytes().splitlines()) == set(written.splitlines())
    assert not list((RESULTS / "records").rglob("seed-*.json"))


def test_what_the_results_hold_is_told_and_nothing_else():
    told = re.findall(
        r"^\| `(\S+?)/?` \|", (RESULTS / "README.md").read_text(), re.MULTILINE
    )
    assert {*told, "README.md"} == {path.name for path in RESULTS.iterdir()} - {
        "not-run.json",
        "encoders.json",
    }


def test_links_of_the_committed_pages_lead_somewhere():
    pages = sorted(RESULTS.rglob("*.md"))
    assert {path.name: broken for path in pages if (broken := broken_links(path))} == {}


def test_the_grid_of_minilm_is_committed_on_every_task():
    methods = [Method(MINILM, pooling) for pooling in GRID]
    methods += [
        Method(MINILM, p, post, "target") for p in GRID for post in CALIBRATIONS
    ]
    tasks = default_tasks(load_registry())
    cells = [(m.id, t.name) for m in methods for t in tasks_meant_for(m, tasks)]
    assert [cell for cell in cells if not FOLDER.records.records(*cell)] == []
