"""`harness verify`: whether a model scores what its card says.

The numbers of a model (its card, `.eval_results`, result files of mteb) are measured, and
it is said which are reproduced.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli import options as opt
from harness.core.digests import digest_of
from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.core.files import file_name, make_folder, parse_json, write_atomically
from harness.core.terminal import Bar
from harness.core.types import Method
from harness.data.tasks.loader import TaskLoader
from harness.encoders.checkpoint import MODULES_FILE
from harness.evaluation.search import Explainer
from harness.evaluation.variants import VariantScores
from harness.evaluation.verification import check_numbers, explained
from harness.registry import Registry
from harness.report.card_check import (
    models_page,
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.resolve import Resolver
from harness.results.card_numbers import CardNumber, Verification
from harness.results.card_statements import CARD_FILE
from harness.results.cards import mark_other_models, numbers_of_model
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
        # One resolver for each model, since two folders may have the same name.
        resolver = Resolver.from_options(folders.places(), encoder)
        key = ""
        try:
            opened = _open(name, resolver, card or [])
        except AssetMissing as error:
            verification = Verification(name, name, faults=(str(error),))
        else:
            key = opened.digest({"search": search, "encodings": encodings})
            earlier_status = None
            if output is not None:
                earlier_status = _earlier_status(_facts_file(output, name), key)
            if earlier_status is not None:
                opt.note(f"{name}: done before ({output})")
                statuses.append(earlier_status)
                continue
            verification = opened.verify(search=search, most_encodings=encodings)
        statuses.append(verification.exit_status)
        if output is not None:
            facts = {**verification_facts(verification), "key": key}
            text = f"{json.dumps(facts, indent=1)}\n"
            write_atomically(_facts_file(output, name), text.encode())
            _write_models_page(output)
        _print_verification(verification, markdown=markdown, as_json=as_json)
    raise typer.Exit(opt.worst_status(statuses))


@dataclass(frozen=True, kw_only=True)
class _OpenedModel:
    """A model that is on this machine, with the numbers that are stated of it.

    Attributes:
        method: The method that its own modules define.
        key: The key of its encodings, which a digest of its files is part of.
        registry: The tasks.
        loader: Reads their texts, once for the digests and the scores.
        numbers: Its numbers.
        unchecked: Its verification before any number is checked.
    """

    method: Method
    key: str
    registry: Registry
    loader: TaskLoader
    numbers: Sequence[CardNumber]
    unchecked: Verification

    def digest(self, options: Mapping[str, Any]) -> str:
        """The digest of all that a verification depends on.

        That is the numbers, the files of the model, the data, the options and the version.
        """
        return digest_of(
            {
                "version": version_of("sentence-embedding-harness"),
                "method": self.method.identity,
                "encoder": self.key,
                "numbers": [repr(number) for number in self.numbers],
                "faults": list(self.unchecked.faults),
                "data": dict(self.unchecked.data),
                "options": dict(options),
            }
        )

    def verify(self, *, search: bool, most_encodings: int | None) -> Verification:
        """Measure the model, and check its numbers.

        Args:
            search: Whether to look for what a number that differs may have meant.
            most_encodings: How many encodings of a task such a search may make; None is
                no bound.
        """
        with Bar(sys.stderr) as bar:
            model = VariantScores(self.method, self.loader, bar)
            numbers = tuple(check_numbers(model, self.numbers, self.registry))
            if search:
                explainer = Explainer(model, self.registry, most_encodings, opt.note)
                numbers = explained(numbers, explainer)
        judged_tasks = {number.task for number in numbers if number.verdict}
        data = {
            task: digest
            for task, digest in self.unchecked.data.items()
            if task in judged_tasks
        }
        return replace(self.unchecked, numbers=numbers, data=data)


def _open(name: str, resolver: Resolver, card_files: Sequence[Path]) -> _OpenedModel:
    """A model with its numbers. Raises AssetMissing for one that is not on this machine.

    Args:
        name: The model as the command line names it.
        resolver: Finds methods and files.
        card_files: Files of numbers in addition to the ones in the model's folder.
    """
    method = own_method(resolver.method(name), resolver)
    folder = resolver.places.encoder(method.encoder.member(0))
    identity = resolver.places.identify(method.encoder, folder)
    stated_numbers, faults = numbers_of_model(folder, resolver.registry, card_files)
    repository = getattr(method.encoder.source, "repo", "")
    numbers = mark_other_models(stated_numbers, (name, folder.name, repository))
    loader = TaskLoader(resolver.places, resolver.registry.corpora)
    data = {}
    for number in numbers:
        for task in (number.task, number.or_task):
            if task and not number.why_not:
                with suppress(HarnessError):
                    texts = loader.texts(resolver.registry.tasks[task])
                    data[task] = texts.digests["data"]
    return _OpenedModel(
        method=method,
        key=identity.key,
        registry=resolver.registry,
        loader=loader,
        numbers=numbers,
        unchecked=Verification(
            model=name,
            method=method.id,
            faults=faults,
            weights=identity.digests.get("weights", ""),
            data=data,
            has_card=(folder / CARD_FILE).is_file(),
        ),
    )


def own_method(method: Method, resolver: Resolver) -> Method:
    """The method that the model's own modules define.

    If the folder has no such modules, or the id names post-processors, it is the method
    as it is.
    """
    encoder = method.encoder
    folder = resolver.places.encoder(encoder.member(0))
    has_modules = (folder / MODULES_FILE).is_file()
    if isinstance(method.pooling, Native) or method.post or not has_modules:
        return method
    return resolver.registry.parse(f"{encoder.name}.{NATIVE.name}")


def _print_verification(
    verification: Verification, *, markdown: bool, as_json: bool
) -> None:
    """Print a verification as JSON, as Markdown, or as text."""
    if as_json:
        opt.say(json.dumps(verification_facts(verification)))
    elif markdown:
        versions = {name: version_of(name) for name in PROGRAMS}
        today = datetime.now(UTC).date().isoformat()
        opt.say(verification_markdown(verification, versions, today))
    else:
        opt.say(verification_text(verification, opt.terminal_width()))


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
    is_same = isinstance(facts, dict) and facts.get("key") == key
    if not is_same or facts.get("exit_status") not in (0, 1):
        return None
    return int(facts["exit_status"])


def _write_models_page(output: Path) -> None:
    """Write the page of all models whose verifications are in the folder."""
    facts = [parse_json(path.read_bytes()) for path in sorted(output.glob("*.json"))]
    write_atomically(output / MODELS_PAGE, models_page(facts).encode())
    opt.note(f"{output / MODELS_PAGE}: {len(facts)} models")
