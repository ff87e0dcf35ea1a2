"""`harness explain --model`: the protocols under which a model at hand gives numbers.

`search_number` looks for one number of a task, `search_published` for the columns of a
published row, the printed ones or a reader's.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from harness.cli import options as opt
from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import OWN_DATA_SETS, interpret
from harness.conclusions.numbers import row_and_column
from harness.core.errors import UsageError
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.core.terminal import Bar, wrapped
from harness.core.types import AGGREGATIONS, Method
from harness.data.places import Places
from harness.encoders.checkpoint import MODULES_FILE
from harness.evaluation.protocol import Target
from harness.evaluation.row_search import search_row
from harness.evaluation.search import Search
from harness.registry import look_up
from harness.report.row_search import row_search_facts, row_search_lines
from harness.resolve import Resolution, resolve
from harness.results.published import PublishedNumber
from harness.results.verdict import Published
from harness.transforms.pooling import NATIVE, Native


def method_of_model(known: Resolution) -> Method:
    """A model under the modules of its folder.

    If the folder has no such modules, or the id names post-processors, it is the method
    of that id.
    """
    method = known.method
    folder = known.places.encoder(method.encoder.member(0))
    is_native = isinstance(method.pooling, Native)
    if (folder / MODULES_FILE).is_file() and not is_native and not method.post:
        method = known.registry.parse(f"{method.encoder.name}.{NATIVE.name}")
    return method


def search_of(method: Method, known: Resolution, most_encodings: int | None) -> Search:
    """The search of a method, which says on stderr what it is going to measure."""
    return Search.of(
        method,
        known.places,
        known.registry,
        most_encodings=most_encodings,
        note=opt.note,
    )


def search_number(
    task_name: str,
    target: str,
    model: str,
    metric: str,
    sources: opt.Sources,
    *,
    most_encodings: int | None,
    as_json: bool,
) -> int:
    """Print the protocols under which a model scores a number on a task; the exit status."""
    places = Places.from_environment(os.environ)
    known = resolve(places, sources.encoder, [model], [task_name])
    [task_name] = known.tasks
    task = look_up("task", task_name, known.registry.tasks)
    repository = f"{OWN_DATA_SETS}{task_name}"
    statement = Statement(target, metric, data_set_id=repository, source="--mine")
    number = interpret(statement, known.registry)
    if number.why_not:
        raise UsageError(
            f"wanted a number such as --mine 75.46, and a --metric such as spearman; "
            f"{number.why_not}"
        )
    column = Target(
        column=task_name,
        task=task,
        similarity=number.similarity,
        correlation=number.correlation,
        aggregation=number.aggregation,
        readings=number.readings,
    )
    method = method_of_model(known)
    subject = f"{task_name} {target}"
    return _search_and_say(subject, method, [column], known, most_encodings, as_json)


def search_published(
    place: str,
    mine: str | None,
    model: str,
    sources: opt.Sources,
    *,
    most_encodings: int | None,
    as_json: bool,
) -> int:
    """Print the protocols under which a model gives all numbers of a row; the exit status.

    Args:
        place: `TABLE/ROW`, or `TABLE/ROW/COLUMN`.
        mine: The numbers of the columns; None for the printed ones.
        model: The method as it is stated.
        sources: The results folder and encoders.
        most_encodings: How many encodings are made at most; None for any number.
        as_json: Whether facts are printed and not sentences.
    """
    folder = sources.folder
    row_id, column = row_and_column(place)
    numbers: Sequence[tuple[PublishedNumber, Published]]
    if mine is None:
        printed = folder.numbers_of(row_id, column)
        numbers = [(each, each.published) for each in printed if each.published]
    else:
        reported = folder.reported(place, mine)
        numbers = [(each.published, each.given) for each in reported]
    places = Places.from_environment(os.environ)
    known = resolve(places, sources.encoder, [model])
    targets = []
    for published, number in numbers:
        task = known.registry.tasks.get(published.task or "")
        score = CORRELATION_SCORES.get(published.metric)
        if task is not None and score is not None:
            similarity, correlation = score
            target = Target(
                column=published.column.id,
                task=task,
                similarity=similarity,
                correlation=correlation,
                aggregation=published.aggregation or AGGREGATIONS[0],
                readings=(number,),
            )
            targets.append(target)
    return _search_and_say(place, known.method, targets, known, most_encodings, as_json)


def _search_and_say(
    subject: str,
    method: Method,
    targets: Sequence[Target],
    known: Resolution,
    most_encodings: int | None,
    as_json: bool,
) -> int:
    """Search for the protocols of numbers, and print what was found; the exit status."""
    search = search_of(method, known, most_encodings)
    opt.note(f"records: {search.context.store.folder}")
    with Bar(sys.stderr) as search.context.progress:
        found = search_row(search, targets)
    if as_json:
        facts = {"method": method.id, "place": subject}
        opt.say(json.dumps(facts | row_search_facts(found)))
    else:
        width = opt.terminal_width()
        for line in row_search_lines(subject, found):
            opt.say(wrapped(line, width))
    return 0 if found.is_found else 1
