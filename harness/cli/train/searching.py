"""`harness train search`: every training of a search that was not done yet."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import CacheDir, DataDir, say
from harness.cli.train.families import run_command, train
from harness.cli.train.training import Threads


@train.command("search")
def search(
    spec: Annotated[Path, typer.Argument(help="What is tried, as in results/searches/*.toml.")],
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0..K-1 of every row.")] = 1,
    threads: Threads = None,
    data_dir: DataDir = None,
    cache: CacheDir = None,
) -> None:
    """Train every row of a search or ablation, and keep its scores beside it (not its weights).

    What a search in the same folder has trained already is taken over.
    """
    from harness.report.searches import Trial, read_search, read_searches

    found = read_search(spec)
    others = [search.trials for search in read_searches(spec.parent)]
    folders = {"--cache": cache, "--data-dir": data_dir, "--threads": threads}
    given = [word for name, v in folders.items() if v is not None for word in (name, str(v))]
    for row in found.rows:
        for seed in range(seeds):
            every = [t for trials in others for t in trials.get(found.command(row), ())]
            done = next((trial for trial in every if trial.seed == seed), None)
            if done is not None:
                if done not in found.trials.get(found.command(row), ()):
                    found = found.with_trial(row, done)
                    found.write()
                continue
            place = Path(tempfile.mkdtemp(prefix="harness-search-"))
            try:
                out = place / "out"
                words = [*found.command(row).split(), "--seed", str(seed), "--out", str(out)]
                say(f"{row.label}: harness train {found.command(row)} --seed {seed}")
                run_command([*words, *given])
                told = json.loads((out / "training.json").read_text(encoding="utf-8"))
                found = found.with_trial(row, Trial.of(told))
                found.write()
            finally:
                shutil.rmtree(place)


__all__ = ["train"]  # with its commands
