"""What to do next: the downloads by the published numbers that they let be measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from harness.core.files import sized
from harness.core.interfaces import Hub
from harness.core.terminal import duration, wrapped
from harness.core.types import Corpus
from harness.evaluation.plan import FIRST_GUESS, FIRST_GUESS_BYTES
from harness.registry import Registry
from harness.report.replication import PAGE
from harness.results.claims import Claim, ClaimOutcome, ClaimTests, read_claims, read_intervals
from harness.results.explain import Files, NextStep, next_steps
from harness.results.index import Results
from harness.results.layout import QUESTIONS, papers_of
from harness.results.protocols import columns_of, rows_of
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import method_of, reproductions

STEPS = 5  # that are shown
FETCH = "harness fetch "
BAR = "█"
BEST = 8  # methods of the embedded tasks that are shown
CLAIMS = 6  # that are shown


def what_next(folder: Path, registry: Registry, files: Files, measured: Results) -> list[str]:
    """The next steps as lines: command, size, published numbers, time; none where nothing lacks.

    The results folder has the published numbers, and records that say how many sentences a task
    has; numbers that were measured need nothing any more.
    """
    sentences = sentences_of(Results.read(Store(folder)))
    tables = load_tables(papers_of(folder), registry)
    cells = (c for t in tables for c in reproductions(t, measured, registry).values())
    lines = [
        f"  {line}"
        for step in islice(next_steps(cells, registry, files), STEPS)
        for line in _told(step, registry, sentences)
    ]
    return ["next, the most published numbers for the download first:", *lines] if lines else []


def sentences_of(results: Results) -> Mapping[str, int]:
    """The distinct sentences of each task that has a record."""
    found: dict[str, int] = {}
    for (_, task), records in results.by_cell.items():
        counted = (record.facts.get("distinct_sentences", 0) for record in records)
        found[task] = max(found.get(task, 0), *counted)
    return found


def _told(step: NextStep, registry: Registry, sentences: Mapping[str, int]) -> Iterator[str]:
    """A step in one or several lines: one command for what `harness fetch` gets."""
    names = [get.removeprefix(FETCH) for get in step.get if get.startswith(FETCH)]
    others = [get for get in step.get if not get.startswith(FETCH)]
    commands = [*([FETCH + " ".join(names)] if names else []), *others]
    size = f" ({sized(step.bytes)})" if step.bytes else ""
    noun = "number" if step.numbers == 1 else "numbers"
    seconds = _seconds(step, registry, sentences)
    time = f", about {duration(seconds)} of encoding" if seconds else ""
    time = ", how much encoding is not known" if seconds is None else time
    yield f"{' && '.join(commands)}{size}"
    yield f"  {step.numbers} published {noun}{time}"


def _seconds(step: NextStep, registry: Registry, sentences: Mapping[str, int]) -> float | None:
    """Time to encode the step's tasks and corpora with each of its encoders, as plans guess it.

    None where the number of sentences of a corpus is not known.
    """
    needed: dict[str, set[str]] = {}
    passes: set[tuple[str, Corpus]] = set()
    sizes: dict[str, int] = {}
    for cell in step.cells:
        method = method_of(cell, registry)
        if method is not None and isinstance(source := method.encoder.source, Hub):
            needed.setdefault(method.encoder.name, set()).update(cell.tasks)
            sizes[method.encoder.name] = source.about or int(FIRST_GUESS_BYTES)
            if (corpus := registry.corpora.get(method.fit_on or "")) is not None:
                passes.add((method.encoder.name, corpus))
    work = 0.0
    for name, tasks in needed.items():
        work += sum(sentences.get(task, 0) for task in tasks) * sizes[name]
    for name, corpus in passes:
        if corpus.count is None:
            return None
        work += corpus.count * sizes[name]
    return work / FIRST_GUESS_BYTES / FIRST_GUESS


def claims_that_hold(
    measured: Path, committed: Path, registry: Registry, width: int | None
) -> list[str]:
    """The claims of the papers that hold, by the run's own records, else by the committed ones.

    None where neither has a tested claim.
    """
    path = committed / QUESTIONS / "claims.toml"
    if not path.exists():
        return []
    claims = read_claims(path, load_tables(papers_of(committed), registry))
    for folder in (measured, committed):
        tests = ClaimTests(Results.read(Store(folder)), registry, read_intervals(folder))
        every = [tests.test(claim) for claim in claims.resolved]
        tested = [one for one in every if one.outcome != ClaimOutcome.NOT_MEASURED]
        holding = [one for one in tested if one.outcome == ClaimOutcome.HOLDS]
        if tested:
            lines = [f"{len(holding)} of {len(tested)} measured claims hold by {folder}/records:"]
            lines += [f"  {one.claim.claim} ({source(one.claim)})" for one in holding[:CLAIMS]]
            if len(holding) > CLAIMS:
                lines.append(f"  and {len(holding) - CLAIMS} more: {folder}/tables/{PAGE}")
            return [wrapped(line, width) for line in lines]
    return []


def source(claim: Claim) -> str:
    """The paper and the table that a claim is of."""
    return f"{claim.table.paper}, {claim.table.table}"


def embedded_best(results: Results, registry: Registry, width: int) -> list[str]:
    """The best methods on the first embedded task, with bars; none where none was measured."""
    columns = columns_of("embedded", registry.tasks.values())
    rows = rows_of(columns, results, results.methods, best_first=True)
    scores = [(m, values[0].mean) for m, values in rows if values[0].mean is not None][:BEST]
    if not scores:
        return []
    heading = columns[0][1].heading
    longest = max(len(method) for method, _ in scores)
    room = max(8, width - longest - 12)
    lines = [
        f"  {method:<{longest}} {score:6.2f} {BAR * round(room * max(0.0, score or 0.0) / 100)}"
        for method, score in scores
    ]
    return [f"best on {heading}, which needs no data:", *lines]
