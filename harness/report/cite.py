"""Citations: BibTeX entries, and sentences with protocol, seeds, code and records of a number.

The digest in a sentence is sha256 over the records that the number was computed from,
each as JSON, in the order of their paths. For a single record it is the `sha256` at the
end of its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.core.errors import UsageError
from harness.core.terminal import counted
from harness.core.types import Task
from harness.registry import Registry
from harness.report.bibtex import HARNESS_KEY, bibtex, keys_of
from harness.report.sentences import (
    aggregation_in_words,
    metric_in_words,
    protocol_in_words,
    standing_in_words,
    states_in_words,
)
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, value
from harness.results.published import PublishedNumber
from harness.results.reproduction import compose_method

NOT_MEASURED_HERE = "nothing was measured here"
# Listed in a sentence. More of them are counted: each record names its own commit.
MOST_COMMITS = 3


# Sentences, and the BibTeX keys of the papers that they refer to; an empty key is none.
Citation = tuple[Sequence[str], Sequence[str]]


def cite(
    folder: ResultsFolder,
    *,
    subject: str | None = None,
    method: str | None = None,
    tasks: Sequence[Task] = (),
) -> Iterator[str]:
    """The output of `harness cite`: the BibTeX entries, then sentences after empty lines.

    Without a subject or a method the harness itself is cited.

    Args:
        folder: The results that are cited.
        subject: A published number, TABLE/ROW/COLUMN, or the id of a published table.
        method: The id of a method.
        tasks: The tasks that a method is cited with; by default all that it was measured on.

    Raises:
        UsageError: Both a subject and a method are named, or tasks without a method.
    """
    if subject is not None and method is not None:
        raise UsageError(
            f"one thing is cited at a time, found {subject} and -m {method}"
        )
    if tasks and method is None:
        raise UsageError("-t goes with -m METHOD; a published number names its task")
    if method is not None:
        sentences, keys = cite_method(method, folder, tasks)
    elif subject is None:
        sentences, keys = cite_harness(folder)
    elif "/" in subject:
        sentences, keys = cite_cell(subject, folder)
    else:
        sentences, keys = cite_table(subject, folder)
    yield bibtex([HARNESS_KEY, *keys], folder.papers)
    for sentence in sentences:
        yield f"\n{sentence}"


def cite_harness(folder: ResultsFolder) -> Citation:
    """The harness itself, with every record."""
    results = folder.records
    numbers = sum(len(table.cells) for table in folder.tables)
    measured = NOT_MEASURED_HERE
    if results.by_cell:
        measured = (
            f"{len(results.by_cell)} measured cells ({len(results.methods)} methods, "
            f"{len(results.by_task)} tasks) {_made_with(results)}"
        )
    tables = counted(len(folder.tables), "table")
    return [f"{numbers} numbers published in {tables}; {measured}."], []


def cite_table(name: str, folder: ResultsFolder) -> Citation:
    """A published table, by its id, with the records that its page was made from."""
    table, registry = folder.table(name), folder.registry
    facts = [metric_in_words(table.metric), aggregation_in_words(table.aggregation)]
    protocol = ", ".join(filter(None, facts))
    numbers = [one for one in folder.reproductions(table).values() if one.scores]
    measured = f"; {NOT_MEASURED_HERE}"
    if numbers:
        counts = states_in_words(numbers)
        made_with = _made_with(folder.records_of_table(table))
        measured = f", {len(numbers)} of them measured ({counts}) {made_with}"
    keys = [table.cite]
    for method in dict.fromkeys(cell.method for cell in table.cells):
        keys += keys_of(compose_method(method, registry), registry)
    for cell in table.cells:
        keys += [registry.tasks[task].cite for task in cell.tasks]
    sentence = f"{table.paper}, {table.title}; {protocol}; {len(table.cells)} numbers published"
    return [f"{sentence}{measured}."], keys


def cite_cell(name: str, folder: ResultsFolder) -> Citation:
    """A published cell, TABLE/ROW/COLUMN, with the records of its seeds."""
    cell, registry = folder.cell(name), folder.registry
    number = folder.reproductions(cell.table)[cell.id]
    if number.scores:
        runs = "in one run"
        if number.verdict.k is not None:
            runs = f"over {counted(number.verdict.k, 'seed')}"
        measured = (
            f"measured {value(number.scores)} {runs} "
            f"({number.verdict.difference:+.2f}, {number.state}) by {cell.method} "
            f"{_made_with(folder.records.select(cell.measured_cells))}"
        )
    else:
        reason = f": {cell.why_not.explanation}" if cell.why_not else ""
        measured = f"{NOT_MEASURED_HERE} ({number.state}{reason})"
    sentences = [f"{published_sentence(cell, registry)}; {measured}."]
    sentences += [f"Note: {note}" for note in cell.notes]
    for standing in folder.standings.get(cell.id, ()):
        words = standing_in_words(standing)
        sentences.append(f"{words[0].upper()}{words[1:]}.")
    keys = [cell.table.cite, *keys_of(compose_method(cell.method, registry), registry)]
    keys += [registry.tasks[task].cite for task in cell.tasks]
    return sentences, keys


def cite_method(
    name: str, folder: ResultsFolder, chosen_tasks: Sequence[Task] = ()
) -> Citation:
    """A method: what it is, and the tasks that it was measured on; `harness table` has scores.

    Args:
        name: The id of the method. An encoder that was given by hand has records alone.
        folder: The results.
        chosen_tasks: The tasks to cite; none: all that it was measured on.
    """
    results, registry = folder.records, folder.registry
    method = compose_method(name, registry)
    if method is None and name not in results.methods:
        registry.parse(name)  # raises what is wrong with it
    tasks = []
    for task in chosen_tasks or registry.tasks.values():
        records = results.records(name, task.name)
        if records and (name, task.name) not in results.stale:
            tasks.append(task)
    sentences = []
    if method is not None:
        facts = [f"{name}: encoder trained on {method.encoder.trained_on}"]
        if method.fit_on:
            scored = ", the sentences that are scored, no labels seen"
            facts.append(
                f"fitted on {method.fit_on}{scored if method.transductive else ''}"
            )
        sentences.append(f"{'; '.join(filter(None, [*facts, method.note]))}.")
    measured = NOT_MEASURED_HERE
    if tasks:
        made_with = _made_with(results.select((name, task.name) for task in tasks))
        names = ", ".join(task.name for task in tasks)
        measured = f"measured on {names} {made_with}"
    sentences.append(f"{name}: {measured}.")
    of_tables = [
        table.cite
        for table in folder.tables
        if any(cell.method == name for cell in table.cells)
    ]
    keys = [*keys_of(method, registry), *of_tables]
    keys += [task.cite for task in chosen_tasks or tasks]
    return sentences, keys


# Sentences


def published_sentence(cell: PublishedNumber, registry: Registry) -> str:
    """A cell's row, column and protocol; the number as printed, in points, and its place."""
    tasks, metric, aggregation = protocol_in_words(cell, registry)
    column = cell.column.label
    if tasks:
        average = "mean of " if cell.average_of else ""
        column += f" ({average}{tasks})"
    runs = ""
    if cell.row.n is not None:
        statistic = "mean" if cell.row.statistic == "score" else cell.row.statistic
        spread = "" if cell.sd is None else f", sd {cell.sd:g}"
        runs = f" ({statistic} of {cell.row.n} runs{spread})"
    facts = [cell.row.name, column, metric, aggregation]
    number = cell.in_points or cell.value
    return f"{', '.join(filter(None, facts))}: published {number}{runs} in {cell.place}"


def _made_with(results: Results) -> str:
    """With which version and at which commit these records were measured, and their digest."""
    versions: dict[str, None] = {}  # in the order of the records, each once
    commits: dict[str, None] = {}
    count = 0
    for cell in sorted(results.by_cell):
        for record in results.by_cell[cell]:
            count += 1
            environment = record.environment
            versions[environment.get("harness") or "of unknown version"] = None
            commit = "an unknown commit"
            if environment.get("commit"):
                commit = f"commit {environment['commit'][:DIGEST_DIGITS_SHOWN]}"
            if environment.get("dirty"):
                commit += " with uncommitted changes"
            commits[commit] = None
    shown = ", ".join(commits)
    if len(commits) > MOST_COMMITS:
        shown = f"{len(commits)} commits"
    noun = "record" if count == 1 else "records"
    code = f"{HARNESS_KEY} {' and '.join(versions)}"
    return f"with {code}, {shown}, {noun} sha256 {results.digest()}"
