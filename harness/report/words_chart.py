"""The picture of word frequency against the norm and the neighbours (BERT-flow, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core import charts
from harness.core.metrics import word_frequency
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.protocols import encodings
from harness.results.reproduction import post_processing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/word-frequency.svg"
TASK = "word-frequency"
STATISTICS = {"norm": ("norm",), "distance of 3 nearest": ("distance", "k=3")}
MARGIN = 0.03  # above the largest ratio and below the least
ALL, *RANGES = word_frequency.RANGES

# Of a method: for each statistic, the mean of each range of ranks over that of all words.
Ratios = Sequence[Mapping[str, float]]


def frequency_of_words(results: Results) -> Picture | None:
    """The picture, a row an encoder; None where no method has vectors of the words."""
    rows: dict[str, Mapping[str, Ratios]] = {}
    for plain, methods in encodings(results, TASK).items():
        found = {method: ratios for method in methods if (ratios := _ratios(results, method))}
        rows |= {plain: found} if found else {}
    if not rows:
        return None
    notes = (
        "The 10,000 most frequent words of English Wikipedia, by rank: each encoded alone, or its",
        "row of the input embedding matrix (.input; in brackets the share of words of one token).",
        "Means over the words of a range, relative to the mean over all of them.",
    )
    return Picture(
        "Word frequency against norm and neighbours",
        f"Relative norms and distances of neighbours by rank for {', '.join(rows)}.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, {plain: (_label(results, plain), rows[plain]) for plain in rows}),
        heights=(1,) * len(rows),
        inches=2.2 + 2.7 * len(rows),
        columns=len(STATISTICS),
    )


def _ratios(results: Results, method: str) -> Ratios:
    """The ratios of a method; none where a mean is undefined."""
    ratios = []
    for path in STATISTICS.values():
        means = {r: results.value(method, TASK, *path, r).mean for r in (ALL, *RANGES)}
        whole = means.pop(ALL)
        known = {ranks: mean / whole for ranks, mean in means.items() if mean and whole}
        if len(known) < len(RANGES):
            return ()
        ratios.append(known)
    return ratios


def _label(results: Results, method: str) -> str:
    """A method, and the share of the words that it has vectors of where it lacks some."""
    [record, *_] = results.records(method, TASK)
    share = 1 - record.facts["zero_vectors"] / record.pairs
    return method if share == 1 else f"{method} ({share:.0%})"


def _draw(
    panels: Sequence[Axes], shown: Mapping[str, tuple[str, Mapping[str, Ratios]]]
) -> Mapping[str, str]:
    looks = looks_of(post_processing(method) for _, own in shown.values() for method in own)
    pairs = [two for _, own in shown.values() for two in own.values()]
    every = [ratio for two in pairs for ratios in two for ratio in ratios.values()]
    least, most = min(every), max(every)
    hints: dict[str, str] = {}
    places = [(plain, column) for plain in shown for column in range(len(STATISTICS))]
    for axes, (plain, column) in zip(panels, places, strict=True):
        axes.axhline(1, color="#8b949e", ls="--", zorder=1)
        label, own = shown[plain]
        for number, (method, ratios) in enumerate(own.items()):
            kind, name = post_processing(method), f"words-{plain}-{column}-{number}"
            values = list(ratios[column].values())
            axes.plot(range(len(values)), values, label=kind, ms=6, gid=name, **looks[kind])
            told = ", ".join(f"{ranks}: {ratio:.2f}" for ranks, ratio in ratios[column].items())
            hints[name] = f"{method}: {told}"
        axes.set_ylim(least - MARGIN, most + MARGIN)  # as all panels: a flat line looks flat
        axes.set_xticks(range(len(RANGES)), labels=RANGES)
        axes.set_ylabel(label if column == 0 else "")
    for axes, statistic in zip(panels[-len(STATISTICS) :], STATISTICS, strict=True):
        axes.set_xlabel(f"{statistic}, by rank")
    charts.legend(panels, list(looks))
    return hints
