"""Citations: BibTeX, and the sentence that pins a number's protocol, seeds, code and records.

The digest in a sentence is sha256 over the records behind the number, each as JSON, one after the
other in the order of their paths. Of a single record it is the `sha256` that ends a run's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.types import Method, Record
from harness.registry import Registry
from harness.report.bibtex import HARNESS, bibtex, keys_of
from harness.report.sentences import aggregation, metric, number_of, protocol_of
from harness.results.folder import ResultsFolder
from harness.results.index import Results, value
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed, is_stale, reproduce

NOTHING = "nothing was measured here"
COMMITS = 3  # more are counted, not listed; the records name their own


@dataclass(frozen=True)
class Citation:
    """Sentences, and the BibTeX keys of what they are about; an empty key names no paper."""

    sentences: Sequence[str]
    keys: Sequence[str] = ()


def answer(options: Mapping[str, str | None], folder: ResultsFolder) -> Iterator[str]:
    """The output of `harness cite`: BibTeX as one text, then sentences and lines.

    `options` may name one published `table`, `cell` or `method`; without any it is the harness.
    """
    named = [f"--{kind}" for kind, name in options.items() if name is not None]
    if len(named) > 1:
        raise UsageError(f"one thing is cited at a time, found {' and '.join(named)}")
    if not folder.path.is_dir():
        raise UsageError(f"--results {folder.path}: there is no such folder")
    cited = [CITE[kind](name, folder) for kind, name in options.items() if name is not None]
    [citation] = cited or [cite_harness(folder)]
    yield bibtex(filter(None, [HARNESS, *citation.keys]), folder.papers)
    for sentence in citation.sentences:
        yield from ("", sentence)


def cite_harness(folder: ResultsFolder) -> Citation:
    """The harness itself, with every record there is."""
    tables, results = folder.tables, folder.records
    numbers = sum(len(table.cells) for table in tables)
    measured = NOTHING
    if results.by_cell:
        measured = f"{len(results.by_cell)} measured cells ({len(results.methods)} methods, "
        measured += f"{len(results.by_task)} tasks) {_made(results)}"
    sentence = f"{numbers} numbers published in {number_of(len(tables), 'table')}; {measured}."
    return Citation([sentence])


def cite_table(name: str, folder: ResultsFolder) -> Citation:
    """A published table, by its id, with the records that its page was made from."""
    table, registry = folder.table(name), folder.registry
    cells, results = folder.reproductions(table).values(), folder.records_of_table(table)
    run = [cell for cell in cells if cell.scores]
    words = ", ".join(filter(None, (metric(table.metric), aggregation(table.aggregation))))
    sentence = f"{table.paper}, {table.title}; {words}; {len(cells)} numbers published"
    if run:
        states = Counter(str(cell.state) for cell in run)
        verdicts = ", ".join(f"{n} {state}" for state, n in states.items())
        most = max(len(cell.scores) for cell in run)
        seeds = f", up to {most} seeds a number" if most > 1 else ""
        sentence += f", {len(run)} of them measured ({verdicts}{seeds}) {_made(results)}."
    else:
        sentence += f"; {NOTHING}."
    methods = (composed(cell.cell.method, registry) for cell in cells)
    keys = [table.cite, *(key for m in methods for key in keys_of(m, registry))]
    keys += [registry.tasks[task].cite for cell in cells for task in cell.cell.tasks]
    return Citation([sentence], keys)


def cite_cell(name: str, folder: ResultsFolder) -> Citation:
    """A published cell, TABLE/ROW/COLUMN, with the records of its seeds."""
    cell, registry = folder.cell(name), folder.registry
    records = folder.records.select(cell.measured_cells)
    method, reproduction = (
        composed(cell.method, registry),
        reproduce(cell, folder.records, registry),
    )
    measured = _measured(reproduction, method, records)
    of_tasks = (registry.tasks[task].cite for task in cell.tasks)
    keys = [cell.table.cite, *keys_of(method, registry), *of_tasks]
    notes = (f"Note: {note}" for note in cell.notes)
    return Citation([f"{published_sentence(cell, registry)}; {measured}.", *notes], keys)


def cite_method(name: str, folder: ResultsFolder) -> Citation:
    """A method: what it is, and the tasks that it was measured on; `harness table` has scores."""
    results, registry = folder.records, folder.registry
    try:
        method = registry.parse(name)
    except UsageError:
        if name not in results.methods:
            raise
        method = None  # of an encoder by hand, whose records are here
    here = [task for task in registry.tasks.values() if (name, task.name) in results.by_cell]
    fresh = [task for task in here if not is_stale(results.records(name, task.name), method)]
    tasks = ", ".join(task.name for task in fresh)
    records = results.select((name, task.name) for task in fresh)
    measured = f"measured on {tasks} {_made(records)}" if fresh else NOTHING
    keys = [*keys_of(method, registry)]
    keys += [t.cite for t in folder.tables if any(cell.method == name for cell in t.cells)]
    keys += [task.cite for task in fresh]
    return Citation([*([_about(method)] if method else []), f"{name}: {measured}."], keys)


CITE = {"table": cite_table, "cell": cite_cell, "method": cite_method}


def published_sentence(cell: PublishedCell, registry: Registry) -> str:
    """A cell's row, column and protocol; the number as printed, in points, and where it stands."""
    tasks, *words = protocol_of(cell, registry)
    about = f" ({'mean of ' if cell.average_of else ''}{tasks})" if tasks else ""
    protocol = ", ".join(filter(None, (cell.row.name, f"{cell.column.label}{about}", *words)))
    spread = "" if cell.sd is None else f", sd {cell.sd:g}"
    statistic = "mean" if cell.row.statistic == "score" else cell.row.statistic
    runs = "" if cell.row.n is None else f" ({statistic} of {cell.row.n} runs{spread})"
    return f"{protocol}: published {cell.in_points or cell.value}{runs} in {cell.place}"


def _measured(reproduction: Reproduction, method: Method | None, behind: Results) -> str:
    state = reproduction.state
    if not reproduction.scores:
        why = reproduction.cell.why_not
        return f"{NOTHING} ({state}{f': {why.explanation}' if why else ''})"
    score, difference = value(reproduction.scores), reproduction.verdict.difference
    by = "" if difference is None else f"{difference:+.2f}, "
    return (
        f"measured {score} {_seeds(method, score.seeds)} ({by}{state}) "
        f"{f'by {method.id} ' if method else ''}{_made(behind)}"
    )


def _about(method: Method) -> str:
    """Training data, fit corpus and deviations of a method: they decide what it compares with."""
    fitted = f"; fitted on {method.fit_on}" if method.fit_on else ""
    scored = ", the sentences that are scored, no labels seen" if method.transductive else ""
    note = f"; {method.note}" if method.note else ""
    return f"{method.id}: encoder trained on {method.encoder.trained_on}{fitted}{scored}{note}."


def _seeds(method: Method | None, count: int) -> str:
    if count == 1 and not (method and method.seeded):
        return "in one run"
    return f"over {count} seed{'s' if count > 1 else ''}"


def _made(results: Results) -> str:
    """With which code and at which commit these records were measured, and their digest."""
    records = [record for cell in sorted(results.by_cell) for record in results.by_cell[cell]]
    versions = dict.fromkeys(
        record.environment.get("harness") or "of unknown version" for record in records
    )
    commits = dict.fromkeys(map(_commit, records))
    named = ", ".join(commits) if len(commits) <= COMMITS else f"{len(commits)} commits"
    noun = "record" if len(records) == 1 else "records"
    made_with = f"with {HARNESS} {' and '.join(versions)}"
    return f"{made_with}, {named}, {noun} sha256 {results.digest()}"


def _commit(record: Record) -> str:
    commit, dirty = record.environment.get("commit"), record.environment.get("dirty")
    name = f"commit {commit[:12]}" if commit else "an unknown commit"
    return f"{name} with uncommitted changes" if dirty else name
