"""`harness explain`: why a number differs.

`explain` has four answers: the rows of a table, why a reader's number differs from a
published one (--mine), what each choice of a protocol was measured to do, and under which
choices a model at hand gives a number or a row (--model).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Annotated

import typer

from harness.cli import options as opt
from harness.conclusions.folder import Conclusions
from harness.conclusions.numbers import Figure
from harness.core.errors import UsageError
from harness.core.terminal import wrapped
from harness.data.places import Places
from harness.registry import look_up
from harness.report.diagnosis import answer_lines, diagnosis_facts
from harness.report.explanation import effect_facts, render_explanation
from harness.report.next_steps import command_to_search
from harness.report.noise import USUAL_SCORE, power_rows
from harness.report.owners import origin_facts, origins_in_words
from harness.report.sentences import standing_in_words
from harness.resolve import resolve

STANDARD_INPUT = "-"  # in the place of numbers


def explain_command(
    sources: opt.Sources,
    cell: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE[/ROW[/COLUMN]]]",
            help="Published number (harness list cells TABLE); a table alone lists its rows.",
        ),
    ] = None,
    mine: Annotated[
        str | None,
        typer.Option(
            metavar="SCORE",
            help="Your number, or several: sts12=45.09,sts13=64.30, or a table as text, a file of "
            "it, or - for standard input. Says why it differs; without a published row, whose "
            "numbers they are.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="All notes, explanations and sources.")
    ] = False,
    every_choice: Annotated[
        bool,
        typer.Option("--all", help="Show all measured effects, and not the first ten."),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model at hand: measures which choices give all numbers of the row, or --mine. "
            "A task in the place of the row has one number.",
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="The metric of the number (with --model).")
    ] = "spearman",
    power: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="With a task (or avg, the mean of the seven) in the place of a cell: how large "
            "a difference has to be there, and how often one of so many points is found.",
        ),
    ] = None,
    encodings: opt.MostEncodings = None,
    as_json: opt.Json = False,
) -> None:
    """Show why a published number is not reproduced.

    With --mine an answer of ten lines: whether your number is printed elsewhere, is one
    of several seeds, or has a known cause. Without, every choice of the number's
    protocol (pooling, text, split, metric, aggregation, length, post-processing) with
    its measured effect on a score. With --model the choices are looked for that give all
    numbers of the row, yours (--mine) or the printed ones: pooling, length,
    post-processing, pairs and score, one changed before two; or, of a task, those that
    give its number, prompts and precisions among them; exit status 1 if none does. With
    --power, what is needed to tell two systems apart on a task that both score 78, or --mine.
    """
    if mine == STANDARD_INPUT:
        mine = sys.stdin.read()
    if power is not None:
        if cell is None:
            raise UsageError("--power needs a task: explain sts-b --power 0.5")
        score = USUAL_SCORE if mine is None else Figure.parse(mine).points
        opt.say_rows(power_rows(cell, power, score), as_json)
        return
    if cell is None and model is not None:
        raise UsageError(
            "--model needs the task of the number: explain TASK --model ..."
        )
    is_table = cell is not None and "/" not in cell
    if cell is None or (is_table and mine is not None and model is None):
        folder = sources.folder
        _name_owners(folder, mine, cell or "", verbose=verbose, as_json=as_json)
        return
    if model is not None:
        # Only a search opens models, with the modules that take.
        from harness.cli.search import search_number, search_published

        if "/" in cell:
            status = search_published(
                cell, mine, model, sources, most_encodings=encodings, as_json=as_json
            )
            raise typer.Exit(status)
        if mine is None:
            raise UsageError(
                "--model needs --mine NUMBER, the number to look for, or a published row: "
                "explain TABLE/ROW --model MODEL"
            )
        status = search_number(
            cell,
            mine,
            model,
            metric,
            sources,
            most_encodings=encodings,
            as_json=as_json,
        )
        raise typer.Exit(status)
    folder = sources.folder
    if mine is not None:
        diagnosis = folder.diagnose(cell, mine)
        if as_json:
            facts = diagnosis_facts(diagnosis, folder.causes, folder.registry)
            opt.say(json.dumps(facts))
            return
        places = resolve(Places.from_environment(os.environ), sources.encoder).places
        command = command_to_search(diagnosis.numbers, folder.registry, places)
        for line in answer_lines(
            diagnosis, folder.causes, folder.registry, search=command, verbose=verbose
        ):
            opt.say(line)
    elif cell.count("/") < 2:
        _list_rows(folder, cell, as_json)
    else:
        _explain_protocol(folder, cell, every_effect=every_choice, as_json=as_json)


def _name_owners(
    folder: Conclusions, mine: str | None, table: str, *, verbose: bool, as_json: bool
) -> None:
    """Print the published rows, of a table or of all, that have a reader's numbers."""
    if mine is None:
        raise UsageError(
            "wanted a published number (harness list papers), or --mine with your numbers"
        )
    origins = folder.origins(mine, table)
    if as_json:
        opt.say(json.dumps([origin_facts(origin) for origin in origins]))
        return
    width = opt.terminal_width()
    for line in origins_in_words(origins, verbose=verbose):
        opt.say(wrapped(line, width))


def _list_rows(folder: Conclusions, place: str, as_json: bool) -> None:
    """The rows of a published table, or one of them, with their columns."""
    table, _, row_id = place.partition("/")
    rows = folder.table(table).rows
    if row_id:
        rows_by_id = {row.id: row for row in rows}
        rows = (look_up(f"row of {table}", row_id, rows_by_id),)
    printed_rows = []
    for row in rows:
        printed_rows.append(
            {
                "row": f"{table}/{row.id}",
                "is": row.name,
                "columns": ", ".join(row.values),
            }
        )
    opt.say_rows(printed_rows, as_json)


def _explain_protocol(
    folder: Conclusions, cell: str, *, every_effect: bool, as_json: bool
) -> None:
    """What each other choice of a published number's protocol was measured to do."""
    explanation = folder.explain(cell)
    if not as_json:
        width = opt.terminal_width()
        opt.say(
            render_explanation(explanation, folder, width, every_effect=every_effect)
        )
        return
    reproduction, reference = explanation.reproduction, explanation.confirmed_by
    facts = {
        "cell": reproduction.number.id,
        "published": reproduction.number.points,
        "measured": reproduction.measured,
        "evidence": reproduction.number.evidence,
        "confirmed_by": None if reference is None else reference.program,
        "verdict": str(reproduction.state),
        "nearest": [
            {**asdict(row), "score": score}
            for row, score in explanation.nearest.items()
        ],
        "choices": [
            effect_facts(effect, folder.registry) for effect in explanation.effects
        ],
        "standings": [
            standing_in_words(standing) for standing in folder.standings.get(cell, ())
        ],
    }
    opt.say(json.dumps(facts))
