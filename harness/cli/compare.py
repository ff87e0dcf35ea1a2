"""`harness compare`: two methods on the same pairs.

The test of each task is made by harness.evaluation.compare. `Comparison` holds the tests
with the further facts that are printed, and makes the rows for people and for programs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.cli.selection import record_patterns
from harness.core.progress import progress_on
from harness.core.types import Task
from harness.evaluation.compare import PairedTest, compare_methods, measuring_command
from harness.evaluation.resampler import Resampler
from harness.gate.drift import most_moved
from harness.results.folder import ResultsFolder
from harness.results.layout import RUNS, reading_order
from harness.results.records import Cell
from harness.tasks.loader import TaskLoader

# By `PairedTest.differs`.
ANSWER_IN_WORDS = {None: "not tested", True: "differs", False: "not distinguishable"}
RANKED_METRICS = ("spearman", "pearson")  # metrics of tasks whose pairs have ranks


def compare_command(
    first: Annotated[str, typer.Argument(help="Method id.")],
    second: Annotated[str, typer.Argument(help="Method id.")],
    folders: opt.Folders,
    task: opt.Tasks = None,
    plugin: opt.NamedPlugins = None,  # noqa: ARG001 - its callback loads them
    results: opt.Run = Path("runs"),
    pairs: Annotated[
        int,
        opt.option(
            min=0,
            metavar="N",
            help="Print the N pairs of each task whose rank differs most, too.",
        ),
    ] = 0,
    as_json: opt.Json = False,
) -> None:
    """Test the difference of two methods on the same pairs.

    Paired bootstrap over pairs, Holm's correction over tasks. Seed 0 of each is
    compared: this tests the choice of test pairs, not of the seed. A method that was
    not measured in RESULTS is read from the packaged results. Most of these lack the
    similarities of the pairs: then the difference is printed without a test, and a note
    says which command makes the test possible.

    With --pairs, the pairs whose rank by similarity differs most are printed. Rank 1 is
    the least similar pair; pairs are counted from 1, in the order of the data set.
    """
    if results != RUNS:
        opt.require_folder("--results", results)
    patterns = record_patterns([first, second], None)
    patterns.require_known()
    first, second = patterns.methods
    registry = patterns.registry
    tasks = registry.select_tasks(task) if task else ()
    order = reading_order(results, with_runs=True, with_packaged=True)
    folder = ResultsFolder(results, registry, folders=order)
    loader = TaskLoader(folders.places(), registry.corpora)
    with progress_on(sys.stderr) as progress:
        resampler = Resampler(folder, loader, progress)
        tests = compare_methods(first, second, tasks, resampler)

    comparison = Comparison.from_tests(
        (first, second), tests, folder, loader, pair_count=pairs
    )
    if as_json:
        opt.say_rows(comparison.facts(with_pairs=pairs > 0), as_json)
        return
    opt.say_rows(comparison.rows)
    for name, moves in comparison.moves.items():
        if moves:
            opt.say(f"\n{name}: pairs whose rank differs most")
            opt.say_rows(moves)
    if comparison.untested:
        opt.note(comparison.remedy(folder))


@dataclass(frozen=True)
class Comparison:
    """Two methods, the test of each task, and further facts for printing.

    Attributes:
        methods: Both ids.
        tests: A test for each task.
        packaged: For each task, the methods whose records come with the harness.
        moves: For each task, the pairs whose rank differs most, as rows to print.
    """

    methods: tuple[str, str]
    tests: Sequence[PairedTest]
    packaged: Mapping[str, Sequence[str]]
    moves: Mapping[str, opt.PrintedRows]

    @classmethod
    def from_tests(
        cls,
        methods: tuple[str, str],
        tests: Sequence[PairedTest],
        folder: ResultsFolder,
        loader: TaskLoader,
        pair_count: int,
    ) -> Comparison:
        """A comparison of tests.

        Args:
            methods: Both ids.
            tests: A test for each task.
            folder: The results folder that has the records.
            loader: Loads the sentences of pairs.
            pair_count: How many pairs of each task are shown; 0 for none.
        """
        packaged: dict[str, list[str]] = {}
        moves: dict[str, opt.PrintedRows] = {}
        for test in tests:
            packaged[test.task] = [
                name for name in methods if folder.is_packaged(name, test.task)
            ]
            if pair_count and test.metric in RANKED_METRICS:
                task = folder.registry.tasks[test.task]
                moves[test.task] = _moved_pairs(
                    methods, task, folder, loader, pair_count
                )
        return cls(methods=methods, tests=tests, packaged=packaged, moves=moves)

    @property
    def rows(self) -> opt.PrintedRows:
        """A row for each task, for people."""
        return [self._row(test) for test in self.tests]

    def _row(self, test: PairedTest) -> dict[str, Any]:
        """The row of a test; the columns of the interval are empty without one."""
        first_method, second_method = self.methods
        row: dict[str, Any] = {
            "task": test.task,
            "score": test.metric,
            first_method: test.first,
            second_method: test.second,
            "difference": f"{test.difference:+.2f}",
            "95 % interval": "",
            "p": "",
            "p (Holm)": "",
            "result": ANSWER_IN_WORDS[test.differs],
            "packaged": ", ".join(self.packaged[test.task]),
        }
        if not test.missing:
            row["95 % interval"] = f"{test.low:+.2f} to {test.high:+.2f}"
            row["p"] = f"{test.p:.4f}"
            row["p (Holm)"] = f"{test.p_holm:.4f}"
        return row

    def facts(self, with_pairs: bool) -> opt.PrintedRows:
        """A row for each task, for programs."""
        rows = []
        for test in self.tests:
            row = {
                **asdict(test),
                "differs": test.differs,
                "packaged": self.packaged[test.task],
            }
            if with_pairs:
                row["pairs"] = self.moves.get(test.task, [])
            rows.append(row)
        return rows

    @property
    def untested(self) -> Sequence[PairedTest]:
        """The tests that lack similarities of pairs."""
        return [test for test in self.tests if test.missing]

    def remedy(self, folder: ResultsFolder) -> str:
        """The command that makes the missing similarities."""
        methods: dict[str, None] = {}  # each once, in order
        for test in self.untested:
            methods.update(dict.fromkeys(test.missing))
        tasks = [test.task for test in self.untested]
        command = measuring_command(list(methods), tasks, folder)
        return (
            f"not tested where similarities of pairs are missing: {command} makes them"
        )


def _moved_pairs(
    methods: tuple[str, str],
    task: Task,
    results: ResultsFolder,
    loader: TaskLoader,
    count: int,
) -> opt.PrintedRows:
    """The pairs whose rank differs most: gold, similarities, ranks, sentences."""
    first_method, second_method = methods
    first_similarities = results.similarities(Cell(first_method, task.name))
    second_similarities = results.similarities(Cell(second_method, task.name))
    if first_similarities is None or second_similarities is None:
        return []
    pairs = loader.texts(task).pairs
    rows = []
    for move in most_moved(first_similarities, second_similarities, count):
        index = move.pair - 1  # pairs are counted from 1
        rows.append(
            {
                "pair": move.pair,
                "gold": float(pairs.gold[index]),
                "similarity": f"{move.committed:.4f} -> {move.measured:.4f}",
                "rank": f"{move.committed_rank:g} -> {move.measured_rank:g}",
                "first sentence": pairs.a[index],
                "second sentence": pairs.b[index],
            }
        )
    return rows
