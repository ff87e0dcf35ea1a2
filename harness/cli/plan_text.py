"""A plan as text for a terminal: what can run here, the work that is left, what is missing."""

from __future__ import annotations

from harness.core.files import sized
from harness.core.terminal import counted, duration, text_table, wrapped
from harness.evaluation.plan import Plan

MOST_MISSING = 10  # assets that a plan names


def plan_text(plan: Plan, width: int | None = None) -> str:
    """A plan for a terminal of `width` columns; None is any."""
    sentence = f"{plan.runnable:,} of {counted(plan.cells, 'cell')} can run here"
    if plan.measured:
        verb = "is" if plan.measured == 1 else "are"
        sentence += f"; {plan.measured:,} {verb} already measured"
    lines = [f"{sentence}."]
    scores_left = plan.runnable - plan.measured
    if scores_left > 0:
        # As in `9,646 sentences to encode (about 40 s), then 1 fit and 1 score.`
        steps = []
        if plan.trainings:
            steps.append(f"{counted(plan.trainings, 'encoder')} to train")
        if plan.sentences:
            time = "speed not known yet"
            if plan.seconds is not None:
                time = f"about {duration(plan.seconds)}"
            steps.append(f"{counted(plan.sentences, 'sentence')} to encode ({time})")
        fits = f"{counted(plan.fits, 'fit')} and " if plan.fits else ""
        steps.append(f"{fits}{counted(scores_left, 'score')}")
        lines.append(wrapped(f"{', then '.join(steps)}.", width))
    if not plan.missing:
        return "\n".join(lines)
    size = sized(sum(asset.bytes or 0 for asset in plan.missing.values()))
    lines += [
        "",
        f"{counted(len(plan.missing), 'asset')} missing, {size} as far as known:",
    ]
    most_needed = sorted(
        plan.missing.items(), key=lambda item: item[1].cells, reverse=True
    )
    rows = []
    for name, asset in most_needed[:MOST_MISSING]:
        size = sized(asset.bytes) if asset.bytes else ""
        get = asset.get if name in asset.get.split() else f"{name}: {asset.get}"
        rows.append((get, size, asset.cells))
    lines.append(text_table(rows, ("to get it", "size", "cells"), width))
    unnamed_count = len(plan.missing) - MOST_MISSING
    if unnamed_count > 0:
        lines.append(f"and {unnamed_count} more: harness list assets")
    return "\n".join(lines)
