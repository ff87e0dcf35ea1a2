"""The picture of the spectrum of embeddings, as encoded and behind each post-processor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from harness.core import charts
from harness.report.pictures import Picture, looks_of
from harness.results.index import Results
from harness.results.protocols import encodings
from harness.results.reproduction import post_processing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "tables/spectrum.svg"
TASK = "spectrum"
LEAST = 0.01  # percent: what is below leaves the frame

Spectra = Mapping[str, Mapping[int, float]]  # by method: relative eigenvalues, x100, by place


def spectrum_of_embeddings(results: Results) -> Picture | None:
    """The picture, a panel an encoder; None where no spectrum was measured."""
    panels: dict[str, Spectra] = {}
    for plain, methods in encodings(results, TASK).items():
        shown = {method: spectrum for method in methods if (spectrum := _spectrum(results, method))}
        if shown:
            panels[plain] = shown
    if not panels:
        return None
    notes = (
        "Eigenvalues of the covariance over STS-B's test sentences, in percent of the largest.",
        "Post-processors are fitted on all splits; the mean over seeds where there are several.",
    )
    return Picture(
        "Spectrum of the embeddings",
        f"Eigenvalues by their place for {', '.join(panels)}, as encoded and post-processed.",
        notes,
        results.digest(),
        lambda axes: _draw(axes, panels),
        heights=(1,) * len(panels),
        inches=2.2 + 3.0 * len(panels),
    )


def _spectrum(results: Results, method: str) -> dict[int, float]:
    """The positive eigenvalues of a method, by place."""
    every = [record.scores["spectrum"] for record in results.records(method, TASK)]
    places = [place for place in every[0] if all(one.get(place) for one in every)]
    return {int(place): fmean(one[place] for one in every) for place in places}


def _draw(panels: Sequence[Axes], shown: Mapping[str, Spectra]) -> Mapping[str, str]:
    looks = looks_of(post_processing(method) for spectra in shown.values() for method in spectra)
    hints: dict[str, str] = {}
    values = [v for spectra in shown.values() for one in spectra.values() for v in one.values()]
    low = min(value for value in values if value >= LEAST) / 2
    for row, (axes, (plain, spectra)) in enumerate(zip(panels, shown.items(), strict=True)):
        for number, (method, spectrum) in enumerate(spectra.items()):
            kind, name = post_processing(method), f"spectrum-{row}-{number}"
            axes.plot(
                *zip(*spectrum.items(), strict=True), label=kind, ms=5, gid=name, **looks[kind]
            )
            hints[name] = method
        axes.set(xscale="log", yscale="log", ylabel=f"{plain}: %", ylim=(low, 200))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
    panels[-1].set_xlabel("place of the eigenvalue")
    charts.legend(panels, list(looks))
    return hints
