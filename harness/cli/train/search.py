"""`harness train search`: every training of a search that was not done yet."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import CacheDir, DataDir, say_folded
from harness.cli.train.family import run_command
from harness.cli.train.options import Threads


def search(
    spec: Annotated[
        Path, typer.Argument(help="What is tried, as in results/questions/searches/*.toml.")
    ],
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0..K-1 of every row.")] = 1,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Train every row of a search or ablation, and keep its scores beside it (not its weights).

    What a search in the same folder has trained already is taken over.
    """
    from harness.results.questions import Trial, read_search, read_searches

    current = read_search(spec)
    others = [search.trials for search in read_searches(spec.parent)]
    folders = {"--cache": cache, "--data-dir": data_dir, "--threads": threads}
    given = [word for name, v in folders.items() if v is not None for word in (name, str(v))]
    for row in current.rows:
        command = current.command(row)
        for seed in range(seeds):
            known = [t for trials in others for t in trials.get(command, ()) if t.seed == seed]
            if known:
                trial = known[0]
                if trial in current.trials.get(command, ()):
                    continue
            else:
                say_folded(f"{row.label}: harness train {command} --seed {seed}")
                trial = Trial.of(_train([*command.split(), "--seed", str(seed), *given]))
            current = current.with_trial(row, trial)
            current.write()


def _train(arguments: list[str]) -> dict[str, Any]:
    """The training.json of a training whose weights are not kept."""
    with tempfile.TemporaryDirectory(prefix="harness-search-") as folder:
        out = Path(folder) / "out"
        run_command([*arguments, "--out", str(out)])
        return json.loads((out / "training.json").read_text(encoding="utf-8"))
