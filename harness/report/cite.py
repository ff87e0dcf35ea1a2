"""Citations: BibTeX entries, and sentences with protocol, seeds, code and records of a number.

The digest in a sentence is sha256 over the records that the number was computed from,
each as JSON, in the order of their paths. For a single record it is the `sha256` at the
end of its file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.core.errors import UsageError
from harness.core.types import Method, Record, Task
from harness.registry import Registry
from harness.report.bibtex import HARNESS_KEY, bibtex, keys_of
from harness.report.sentences import (
    aggregation_in_words,
    metric_in_words,
    number_of,
    protocol_in_words,
)
from harness.report.standings import standing_in_words
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, value
from harness.results.published import PublishedCell
from harness.results.reproduction import (
    Reproduction,
    compose_method,
    is_stale,
    reproduce,
)

NOT_MEASURED_HERE = "nothing was measured here"
# Listed in a sentence. More of them are counted: each record names its own commit.
MOST_COMMITS = 3


@dataclass(frozen=True)
class Citation:
    """Sentences, and the BibTeX keys of the papers that they refer to.

    An empty key names no paper.
    """

    sentences: Sequence[str]
    keys: Sequence[str] = ()


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
        citation = cite_method(method, folder, tasks)
    elif subject is None:
        citation = cite_harness(folder)
    elif "/" in subject:
        citation = cite_cell(subject, folder)
    else:
        citation = cite_table(subject, folder)
    keys = [key for key in citation.keys if key]
    yield bibtex([HARNESS_KEY, *keys], folder.papers)
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
    reproductions = folder.reproductions(table).values()
    protocol = metric_in_words(table.metric)
    aggregation = aggregation_in_words(table.aggregation)
    if aggregation:
        protocol += f", {aggregation}"
    sentence = f"{table.paper}, {table.title}; {protocol}; {len(table.cells)} numbers published"
    measured = [reproduction for reproduction in reproductions if reproduction.scores]
    if measured:
        counts = ", ".join(_counts_in_words(measured))
        made_with = _made_with(folder.records_of_table(table))
        sentence += f", {len(measured)} of them measured ({counts}) {made_with}."
    else:
        sentence += f"; {NOT_MEASURED_HERE}."
    keys = [table.cite]
    for cell in table.cells:
        keys += keys_of(compose_method(cell.method, registry), registry)
    for cell in table.cells:
        keys += [registry.tasks[task].cite for task in cell.tasks]
    return Citation([sentence], keys)


def _counts_in_words(measured: Sequence[Reproduction]) -> list[str]:
    """How many cells have each verdict, and the number of seeds: `3 exact`, `1 close`."""
    states = Counter(str(reproduction.state) for reproduction in measured)
    counts = [f"{number} {state}" for state, number in states.items()]
    most_seeds = max(len(reproduction.scores) for reproduction in measured)
    if most_seeds > 1:
        counts.append(f"up to {most_seeds} seeds a number")
    return counts


def cite_cell(name: str, folder: ResultsFolder) -> Citation:
    """A published cell, TABLE/ROW/COLUMN, with the records of its seeds."""
    cell, registry = folder.cell(name), folder.registry
    method = compose_method(cell.method, registry)
    reproduction = reproduce(cell, folder.records, registry)
    records = folder.records.select(cell.measured_cells)
    measured = _measured_in_words(reproduction, method, records)
    sentence = f"{published_sentence(cell, registry)}; {measured}."
    notes = [f"Note: {note}" for note in cell.notes]
    for standing in folder.standings.get(cell.id, ()):
        words = standing_in_words(standing)
        notes.append(f"{words[0].upper()}{words[1:]}.")
    keys = [cell.table.cite, *keys_of(method, registry)]
    keys += [registry.tasks[task].cite for task in cell.tasks]
    return Citation([sentence, *notes], keys)


def cite_method(
    name: str, folder: ResultsFolder, chosen_tasks: Sequence[Task] = ()
) -> Citation:
    """A method: what it is, and the tasks that it was measured on; `harness table` has scores.

    Args:
        name: The id of the method.
        folder: The results.
        chosen_tasks: The tasks to cite; none: all that it was measured on.
    """
    results, registry = folder.records, folder.registry
    method: Method | None
    try:
        method = registry.parse(name)
    except UsageError:
        if name not in results.methods:
            raise
        method = (
            None  # of an encoder that was given by hand, with records in the folder
        )
    tasks = []
    for task in chosen_tasks or registry.tasks.values():
        records = results.records(name, task.name)
        if records and not is_stale(records, method):
            tasks.append(task)
    measured = NOT_MEASURED_HERE
    if tasks:
        method_results = results.select((name, task.name) for task in tasks)
        names = ", ".join(task.name for task in tasks)
        measured = f"measured on {names} {_made_with(method_results)}"
    sentences = []
    if method is not None:
        sentences.append(_description(method))
    sentences.append(f"{name}: {measured}.")
    keys = list(keys_of(method, registry))
    for table in folder.tables:
        if any(cell.method == name for cell in table.cells):
            keys.append(table.cite)
    keys += [task.cite for task in chosen_tasks or tasks]
    return Citation(sentences, keys)


# Sentences


def published_sentence(cell: PublishedCell, registry: Registry) -> str:
    """A cell's row, column and protocol; the number as printed, in points, and its place."""
    protocol = protocol_in_words(cell, registry)
    column = cell.column.label
    if cell.average_of and protocol.tasks:
        column += f" (mean of {protocol.tasks})"
    elif protocol.tasks:
        column += f" ({protocol.tasks})"
    runs = ""
    if cell.row.n is not None:
        statistic = "mean" if cell.row.statistic == "score" else cell.row.statistic
        spread = "" if cell.sd is None else f", sd {cell.sd:g}"
        runs = f" ({statistic} of {cell.row.n} runs{spread})"
    facts = [cell.row.name, column, protocol.metric, protocol.aggregation]
    subject = ", ".join(fact for fact in facts if fact)
    number = cell.in_points or cell.value
    return f"{subject}: published {number}{runs} in {cell.place}"


def _measured_in_words(
    reproduction: Reproduction, method: Method | None, records: Results
) -> str:
    """The measured score with seeds, verdict and origin; or why there is none."""
    state = str(reproduction.state)
    if not reproduction.scores:
        why_not = reproduction.cell.why_not
        reason = state if why_not is None else f"{state}: {why_not.explanation}"
        return f"{NOT_MEASURED_HERE} ({reason})"
    score = value(reproduction.scores)
    difference = reproduction.verdict.difference
    verdict = state
    if difference is not None:
        verdict = f"{difference:+.2f}, {state}"
    maker = f"by {method.id} " if method else ""
    seeds = _seeds_in_words(method, score.seeds)
    return f"measured {score} {seeds} ({verdict}) {maker}{_made_with(records)}"


def _description(method: Method) -> str:
    """Training data, fit corpus and deviations of a method, on which comparisons depend."""
    text = f"{method.id}: encoder trained on {method.encoder.trained_on}"
    if method.fit_on:
        text += f"; fitted on {method.fit_on}"
    if method.transductive:
        text += ", the sentences that are scored, no labels seen"
    if method.note:
        text += f"; {method.note}"
    return f"{text}."


def _seeds_in_words(method: Method | None, count: int) -> str:
    """`over 5 seeds`; `in one run` for a method that has no seeds."""
    if count == 1 and not (method and method.seeded):
        return "in one run"
    return f"over {number_of(count, 'seed')}"


def _made_with(results: Results) -> str:
    """With which version and at which commit these records were measured, and their digest."""
    records: list[Record] = []
    for cell in sorted(results.by_cell):
        records += results.by_cell[cell]
    versions: dict[str, None] = {}  # in the order of the records, each once
    commits: dict[str, None] = {}
    for record in records:
        versions[record.environment.get("harness") or "of unknown version"] = None
        commits[_commit_in_words(record)] = None
    code = f"{HARNESS_KEY} {' and '.join(versions)}"
    commits_in_words = ", ".join(commits)
    if len(commits) > MOST_COMMITS:
        commits_in_words = f"{len(commits)} commits"
    noun = "record" if len(records) == 1 else "records"
    return f"with {code}, {commits_in_words}, {noun} sha256 {results.digest()}"


def _commit_in_words(record: Record) -> str:
    commit = record.environment.get("commit")
    name = f"commit {commit[:DIGEST_DIGITS_SHOWN]}" if commit else "an unknown commit"
    if record.environment.get("dirty"):
        return f"{name} with uncommitted changes"
    return name
