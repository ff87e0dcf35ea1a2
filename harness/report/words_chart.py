"""The picture of word frequency against the norm and the neighbours (BERT-flow, Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core import charts
from harness.core.metrics import word_frequency
from harness.report.kinds import looks_of
from harness.report.pictures import Picture
from harness.results.costs import post_processing
from harness.results.encodings import encodings
from harness.results.index import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/word-frequency.svg"
TASK = "word-frequency"
STATISTICS = {"norm": ("norm",), "distance of 3 nearest": ("distance", "k=3")}
ALL, *RANGES = word_frequency.RANGES
LEAST = 0.99  # share of the words that a shown method has vectors of

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
        "The 10,000 most frequent words of English Wikipedia, each encoded alone, by rank.",
        "Means over the words of a range, relative to the mean over all of them.",
    )
    return Picture(
        "Word frequency against norm and neighbours",
        f"Relative norms and distances of neighbours by rank for {', '.join(rows)}.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, rows),
        heights=(1,) * len(rows),
        inches=2.2 + 2.7 * len(rows),
        columns=len(STATISTICS),
    )


def _ratios(results: Results, method: str) -> Ratios:
    """The ratios of a method; none where it lacks words or a mean is undefined."""
    [record, *_] = results.records(method, TASK)
    if record.facts["zero_vectors"] > (1 - LEAST) * record.pairs:
        return ()
    ratios = []
    for path in STATISTICS.values():
        means = {r: results.value(method, TASK, *path, r).mean for r in (ALL, *RANGES)}
        whole = means.pop(ALL)
        known = {ranks: mean / whole for ranks, mean in means.items() if mean and whole}
        if len(known) < len(RANGES):
            return ()
        ratios.append(known)
    return ratios


def _draw(panels: Sequence[Axes], shown: Mapping[str, Mapping[str, Ratios]]) -> Mapping[str, str]:
    looks = looks_of(post_processing(method) for own in shown.values() for method in own)
    hints: dict[str, str] = {}
    places = [(plain, column) for plain in shown for column in range(len(STATISTICS))]
    for axes, (plain, column) in zip(panels, places, strict=True):
        axes.axhline(1, color="#8b949e", ls="--", zorder=1)
        for number, (method, ratios) in enumerate(shown[plain].items()):
            kind, name = post_processing(method), f"words-{plain}-{column}-{number}"
            values = list(ratios[column].values())
            axes.plot(range(len(values)), values, label=kind, ms=6, gid=name, **looks[kind])
            told = ", ".join(f"{ranks}: {ratio:.2f}" for ranks, ratio in ratios[column].items())
            hints[name] = f"{method}: {told}"
        axes.set_xticks(range(len(RANGES)), labels=RANGES)
        axes.set_ylabel(plain if column == 0 else "")
    for axes, statistic in zip(panels[-len(STATISTICS) :], STATISTICS, strict=True):
        axes.set_xlabel(f"{statistic}, by rank")
    charts.legend(panels, list(looks))
    return hints
