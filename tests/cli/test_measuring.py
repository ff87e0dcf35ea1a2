"""What a run prints: each score beside what is published for it, its record, a table at the end."""

import re
from pathlib import Path

import numpy as np
import pytest
from committed import TABLES
from fakes import made_record, results_of

from harness.assets.places import Places
from harness.cli.printing import Printer
from harness.cli.reproduce import promote
from harness.evaluation.run import Outcome, RunContext, execute
from harness.evaluation.select import planned_cells
from harness.registry import load_registry
from harness.report.papers import printed_number
from harness.resolve import Resolver
from harness.results.comparisons import (
    Comparisons,
    Neighbours,
    read_comparisons,
    write_comparisons,
)
from harness.results.folder import ResultsFolder
from harness.results.records import cell_of
from harness.results.reproduction import LOW_COVERAGE
from harness.results.store import Store
from harness.tasks.loader import TaskLoader

ROOT = Path(__file__).resolve().parents[2]
PAPERS = ROOT / "results" / "papers"
CELLS = {cell.id: cell for table in TABLES for cell in table.cells}
STS = CELLS["mteb.1-12-75/minilm/sts-b"]


def measured(method, task, score, **facts):
    """The outcome of a cell with this score, of the method as it is registered."""
    scores = {"spearman": {"all": score}, "pearson": {"all": score - 1}}
    identity = load_registry().parse(method).identity
    made = made_record(method, task, scores, identity=identity, facts=facts)
    return Outcome(cell=cell_of(made), status="measured", record=made)


@pytest.fixture
def printed(tmp_path, capsys):
    """Printing outcomes: what is said of each, and the table."""

    def printed_lines(*outcomes):
        store = Store(tmp_path)
        printer = Printer(store=store, registry=load_registry(), tables=TABLES)
        for outcome in outcomes:
            store.write(outcome.record, np.zeros(3), {})
            printer.outcome(outcome)
        return capsys.readouterr().out.splitlines(), printer.table().splitlines()

    return printed_lines


@pytest.mark.parametrize(
    ("off", "verdict"), [(0, "exact"), (0.3, "close"), (-0.3, "close"), (3, "differs")]
)
def test_a_score_stands_beside_its_published_number_and_verdict(
    printed, tmp_path, off, verdict
):
    outcome = measured(STS.method, STS.task, STS.points + off)
    [line], table = printed(outcome)
    assert f"; published {printed_number(STS)}, {verdict} ({STS.id})" in line
    path = Path(line.partition(" -> ")[2])
    assert path.is_file()
    assert path.is_relative_to(tmp_path)
    [row] = [row for row in table if row.endswith(STS.id)]
    assert row.split()[:2] == [STS.method, STS.task]
    assert row.split()[-3:] == [printed_number(STS), verdict, STS.id]


def test_a_number_of_another_score_is_shown_with_that_score(printed):
    """Spearman 82.03 says nothing of a published 82.74 that is a Pearson correlation."""
    pearson = next(
        c
        for c in CELLS.values()
        if c.metric == "pearson" and (c.method, c.task) == (STS.method, STS.task)
    )
    [line], _ = printed(measured(STS.method, STS.task, STS.points))
    one, other = (
        line.index(f"; published {printed_number(STS)}, exact"),
        line.index("pearson all"),
    )
    assert one < other
    score = f"{STS.points - 1:.2f}"
    assert line[other:].startswith(
        f"pearson all {score}, published {printed_number(pearson)}, "
    )


def test_a_number_of_another_aggregation_is_shown_with_that_score(printed):
    cell = next(
        c for c in CELLS.values() if c.aggregation == "wmean" and c.method and c.task
    )
    outcome = measured(cell.method, cell.task, 50.0)
    outcome.record.scores["spearman"]["wmean"] = 40.0
    [line], _ = printed(outcome)
    assert "Spearman 50.00; spearman wmean 40.00, published " in line


def test_another_task_or_method_has_no_published_number(printed):
    lines, table = printed(
        measured("minilm.mean", "mini-sts", 50.0),
        measured("bert-mini.cls", STS.task, 9.0),
    )
    assert not [line for line in lines if "published" in line]
    assert [row.split() for row in table[2:]] == [
        ["bert-mini.cls", "sts-b", "spearman", "9.00"],
        ["minilm.mean", "mini-sts", "spearman", "50.00"],
    ]


def test_an_average_is_judged_once_all_of_its_tasks_are_there(printed):
    cell = next(
        c
        for c in CELLS.values()
        if c.average_of and c.method and c.metric == "spearman"
    )
    outcomes = [measured(cell.method, task, 50.0) for task in cell.average_of]
    lines, table = printed(*outcomes)
    assert [cell.id in line for line in lines] == [False] * (len(lines) - 1) + [True]
    [row] = [row for row in table if row.endswith(f" {cell.id}")]
    assert f"average of {len(cell.average_of)}" in row
    assert " 50.00 " in row
    _, table = printed(*outcomes[1:])
    assert not [row for row in table if row.endswith(f" {cell.id}")]


def test_that_a_file_has_few_words_stands_beside_its_scores(printed):
    lines, table = printed(
        measured("glove-mini.mean", "mini-sts", 10.41, coverage=LOW_COVERAGE - 0.001),
        measured("glove-mini.mean", "mini-sick", 10.41, coverage=LOW_COVERAGE),
        measured("bert-mini.mean", "mini-sts", 10.41),
        measured(STS.method, STS.task, 10.41, coverage=0.24),
    )
    shares = [re.findall(r"(\d+ %) of tokens known", line) for line in lines]
    assert shares == [["85 %"], [], [], ["24 %"]]
    rows = {tuple(row.split()[:2]): row for row in table}
    assert "10.41 (85 % of tokens known)" in rows["glove-mini.mean", "mini-sts"]
    assert "(24 % of tokens known)" in rows[STS.method, STS.task]
    assert (
        "known"
        not in rows["glove-mini.mean", "mini-sick"] + rows["bert-mini.mean", "mini-sts"]
    )


def test_a_run_stores_the_coverage_of_a_task(tmp_path):
    words = np.array(["a", "the", "man", "dog"])
    np.savez(tmp_path / "few.npz", words=words, vectors=np.eye(4, dtype=np.float32))
    resolver = Resolver.from_options(
        Places(tmp_path / "cache"), [f"few={tmp_path / 'few.npz'}"]
    )
    registry, loader = (
        resolver.registry,
        TaskLoader(resolver.places, resolver.registry.corpora),
    )
    task, store = registry.tasks["mini-sts"], Store(tmp_path / "runs")
    planned = planned_cells([registry.parse("few.mean")], [task], 1)
    for overwrite in (False, True):  # from the encoder, then from the cache
        context = RunContext(loader, store, overwrite=overwrite, min_coverage=0)
        [outcome] = execute(planned, context)
        texts = dict.fromkeys(loader.texts(task).pairs.sentences)
        known = [
            [w.lower() in words for w in re.findall(r"\w+|[^\w\s]", t)] for t in texts
        ]
        share = sum(map(sum, known)) / sum(map(len, known))
        assert outcome.record.facts["coverage"] == round(share, 4)
    assert 0 < share < LOW_COVERAGE


def test_a_file_that_lacks_the_words_of_a_task_is_an_error_unless_allowed(tmp_path):
    np.savez(
        tmp_path / "few.npz",
        words=np.array(["man"]),
        vectors=np.ones((1, 4), np.float32),
    )
    resolver = Resolver.from_options(
        Places(tmp_path / "cache"), [f"few={tmp_path / 'few.npz'}"]
    )
    registry, loader = (
        resolver.registry,
        TaskLoader(resolver.places, resolver.registry.corpora),
    )
    store = Store(tmp_path / "runs")
    planned = planned_cells(
        [registry.parse("few.mean")], [registry.tasks["mini-sts"]], 1
    )
    refused, allowed = (
        RunContext(loader, store),
        RunContext(loader, store, min_coverage=0),
    )
    # Not measured; measured since it is allowed; done, and not allowed any more; done
    # and allowed.
    statuses = []
    for context in (refused, allowed, refused, allowed):
        [outcome] = execute(planned, context)
        statuses.append(outcome.status)
        if context is refused:
            assert re.fullmatch(
                r"few on mini-sts: wanted a vector for 20 % of the tokens, found one for "
                r"\d\.\d %; check the words of the file, or allow it with --min-coverage 0",
                outcome.message,
            )
    assert statuses == ["failed", "measured", "failed", "done"]


@pytest.mark.parametrize("measured", ["ab", "a"])
def test_a_partial_run_replaces_no_wider_comparison_of_rows_that_are_there(
    measured, tmp_path
):
    old, new = (ResultsFolder(tmp_path / name) for name in ("old", "new"))
    pair = (Neighbours("a", "b", 0.0, 1.0, 0.5, 0.5),)
    for folder, rows in ((old, "ab"), (new, "a")):
        write_comparisons(
            folder.path, Comparisons("e", "p", 9, 0, dict.fromkeys(rows, 1.0), pair)
        )
    old.records = results_of(*(made_record(method, "t", {}) for method in measured))
    promote([], new, old)
    assert "".join(read_comparisons(old.path)["e.p"].averages) == measured
