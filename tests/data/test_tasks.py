"""Tasks and corpora: what a file may look like, what is refused, and what the real sets hold."""

import gzip
import hashlib
import lzma
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import AssetMissing, DataError
from harness.core.metrics.edit_distance import edit_distance
from harness.data.places import Places
from harness.data.tasks import corpora, lexical, qnli, sick, sts
from harness.data.tasks import readers as files

LEXICAL = lexical.TASKS
TASKS = {task.name: task for task in (*sts.TASKS, *sick.TASKS, *qnli.TASKS, *LEXICAL)}
CORPORA = {corpus.name: corpus for corpus in corpora.CORPORA}

# Everything that a line may hold: no LF, which ends it, no CR or byte-order mark at its
# edges, and no NUL, which no text has.
SENTENCE = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\ufeff\0"))


def write(path, *rows, end="\n", start=""):
    path.write_bytes((start + "".join(row + end for row in rows)).encode())
    return path


def sts_b_row(a="A man.", b="A woman.", score="2.500", notes=""):
    return f"main-news\tMSRpar\t2012test\t0001\t{score}\t{a}\t{b}{notes}"


@given(
    st.lists(SENTENCE, min_size=1, max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_a_line_is_its_text_whatever_the_line_end_and_the_byte_order_mark(
    tmp_path_factory, sentences, end, mark
):
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    write(path, *sentences, end=end, start="\ufeff" if mark else "")
    assert [line for _, line in files.lines(path)] == sentences


@pytest.mark.parametrize(
    ("suffix", "compress"), [("xz", lzma.compress), ("gz", gzip.compress)]
)
def test_compressed_files_read_alike_and_a_cut_one_is_refused(
    tmp_path, suffix, compress
):
    path = tmp_path / f"x.{suffix}"
    whole = compress(b"one\ntwo\n")
    path.write_bytes(whole)
    assert [line for _, line in files.lines(path)] == ["one", "two"]
    path.write_bytes(whole[:-6])
    with pytest.raises(
        DataError, match=rf"x\.{suffix}:\d: wanted a whole packed file, found "
    ):
        list(files.lines(path))
    path.write_bytes(b"not compressed at all")
    with pytest.raises(
        DataError, match=rf"x\.{suffix}:1: wanted a whole packed file, found "
    ):
        list(files.lines(path))


def test_outer_blanks_are_kept_and_source_notes_are_not_text(tmp_path):
    rows = sts_b_row(a=" left", b="right "), sts_b_row(notes="\tsome\tsource")
    pairs = sts.parse_benchmark(write(tmp_path / "sts.csv", *rows))
    assert (pairs.a, pairs.b) == ((" left", "A man."), ("right ", "A woman."))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"notes": "\tone"}, "7 or 9 fields, found 8"),
        ({"notes": "\tone\ttwo\tthree"}, "7 or 9 fields, found 10"),
        *(
            ({"score": score}, r"a score from 0\.0 to 5\.0, found")
            for score in ("", "x", "nan", "inf", "-0.1", "5.001", "4_0", "0_1")
        ),
    ],
)
def test_a_bad_line_or_a_score_off_the_scale_is_refused_by_line(
    tmp_path, change, complaint
):
    path = write(tmp_path / "sts.csv", sts_b_row(), sts_b_row(**change))
    with pytest.raises(DataError, match=rf"sts\.csv:2: wanted {complaint}"):
        sts.parse_benchmark(path)


def test_a_pair_with_an_empty_score_is_dropped_with_its_sentences(tmp_path):
    inputs = write(tmp_path / "input", "a\tb", "c\td", "e\tf\tsource\tnote")
    pairs = sts.parse_subset(inputs, write(tmp_path / "gs", "1", "", "2.5"), "g")
    assert (pairs.a, pairs.b, pairs.gold.tolist()) == (
        ("a", "e"),
        ("b", "f"),
        [1.0, 2.5],
    )
    assert pairs.group == ("g", "g")


@pytest.mark.parametrize(
    ("lines", "gold", "complaint"),
    [
        (("a\tb", "no tab"), ("1", ""), "input:2: wanted 2 or 4 fields, found 1"),
        (("a\tb", "c\td"), ("1",), "gs: wanted 2 lines, as in input, found 1"),
    ],
)
def test_an_ill_formed_subset_is_refused_scored_or_not(
    tmp_path, lines, gold, complaint
):
    inputs = write(tmp_path / "input", *lines)
    with pytest.raises(DataError, match=complaint):
        sts.parse_subset(inputs, write(tmp_path / "gs", *gold), "g")


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("1\ta\tb\t0.9\tNEUTRAL", "a score from 1.0 to 5.0"),
        ("1\ta\tb\t3", "wanted 5 fields, found 4"),
    ],
)
def test_a_bad_sick_row_is_refused_by_line(tmp_path, row, complaint):
    header, right = "\t".join(sick.HEADER), "6\tNo boy \tA group\t3.3\tNEUTRAL"
    pairs = sick.parse_sick(
        write(tmp_path / "SICK.txt", header, right, end="\r\n", start="\ufeff")
    )
    assert (pairs.a, pairs.b, pairs.gold.tolist()) == (
        ("No boy ",),
        ("A group",),
        [3.3],
    )
    path = write(tmp_path / "SICK.txt", header, right, row)
    with pytest.raises(DataError, match=rf"SICK\.txt:3: .*{complaint}"):
        sick.parse_sick(path)


@pytest.mark.parametrize("parse", [sick.parse_sick, qnli.parse_qnli])
def test_a_file_without_its_header_is_refused(tmp_path, parse):
    for path in (
        write(tmp_path / "x", "1\ta\tb\t3.3\tNEUTRAL"),
        write(tmp_path / "empty"),
    ):
        with pytest.raises(DataError, match=":1: wanted the header"):
            parse(path)


def test_entailment_is_the_positive_label_and_any_other_word_is_refused(tmp_path):
    header = "\t".join(qnli.HEADER)
    rows = ["0\tWho?\tHe.\tentailment", '1\tWhy "so?\tIt.\tnot_entailment']
    pairs = qnli.parse_qnli(write(tmp_path / "dev.tsv", header, *rows))
    assert (pairs.gold.tolist(), pairs.a[1]) == ([1.0, 0.0], 'Why "so?')
    with pytest.raises(
        DataError, match=r"bad\.tsv:2: .*or entailment, found 'neutral'"
    ):
        qnli.parse_qnli(write(tmp_path / "bad.tsv", header, "0\tWho?\tHe.\tneutral"))


def corpus_file(read, count, *digests, prefix=False):
    return corpora.CorpusFile("asset", ("c.txt",), read, count, digests, prefix)


def test_a_corpus_of_another_size_is_refused(tmp_path):
    write(tmp_path / "c.txt", "one", "two", "two")
    assert list(corpus_file(corpora.one_a_line, 3)(tmp_path)) == ["one", "two", "two"]
    assert list(corpus_file(corpora.one_a_line, 2, prefix=True)(tmp_path)) == [
        "one",
        "two",
    ]
    for count in (2, 4):
        with pytest.raises(DataError, match=f"wanted {count} sentences, found 3"):
            list(corpus_file(corpora.one_a_line, count)(tmp_path))


def test_a_corpus_is_refused_at_the_first_digest_that_does_not_fit(tmp_path):
    write(tmp_path / "c.txt", "one", "two", "three")
    right = hashlib.sha256(b"one\n").hexdigest()
    assert len(list(corpus_file(corpora.one_a_line, 3, (1, right))(tmp_path))) == 3
    sentences = iter(
        corpus_file(corpora.one_a_line, 3, (1, right), (2, "0" * 64))(tmp_path)
    )
    assert next(sentences) == "one"
    with pytest.raises(DataError, match="wanted other sentences up to number 2"):
        next(sentences)


@pytest.mark.parametrize("suffix", ["tsv", "tsv.gz"])
def test_nli_leaves_out_the_dev_and_test_pairs_of_multinli(tmp_path, suffix):
    kept = ["train\tSNLI", "dev\tSNLI", "test\tSNLI", "train\tMultiNLI", "train\tMNLI"]
    left_out = ["dev\tMultiNLI", "test\tMultiNLI"]
    rows = [
        f'{part}\tfile\t"{k}\t {k}\tneutral' for k, part in enumerate(kept + left_out)
    ]
    text = "\n".join(["\t".join(corpora.ALL_NLI_HEADER), *rows]).encode()
    path = tmp_path / f"AllNLI.{suffix}"
    path.write_bytes(gzip.compress(text) if suffix == "tsv.gz" else text)
    wanted = [sentence for k in range(len(kept)) for sentence in (f'"{k}', f" {k}")]
    assert list(CORPORA["nli"].sentences.read(path)) == wanted
    assert len(list(CORPORA["all-nli"].sentences.read(path))) == 2 * len(rows)
    assert CORPORA["all-nli"].count == 2 * 981_382


@pytest.fixture(scope="module")
def real(data_dir):
    return {name: task.pairs(data_dir) for name, task in TASKS.items()}


SUBSETS = {
    "sts12": [750, 750, 459, 750, 399],
    "sts13": [189, 750, 561],
    "sts14": [450, 300, 750, 750, 750, 750],
    "sts15": [375, 750, 375, 750, 750],
    "sts16": [254, 249, 230, 244, 209],
}
SIZES = {
    **{name: sum(sizes) for name, sizes in SUBSETS.items()},
    "sts-b": 1379,
    "sts-b.dev": 1500,
    "sts-b.train": 5749,
    "sick-r": 4927,
    "sick-r.dev": 500,
    "sick-r.train": 4500,
    "sick-r.all": 9927,
    "qnli": 5463,
    "lexical": 1500,
}


@pytest.mark.data
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_has_its_published_number_of_pairs_on_its_scale(task, real):
    pairs = real[task.name]
    name = re.sub(r"\.(senteval|raw|regression)", "", task.name)
    assert len(pairs) == SIZES[name]
    assert list(Counter(pairs.group).values()) == SUBSETS.get(name, [SIZES[name]])
    low, high = task.graded or (0.0, 1.0)
    assert low <= pairs.gold.min() < pairs.gold.max() <= high


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "value"), [("lexical", -24.54), ("lexical.raw", -22.51)]
)
def test_token_edit_distance_gives_the_gold_row_of_the_lexical_table(real, name, value):
    pairs = real[name]
    found = edit_distance(pairs.gold, pairs)["gold_edit_distance"]
    assert found == pytest.approx(value, abs=0.005)  # half a printed digit


@pytest.mark.data
@pytest.mark.parametrize(
    "under", ["senteval", ".", "downstream", "SentEval/data/downstream"]
)
def test_senteval_text_is_found_wherever_senteval_is_unpacked(
    data_dir, tmp_path, under
):
    (tmp_path / under).mkdir(parents=True, exist_ok=True)
    for family in ("STS", "SICK"):
        (tmp_path / under / family).symlink_to(data_dir / "senteval" / family)
    places = Places(tmp_path / "cache", tmp_path)
    for name, pairs in (("sts16.senteval", 1186), ("sick-r.senteval", 4927)):
        assert len(TASKS[name].pairs(places.require_data(TASKS[name].asset))) == pairs
    assert not places.has_data("sts-raw")
    with pytest.raises(AssetMissing, match="raw/STS"):
        TASKS["sts-b"].pairs(tmp_path)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "count"),
    [("snli-18k", 36_000), ("enwiki-10k", 10_000), ("enwiki-100k", 100_000)],
)
def test_a_corpus_passes_its_digests(name, count, data_dir):
    assert sum(1 for _ in CORPORA[name].sentences(data_dir)) == count


@pytest.mark.data
def test_the_true_beginning_of_wiki1m_passes_its_digest(data_dir, tmp_path):
    start = (data_dir / "wiki/wiki1m_for_simcse.first1280000bytes.txt").read_bytes()
    copy = tmp_path / "wiki/wiki1m_for_simcse.txt"
    copy.parent.mkdir()
    copy.write_bytes(start[: start.rindex(b"\n") + 1])
    with pytest.raises(DataError, match="wanted 1000000 sentences, found 11914"):
        list(CORPORA["wiki"].sentences(tmp_path))
