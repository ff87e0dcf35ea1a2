"""`harness verify`: whether a model scores what its card says; and `harness explain --model`.

The numbers of a model (its card, `.eval_results`, result files of mteb) are measured, and
it is said which are reproduced. `search_choices` looks for the choices that give a number,
`search_protocols` for those that give all numbers of a row.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import (
    OWN_DATA_SETS,
    Verification,
    interpret,
    mark_other_models,
    numbers_of_model,
)
from harness.conclusions.causes import read_causes
from harness.conclusions.numbers import row_and_column
from harness.core.digests import digest_of_repr
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.files import file_name, make_folder, parse_json, write_atomically
from harness.core.metrics.correlation import CORRELATION_SCORES
from harness.core.terminal import Bar, wrapped
from harness.core.types import AGGREGATIONS, Method
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader
from harness.encoders.checkpoint import MODULES_FILE
from harness.evaluation.row_search import RowScores, Target, search_row
from harness.evaluation.search import Explainer, check_numbers, explained
from harness.evaluation.variants import VariantScores
from harness.registry import look_up
from harness.report.card_check import (
    explanation_facts,
    explanation_in_words,
    models_page,
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.report.row_search import row_search_facts, row_search_lines
from harness.resolve import Resolution, resolve
from harness.results.layout import COMMITTED, QUESTIONS
from harness.results.published import PublishedNumber
from harness.results.verdict import Published
from harness.transforms.pooling import NATIVE, Native

# The programs whose versions a verification for a pull request states.
PROGRAMS = ("sentence-embedding-harness", "torch", "transformers", "tokenizers")
MODELS_PAGE = "README.md"  # the page of all models, in the folder of verifications

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...", help="Model folders, hub repositories or encoders."
    ),
]


def verify_command(
    model: Models,
    folders: opt.Folders,
    card: Annotated[
        list[Path] | None,
        typer.Option(
            "--card",
            help="A card, a result file of mteb, or a folder of these; repeatable.",
        ),
    ] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Measure what a differing number may have meant."
        ),
    ] = False,
    encodings: opt.MostEncodings = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep what was verified, and a page of all models there.",
        ),
    ] = None,
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    markdown: Annotated[
        bool,
        typer.Option(
            "--markdown", help="Print Markdown, as for a pull request on the hub."
        ),
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Check whether models score what their cards say.

    The numbers of a model's card (model-index), and of .eval_results and mteb's result
    files in its folder, are measured under the model's own modules and prompts. Exit status
    0: all that was checked is reproduced; 1: a number differs; 3: something is missing,
    or nothing could be checked.
    """
    if card and len(model) > 1:
        raise UsageError("--card belongs to one model: verify the models one by one")
    if output is not None:
        make_folder(output, "--output", to_write=True)
    statuses = []
    for name in model:
        key = ""
        try:
            # One model after the other, since two folders may have the same name.
            known = resolve(folders.places(), encoder, [name])
            scores, verification = _opened(name, known, card or [])
        except AssetMissing as error:
            verification = Verification(name, name, faults=(str(error),))
        else:
            facts_of_answer = (
                version_of("sentence-embedding-harness"),
                scores.method.identity,
                scores.open(scores.method.encoder).identity.key,
                verification,
                (search, encodings),
            )
            key = digest_of_repr(facts_of_answer)
            if output is not None:
                earlier_status = _earlier_status(_facts_file(output, name), key)
                if earlier_status is not None:
                    opt.note(f"{name}: done before ({output})")
                    statuses.append(earlier_status)
                    continue
            with Bar(sys.stderr) as scores.progress:
                numbers = [*check_numbers(scores, verification.numbers, known.registry)]
                if search:
                    explainer = Explainer(scores, known.registry, encodings, opt.note)
                    numbers = explained(numbers, explainer)
            verification = replace(verification, numbers=numbers)
            if verification.checked:
                task = known.registry.tasks[verification.checked[0].task]
                try:
                    effect = scores.batch_effect(task)
                    verification = replace(verification, batch_effect=effect)
                except HarnessError as error:  # of texts in one batch alone
                    faults = (*verification.faults, str(error))
                    verification = replace(verification, faults=faults)
        statuses.append(verification.exit_status)
        if output is not None:
            facts = {**verification_facts(verification), "key": key}
            text = f"{json.dumps(facts, indent=1)}\n"
            write_atomically(_facts_file(output, name), text.encode())
            _write_models_page(output)
        if as_json:
            opt.say(json.dumps(verification_facts(verification)))
        elif markdown:
            versions = {program: version_of(program) for program in PROGRAMS}
            today = datetime.now(UTC).date().isoformat()
            opt.say(verification_markdown(verification, versions, today))
        else:
            opt.say(verification_text(verification, opt.terminal_width()))
    raise typer.Exit(opt.worst_status(statuses))


def _opened(
    name: str, known: Resolution, card_files: Sequence[Path]
) -> tuple[VariantScores, Verification]:
    """A model, and its numbers before any is checked.

    Args:
        name: The model as the command line names it.
        known: The meaning of this name.
        card_files: Files of numbers in addition to the ones in the model's folder.

    Raises:
        AssetMissing: The model is not on this machine.
    """
    scores = _model(known)
    encoder = scores.method.encoder
    folder = known.places.encoder(encoder.member(0))
    weights = scores.open(encoder).identity.digests.get("weights", "")
    numbers, faults = numbers_of_model(folder, known.registry, card_files)
    repository = getattr(encoder.source, "repo", "")
    numbers = mark_other_models(numbers, (name, folder.name, repository))
    data = {}
    for number in numbers:
        for task in (number.task, number.or_task):
            if task and not number.why_not:
                with suppress(HarnessError):
                    texts = scores.loader.texts(known.registry.tasks[task])
                    data[task] = texts.digests["data"]
    verification = Verification(
        model=name,
        method=scores.method.id,
        numbers=numbers,
        faults=faults,
        weights=weights,
        data=data,
        causes=read_causes(COMMITTED / QUESTIONS / "causes.toml").causes,
    )
    return scores, verification


def _model(known: Resolution) -> VariantScores:
    """A model under the modules of its folder, of which nothing is measured yet.

    If the folder has no such modules, or the id names post-processors, it is the method
    of that id.
    """
    method = known.method
    folder = known.places.encoder(method.encoder.member(0))
    is_native = isinstance(method.pooling, Native)
    if (folder / MODULES_FILE).is_file() and not is_native and not method.post:
        method = known.registry.parse(f"{method.encoder.name}.{NATIVE.name}")
    loader = TaskLoader(known.places, known.registry.corpora)
    return VariantScores(method, loader)


# The folder of verifications: a file for each model, and a page of all


def _facts_file(output: Path, model: str) -> Path:
    """The file of a model's verification, whose name begins with no dot: `ls` shows it."""
    name = file_name(model.removeprefix("./"))
    return output / f"{'_' if name.startswith('.') else ''}{name}.json"


def _earlier_status(file: Path, key: str) -> int | None:
    """The exit status of a model that an earlier call has verified; None to verify it now.

    A model is verified again if its answer has another key, if something was missing
    (status 3), or if its file is not whole.
    """
    try:
        facts = parse_json(file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    status: int = facts["exit_status"]
    return status if facts["key"] == key and status < 3 else None


def _write_models_page(output: Path) -> None:
    """Write the page of all models whose verifications are in the folder."""
    facts = [parse_json(path.read_bytes()) for path in sorted(output.glob("*.json"))]
    write_atomically(output / MODELS_PAGE, models_page(facts).encode())
    opt.note(f"{output / MODELS_PAGE}: {len(facts)} models")


# `harness explain --model`


def search_choices(
    task_name: str,
    target: str,
    model: str,
    metric: str,
    sources: opt.Sources,
    *,
    most_encodings: int | None,
    as_json: bool,
) -> int:
    """Print the choices under which a model scores a number; the exit status."""
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
    scores = _model(known)
    if scores.method.post:
        # What reads prompts and modules fits nothing.
        printed = number.readings[0]
        column = Target(
            column=task_name,
            task=task,
            similarity=number.similarity,
            correlation=number.correlation,
            aggregation=number.aggregation,
            number=printed,
        )
        return _search_and_say(
            task_name, scores.method, [column], known, most_encodings, as_json
        )
    explainer = Explainer(scores, known.registry, most_encodings, opt.note)
    with Bar(sys.stderr) as scores.progress:
        found = explainer.search(task, [number])[number]
    if as_json:
        facts = {"method": scores.method.id, "task": task_name, "target": target}
        opt.say(json.dumps(facts | explanation_facts(found)))
    else:
        opt.say(explanation_in_words(f"{task_name} {target}", found))
    return 0 if found.measured is not None else 1


def search_protocols(
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
        most_encodings: As in `search_row`.
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
                number=number,
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
    registry = known.registry
    scores = RowScores(TaskLoader(known.places, registry.corpora), registry)
    with Bar(sys.stderr) as scores.progress:
        found = search_row(
            method, targets, scores, most_encodings=most_encodings, note=opt.note
        )
    if as_json:
        facts = {"method": method.id, "place": subject}
        opt.say(json.dumps(facts | row_search_facts(found)))
    else:
        width = opt.terminal_width()
        for line in row_search_lines(subject, found):
            opt.say(wrapped(line, width))
    return 0 if found.is_found else 1
