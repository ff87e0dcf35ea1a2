"""The command that says what a run would take: plan."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from harness.cli.options import (
    BatchTokens,
    CacheDir,
    DataDir,
    Device,
    Dtype,
    Encoders,
    Jobs,
    Json,
    Limit,
    Methods,
    Output,
    Seeds,
    Tasks,
    say,
)
from harness.cli.selecting import Wanted, records_folder, select


def plan(
    method: Methods = None,
    task: Tasks = None,
    seeds: Seeds = 5,
    limit: Limit = None,
    data_dir: DataDir = None,
    encoder: Encoders = None,
    device: Device = "cpu",
    dtype: Dtype = None,
    batch_tokens: BatchTokens = None,
    output: Output = Path("runs"),
    cache: CacheDir = None,
    jobs: Jobs = None,
    as_json: Json = False,
) -> None:
    """Show what a run would do: cells, assets and how to get them, what is cached, time.

    Times are those that such cells took here, in OUTPUT, or else when the committed records were
    made, scaled to this machine.
    """
    from harness.cli.advice import what_next
    from harness.core.terminal import width_of
    from harness.evaluation.engines import default_jobs
    from harness.evaluation.forecast import Forecast
    from harness.evaluation.plan import plan as make_plan
    from harness.evaluation.plan import render_plan
    from harness.results.index import Results
    from harness.results.layout import own_or_committed
    from harness.results.records import Store

    hardware = (device, dtype, batch_tokens)
    wanted = Wanted(method, task, seeds, data_dir, encoder, cache, limit, False, *hardware)
    chosen = select(wanted)
    runs, baseline = Store(records_folder(output, limit)), own_or_committed(Path("results"))
    forecast = Forecast.read(chosen.cells, runs, Store(baseline))
    made = make_plan(chosen.cells, chosen.loader, runs, forecast, jobs or default_jobs())
    if as_json:
        say(json.dumps(asdict(made) | {"seconds": made.seconds, "parts": made.parts}))
        return
    say(render_plan(made, width_of(sys.stdout.isatty())))
    if not method and not task:
        steps = what_next(baseline, chosen.registry, chosen.loader.places, Results({}))
        say("\n".join(["", *steps]))
