"""`harness verify`: whether a model scores what its card says.

The numbers of a model (its card, `.eval_results`, result files of mteb) are measured, and
it is said which are reproduced. With `--search` it is said what a differing one meant.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.cli.search import method_of_model, search_of
from harness.conclusions.card_arithmetic import CardReading, of_another_model, read_card
from harness.conclusions.card_rows import ModelIdentity, Rows
from harness.conclusions.card_scores import weighed
from harness.conclusions.cards import CardNumber, mark_other_models, numbers_of_model
from harness.conclusions.causes import read_causes
from harness.conclusions.folder import Conclusions
from harness.conclusions.verification import Verification
from harness.core.digests import digest_of_repr
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.files import file_name, make_folder, parse_json, write_atomically
from harness.core.terminal import Bar
from harness.evaluation.check_work import work_of_check
from harness.evaluation.search import Search
from harness.evaluation.verification import batch_effect, check_numbers, explained
from harness.report.card_check import (
    models_page,
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.report.card_readings import card_readings_in_words
from harness.resolve import Resolution, resolve
from harness.results.layout import COMMITTED, QUESTIONS

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
            neighbours, identity, verification = _opened(
                name, known, card or [], encodings
            )
        except AssetMissing as error:
            verification = Verification(name, name, faults=(str(error),))
        else:
            facts_of_answer = (
                version_of("sentence-embedding-harness"),
                neighbours.model.method.identity,
                neighbours.encoder(
                    neighbours.model.method.encoder.member(0)
                ).identity.key,
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
            _note_before_encoding(neighbours, verification)
            with Bar(sys.stderr) as neighbours.context.progress:
                numbers = [*check_numbers(neighbours, verification.numbers)]
                readings = weighed(
                    verification.readings, numbers, published_rows(), identity
                )
                if search:
                    opt.note(f"records: {neighbours.context.store.folder}")
                    numbers = _explained(neighbours, numbers, readings)
            verification = replace(verification, numbers=numbers, readings=readings)
            if verification.checked:
                task = known.registry.tasks[verification.checked[0].task]
                try:
                    effect = batch_effect(neighbours, task)
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
    name: str, known: Resolution, card_files: Sequence[Path], most_encodings: int | None
) -> tuple[Search, ModelIdentity, Verification]:
    """A model whose cells are measured, what it is, and its numbers before any is checked.

    What arithmetic says of the numbers is in the verification; those that it shows to be
    another model's are not to be measured.

    Args:
        name: The model as the command line names it.
        known: The meaning of this name.
        card_files: Files of numbers in addition to the ones in the model's folder.
        most_encodings: How many encodings a search makes for the numbers of a run.

    Raises:
        AssetMissing: The model is not on this machine.
    """
    method = method_of_model(known)
    search = search_of(method, known, most_encodings)
    encoder = method.encoder.member(0)
    folder = known.places.encoder(encoder)
    weights = search.encoder(encoder).identity.digests.get("weights", "")
    numbers, faults = numbers_of_model(folder, known.registry, card_files)
    repository = getattr(encoder.source, "repo", "")
    names = (name, folder.name, repository)
    numbers = mark_other_models(numbers, names)
    rows = published_rows() if numbers else {}
    identity = ModelIdentity.find(names, encoder.name, weights, known.registry)
    readings = read_card(numbers, rows, identity)
    row_of = of_another_model(readings, rows, identity)
    numbers = [
        replace(
            number,
            why_not=f"of another model, {row_of[number.statement]}",
            is_of_other_model=True,
        )
        if number.statement in row_of
        else number
        for number in numbers
    ]
    data = {}
    for number in numbers:
        for task in (number.task, number.or_task):
            if task and not number.why_not:
                with suppress(HarnessError):
                    texts = search.loader.texts(known.registry.tasks[task])
                    data[task] = texts.digests["data"]
    verification = Verification(
        model=name,
        method=method.id,
        numbers=numbers,
        readings=readings,
        faults=faults,
        weights=weights,
        data=data,
        causes=read_causes(COMMITTED / QUESTIONS / "causes.toml").causes,
    )
    return search, identity, verification


@cache
def published_rows() -> Rows:
    """The published numbers that come with the harness, by row and column; read once."""
    return Conclusions(COMMITTED).numbers_by_row


def _note_before_encoding(search: Search, verification: Verification) -> None:
    """Note what a check encodes; before that takes time, what arithmetic says already."""
    work = work_of_check(search, verification.numbers)
    if not work.tasks:
        return
    if work.encoded:
        for sentence in card_readings_in_words(verification.faults_of_copying):
            opt.note(f"{verification.model}: {sentence}")
    opt.note(f"{verification.model}: {work}")


def _explained(
    search: Search, numbers: Sequence[CardNumber], readings: Sequence[CardReading]
) -> list[CardNumber]:
    """The numbers, where a search explains those that arithmetic has not explained."""
    told = {
        statement for each in readings if each.explains for statement in each.statements
    }
    left = [number for number in numbers if number.statement not in told]
    found = {number.statement: number for number in explained(search, left)}
    return [found.get(number.statement, number) for number in numbers]


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
