"""What commands that measure print: each score as it comes, a table of all, what to do next."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from harness.cli.options import say, terminal_width
from harness.core.terminal import text_table
from harness.core.types import Record
from harness.evaluation.run import Outcome
from harness.gate.outcome import Checked, State
from harness.registry import Registry
from harness.report.coverage import percentage
from harness.report.paper_tables import printed
from harness.report.replication import CLAIMS_PAGE
from harness.results.claim_tests import ClaimOutcome
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED, Results, main_path, main_score, value
from harness.results.published import PublishedCell, Table, score_path
from harness.results.records import Store
from harness.results.reproduction import MEASURED_AS, Reproduction, low_coverage, reproduce
from harness.results.same_files import as_registered, with_registered
from harness.results.verdict import CellState

JSON_FIELDS = ("method", "task", "seed", "scores", "pairs", "timings")
HEAD = ("method", "task", "metric", "measured", "published", "verdict", "published cell")
SHOWN = 3  # published numbers behind one score; the table has all


@dataclass
class Printer:
    """Prints outcomes as they come, beside the published numbers of their methods and tasks."""

    store: Store
    registry: Registry
    tables: Sequence[Table]
    as_json: bool = False
    quiet: bool = False
    records: dict[tuple[str, str], list[Record]] = field(default_factory=dict)

    def outcome(self, outcome: Outcome) -> None:
        """Print one cell as it comes; of one without a record the end tells why."""
        record, cell = outcome.record, outcome.cell
        if record is None:
            return
        self.records.setdefault((record.method, record.task), []).append(record)
        if self.as_json:
            say(json.dumps({name: getattr(record, name) for name in JSON_FIELDS}))
        elif not self.quiet:
            same = as_registered(record, self.registry)
            names = [record.method] if same is None else [record.method, same.method]
            cells = [self._published.get((name, record.task), ()) for name in names]
            judged = self._judged(chain.from_iterable(cells))
            judged.sort(key=lambda r: _other_score(record, r) != "")  # first those of this score
            beside = [
                f"{_other_score(record, r)}published {printed(r.cell)}, {r.state} ({r.cell.id})"
                for r in judged[:SHOWN]
            ]
            beside += [f"{len(judged) - SHOWN} more below"] if len(judged) > SHOWN else []
            path = self.store.path(cell)
            place = path if path.exists() else self.store.committed_path(cell.encoder)
            say(f"{cell}: {'; '.join([shown_score(record), *beside])} -> {place}")

    def table(self) -> str:
        """Every score of the run: each published number for it on a row, or a row without one."""
        published = {cell.id: cell for cells in self._published.values() for cell in cells}
        judged = self._judged(published.values())
        beside = {(self._measured_as(r.cell), r.cell.task) for r in judged}
        rows = [self._published_row(reproduction) for reproduction in judged]
        for name, records in self.records.items():
            if name not in beside:
                scores = [main_score(record.scores) for record in records]
                score = value([score for _, score in scores])
                rows.append((*name, scores[0][0], f"{score}{_remarks(records)}", "", "", ""))
        rows.sort(key=lambda row: row[:2])
        width = len(HEAD) if judged else HEAD.index("published")
        return text_table([row[:width] for row in rows], HEAD[:width], terminal_width())

    def _published_row(self, reproduction: Reproduction) -> tuple[str, ...]:
        cell, score = reproduction.cell, reproduction.measured
        method = self._measured_as(cell)
        records = [r for task in cell.tasks for r in self.records.get((method, task), [])]
        task = cell.task or f"average of {len(cell.tasks)}"
        metric = _metric(cell)
        measured = "–" if score is None else f"{score:.2f}{_remarks(records)}"
        state = str(reproduction.state)
        return method, task, metric, measured, printed(cell), state, cell.id

    def _measured_as(self, cell: PublishedCell) -> str:
        """The id that a published cell was measured under: of an encoder with the same files."""
        records = self._named().by_cell.get((str(cell.method), cell.tasks[0]), ())
        return str(records[0].facts.get(MEASURED_AS, cell.method) if records else cell.method)

    def _named(self) -> Results:
        """The records so far, those of a registered encoder's files under its ids, too."""
        return with_registered(Results(self.records), self.registry)

    def same_encoders(self) -> list[str]:
        """A line for each encoder with a registered one's files and published numbers."""
        published = {cell.id: cell for cells in self._published.values() for cell in cells}
        lines = {}
        for cell in (reproduction.cell for reproduction in self._judged(published.values())):
            given, registered = self._measured_as(cell), str(cell.method)
            if given != registered:
                given, registered = (re.split("[.:]", name)[0] for name in (given, registered))
                lines[given] = (
                    f"{given} has the weights and tokenizer of {registered}: what is published for "
                    f"{registered} is shown"
                )
        return [*lines.values()]

    def _judged(self, cells: Iterable[PublishedCell]) -> list[Reproduction]:
        """Those of the published numbers that the records so far answer, averages included."""
        results = self._named()
        answered = [
            cell
            for cell in cells
            if all((str(cell.method), task) in results.by_cell for task in cell.tasks)
        ]
        return [reproduce(cell, results, self.registry) for cell in answered]

    @cached_property
    def _published(self) -> Mapping[tuple[str | None, str], list[PublishedCell]]:
        """Every published score that a method reproduces, by that method and each task."""
        by_cell = defaultdict(list)
        for cell in (cell for published in self.tables for cell in published.cells):
            for task in cell.tasks if cell.method and cell.points is not None else ():
                by_cell[cell.method, task].append(cell)
        return by_cell


def _metric(cell: PublishedCell) -> str:
    return " ".join(filter(None, (cell.metric, cell.aggregation)))


def _other_score(record: Record, reproduction: Reproduction) -> str:
    """The measured score of a published number, unless that is the record's main score."""
    cell, score = reproduction.cell, reproduction.measured
    if not cell.average_of and score_path(cell.metric, cell.aggregation) == main_path(
        record.scores
    ):
        return ""
    average = f"average of {len(cell.tasks)}, " if cell.average_of else ""
    return f"{average}{_metric(cell)} {'–' if score is None else f'{score:.2f}'}, "


def _remarks(records: Sequence[Record]) -> str:
    """What stands behind a score: why it is undefined, and that too little has a vector."""
    share = low_coverage(records)
    remarks = [str(record.facts["undefined"]) for record in records if "undefined" in record.facts]
    remarks += [] if share is None else [f"{percentage(share)} of tokens known"]
    return f" ({', '.join(dict.fromkeys(remarks))})" if remarks else ""


def shown_score(record: Record) -> str:
    """A record's main score, as a run prints it, or the reason why it has none."""
    metric, score = main_score(record.scores)
    if score is None:
        why = record.facts.get("undefined")
        return f"{CellState.UNDEFINED}: {why}" if why else CellState.UNDEFINED
    return f"{'Spearman' if metric == 'spearman' else metric} {score:.2f}{_remarks([record])}"


# The end of a reproduction


LINES = 12  # shown of what may be hundreds

# The verdicts in a person's words; every other word is a number that was not measured.
GROUPS = {
    "reproduced": (CellState.EXACT, CellState.MATCH, CellState.CONSISTENT),
    "close": (CellState.CLOSE,),
    "differ": (CellState.DIFFERS,),
    "undecided": (CellState.INCONCLUSIVE, CellState.TOO_FEW_SEEDS),
    NOT_MEASURED: tuple(state for state in CellState if not state.is_verdict),
}


def claims_that_hold(measured: ResultsFolder, committed: ResultsFolder) -> list[str]:
    """How many claims of the papers hold by the run's own records, else by the committed ones."""
    for folder in (measured, committed):
        claimed = [c for c in folder.claim_results if c.claim.of_paper]
        tested = [c for c in claimed if c.outcome != ClaimOutcome.NOT_MEASURED]
        if tested:
            holding = sum(claim.outcome == ClaimOutcome.HOLDS for claim in tested)
            by = f"{folder.path}/records: {folder.path}/tables/{CLAIMS_PAGE}"
            return [f"{holding} of {len(tested)} measured claims of papers hold by {by}"]
    return []


def against_papers(outcomes: Sequence[Outcome], measured: ResultsFolder) -> list[str]:
    """How many published numbers the run's records reproduce, and which of them differ."""
    lacking = {(o.cell.method, o.cell.task) for o in outcomes if o.status == "asset missing"}
    states = Counter(_state(cell, lacking) for cell in measured.reproduced)
    lines = [f"{len(measured.reproduced):,} published numbers:"]
    for group, members in GROUPS.items():
        counts = [f"{states[state]:,} {state}" for state in members if states[state]]
        detail = f" ({', '.join(counts)})" if counts and len(members) > 1 else ""
        lines.append(f"  {sum(states[state] for state in members):,} {group}{detail}")
    differing = [
        f"differs: {cell.cell.id}: {points:+.2f} points; "
        f"why: harness explain {cell.cell.id} --results {measured.path}"
        for cell in measured.reproduced
        if cell.state is CellState.DIFFERS and (points := cell.verdict.difference) is not None
    ]
    return lines + _first(differing, f"{measured.path}/tables/papers")


def _state(cell: Reproduction, lacking: Container[tuple[str | None, str | None]]) -> CellState:
    """The verdict's word; `asset missing` for a cell that this run lacked a file for."""
    tasks = cell.cell.average_of or (cell.cell.task,)
    away = any((cell.cell.method, task) in lacking for task in tasks)
    return CellState.ASSET_MISSING if cell.state is CellState.NOT_RUN and away else cell.state


def against_committed(checks: Sequence[Checked], committed: ResultsFolder) -> list[str]:
    """How many cells agree with their committed records, and which of them moved."""
    compared = [check for check in checks if check.state is not State.NO_BASELINE]
    moved = [check for check in checks if check.moved]
    lines = []
    if compared:
        agree = len(compared) - len(moved)
        lines.append(f"{agree:,} of {len(compared):,} agree with {committed.path}/records")
    if new := len(checks) - len(compared):
        lines.append(f"{new:,} have no committed record to agree with (--update makes them)")
    return lines + [f"  moved: {check.name}: {check.why}" for check in moved]


def not_run(outcomes: Iterable[Outcome]) -> list[str]:
    """Lines about cells that did not run: how to get a missing asset, or the failure's message."""
    why = Counter((o.status, o.get or o.message) for o in outcomes if o.record is None)
    lines = [f"{n:,} {status}: {reason}" for (status, reason), n in why.most_common()]
    further = _first(lines, "harness plan names every asset, harness list assets where it is from")
    return [f"{why.total():,} cells did not run:", *further] if why else []


def _first(lines: Sequence[str], further: str) -> list[str]:
    """The first few lines, and where the others are found."""
    shown = [f"  {line}" for line in lines[:LINES]]
    left = len(lines) - len(shown)
    return [*shown, f"  and {left:,} more: {further}"] if left else shown
