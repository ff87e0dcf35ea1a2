"""The texts of a cell are what a task and a corpus hold, read once, with their digests."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes import TOY, corpus, library, numbered, task
from hypothesis import given
from hypothesis import strategies as st

from harness.core.digests import text_digest
from harness.core.pairs import pairs_digest
from harness.data.tasks.loader import limited, limited_corpus

REGRESSION = task("learnt", 10, metric="regression")


def sentences(of, *splits):
    return sum((of.load(None, split).sentences for split in splits), ())


def test_a_plain_cell_has_the_scored_pairs_and_nothing_else(tmp_path):
    inputs = library(tmp_path).texts(TOY)
    assert inputs.digests == {"data": pairs_digest(TOY.pairs(tmp_path))}
    assert inputs.sentences == set(sentences(TOY, "test"))
    assert (inputs.labelled, inputs.fit_corpus) == ((), None)


def test_a_metric_that_learns_has_its_labelled_pairs(tmp_path):
    inputs = library(tmp_path).texts(REGRESSION)
    train, dev = inputs.labelled
    assert inputs.digests["labels"] == f"{pairs_digest(train)}+{pairs_digest(dev)}"
    assert inputs.sentences == set(sentences(REGRESSION, "test", "train", "dev"))


@pytest.mark.parametrize(
    ("fit_on", "splits"),
    [
        ("target", TOY.splits),
        ("target-splits", TOY.splits),
        ("target-train", ("train",)),
    ],
)
def test_a_fit_on_the_task_has_its_sentences_with_repetitions(tmp_path, fit_on, splits):
    inputs, own = library(tmp_path).texts(TOY, fit_on), sentences(TOY, *splits)
    assert tuple(inputs.fit_corpus.sentences()) == own
    assert (inputs.fit_corpus.digest, inputs.fit_corpus.count) == (
        text_digest(own),
        len(own),
    )
    assert inputs.sentences == set(own) | set(sentences(TOY, "test"))
    assert not inputs.fit_corpus.streams


def test_a_task_of_one_split_is_read_as_train_dev_and_test_alike(tmp_path):
    one = replace(TOY, name="one", splits=("test",), train=None)
    loader, own = library(tmp_path), sentences(TOY, "test")
    assert tuple(loader.texts(one, "target-splits").fit_corpus.sentences()) == own * 3
    assert tuple(loader.texts(one, "target").fit_corpus.sentences()) == own


def test_a_corpus_is_read_at_each_call_and_digested_once_for_all_tasks(tmp_path):
    reads, texts = [], numbered(100, 20)

    def read(data_dir):
        reads.append(data_dir)
        return iter(texts)

    loader = library(tmp_path, replace(corpus("stream", texts), sentences=read))
    one, other = (loader.texts(scored, "stream") for scored in (TOY, REGRESSION))
    assert reads == []
    assert one.fit_corpus.digest == other.fit_corpus.digest == text_digest(texts)
    assert (one.fit_corpus.count, len(reads)) == (20, 1)
    assert (
        tuple(one.fit_corpus.sentences()) == tuple(one.fit_corpus.sentences()) == texts
    )
    assert one.fit_corpus.streams
    assert one.sentences == loader.texts(TOY).sentences


# A few rows

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
