"""Lexical similarity, and tasks that show how vectors lie: spectrum, edit distance, frequency.

Does similarity follow edit distance more than meaning does? BERT-flow, Table 6, correlates the two
on STS-B dev and leaves the distance undefined. Of the candidates only the number of token edits,
not normalised, comes near the printed gold row (-24.61): -24.54 over the tokens of the SentEval
text, which is therefore the text of `lexical`; -22.5 over the raw text's.

The other tasks serve pictures of the papers, not scores: a run measures them where they are named.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from harness.core.errors import DataError
from harness.core.types import LeaderboardColumn, Pairs, Task
from harness.tasks.readers import AGAIN, PublishedSet, Text, lines
from harness.tasks.sts import benchmark

WORDS = 10_000  # as many as BERT-flow's Table 1 ranks
COUNTS = {"all": ("enwiki_vocab_min200.txt",)}


def parse_words(path: Path, count: int = WORDS) -> Pairs:
    """The most frequent words of English Wikipedia, most frequent first; gold is the rank.

    A line holds a word, a blank and its count. Numbers are spelled out, so that `one` and `zero`
    stand near the top.
    """
    words, last = [], None
    for place, line in islice(lines(path), count):
        word, _, times = line.rpartition(" ")
        if not word or not times.isdecimal() or (last is not None and int(times) > last):
            raise DataError(f"{place}: wanted a word and a count, largest first; {AGAIN}")
        words.append(word)
        last = int(times)
    ranks = np.arange(1, len(words) + 1, dtype=np.float64)
    return Pairs(tuple(words), (), ranks, ("word-frequency",) * len(words))


def lexical(name: str, text: Text) -> Task:
    """STS-B dev against edit distance; the groups stay STS-B's."""
    return replace(
        benchmark(name, text, "dev"),
        metric="edit-distance",
        geometry=False,
        cite="li2020bertflow",
        note="edit distance counts whitespace tokens, not normalised; the paper does not define it",
    )


def legend(where: str, published: str = "") -> str:
    """The sentence beside the columns: the scores of the gold itself, which need no model."""
    return (
        f"Lexical: Spearman of similarity and token edit distance on {where}; gold itself has "
        "{gold_edit_distance} over all pairs and {gold_edit_distance_near} over those at distance "
        f"4 or less{published}. Closer to gold is better."
    )


COLUMNS = (
    LeaderboardColumn(
        "other", "lexical", legend=legend("STS-B dev", " (BERT-flow publishes -24.61)")
    ),
    LeaderboardColumn("other", "lexical, near", ("edit_distance_near",)),
)

TASKS = (
    replace(
        benchmark("spectrum", "raw", "test"),
        metric="spectrum",
        geometry=False,
        on_request=True,
        note="eigenvalues of the covariance of STS-B's test sentences; no paper scores them",
    ),
    replace(
        lexical("distance-quartiles", "senteval"),
        metric="distance-quartiles",
        on_request=True,
        note="quartiles of similarity at each edit distance, as in Li et al. 2020, Figure 2",
    ),
    Task(
        name="word-frequency",
        load=PublishedSet(
            "word-frequency", "enwiki-word-counts", "raw", parse_words, COUNTS, ("vectors/",)
        ),
        splits=("all",),
        scored=("all",),
        metric="word-frequency",
        asset="enwiki-word-counts",
        text="raw",
        on_request=True,
        cite="li2020bertflow",
        licence="MIT",
        note="words encoded alone; rows of BERT's embedding matrix, as in Li et al. 2020, Table 1, "
        "are bert-base.input",
    ),
    replace(lexical("lexical", "senteval"), columns=COLUMNS),
    lexical("lexical.raw", "raw"),
)
