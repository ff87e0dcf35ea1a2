"""Searches and ablations as they stand in a page, beside what is published."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from harness.report.markdown import table
from harness.results.index import NOT_MEASURED, value
from harness.results.published import Table
from harness.results.searches import Search, SearchRow

HEAD = ("", "options", "before", "best", "at step", "last loss", "seeds")


def search_parts(search: Search, tables: Mapping[str, Table]) -> list[str]:
    """Title, caption and table of one search; its published table is one of `tables`."""
    how = f"Each row is `harness train {search.recipe}` with its options; `before` and `best` "
    how += "are Spearman in points on the development set that the recipe names."
    head, lines = [*HEAD], [_line(search, row) for row in search.rows]
    if search.table:
        head.append("published")
        scores = search.published(tables)
        for line, score in zip(lines, scores, strict=True):
            line.append("" if score is None else f"{score:.1f}")
    return [f"### {search.title}", f"{search.caption}\n\n{how}", table(head, lines)]


def _line(search: Search, row: SearchRow) -> list[str]:
    options, trials = f"`{row.options}`" if row.options else "", search.trials_of(row)
    if not trials:
        return [row.label, options, *[NOT_MEASURED] * 4, ""]
    return [
        row.label,
        options,
        _spread([trial.before for trial in trials]),
        _spread([trial.best for trial in trials]),
        ", ".join(f"{trial.step:,} of {trial.steps:,}" for trial in trials),
        f"{fmean(trial.loss for trial in trials):.3f}",
        str(len(trials)),
    ]


def _spread(scores: list[float]) -> str:
    """Mean and spread over seeds; one number where all seeds have it."""
    return f"{scores[0]:.2f}" if len(set(scores)) == 1 else str(value(scores))
