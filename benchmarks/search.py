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
from harness.conclusions.searches import (
    Search,
    Trial,
    read_search,
    read_searches,
    trials_file,
)
from harness.core.errors import DataError
from harness.core.files import parse_json, write_json
from harness.data.places import Places


def trial_of(training: Mapping[str, Any]) -> Trial:
    """The trial of a checkpoint's training.json. Raises DataError if nothing was scored."""
    if not training["scores"]:
        raise DataError(
            "wanted scores on a development set, found none: give --dev a task"
        )
    best_step, best_score = max(training["scores"], key=lambda score: score[1])
    _, last_loss = training["curve"][-1]
    as_stated = ("seed", "before", "steps", "seconds", "start", "data", "environment")
    facts = {name: training[name] for name in as_stated}
    return Trial(**facts, best=best_score, step=best_step, loss=last_loss)


def train_rows(search: Search, seeds: int, places: Places, threads: int | None) -> None:
    """Train the rows that have no trial of a seed yet, and store each trial at once.

    Args:
        search: The search.
        seeds: Seeds 0 to seeds - 1 of each row are trained.
        places: Where data and checkpoints are.
        threads: The number of torch's threads; None leaves it as it is.
    """
    trained: dict[tuple[str, int], Trial] = {}  # by command and seed
    for other in (*read_searches(search.path.parent), search):
        for command, trials in other.trials.items():
            for trial in trials:
                trained[command, trial.seed] = trial
    commands = dict.fromkeys(search.command(row) for row in search.rows)
    for command in commands:
        for seed in range(seeds):
            if (command, seed) not in trained:
                print(f"harness train {command} --seed {seed}")
                trained[command, seed] = train(command, seed, places, threads)
            write_trials(search, trained)


def train(command: str, seed: int, places: Places, threads: int | None) -> Trial:
    """Train a row in a scratch folder."""
    with tempfile.TemporaryDirectory(prefix="harness-search-") as folder:
        out = Path(folder) / "out"
        recipe = replace(recipe_from(command), seed=seed, threads=threads)
        run_training(recipe, out, places)
        training = (out / "training.json").read_text(encoding="utf-8")
    return trial_of(parse_json(training))


def write_trials(search: Search, trained: Mapping[tuple[str, int], Trial]) -> None:
    """Write the trials of a search's rows, seed by seed."""
    commands = {search.command(row) for row in search.rows}
    content: dict[str, list[dict[str, Any]]] = {}
    for (command, _), trial in sorted(trained.items(), key=lambda item: item[0]):
        if command in commands:
            content.setdefault(command, []).append(asdict(trial))
    write_json(trials_file(search.path), content, sort_keys=True)


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
