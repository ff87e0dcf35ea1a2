"""Commands that run something, or plan to: plan, run, reproduce."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import (
    CacheDir,
    DataDir,
    Encoders,
    Json,
    Methods,
    Results,
    Seeds,
    Tasks,
    require_folder,
    say,
)
from harness.core.errors import AssetMissing, UsageError

EVERY_FILE = 10**7  # however many records a run has


def plan(
    method: Methods = None,
    task: Tasks = None,
    seeds: Seeds = 5,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    cache: CacheDir = None,
    as_json: Json = False,
) -> None:
    """Show what a run would do: cells, assets and how to get them, what is cached, time."""
    from harness.evaluation.plan import plan as make_plan
    from harness.evaluation.plan import render

    cells, loader = _selection(method, task, seeds, data_dir, encoder, cache)
    made = make_plan(cells, loader)
    say(json.dumps(asdict(made) | {"seconds": made.seconds}) if as_json else render(made))


def run(
    method: Methods = None,
    task: Tasks = None,
    seeds: Seeds = 5,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    results: Results = Path("runs"),
    cache: CacheDir = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what is already done.")] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Measure what `harness check` wants: golden vectors, and the quick set of "
            "COMMITTED/gate.toml unless -m and -t select others.",
        ),
    ] = False,
    committed: Annotated[Path, typer.Option(help="With --quick: the committed results.")] = Path(
        "results"
    ),
    update: Annotated[
        bool, typer.Option("--update", help="With --quick: promote it to COMMITTED.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure methods on tasks; the other cells still run when one fails."""
    if not (method and task) and (method or task or not quick):
        raise UsageError("nothing selected: give -m METHOD and -t TASK (harness list shows them)")
    if update and not quick:
        raise UsageError("--update goes with --quick; harness reproduce --update promotes all")
    from harness.gate.quick import encode_golden, promote, quick_set

    quick_cells = partial(quick_set, committed=committed) if quick else None
    cells, loader = _selection(method, task, seeds, data_dir, encoder, cache, quick_cells)
    outcomes = _execute(cells, loader, results, fresh, as_json)
    if quick:
        encode_golden(cells, loader.places, results)
        if update:
            changed = promote(outcomes, results, committed)
            say(f"promoted: {changed} records and vectors of {committed}")
    sys.exit(_exit_status(outcomes))


def reproduce(
    method: Methods = None,
    task: Tasks = None,
    seeds: Seeds = 5,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    results: Results = Path("runs"),
    committed: Annotated[Path, typer.Option(help="Results to compare with.")] = Path("results"),
    cache: CacheDir = None,
    fresh: Annotated[bool, typer.Option(help="Measure again what is already done.")] = False,
    update: Annotated[bool, typer.Option(help="Promote what was measured to COMMITTED.")] = False,
    strict: Annotated[bool, typer.Option(help="A missing asset is an error (status 3).")] = False,
    profile: Annotated[
        str,
        typer.Option(
            help="embedded: what the harness carries; standard: the registered methods; papers: "
            "the published cells; all. Not with -m or -t."
        ),
    ] = "all",
) -> None:
    """Plan, measure everything that can be, compare with the committed results, write tables."""
    from harness.cli.reproduce import compare, compare_rows, promote, summary
    from harness.core.files import state_of
    from harness.core.progress import Bar
    from harness.evaluation.plan import estimates, render
    from harness.evaluation.plan import plan as make_plan
    from harness.evaluation.select import PROFILES
    from harness.evaluation.select import profile as profile_cells

    require_folder("--committed", committed)
    papers = committed / "papers"
    if profile != "all" and (method or task):
        raise UsageError("--profile chooses the cells, and so do -m and -t: give one of them")
    if profile not in PROFILES:
        raise UsageError(f"--profile {profile}: wanted one of {', '.join(PROFILES)}")
    of_profile = partial(profile_cells, name=profile, papers=papers, seeds=seeds)
    cells, loader = _selection(method, task, seeds, data_dir, encoder, cache, of_profile)
    made, before = make_plan(cells, loader), state_of(results, most=EVERY_FILE)
    say(render(made))
    outcomes = _execute(cells, loader, results, fresh, as_json=False, seconds=estimates(made))
    with Bar(sys.stderr) as bar:
        uncompared = compare_rows(results, committed, loader, bar)
    if uncompared:
        typer.echo(f"harness: {uncompared}", err=True)
    moves = compare(outcomes, committed)
    promoted = promote(outcomes, results, committed) if update else None
    for line in summary(outcomes, moves, results, committed, promoted):
        say(line)
    if state_of(results, most=EVERY_FILE) == before:
        say(f"no file of {results} changed")
    moved = any(move.moved for move in moves) and not update
    status = _exit_status(outcomes) or int(moved)
    sys.exit(0 if status == AssetMissing.exit_status and not strict else status)


def _selection(
    method: list[str] | None,
    task: list[str] | None,
    seeds: int,
    data_dir: Path | None,
    encoder: list[str] | None,
    cache: Path | None,
    default: Callable[[Any], tuple[Any, ...]] | None = None,
) -> tuple[Any, Any]:
    """The chosen cells, and what loads their texts.

    The default gives the cells of a registry where neither methods nor tasks are chosen.
    """
    from harness.assets.places import Places
    from harness.evaluation.select import choose, encoders_by_hand
    from harness.tasks.loader import TaskLoader

    registry, paths = encoders_by_hand(encoder or [])
    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir, encoders=paths)
    loader = TaskLoader(places, registry.corpora)
    if default is not None and not method and not task:
        return default(registry), loader
    return choose(registry, method, task, seeds), loader


def _execute(
    cells: Any,
    loader: Any,
    results: Path,
    fresh: bool,
    as_json: bool,
    seconds: Mapping[str, float] | None = None,
) -> list[Any]:
    """Run the cells with a bar on stderr; print each one as it comes, then why some did not run.

    With the plan's estimates in seconds there is one bar over everything, and what the plan has
    already said (missing assets) is not said again.
    """
    from harness.cli.train.family import train_on_the_spot
    from harness.core.progress import Bar, OverallProgress
    from harness.evaluation.runner import execute
    from harness.gate.failures import note_outcomes
    from harness.results.records import Store

    train_on_the_spot(cells, loader.places)
    outcomes = []
    with Bar(sys.stderr) as bar:
        shown = bar if seconds is None else OverallProgress(bar, seconds)
        for outcome in execute(cells, loader, Store(results), shown, time.perf_counter, fresh):
            outcomes.append(outcome)
            if outcome.record is not None and as_json:
                fields = ("method", "task", "seed", "scores", "pairs", "timings")
                say(json.dumps({name: getattr(outcome.record, name) for name in fields}))
            elif outcome.record is not None:
                say(f"{outcome.cell}: {shown_score(outcome.record.scores)}")
    told = ("asset missing",) if seconds is not None else ()
    untold = (outcome.message for outcome in outcomes if outcome.status not in told)
    for message, count in Counter(filter(None, untold)).items():
        typer.echo(f"harness: {message} ({count} cell{'s' if count > 1 else ''})", err=True)
    note_outcomes(results, outcomes)
    return outcomes


def shown_score(scores: Mapping[str, Any]) -> str:
    """A record's main score, as a run prints it."""
    from harness.results.index import main_score
    from harness.results.verdict import CellState

    metric, value = main_score(scores)
    name = "Spearman" if metric == "spearman" else metric
    return CellState.UNDEFINED if value is None else f"{name} {value:.2f}"


def _exit_status(outcomes: Sequence[Any]) -> int:
    """1 if a cell failed, else 2 for wrong usage, else 3 if something is missing, else 0."""
    return min(filter(None, (outcome.exit_status for outcome in outcomes)), default=0)
