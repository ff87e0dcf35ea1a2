"""Train every row of a search or ablation, and keep its scores beside it (not its weights).

    python benchmarks/search.py results/questions/searches/2-dropout.toml --seeds 3

What a search in the same folder has trained already is taken over.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.assets.places import Places
from harness.cli.train import recipe_from, train_here
from harness.core.errors import DataError
from harness.core.json_text import parse_json, write_sealed
from harness.results.questions import (
    Search,
    SearchRow,
    Trial,
    read_search,
    read_searches,
    trials_file,
)


def trial_of(training: Mapping[str, Any]) -> Trial:
    """The trial of a checkpoint's training.json. Raises DataError where nothing was scored."""
    if not training["scores"]:
        raise DataError(
            "wanted scores on a development set, found none: give --dev a task"
        )
    step, best = max(training["scores"], key=lambda score: score[1])
    taken = ("seed", "before", "steps", "seconds", "start", "data", "environment")
    fields = {name: training[name] for name in taken}
    return Trial(**fields, best=best, step=step, loss=training["curve"][-1][1])


def with_trial(search: Search, row: SearchRow, trial: Trial) -> Search:
    """The search with one trial more, in the place of an earlier one of its seed."""
    command = search.command(row)
    by_seed = {kept.seed: kept for kept in search.trials.get(command, ())} | {
        trial.seed: trial
    }
    trials = tuple(by_seed[seed] for seed in sorted(by_seed))
    return replace(search, trials={**search.trials, command: trials})


def write_trials(search: Search) -> None:
    """The trials of its rows, beside it; those of commands that it has no more are left out."""
    commands = [search.command(row) for row in search.rows]
    kept = {
        c: [asdict(t) for t in search.trials[c]] for c in commands if c in search.trials
    }
    write_sealed(trials_file(search.path), kept, sort_keys=True)


def trained_in(folder: Path) -> dict[tuple[str, int], Trial]:
    """Every trial of the searches of a folder, by its command and seed."""
    return {
        (command, trial.seed): trial
        for search in read_searches(folder)
        for command, trials in search.trials.items()
        for trial in trials
    }


def train_rows(search: Search, seeds: int, places: Places, threads: int | None) -> None:
    """Train the rows that have no trial of a seed yet; the file of trials has each at once."""
    trained = trained_in(search.path.parent)
    for row in search.rows:
        command = search.command(row)
        for seed in range(seeds):
            trial = trained.get((command, seed))
            if trial in search.trials.get(command, ()):
                continue
            if trial is None:
                print(f"{row.label}: harness train {command} --seed {seed}")
                with tempfile.TemporaryDirectory(prefix="harness-search-") as folder:
                    out = Path(folder) / "out"
                    given = {"cache": places.cache, "data_dir": places.data_dir}
                    train_here(
                        recipe_from(command, out, seed=seed, threads=threads, **given)
                    )
                    training = (out / "training.json").read_text(encoding="utf-8")
                trial = trial_of(parse_json(training))
            search = with_trial(search, row, trial)
            write_trials(search)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the options of a command line, and train."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "spec", type=Path, help="as in results/questions/searches/*.toml"
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="seeds 0..K-1 of every row"
    )
    parser.add_argument("--threads", type=int, help="other counts give other bits")
    parser.add_argument("--cache", type=Path, help="folder for encodings")
    parser.add_argument("--data-dir", type=Path, help="folder with the data sets")
    given = parser.parse_args(arguments)
    places = Places.from_environment(
        os.environ, cache=given.cache, data_dir=given.data_dir
    )
    train_rows(read_search(given.spec), given.seeds, places, given.threads)


if __name__ == "__main__":
    main()
