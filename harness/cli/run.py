"""`harness run` selects cells by options, measures them and shows their scores.

`harness.cli.reproduce` takes the same options and steps, and compares what was measured.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli import options as opt
from harness.cli.summary import numbers_beside, score_in_words, score_table
from harness.core.errors import CACHE_SETTING, HarnessError, UsageError
from harness.core.files import make_folder
from harness.core.hardware import base_name
from harness.core.interfaces import EncoderConfig, Trained
from harness.core.terminal import counted, progress_on
from harness.core.types import Progress, Record
from harness.data.places import Places, packaged, revision_of
from harness.data.tasks.loader import TaskLoader, limited, limited_corpus
from harness.evaluation.costs import Costs
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.plan import Plan, make_plan, plan_text
from harness.evaluation.processes import results_of
from harness.evaluation.run import Outcome, RunContext, execute, failed
from harness.evaluation.select import (
    PROFILES,
    PlannedCell,
    narrowed,
    on_hardware,
    part_of,
    profile,
    quick_set,
    select_cells,
)
from harness.registry import Registry, look_up
from harness.resolve import resolve
from harness.results.index import Copy, Results
from harness.results.layout import PAPERS_ENCODER, papers_of, require_own, tables_naming
from harness.results.origins import pin_of, sentence_on_copy
from harness.results.records import cell_of
from harness.results.store import Store, note_failures

if TYPE_CHECKING:
    from harness.results.published import PublishedNumber, Table

JSON_FIELDS = ("method", "task", "seed", "scores", "pairs", "timings")


def run_command(
    options: opt.Run,
    dry_run: opt.DryRun = False,
    gate: Annotated[
        bool,
        typer.Option(
            "--gate",
            help="Measure what `harness check` compares: golden vectors, and the quick set of "
            "BASELINE/gate.toml unless -m and -t select others.",
        ),
    ] = False,
    baseline: opt.Baseline = Path("results"),
    update: Annotated[
        bool, typer.Option("--update", help="With --gate: promote it to BASELINE.")
    ] = False,
    as_json: opt.Json = False,
) -> None:
    """Measure methods on tasks.

    When a cell fails, the others still run. The table at the end shows each score beside
    what BASELINE/papers says is published for it.
    """
    names_cells = bool(options.method and options.task) or options.profile
    names_nothing = not options.method and not options.task
    if not names_cells and not (gate and names_nothing):
        raise UsageError(
            "nothing selected: give -m METHOD and -t TASK (harness list shows them), or --profile"
        )
    if update and not gate:
        raise UsageError(
            "--update goes with --gate; harness reproduce --update promotes all"
        )
    if update:
        require_own("--baseline", baseline)
    if gate:
        options.require_whole("--gate")
        opt.note_packaged(baseline)
    chosen = select(options, baseline, gate)
    store = Store(options.folder)
    if dry_run:
        plan = plan_of(chosen, options, baseline)
        text = plan_text(plan, opt.terminal_width())
        opt.say(json.dumps(asdict(plan)) if as_json else text)
        return
    # A fault in one of the tables is told before anything is measured.
    tables = tables_of(chosen, baseline)
    line_of = None if options.quiet else _line_of_cell
    if as_json:
        line_of = _json_of_cell
    outcomes = measure(chosen, store, options, line_of)
    messages = Counter(outcome.message for outcome in outcomes if outcome.message)
    for message, count in messages.items():
        opt.note(f"harness: {message} ({counted(count, 'cell')})")
    records = [outcome.record for outcome in outcomes if outcome.record]
    if records and not as_json:
        results = Results.of(records)
        numbers = numbers_beside(results, tables, chosen.registry) if tables else []
        opt.say(f"\n{score_table(results, numbers)}\nrecords: {store.folder}")
    if gate:
        from harness.evaluation.promote import make_golden_vectors

        methods = [cell.method for cell in chosen.cells]
        make_golden_vectors(methods, chosen.loader.places, store.folder)
    if update:
        from harness.conclusions.folder import Conclusions
        from harness.evaluation.promote import promote

        committed = Conclusions(baseline, chosen.registry)
        count = promote(records, committed.reopen(store.folder), committed)
        opt.say(f"promoted: {counted(count, 'change')} to {baseline}")
    raise typer.Exit(opt.worst_status(outcome.exit_status for outcome in outcomes))


# The steps that `harness reproduce` shares


@dataclass(frozen=True)
class Selected:
    """The cells of a command, and what they need.

    Attributes:
        cells: The cells to measure.
        loader: Loads the texts of their tasks and corpora.
        registry: Knows their encoders, those given by hand included.
    """

    cells: tuple[PlannedCell, ...]
    loader: TaskLoader
    registry: Registry


def select(options: opt.Run, baseline: Path, is_gate: bool = False) -> Selected:
    """Select the cells of a command's options: those named, or those of a profile.

    Among the cells of a profile that is named, methods and tasks choose.

    Notes say what a word was taken for, what a glob leaves out, and, even where a
    command is quiet, which modules of a folder given by hand its poolings do not use.

    Args:
        options: The options of the command.
        baseline: The results folder whose papers the profile `papers` reads.
        is_gate: Whether the quick set of the baseline takes the place of a profile.

    Raises:
        UsageError: The options name what is not known here.
    """
    profile_name = options.profile or "all"
    look_up("profile", profile_name, dict.fromkeys(PROFILES))
    known = resolve(options.places(), options.encoder, options.method, options.task)
    methods, tasks = known.methods, known.tasks
    registry, corpora = known.registry, known.registry.corpora
    omissions = ""
    if options.profile is None and (methods or tasks):
        cells, omissions = select_cells(registry, methods, tasks, options.seeds)
    elif options.profile is None and is_gate:
        cells = quick_set(registry, baseline)
    else:
        cells = profile(registry, profile_name, papers_of(baseline), options.seeds)
        cells = narrowed(cells, registry, methods, tasks)
    if profile_name == "first":
        # A first run downloads no large encoder, and shows one that is there.
        large = registry.encoders[PAPERS_ENCODER]
        if not known.places.has_encoder(large):
            cells = tuple(
                cell for cell in cells if base_name(cell.encoder.name) != large.name
            )
    cells = on_hardware(cells, options.device, options.dtype, options.batch_tokens)
    if not options.quiet:
        opt.note_meanings(options.method, methods)
        opt.note_meanings(options.task, tasks)
        if omissions:
            opt.note(omissions)
    for text in known.bypass_notes(dict.fromkeys(cell.method for cell in cells)):
        opt.note(f"Note: {text}")
    limit = options.limit
    if limit is not None:
        cells = tuple(replace(cell, task=limited(cell.task, limit)) for cell in cells)
        corpora = {
            name: limited_corpus(corpus, limit) for name, corpus in corpora.items()
        }
    return Selected(cells, TaskLoader(known.places, corpora), registry)


def tables_of(chosen: Selected, baseline: Path) -> Sequence[Table]:
    """The published tables that have a number of one of the methods."""
    papers = papers_of(baseline)
    paths = tables_naming(papers, {cell.method.id for cell in chosen.cells})
    if not paths:
        return ()
    from harness.results.published_tables import load_tables

    return load_tables(papers, chosen.registry, paths)


def plan_of(chosen: Selected, options: opt.Run, baseline: Path) -> Plan:
    """The plan of a command, with the published numbers of its cells, and what cells have cost.

    Costs are of the records of the output folder and of the baseline.
    """
    runs = Store(options.folder)
    costs = Costs([runs, Store(baseline)], chosen.registry)
    numbers: list[PublishedNumber] = []
    for table in tables_of(chosen, baseline):
        numbers += table.numbers
    done_cells = None if options.overwrite else runs
    return make_plan(chosen.cells, chosen.loader, done_cells, costs, numbers)


def measure(
    chosen: Selected,
    store: Store,
    options: opt.Run,
    line_of: Callable[[Record], str] | None = None,
) -> list[Outcome]:
    """Measure cells with a bar on stderr.

    A file in the folder of the store tells `harness check` which cells did not run.

    Args:
        chosen: The cells, and what loads their texts.
        store: Where their records go.
        options: The options of the run.
        line_of: The line that is printed of each record when its cell is done; None
            prints none.

    Returns:
        The outcome of every cell of this part of the run.
    """
    jobs = options.processes
    cells = part_of(chosen.cells, options.shard)
    if not cells:
        opt.note(f"part {options.shard} has no cell")
        return []
    places = chosen.loader.places
    make_folder(store.folder, "--output")
    make_folder(places.cache, CACHE_SETTING)
    told = cells
    if options.quiet:  # of a folder under a name of its own, nothing has to be said
        by_hand = chosen.registry.by_hand
        told = tuple(c for c in cells if base_name(c.encoder.name) not in by_hand)
    for sentence in sentences_on_encoders(told, chosen.registry, places):
        opt.note(f"Note: {sentence}.")
    trainings = missing_trainings(cells, places)
    bar = Progress() if options.quiet else progress_on(sys.stderr)
    reasons = {str(cell.address): "the last run ended before it" for cell in cells}
    outcomes: list[Outcome] = []
    try:
        with bar as progress:
            context = RunContext(
                chosen.loader,
                store,
                progress,
                overwrite=options.overwrite,
                min_coverage=options.min_coverage,
            )
            if trainings:
                progress.phase("training", len(trainings))
            for encoder, error in results_of(trainings, jobs):
                progress.step(1)
                if error is not None:
                    its_cells = [cell for cell in cells if cell.encoder == encoder]
                    outcomes += failed(
                        its_cells, HarnessError(f"{encoder.name}: {error}")
                    )
                    cells = tuple(cell for cell in cells if cell.encoder != encoder)
            for outcome in execute(cells, context, jobs):
                outcomes.append(outcome)
                if line_of is not None and outcome.record is not None:
                    opt.say(line_of(outcome.record))
    finally:  # also after an interruption, before which not all cells were reached
        for outcome in outcomes:
            reasons[str(outcome.cell)] = outcome.message  # empty if it ran
        note_failures(store.folder, reasons)
    return outcomes


def sentences_on_encoders(
    cells: Iterable[PlannedCell], registry: Registry, places: Places
) -> Iterator[str]:
    """Sentences on encoders whose files are not those pinned for their names, or are another's.

    Those of a package, and of a training here, are what their names say. One whose files
    cannot be read has no sentence; its cells fail with the reason.
    """
    encoders = {base_name(cell.encoder.name): cell.encoder for cell in cells}
    for name, config in encoders.items():
        is_packaged = name not in places.encoders and packaged(config)
        if is_packaged or isinstance(config.source, Trained):
            continue
        with suppress(HarnessError):
            encoder = CachedEncoder.open(config, places)
            fingerprint = encoder.fingerprint
            if fingerprint:
                weights = encoder.identity.digests["weights"]
                copy = Copy(weights, fingerprint, revision_of(encoder.path))
                sentence = sentence_on_copy(name, [copy], registry)
                contradiction = pin_of(config).contradiction(name, weights, fingerprint)
                yield from filter(None, (sentence, contradiction))


def missing_trainings(
    cells: Iterable[PlannedCell], places: Places
) -> list[Callable[[], tuple[EncoderConfig, HarnessError | None]]]:
    """Calls that train the encoders that these cells need and that are missing.

    Only members of families with `on_the_spot` are trained: these families start from
    files that come with the harness, and take little time.
    """
    untrained: dict[Trained, EncoderConfig] = {}
    for cell in cells:
        source = cell.encoder.source
        if not isinstance(source, Trained) or not source.on_the_spot:
            continue
        if not places.has_encoder(cell.encoder):
            untrained[source] = cell.encoder
    if not untrained:
        return []
    from harness.cli.train import train_alone

    return [
        partial(train_alone, encoder, source, places)
        for source, encoder in untrained.items()
    ]


def _line_of_cell(record: Record) -> str:
    """As in `minilm.mean on sts-b, seed 0: Spearman 82.03`."""
    return f"{cell_of(record)}: {score_in_words(record)}"


def _json_of_cell(record: Record) -> str:
    """A record as an object for a program."""
    return json.dumps({name: getattr(record, name) for name in JSON_FIELDS})
