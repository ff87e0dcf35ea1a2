"""Lexical similarity: how far does similarity follow edit distance instead of meaning?

BERT-flow, Table 6, gives the correlation of similarity and edit distance on STS-B dev
without a definition of the distance. Of the definitions that were tried only the number
of token edits, not normalised, gives a correlation of gold near the published -24.61: it
is -24.54 with the tokens of the SentEval text, which `lexical` therefore uses, and
-22.5 with the tokens of the raw text.
"""

from __future__ import annotations

from dataclasses import replace

from harness.core.types import LeaderboardColumn, Task
from harness.data.tasks.readers import Text
from harness.data.tasks.sts import benchmark


def lexical(name: str, text: Text) -> Task:
    """The pairs of STS-B dev, scored by edit distance."""
    return replace(
        benchmark(name, text, "dev"),
        metric="edit-distance",
        geometry=False,
        cite="li2020bertflow, cer2017stsb",
        note="edit distance counts whitespace tokens, not normalised; the paper does not define it",
    )


def legend(data_set: str, published: str = "") -> str:
    """The sentence next to the columns, with the scores of gold itself.

    `published` is a remark on the published number.
    """
    return (
        f"Lexical: Spearman of similarity and token edit distance on {data_set}; gold itself has "
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
    replace(lexical("lexical", "senteval"), columns=COLUMNS),
    lexical("lexical.raw", "raw"),
)
