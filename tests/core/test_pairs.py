"""Pairs and tasks refuse what no score should be made of, in one line that says where it is."""

import numpy as np
import pytest
from refusals import refused

from harness.core.digests import text_digest
from harness.core.errors import DataError
from harness.core.pairs import Pairs, pairs_digest
from harness.core.types import Task

A, B = (
    ("A man eats.", "A dog runs.", "A cat sleeps."),
    ("Someone eats.", "It rains.", "A cat."),
)
GOLD = np.array([4.2, 0.2, 5.0])


def pairs(a=A, b=B, gold=GOLD):
    return Pairs(a, b, gold, ("made up",) * len(a))


TEXTS = {
    "None": (None, "found None"),
    "the NaN of pandas": (float("nan"), "found nan"),
    "bytes": (b"text", "found b'text'"),
    "a lone surrogate": ("a \ud83d b", r"found '\\ud83d', one half of a character"),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_sentence_that_is_no_text_is_named(kind):
    text, words = TEXTS[kind]
    columns = {"a": A, "b": B, "group": ("made up",) * 3}
    for name, column in columns.items():
        bad = {**columns, name: (column[0], text, column[2])}
        with refused(DataError, f"pair 2, {name}: wanted a text, {words}"):
            Pairs(gold=GOLD, **bad)
    with refused(DataError, f"sentence 2: wanted a text, {words}") as error:
        text_digest(["a text", text])
    str(error.value).encode()  # can be printed


WANTED = "gold: wanted a number a pair, found"
GOLDS = {
    "NaN": ([4.2, np.nan, 1.0], "pair 2: wanted a finite number as gold, found nan"),
    "words": (["high", "low", "low"], WANTED),
    "two a pair": ([[1.0, 2.0]] * 3, WANTED),
    "too few": ([1.0, 2.0], "wanted columns of one length, found 2, 3 rows"),
}


@pytest.mark.parametrize("kind", GOLDS)
def test_gold_that_is_not_a_number_a_pair_is_refused(kind):
    gold, words = GOLDS[kind]
    with refused(DataError, words):
        pairs(gold=gold)


def test_no_two_rows_have_one_digest():
    """Whatever their sentences hold: tabs, line feeds, the text of JSON."""
    rows = [("x\ty", "z"), ("x", "y\tz"), ("x\ny", "z"), ("x", "y\nz")]
    rows.append(('["x", "y\\tz"', "z"))
    digests = {pairs_digest(Pairs((a,), (b,), np.ones(1), ("g",))) for a, b in rows}
    assert len(digests) == len(rows)
    lists = (["a\nb"], ["a", "b"], ["a\n", "b"], ["a", "\nb"], ["3:a\nb"])
    assert len({text_digest(texts) for texts in lists}) == len(lists)


@pytest.mark.parametrize("texts", ["abc", {"a", "b", "c"}])
@pytest.mark.parametrize("name", ["a", "b", "group"])
def test_a_column_is_a_list_of_texts(name, texts):
    """A text is no list of its characters, and a set has no order."""
    columns = {"a": A, "b": B, "group": ("made up",) * 3, name: texts}
    with refused(DataError, f"column {name}: wanted a list of texts, foun"):
        Pairs(gold=GOLD, **columns)


def task(given, **settings):
    splits = ("test",)
    return Task(
        "mine", lambda *_: given, splits, splits, "auc", "none", "raw", **settings
    )


@pytest.mark.parametrize("bad", [5.001, -0.1, 50.0])
def test_gold_outside_the_declared_scale_is_refused(bad, tmp_path):
    wrong, scale = pairs(gold=np.array([4.2, bad, 5.0])), (0.0, 5.0)
    words = rf"mine, split test, pair 2: wanted a score from 0.0 to 5.0, found {bad}"
    with refused(DataError, words):
        task(wrong, graded=scale).pairs(tmp_path)
    assert len(task(pairs(), graded=scale).pairs(tmp_path)) == 3
    assert len(task(wrong).pairs(tmp_path)) == 3


def test_a_split_without_pairs_is_refused(tmp_path):
    words = "mine, split test: wanted one pair or more, found none"
    with refused(DataError, words):
        task(Pairs((), (), np.zeros(0), ())).pairs(tmp_path)
