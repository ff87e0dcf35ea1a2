"""Citations: BibTeX, and the sentence that pins a number's protocol, seeds, code and records.

The digest in a sentence is sha256 over the records behind the number, each as JSON, in
the order of their paths. For a single record it is the `sha256` that ends a run's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.types import Method, Record
from harness.registry import Registry
from harness.report.bibtex import HARNESS_KEY, bibtex, keys_of
from harness.report.sentences import aggregation, metric, number_of, protocol_of
from harness.results.folder import ResultsFolder
from harness.results.index import Results, value
from harness.results.published import PublishedCell
from harness.results.reproduction import Reproduction, composed, is_stale, reproduce

NOT_MEASURED_HERE = "nothing was measured here"
MOST_COMMITS = 3  # more are counted, not listed; the records name their own


@dataclass(frozen=True)
class Citation:
    """Sentences, and the BibTeX keys of what they are about; an empty key names no paper."""

    sentences: Sequence[str]
    keys: Sequence[str] = ()


def answer(options: Mapping[str, str | None], folder: ResultsFolder) -> Iterator[str]:
    """The output of `harness cite`: BibTeX as one text, then sentences and lines.

    `options` may name one published `table`, `cell` or `method`; without any it is the
    harness.
    """
    named = {kind: name for kind, name in options.items() if name is not None}
    if len(named) > 1:
        found = " and ".join(f"--{kind}" for kind in named)
        raise UsageError(f"one thing is cited at a time, found {found}")
    if not folder.path.is_dir():
        raise UsageError(f"--results {folder.path}: there is no such folder")
    citation = cite_harness(folder)
    for kind, name in named.items():
        citation = CITATIONS[kind](name, folder)
    yield bibtex([HARNESS_KEY, *filter(None, citation.keys)], folder.papers)
    for sentence in citation.sentences:
        yield ""
        yield sentence


def cite_harness(folder: ResultsFolder) -> Citation:
    """The harness itself, with every record."""
    results = folder.records
    numbers = sum(len(table.cells) for table in folder.tables)
    tables = number_of(len(folder.tables), "table")
    measured = NOT_MEASURED_HERE
    if results.by_cell:
        measured = (
            f"{len(results.by_cell)} measured cells ({len(results.methods)} methods, "
            f"{len(results.by_task)} tasks) {_made_with(results)}"
        )
    return Citation([f"{numbers} numbers published in {tables}; {measured}."])


def cite_table(name: str, folder: ResultsFolder) -> Citation:
    """A published table, by its id, with the records that its page was made from."""
    table, registry = folder.table(name), folder.registry
    cells = folder.reproductions(table).values()
    protocol = filter(None, [metric(table.metric), aggregation(table.aggregation)])
    sentence = (
        f"{table.paper}, {table.title}; {', '.join(protocol)}; "
        f"{len(cells)} numbers published"
    )
    run = [cell for cell in cells if cell.scores]
    if run:
        states = Counter(str(cell.state) for cell in run)
        counts = [f"{number} {state}" for state, number in states.items()]
        most_seeds = max(len(cell.scores) for cell in run)
        if most_seeds > 1:
            counts.append(f"up to {most_seeds} seeds a number")
        made_with = _made_with(folder.records_of_table(table))
        sentence += f", {len(run)} of them measured ({', '.join(counts)}) {made_with}."
    else:
        sentence += f"; {NOT_MEASURED_HERE}."
    keys = [table.cite]
    for cell in cells:
        keys += keys_of(composed(cell.cell.method, registry), registry)
    for cell in cells:
        keys += [registry.tasks[task].cite for task in cell.cell.tasks]
    return Citation([sentence], keys)


def cite_cell(name: str, folder: ResultsFolder) -> Citation:
    """A published cell, TABLE/ROW/COLUMN, with the records of its seeds."""
    cell, registry = folder.cell(name), folder.registry
    method = composed(cell.method, registry)
    reproduction = reproduce(cell, folder.records, registry)
    records = folder.records.select(cell.measured_cells)
    measured = _measured_in_words(reproduction, method, records)
    sentence = f"{published_sentence(cell, registry)}; {measured}."
    notes = [f"Note: {note}" for note in cell.notes]
    keys = [cell.table.cite, *keys_of(method, registry)]
    keys += [registry.tasks[task].cite for task in cell.tasks]
    return Citation([sentence, *notes], keys)


def cite_method(name: str, folder: ResultsFolder) -> Citation:
    """A method: what it is, and the tasks that it was measured on; `harness table` has scores."""
    results, registry = folder.records, folder.registry
    try:
        method = registry.parse(name)
    except UsageError:
        if name not in results.methods:
            raise
        method = None  # its encoder was given by hand, and its records are here
    tasks = []
    for task in registry.tasks.values():
        records = results.records(name, task.name)
        if records and not is_stale(records, method):
            tasks.append(task)
    measured = NOT_MEASURED_HERE
    if tasks:
        behind = results.select((name, task.name) for task in tasks)
        names = ", ".join(task.name for task in tasks)
        measured = f"measured on {names} {_made_with(behind)}"
    sentences = [f"{name}: {measured}."]
    if method is not None:
        sentences.insert(0, _description(method))
    keys = [*keys_of(method, registry)]
    for table in folder.tables:
        if any(cell.method == name for cell in table.cells):
            keys.append(table.cite)
    keys += [task.cite for task in tasks]
    return Citation(sentences, keys)


CITATIONS = {"table": cite_table, "cell": cite_cell, "method": cite_method}


# Sentences


def published_sentence(cell: PublishedCell, registry: Registry) -> str:
    """A cell's row, column and protocol; the number as printed, in points, and its place."""
    tasks, *protocol = protocol_of(cell, registry)
    column = cell.column.label
    if tasks:
        column += f" (mean of {tasks})" if cell.average_of else f" ({tasks})"
    runs = ""
    if cell.row.n is not None:
        statistic = "mean" if cell.row.statistic == "score" else cell.row.statistic
        spread = "" if cell.sd is None else f", sd {cell.sd:g}"
        runs = f" ({statistic} of {cell.row.n} runs{spread})"
    what = ", ".join(filter(None, [cell.row.name, column, *protocol]))
    return f"{what}: published {cell.in_points or cell.value}{runs} in {cell.place}"


def _measured_in_words(
    reproduction: Reproduction, method: Method | None, records: Results
) -> str:
    """The measured score with seeds, verdict and origin; or why there is none."""
    state = str(reproduction.state)
    if not reproduction.scores:
        why_not = reproduction.cell.why_not
        reason = f"{state}: {why_not.explanation}" if why_not else state
        return f"{NOT_MEASURED_HERE} ({reason})"
    score = value(reproduction.scores)
    difference = reproduction.verdict.difference
    verdict = state if difference is None else f"{difference:+.2f}, {state}"
    maker = f"by {method.id} " if method else ""
    seeds = _seeds_in_words(method, score.seeds)
    return f"measured {score} {seeds} ({verdict}) {maker}{_made_with(records)}"


def _description(method: Method) -> str:
    """Training data, fit corpus and deviations of a method: they decide what it compares with."""
    text = f"{method.id}: encoder trained on {method.encoder.trained_on}"
    if method.fit_on:
        text += f"; fitted on {method.fit_on}"
    if method.transductive:
        text += ", the sentences that are scored, no labels seen"
    if method.note:
        text += f"; {method.note}"
    return f"{text}."


def _seeds_in_words(method: Method | None, count: int) -> str:
    if count == 1 and not (method and method.seeded):
        return "in one run"
    return f"over {number_of(count, 'seed')}"


def _made_with(results: Results) -> str:
    """With which version and at which commit these records were measured, and their digest."""
    records = [
        record for cell in sorted(results.by_cell) for record in results.by_cell[cell]
    ]
    environments = [record.environment for record in records]
    versions = dict.fromkeys(
        one.get("harness") or "of unknown version" for one in environments
    )
    commits = dict.fromkeys(map(_commit_in_words, records))
    named = (
        ", ".join(commits)
        if len(commits) <= MOST_COMMITS
        else f"{len(commits)} commits"
    )
    noun = "record" if len(records) == 1 else "records"
    return f"with {HARNESS_KEY} {' and '.join(versions)}, {named}, {noun} sha256 {results.digest()}"


def _commit_in_words(record: Record) -> str:
    commit = record.environment.get("commit")
    name = f"commit {commit[:12]}" if commit else "an unknown commit"
    return (
        f"{name} with uncommitted changes" if record.environment.get("dirty") else name
    )
