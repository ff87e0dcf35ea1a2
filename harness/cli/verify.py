"""Commands about what a model claims: verify, search."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.core.errors import AssetMissing, UsageError
from harness.core.files import file_name, make_folder, write_atomically
from harness.core.json_text import parse_json
from harness.core.metrics.similarity import CORRELATION_SCORES
from harness.core.progress import Bar
from harness.core.types import Method
from harness.encoders.checkpoint import MODULES_FILE
from harness.evaluation.choice_search import ChoiceSearch
from harness.evaluation.measured_model import MeasuredModel
from harness.evaluation.verification import FollowUp, check_claims
from harness.registry import look_up
from harness.report.card_check import (
    explanation_in_words,
    models_page,
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.resolve import Resolver
from harness.results.cards import (
    CARD_FILE,
    CardClaim,
    Statement,
    claims_of_model,
    parse_points,
    set_other_models_apart,
)
from harness.results.checked_claims import Verification
from harness.tasks.loader import TaskLoader
from harness.transforms.pooling import NATIVE, Native

MODELS_PAGE = "README.md"  # of a folder of many verifications

MostEncodings = Annotated[
    int | None,
    opt.option(
        "--encodings",
        min=1,
        metavar="N",
        help="Search with N encodings of a task at most.",
    ),
]

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...", help="Model folders, hub repositories or encoders."
    ),
]


def verify_command(
    model: Models,
    folders: opt.Folders,
    claims: Annotated[
        list[Path] | None,
        typer.Option(
            "--claims",
            help="A card, a result file of mteb, or a folder of these; repeatable.",
        ),
    ] = None,
    search: Annotated[
        bool,
        typer.Option("--search", help="Measure what a differing claim may have meant."),
    ] = False,
    encodings: MostEncodings = None,
    output: Annotated[
        Path | None,
        opt.option(
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

    The numbers of a model's card (model-index), of .eval_results and of mteb's result
    files beside it are measured under the model's own modules and prompts. Exit status
    0: all that was checked is reproduced; 1: a number differs; 3: something is missing,
    or nothing could be checked.
    """
    if claims and len(model) > 1:
        raise UsageError("--claims belong to one model: verify the models one by one")
    if output is not None:
        make_folder(output, "--output", to_write=True)
    statuses = []
    for name in model:
        kept = _kept(output, name)
        if kept is not None:
            opt.note(f"{name}: done before ({output})")
            statuses.append(int(kept["exit_status"]))
            continue
        found = _verified(
            name,
            folders,
            encoder or [],
            claims or [],
            search=search,
            most_encodings=encodings,
        )
        statuses.append(found.exit_status)
        if output is not None:
            _keep(output, found)
        _say(found, markdown=markdown, as_json=as_json)
    if output is not None:
        pages = sorted(output.glob("*.json"))
        facts = [parse_json(path.read_bytes()) for path in pages]
        write_atomically(output / MODELS_PAGE, models_page(facts).encode())
        opt.note(f"{output / MODELS_PAGE}: {len(facts)} models")
    raise typer.Exit(min(filter(None, statuses), default=0))


def _say(found: Verification, *, markdown: bool, as_json: bool) -> None:
    if as_json:
        opt.say(json.dumps(verification_facts(found)))
    elif markdown:
        opt.say(verification_markdown(found, version_of("sentence-embedding-harness")))
    else:
        opt.say(verification_text(found, opt.terminal_width()))


def _file(output: Path, name: str) -> Path:
    return output / f"{file_name(name)}.json"


def _kept(output: Path | None, name: str) -> dict[str, Any] | None:
    """What an earlier call found for a model in the folder; nothing for one that was cut off."""
    if output is None or not _file(output, name).is_file():
        return None
    try:
        facts = parse_json(_file(output, name).read_bytes())
    except ValueError:
        return None
    whole = isinstance(facts, dict) and facts.get("exit_status") in (0, 1)
    return facts if whole else None


def _keep(output: Path, found: Verification) -> None:
    text = json.dumps(verification_facts(found), indent=1)
    write_atomically(_file(output, found.model), f"{text}\n".encode())


def _verified(
    name: str,
    folders: opt.Folders,
    encoders: Sequence[str],
    claims: Sequence[Path],
    *,
    search: bool,
    most_encodings: int | None = None,
) -> Verification:
    """A model with its claims checked; one that is not on this machine has a fault."""
    resolver = Resolver.from_options(folders.places(), encoders)
    try:
        method = own_method(resolver.method(name), resolver)
        folder = resolver.places.encoder(method.encoder.member(0))
    except AssetMissing as error:
        return Verification(name, name, faults=(str(error),))
    found, faults = claims_of_model(folder, resolver.registry, claims)
    source = getattr(method.encoder.source, "repo", "")
    stated = set_other_models_apart(found, (name, folder.name, source))
    with Bar(sys.stderr) as bar:
        loader = TaskLoader(resolver.places, resolver.registry.corpora)
        model = MeasuredModel(method, loader, bar)
        checked = tuple(check_claims(model, stated, resolver.registry))
        if search:
            follow_up = FollowUp(model, resolver.registry, most_encodings, opt.note)
            checked = follow_up(checked)
    identity = resolver.places.identify(method.encoder, folder)
    weights = str(identity.digests.get("weights", ""))
    return Verification(
        model=name,
        method=method.id,
        claims=checked,
        faults=faults,
        weights=weights,
        has_card=(folder / CARD_FILE).is_file(),
    )


def own_method(method: Method, resolver: Resolver) -> Method:
    """The method under the model's own modules, where it has some and its id names no other."""
    encoder = method.encoder
    folder = resolver.places.encoder(encoder.member(0))
    if (
        isinstance(method.pooling, Native)
        or method.post
        or not (folder / MODULES_FILE).is_file()
    ):
        return method
    return resolver.registry.parse(f"{encoder.name}.{NATIVE.name}")


def search_command(
    model: Annotated[
        str, typer.Argument(help="Model folder, hub repository or encoder.")
    ],
    folders: opt.Folders,
    task: Annotated[
        str, typer.Option("--task", "-t", help="Task (harness list tasks).")
    ],
    target: Annotated[
        str, typer.Option("--target", help="The number, as printed: 75.46, 0.7546.")
    ],
    metric: Annotated[
        str, typer.Option("--metric", help="The score that the number is said to be.")
    ] = "spearman",
    encodings: MostEncodings = None,
    encoder: opt.Encoders = None,
    plugin: opt.Plugins = None,  # noqa: ARG001 - its callback loads them
    as_json: opt.Json = False,
) -> None:
    """Search for the choices under which a model gives a number.

    Tried are, the cheapest first: other correlations, similarity functions and
    aggregations of the same vectors; poolings, prompts, lengths, precisions; the other
    text form and other splits; two choices at once. A line says before how many
    encodings that are at most. Exit status 1 if none gives the printed digits.
    """
    look_up("score", metric, CORRELATION_SCORES)
    resolver = Resolver.from_options(folders.places(), encoder or [])
    [name] = resolver.task_patterns([task])
    chosen = look_up("task", name, resolver.registry.tasks)
    readings = parse_points(target)
    if not readings:
        raise UsageError(
            f"--target {target}: wanted a number such as 75.46, found {target!r}"
        )
    similarity, correlation = CORRELATION_SCORES[metric]
    stated = Statement(target, metric, data_set=name, source="--target")
    claim = replace(
        CardClaim(stated),
        task=name,
        similarity=similarity,
        correlation=correlation,
        readings=readings,
    )
    method = own_method(resolver.method(model), resolver)
    with Bar(sys.stderr) as bar:
        loader = TaskLoader(resolver.places, resolver.registry.corpora)
        choices = ChoiceSearch(
            MeasuredModel(method, loader, bar),
            chosen,
            resolver.registry,
            most_encodings=encodings,
            note=opt.note,
        )
        [explanation] = choices.explanations([claim])
    if as_json:
        facts = {
            "method": method.id,
            "task": name,
            "target": target,
            "choices": list(explanation.words)
            if explanation.measured is not None
            else None,
            "measured": explanation.measured,
            "tried": explanation.tried,
            "chance": explanation.is_chance,
        }
        opt.say(json.dumps(facts))
    elif explanation.measured is not None and not explanation.words:
        opt.say(
            f"{name} {target} is reproduced as the model is ({explanation.measured:.4f})."
        )
    else:
        opt.say(explanation_in_words(f"{name} {target}", explanation))
    raise typer.Exit(0 if explanation.measured is not None else 1)
