"""Citations: BibTeX entries, and sentences with protocol, seeds, code and records of a number.

The digest in a sentence is sha256 over the records that the number was computed from,
each as JSON, in the order of their paths. For a single record it is the `sha256` at the
end of its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.conclusions.folder import Conclusions
from harness.core.errors import UsageError
from harness.core.terminal import counted
from harness.core.types import Task
from harness.registry import Registry
from harness.report.bibtex import HARNESS_KEY, bibtex, keys_of
from harness.report.sentences import (
    aggregation_in_words,
    contact_in_words,
    lead_in_words,
    metric_in_words,
    protocol_in_words,
    standing_in_words,
    states_in_words,
)
from harness.results.index import DIGEST_DIGITS_SHOWN, Results, value
from harness.results.origins import other_weights, sentences_on_copies
from harness.results.published import PublishedNumber
from harness.results.reproduction import compose_method, reproduce

NOT_MEASURED_HERE = "nothing was measured here"
# Listed in a sentence. More of them are counted: each record names its own commit.
MOST_COMMITS = 3


# Sentences, and the BibTeX keys of the papers that they refer to; an empty key is none.
Citation = tuple[Sequence[str], Sequence[str]]


def cite(
    folder: Conclusions,
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
        sentences, keys = cite_number(subject, folder)
    else:
        sentences, keys = cite_table(subject, folder)
    yield bibtex([HARNESS_KEY, *keys], folder.papers)
    for sentence in sentences:
        yield f"\n{sentence}"


def cite_harness(folder: Conclusions) -> Citation:
    """The harness itself, with every record."""
    results = folder.records
    numbers = sum(len(table.numbers) for table in folder.tables)
    measured = NOT_MEASURED_HERE
    if results.by_cell:
        measured = (
            f"{len(results.by_cell)} measured cells ({len(results.methods)} methods, "
            f"{len(results.by_task)} tasks) {_made_with(results)}"
        )
    tables = counted(len(folder.tables), "table")
    return [f"{numbers} numbers published in {tables}; {measured}."], []


def cite_table(name: str, folder: Conclusions) -> Citation:
    """A published table, by its id, with the records that its page was made from."""
    table, registry = folder.table(name), folder.registry
    facts = [metric_in_words(table.metric), aggregation_in_words(table.aggregation)]
    protocol = ", ".join(filter(None, facts))
    reproductions = folder.reproductions(table).values()
    measured_numbers = [each for each in reproductions if each.scores]
    measured = f"; {NOT_MEASURED_HERE}"
    if measured_numbers:
        counts = states_in_words(measured_numbers)
        made_with = _made_with(folder.records_of_table(table))
        measured = f", {len(measured_numbers)} of them measured ({counts}) {made_with}"
    keys = [table.cite]
    for method in dict.fromkeys(number.method for number in table.numbers):
        keys += keys_of(compose_method(method, registry), registry)
    for number in table.numbers:
        keys += [registry.tasks[task].cite for task in number.tasks]
    sentence = f"{table.paper}, {table.title}; {protocol}; {len(table.numbers)} numbers published"
    return [f"{sentence}{measured}."], keys


def cite_number(name: str, folder: Conclusions) -> Citation:
    """A published number, TABLE/ROW/COLUMN, with the records of its seeds."""
    number, registry = folder.published_number(name), folder.registry
    # Its method, fitted on other corpora too.
    parts = str(number.method).partition("@")[0]
    results = folder.records_of_methods([parts, f"{parts}@*"])
    reproduction = reproduce(number, results, registry)
    if reproduction.scores:
        runs = "in one run"
        if reproduction.verdict.k is not None:
            runs = f"over {counted(reproduction.verdict.k, 'seed')}"
        measured = (
            f"measured {value(reproduction.scores)} {runs} "
            f"({reproduction.verdict.difference:+.2f}, {reproduction.state}) by {number.method} "
            f"{_made_with(results.select(number.measured_cells))}"
        )
    else:
        reasons = [origin.difference for origin in reproduction.unpinned]
        if number.why_not:
            reasons = [number.why_not.explanation]
        reason = "".join(f": {text}" for text in reasons if text)
        measured = f"{NOT_MEASURED_HERE} ({reproduction.state}{reason})"
    sentences = [f"{published_sentence(number, registry)}; {measured}."]
    sentences += [f"Note: {note}" for note in number.notes]
    if reproduction.scores:
        measured_with = results.select(number.measured_cells)
        sentences += _on_copies(str(number.method), measured_with, registry)
    for standing in folder.standings.get(number.id, ()):
        words = standing_in_words(standing)
        sentences.append(f"{words[0].upper()}{words[1:]}.")
    contact = folder.training_data.contact(number)
    if contact is not None:
        sentences.append(f"{contact_in_words(contact)}.")
    if number.id in folder.leads:
        sentences.append(f"{lead_in_words(folder.leads[number.id])}.")
    keys = [
        number.table.cite,
        *keys_of(compose_method(number.method, registry), registry),
    ]
    keys += [registry.tasks[task].cite for task in number.tasks]
    return sentences, keys


def cite_method(
    name: str, folder: Conclusions, chosen_tasks: Sequence[Task] = ()
) -> Citation:
    """A method: what it is, and the tasks that it was measured on; `harness table` has scores.

    Args:
        name: The id of the method. An encoder that was given by hand has records alone.
        folder: The results.
        chosen_tasks: The tasks to cite; none: all that it was measured on.
    """
    results, registry = folder.records_of_methods([name]), folder.registry
    method = compose_method(name, registry)
    if method is None and name not in results.methods:
        registry.parse(name)  # raises what is wrong with it
    tasks = []
    for task in chosen_tasks or registry.tasks.values():
        records = results.records(name, task.name)
        if records and (name, task.name) not in results.stale:
            tasks.append(task)
    measured = results.select((name, task.name) for task in tasks)
    difference = other_weights(name, measured.copies(name), registry)
    sentences = []
    if method is not None:
        facts = [f"{name}: encoder trained on {method.encoder.trained_on}"]
        if difference:
            facts = [f"{name}: {difference}"]
        if method.fit_on:
            scored = ", the sentences that are scored, no labels seen"
            facts.append(
                f"fitted on {method.fit_on}{scored if method.transductive else ''}"
            )
        sentences.append(f"{'; '.join(filter(None, [*facts, method.note]))}.")
    said = NOT_MEASURED_HERE
    if tasks:
        names = ", ".join(task.name for task in tasks)
        said = f"measured on {names} {_made_with(measured)}"
    sentences.append(f"{name}: {said}.")
    if not difference:
        sentences += _on_copies(name, measured, registry)
    of_tables = [
        table.cite
        for table in folder.tables
        if any(number.method == name for number in table.numbers)
    ]
    keys = [*keys_of(method, registry), *of_tables]
    keys += [task.cite for task in chosen_tasks or tasks]
    return sentences, keys


# Sentences


def published_sentence(number: PublishedNumber, registry: Registry) -> str:
    """A number's row, column and protocol; the number as printed, in points, and its place."""
    tasks, metric, aggregation = protocol_in_words(number, registry)
    column = number.column.label
    if tasks:
        average = "mean of " if number.average_of else ""
        column += f" ({average}{tasks})"
    runs = ""
    if number.row.n is not None:
        statistic = "mean" if number.row.statistic == "score" else number.row.statistic
        spread = "" if number.sd is None else f", sd {number.sd:g}"
        runs = f" ({statistic} of {number.row.n} runs{spread})"
    facts = [number.row.name, column, metric, aggregation]
    printed = number.in_points or number.value
    return (
        f"{', '.join(filter(None, facts))}: published {printed}{runs} in {number.place}"
    )


def _on_copies(method: str, results: Results, registry: Registry) -> Iterator[str]:
    """Sentences on measured weights, settings or tokens that are not the pinned ones."""
    for sentence in sentences_on_copies([method], results, registry):
        yield f"Note: {sentence}."


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
    return f"with {code}, {shown}, {noun} sha256 {results.digest}"
