"""Tasks and corpora of a few rows."""

from dataclasses import replace
from pathlib import Path

from fakes import TOY, corpus, numbered
from hypothesis import given
from hypothesis import strategies as st

from harness.data.tasks.loader import limited, limited_corpus

HERE = Path("nowhere")


@given(st.integers(2, 40))
def test_rows_are_rows_of_the_task_in_order_and_spread_over_it(limit):
    whole, some = TOY.pairs(HERE), limited(TOY, limit).pairs(HERE)
    assert (len(some), limited(TOY, limit).name) == (
        min(limit, len(whole)),
        f"toy.limit-{limit}",
    )
    rows = [whole.a.index(text) for text in some.a]
    assert rows == sorted(set(rows))
    assert (rows[0], rows[-1]) == (0, len(whole) - 1)
    for name in ("b", "group"):
        assert getattr(some, name) == tuple(getattr(whole, name)[row] for row in rows)
    assert some.gold.tolist() == whole.gold[rows].tolist()


def test_a_corpus_is_cut_and_no_longer_a_published_one():
    cut = limited_corpus(replace(corpus("stream", numbered(0, 9)), published=True), 4)
    assert (tuple(cut.sentences(HERE)), cut.published) == (numbered(0, 4), False)
    assert (cut.name, cut.count) == ("stream.limit-4", 4)
