"""Train every row of a search or ablation, and store its scores (not its weights).

    python benchmarks/search.py results/questions/searches/2-dropout.toml --seeds 3

A training that a search of the same folder has made already is not repeated. The trials
of all rows are in one file next to that of the search.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.cli.train import recipe_from, run_training
from harness.core.errors import DataError
from harness.core.json_text import parse_json, write_json
from harness.data.places import Places
from harness.results.questions import (
    Search,
    SearchRow,
    Trial,
    read_search,
    read_searches,
    trials_file,
)


def trial_of(training: Mapping[str, Any]) -> Trial:
    """The trial of a checkpoint's training.json. Raises DataError if nothing was scored."""
    if not training["scores"]:
        raise DataError(
            "wanted scores on a development set, found none: give --dev a task"
        )
    best_step, best_score = max(training["scores"], key=lambda score: score[1])
    _, last_loss = training["curve"][-1]
    return Trial(
        seed=training["seed"],
        before=training["before"],
        steps=training["steps"],
        seconds=training["seconds"],
        start=training["start"],
        data=training["data"],
        environment=training["environment"],
        best=best_score,
        step=best_step,
        loss=last_loss,
    )


def with_trial(search: Search, row: SearchRow, trial: Trial) -> Search:
    """The search with a trial of a row, which replaces an earlier trial of its seed."""
    command = search.command(row)
    trial_by_seed = {known.seed: known for known in search.trials.get(command, ())}
    trial_by_seed[trial.seed] = trial
    trials = tuple(trial_by_seed[seed] for seed in sorted(trial_by_seed))
    return replace(search, trials={**search.trials, command: trials})


def write_trials(search: Search) -> None:
    """Write the trials of a search's rows, without those of rows that it has no more."""
    content = {}
    for row in search.rows:
        command = search.command(row)
        if command in search.trials:
            content[command] = [asdict(trial) for trial in search.trials[command]]
    write_json(trials_file(search.path), content, sort_keys=True)


def trained_in(folder: Path) -> dict[tuple[str, int], Trial]:
    """Every trial of the searches of a folder, by its command and seed."""
    trained = {}
    for search in read_searches(folder):
        for command, trials in search.trials.items():
            for trial in trials:
                trained[command, trial.seed] = trial
    return trained


def train_rows(search: Search, seeds: int, places: Places, threads: int | None) -> None:
    """Train the rows that have no trial of a seed yet, and store each trial at once.

    Args:
        search: The search.
        seeds: Seeds 0 to seeds - 1 of each row are trained.
        places: Where data and checkpoints are.
        threads: The number of torch's threads; None leaves it as it is.
    """
    trained = trained_in(search.path.parent)
    for row in search.rows:
        command = search.command(row)
        for seed in range(seeds):
            trial = trained.get((command, seed))
            if trial in search.trials.get(command, ()):
                continue
            if trial is None:
                print(f"{row.label}: harness train {command} --seed {seed}")
                trial = _train(command, seed, places, threads)
            search = with_trial(search, row, trial)
            write_trials(search)


def _train(command: str, seed: int, places: Places, threads: int | None) -> Trial:
    """Train a row in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix="harness-search-") as folder:
        out = Path(folder) / "out"
        recipe = recipe_from(
            command,
            out,
            seed=seed,
            threads=threads,
            cache=places.cache,
            data_dir=places.data_dir,
        )
        run_training(recipe)
        training = (out / "training.json").read_text(encoding="utf-8")
    return trial_of(parse_json(training))


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
    options = parser.parse_args(arguments)
    places = Places.from_environment(
        os.environ, cache=options.cache, data_dir=options.data_dir
    )
    train_rows(read_search(options.spec), options.seeds, places, options.threads)


if __name__ == "__main__":
    main()
