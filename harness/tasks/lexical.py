"""Lexical similarity: does similarity follow edit distance more than meaning does?

BERT-flow, Table 6, correlates the two on STS-B dev and leaves the distance undefined.
Of the candidates only the number of token edits, not normalised, comes near the printed
gold row (-24.61):
-24.54 over the tokens of the SentEval text, which is therefore the text of `lexical`; -22.5 over
the raw text's.
"""

from __future__ import annotations

from dataclasses import replace

from harness.core.types import LeaderboardColumn, Task
from harness.tasks.readers import Text
from harness.tasks.sts import benchmark


def lexical(name: str, text: Text) -> Task:
    """STS-B dev against edit distance; the groups stay STS-B's."""
    return replace(
        benchmark(name, text, "dev"),
        metric="edit-distance",
        geometry=False,
        cite="li2020bertflow, cer2017stsb",
        note="edit distance counts whitespace tokens, not normalised; the paper does not define it",
    )


def legend(where: str, published: str = "") -> str:
    """The sentence next to the columns: the scores of the gold itself, which need no model."""
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
    replace(lexical("lexical", "senteval"), columns=COLUMNS),
    lexical("lexical.raw", "raw"),
)
