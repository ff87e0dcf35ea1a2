"""Why whitening fitted on a year's own sentences moves its score over all subsets.

For each subset: pairs, sentences, distinct ones and mean gold; the mean cosine and Spearman x100 of
the mean of all-mpnet-base-v2 as encoded, whitened `@target`, and whitened without the subset's own
sentences. Then the score over all subsets under other fits, and with the order inside the subsets
from one fit and their means and deviations from another.

    python tools/whitening_subsets.py FOLDER sts12.senteval sts13.senteval --data-dir DIR
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from baselines.mpnet_base import MPNET
from baselines.whitening import Whitening
from harness import Pairs, Places, load_registry
from harness.assets.places import CACHE
from harness.core.metrics import cosine
from harness.core.progress import Progress
from harness.evaluation.embeddings import CachedEncoder
from harness.transforms.pooling import MEAN

YEARS = tuple(f"sts{year}.senteval" for year in range(12, 17))


class Year:
    """The pairs of a year, and their cosines under maps fitted on some sentences."""

    def __init__(self, pairs: Pairs, vectors: dict[str, np.ndarray]) -> None:
        self.pairs, self.vectors, self.group = pairs, vectors, np.array(pairs.group)
        self.sentences = [*pairs.a, *pairs.b]

    def rows(self, texts: list[str] | tuple[str, ...]) -> np.ndarray:
        return np.stack([self.vectors[text] for text in texts])

    def encoded(self) -> np.ndarray:
        return cosine(self.rows(self.pairs.a), self.rows(self.pairs.b))[0]

    def whitened(self, texts: list[str]) -> np.ndarray:
        fitted = Whitening().fit(self.rows(texts), np.random.default_rng(0))
        return cosine(fitted(self.rows(self.pairs.a)), fitted(self.rows(self.pairs.b)))[0]

    def without(self, subset: str) -> list[str]:
        return [s for s, of in zip(self.sentences, [*self.group] * 2, strict=True) if of != subset]

    def rho(self, values: np.ndarray, where: np.ndarray | slice = slice(None)) -> float:
        return 100 * float(spearmanr(values[where], self.pairs.gold[where])[0])

    def levels_of(self, levels: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Each subset in one's order, with the mean and deviation that it has in the other."""
        mixed = order.copy()
        for subset in {*self.group}:
            at = self.group == subset
            standard = (order[at] - order[at].mean()) / order[at].std()
            mixed[at] = standard * levels[at].std() + levels[at].mean()
        return mixed


def report(name: str, year: Year, others: list[str]) -> None:
    """Print the measures of one year."""
    encoded, target = year.encoded(), year.whitened(year.sentences)
    print(f"\n{name}: {len(year.sentences):,} sentences, {len({*year.sentences}):,} distinct")
    for subset in sorted({*year.group}):
        at = year.group == subset
        mine = [s for s, here in zip(year.sentences, [*at] * 2, strict=True) if here]
        print(
            f"  {subset}: {len(mine):,} sentences, {len({*mine}):,} distinct, mean gold "
            f"{year.pairs.gold[at].mean():.2f}"
        )
        for fit, values in (
            ("as encoded", encoded),
            ("whitened @target", target),
            ("whitened without this subset", year.whitened(year.without(subset))),
        ):
            print(f"    {fit}: cosine {values[at].mean():.3f}, Spearman {year.rho(values, at):.2f}")
    once, fewer = sorted({*year.sentences}), others[: len({*year.sentences})]
    print("  all subsets together")
    for fit, values in (
        ("as encoded", encoded),
        ("whitened @target", target),
        ("order inside subsets @target, their levels as encoded", year.levels_of(encoded, target)),
        ("order inside subsets as encoded, their levels @target", year.levels_of(target, encoded)),
        ("whitened on each distinct sentence once", year.whitened(once)),
        (f"whitened on {len(fewer):,} sentences of the other years", year.whitened(fewer)),
        (f"whitened on all {len(others):,} of them", year.whitened(others)),
    ):
        print(f"    {fit}: {year.rho(values):.2f}")


def main() -> None:
    """Read the command line, encode the sentences of all years, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("tasks", nargs="+", choices=YEARS)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=Path(CACHE).expanduser())
    options = parser.parse_args()
    places = Places(options.cache, options.data_dir, {MPNET.name: options.folder})
    tasks = load_registry().tasks
    years = {name: tasks[name].load(options.data_dir, "test") for name in YEARS}
    texts = sorted({text for pairs in years.values() for text in pairs.sentences})
    encoder = CachedEncoder.open(MPNET, places, time.perf_counter)
    encoder.ensure(texts, Progress())
    pooled = encoder.pooled(MEAN, texts)
    vectors = dict(zip(texts, np.asarray(pooled.matrix, float)[pooled.rows(texts)], strict=True))
    for name in options.tasks:
        others = {s for year, pairs in years.items() if year != name for s in pairs.sentences}
        shuffled = [*np.random.default_rng(0).permutation(sorted(others))]
        report(name, Year(years[name], vectors), list(map(str, shuffled)))


if __name__ == "__main__":
    main()
