"""Files of tasks and corpora: how they are read, and which line of theirs is refused."""

import gzip
import hashlib
import lzma
import re
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from harness.core.errors import DataError
from harness.data.tasks import corpora, qnli, readers, sick, sts, transfer
from harness.data.tasks.readers import CORRECT_ADVICE, REFETCH_ADVICE, advising

MARK = "\ufeff"
SICK_HEADER, QNLI_HEADER = "\t".join(sick.HEADER), "\t".join(qnli.HEADER)
MRPC_HEADER = "\t".join(transfer.HEADER)
# Everything that a line may hold: no LF, which ends it, no CR or byte-order mark at its
# edges, and no NUL, which no text has.
SENTENCE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff\0"))


def write(path, *rows, end="\n", start=""):
    path.write_bytes((start + "".join(row + end for row in rows)).encode())
    return path


def sts_b_row(a="A man.", b="A woman.", score="2.500", notes=""):
    return f"main-news\tMSRpar\t2012test\t0001\t{score}\t{a}\t{b}{notes}"


# Lines


@given(
    st.lists(SENTENCE, min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", MARK]),
)
def test_a_line_is_its_text_whatever_the_line_end_and_the_byte_order_mark(
    tmp_path_factory, sentences, end, mark
):
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    write(path, *sentences, end=end, start=mark)
    assert [line for _, line in readers.lines(path)] == sentences


@pytest.mark.parametrize("suffix", ["xz", "gz"])
def test_compressed_files_read_alike_and_a_cut_one_is_refused(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    whole = {"xz": lzma.compress, "gz": gzip.compress}[suffix](b"one\ntwo\n")
    path.write_bytes(whole)
    assert [line for _, line in readers.lines(path)] == ["one", "two"]
    for content in (whole[:-6], b"not compressed at all"):
        path.write_bytes(content)
        with refused(DataError, r":\d: wanted a whole packed file, found "):
            list(readers.lines(path))


def test_the_remedy_is_that_of_the_file_that_is_read(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xff\n")
    for remedy in (REFETCH_ADVICE, CORRECT_ADVICE):
        with refused(DataError, f"found .*; {remedy}$"), advising(remedy):
            list(readers.lines(path))


# Tasks


def test_files_are_read_as_their_authors_made_them(tmp_path):
    """Outer blanks are kept, quotes are letters, and notes on sources are no text."""
    file = tmp_path / "x"
    rows = sts_b_row(a=" left", b="right "), sts_b_row(notes="\tsome\tsource")
    pairs = sts.parse_benchmark(write(file, *rows))
    assert (pairs.a, pairs.b) == ((" left", "A man."), ("right ", "A woman."))
    row = "6\tNo boy \tA group\t3.3\tNEUTRAL"
    pairs = sick.parse_sick(write(file, SICK_HEADER, row, end="\r\n", start=MARK))
    assert (pairs.a, pairs.b, pairs.gold.tolist()) == (
        ("No boy ",),
        ("A group",),
        [3.3],
    )
    rows = ["0\tWho?\tHe.\tentailment", '1\tWhy "so?\tIt.\tnot_entailment']
    pairs = qnli.parse_qnli(write(file, QNLI_HEADER, *rows))
    assert (pairs.gold.tolist(), pairs.a[1]) == ([1.0, 0.0], 'Why "so?')


def test_a_pair_with_an_empty_score_is_dropped_with_its_sentences(tmp_path):
    inputs = write(tmp_path / "input", "a\tb", "c\td", "e\tf\tsource\tnote")
    pairs = sts.parse_subset(inputs, write(tmp_path / "gs", "1", "", "2.5"), "g")
    assert (pairs.a, pairs.b, pairs.group) == (("a", "e"), ("b", "f"), ("g", "g"))
    assert pairs.gold.tolist() == [1.0, 2.5]


def test_transfer_files_are_read_as_their_authors_made_them(tmp_path):
    """Tokens with any blanks between, TREC in Latin-1, MRPC with a mark and plain quotes."""
    file = tmp_path / "x"
    positive = write(tmp_path / "x.pos", " a  fine film . ", "")
    negative = write(tmp_path / "x.neg", "dull")
    rows = [(1, ["a", "fine", "film", "."]), (1, []), (0, ["dull"])]
    assert list(transfer.parse_classes(positive, negative)) == rows
    file.write_bytes(b"LOC:city What sister\xf0city : Rome ?\nABBR:exp What ?\n")
    rows = [(4, ["What", "sister\u00f0city", ":", "Rome", "?"]), (0, ["What", "?"])]
    assert list(transfer.parse_trec(file)) == rows
    row = '1\t7\t8\tHe said " no\tHe  said so'
    write(file, MRPC_HEADER, row, end="\r\n", start=MARK)
    rows = [(1, ["He", "said", '"', "no"], ["He", "said", "so"])]
    assert list(transfer.parse_mrpc(file)) == rows


def test_rows_are_in_order_of_lengths_then_of_class_then_of_the_file():
    texts = (("b b", 1), ("a", 1), ("d d", 0), ("c", 0), ("e", 0))
    sentences = [(label, text.split()) for text, label in texts]
    found = transfer.read_in_order(lambda: iter(sentences), "cr")
    assert (found.a, found.b) == (("c", "e", "a", "d d", "b b"), ())
    assert found.gold.tolist() == [0, 0, 1, 0, 1]
    pairs = [(0, ["a"], ["x", "y"]), (1, ["b"], ["z"])]
    found = transfer.read_in_order(lambda: iter(pairs), "mrpc")
    assert (found.a, found.b) == (("b", "a"), ("z", "x y"))


OFF_SCALE = ("", "x", "nan", "inf", "-0.1", "5.001", "4_0", "0_1")
SICK_ROW = "6\tNo boy\tA group\t3.3\tNEUTRAL"
BAD_LINES = [  # the parser, the lines of the file, and what is said of the last one
    (sts.parse_benchmark, (sts_b_row(notes="\tone"),), "7 or 9 fields, found 8"),
    *(
        (sts.parse_benchmark, (sts_b_row(score=score),), "a score from 0.0 to 5.0")
        for score in OFF_SCALE
    ),
    (sick.parse_sick, (SICK_HEADER, "1\ta\tb\t0.9\tN"), "a score from 1.0 to 5.0"),
    (sick.parse_sick, (SICK_HEADER, "1\ta\tb\t3"), "5 fields, found 4"),
    (sick.parse_sick, (SICK_ROW,), "the header pair_ID"),
    (sick.parse_sick, (), "the header pair_ID"),
    (
        qnli.parse_qnli,
        (QNLI_HEADER, "0\tWho?\tHe.\tneutral"),
        "not_entailment or entailment, found 'neutral'",
    ),
    (transfer.parse_trec, ("NUM:dist How far ?", "no colon at all"), "COARSE:fine"),
    (transfer.parse_trec, ("NUM:dist How far ?", "LOC:city"), "COARSE:fine"),
    (transfer.parse_trec, ("PLACE:city Where ?",), "ABBR or DESC"),
    (transfer.parse_sst, ("good .\t1", "bad .\t2"), "0 or 1, found '2'"),
    (transfer.parse_sst, ("good .\t1", "bad .\t"), "0 or 1, found ''"),
]


@pytest.mark.parametrize(("parse", "lines", "complaint"), BAD_LINES)
def test_a_bad_line_is_refused_by_its_number(tmp_path, parse, lines, complaint):
    path = write(tmp_path / "x.txt", *lines)
    place = f"x.txt:{max(1, len(lines))}: wanted {complaint}"
    with refused(DataError, re.escape(place)):
        list(parse(path))


SUBSETS = [  # the lines of both files, and what is said
    (("a\tb", "no tab"), ("1", ""), "input:2: wanted 2 or 4 fields, found 1"),
    (("a\tb", "c\td"), ("1",), "gs: wanted 2 lines, as in input, found 1"),
]


@pytest.mark.parametrize(("lines", "gold", "complaint"), SUBSETS)
def test_an_ill_formed_subset_is_refused_scored_or_not(
    tmp_path, lines, gold, complaint
):
    inputs = write(tmp_path / "input", *lines)
    with refused(DataError, complaint):
        sts.parse_subset(inputs, write(tmp_path / "gs", *gold), "g")


# Corpora


def test_a_corpus_is_refused_at_the_first_digest_that_does_not_fit_or_by_its_size(
    tmp_path,
):
    write(tmp_path / "c.txt", "one", "two", "two")
    file = partial(corpora.CorpusFile, "asset", ("c.txt",), corpora.one_a_line)
    right = (1, hashlib.sha256(b"one\n").hexdigest())
    assert list(file(3, (right,))(tmp_path)) == ["one", "two", "two"]
    assert list(file(2, prefix=True)(tmp_path)) == ["one", "two"]
    for count in (2, 4):
        with refused(DataError, f"wanted {count} sentences, found 3"):
            list(file(count)(tmp_path))
    sentences = file(3, (right, (2, "0" * 64)))(tmp_path)
    assert next(sentences) == "one"
    with refused(DataError, "wanted other sentences up to number 2"):
        next(sentences)


def test_nli_leaves_out_the_dev_and_test_pairs_of_multinli(tmp_path):
    kept = ["train\tSNLI", "dev\tSNLI", "test\tSNLI", "train\tMultiNLI", "train\tMNLI"]
    left_out = ["dev\tMultiNLI", "test\tMultiNLI"]
    lines = ["\t".join(corpora.ALL_NLI_HEADER)]
    for number, part in enumerate(kept + left_out):
        lines.append(f'{part}\tfile\t"{number}\t {number}\tneutral')
    path = write(tmp_path / "AllNLI.tsv", *lines)
    wanted = [text for k in range(len(kept)) for text in (f'"{k}', f" {k}")]
    by_name = {corpus.name: corpus for corpus in corpora.CORPORA}
    assert list(by_name["nli"].sentences.read(path)) == wanted
    assert len(list(by_name["all-nli"].sentences.read(path))) == 2 * (len(lines) - 1)
    assert by_name["all-nli"].count == 2 * 981_382
