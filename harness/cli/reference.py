"""`harness reference`: scores of other programs beside ours: those sent, and those made here."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, DataDir, Methods, Results, Tasks, say
from harness.cli.train.family import run_command
from harness.cli.train.finetune import FineTuning, recipes
from harness.core.errors import UsageError
from harness.core.files import write_atomically
from harness.results.conformance import Reference, ReferenceCell, read_reference
from harness.results.layout import REFERENCES

SCORES = "scores.json"

reference = typer.Typer(
    help="Scores of other programs beside ours: results/references, shown by harness report.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@reference.command()
def add(
    file: Annotated[Path, typer.Argument(help="A reference in JSON (docs/how-to/reference.md).")],
    results: Results = Path("results"),
) -> None:
    """Check a reference, show it beside our records, and take it into results/references."""
    from harness.report.pages import comparison_table
    from harness.results.conformance import compare_all

    found, place = read_reference(file), results / REFERENCES / file.name
    if place.exists() and place.read_bytes() != file.read_bytes():
        raise UsageError(f"{place} holds another reference; rename {file}, or remove that one")
    say(comparison_table(compare_all([found], results)[0][1]))
    write_atomically(place, file.read_bytes())
    say(f"{place}: {sum(len(cell.scores) for cell in found.cells)} scores; harness report shows it")


@reference.command()
def make(
    program: Annotated[str, typer.Argument(help="sentence-transformers or mteb.")],
    method: Methods = None,
    task: Tasks = None,
    results: Results = Path("results"),
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Score methods on tasks by another package, and write what it gave to results/references."""
    from harness.assets.places import Places
    from harness.core.provenance import extra
    from harness.registry import known, load_registry

    with extra("mteb"):
        from harness.interop.sentence_transformers import PROGRAMS, make_reference

    known("program", program, PROGRAMS)
    if not method or not task:
        raise UsageError("wanted methods and tasks: -m METHOD -t TASK")
    registered = load_registry()
    methods, tasks = registered.select_methods(method), registered.select_tasks(task)
    places = Places.from_environment(os.environ, cache=cache, data_dir=data_dir)
    chosen = [*(f"-m {shlex.quote(m)}" for m in method), *(f"-t {shlex.quote(t)}" for t in task)]
    command = " ".join(["harness reference make", program, *chosen])
    _write(make_reference(program, methods, tasks, places, command), results)


@reference.command()
def train(
    specs: Annotated[
        list[Path], typer.Argument(help="Trainings, as in results/questions/conformance/*.toml.")
    ],
    results: Results = Path("results"),
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Train by sentence-transformers on the batches of harness train, and write what it gave.

    The same trainings here: harness train search SPEC.
    """
    from importlib.metadata import version

    from harness.results.questions import read_search

    cells = []
    for search in map(read_search, specs):
        for row in search.rows:
            scores = _trained(search.command(row), data_dir, cache)
            cells.append(ReferenceCell(scores, training=search.command(row)))
    packages = ("sentence-transformers", "transformers", "torch")
    _write(
        Reference(
            "sentence_transformers_training.json",
            "sentence-transformers, SentenceTransformerTrainer with its own losses",
            "Spearman x100 of its EmbeddingSimilarityEvaluator on the development set before and "
            "after, and the loss of the last step in nats; seed 0. Batches, learning rates, first "
            "weights of the classifier are those of harness train; the norm of the gradient is "
            "bounded over the classifier too, as its first training loop did",
            " ".join(["harness reference train", *(spec.as_posix() for spec in specs)]),
            tuple(cells),
            ", ".join(f"{package} {version(package)}" for package in packages),
        ),
        results,
    )


class ByAnotherProgram(FineTuning):
    """A fine-tuning whose batches and settings sentence-transformers trains with."""

    def train(self, task: Any, data: Mapping[str, str]) -> None:  # noqa: ARG002 - as it is called
        """Train, and write the scores to the output folder in place of a checkpoint."""
        from harness.interop import sentence_transformers

        if self.dev is None:
            raise UsageError("wanted a development task to score on: --dev sts-b.senteval.dev")
        curve = sentence_transformers.train(task, self.start.folder, self.dev.pairs)
        scores = {"before": curve.before, "best": curve.scores[-1][1], "loss": curve.losses[-1]}
        self.options.out.mkdir(parents=True)
        (self.options.out / SCORES).write_text(json.dumps(scores), encoding="utf-8")


def _trained(command: str, data_dir: Path | None, cache: Path | None) -> dict[str, float]:
    """What another program gives for a training, with seed 0."""
    folders = {"--data-dir": data_dir, "--cache": cache}
    given = [word for name, v in folders.items() if v is not None for word in (name, str(v))]
    with tempfile.TemporaryDirectory(prefix="harness-reference-") as folder:
        out = Path(folder) / "out"
        arguments = [*command.split(), "--seed", "0", "--out", str(out), *given]
        run_command(arguments, recipes(ByAnotherProgram))
        found: dict[str, float] = json.loads((out / SCORES).read_text(encoding="utf-8"))
        return found


def _write(made: Reference, results: Path) -> None:
    """Write a reference to its place."""
    place = results / REFERENCES / made.file
    write_atomically(place, made.encoded())
    say(f"{place}: {sum(len(cell.scores) for cell in made.cells)} scores; harness report shows it")
