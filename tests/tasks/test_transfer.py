"""SentEval's transfer tasks: how their files are read, in which order, and what they hold."""

from collections import Counter

import pytest

from harness.core.errors import DataError
from harness.tasks import transfer

TASKS = {task.name: task for task in transfer.TASKS}

# Of each split, its members by class. SentEval's counts.
COUNTS = {
    ("mr", "all"): (5331, 5331),
    ("cr", "all"): (1368, 2407),
    ("subj", "all"): (5000, 5000),
    ("mpqa", "all"): (7294, 3312),
    ("sst-2", "train"): (29780, 37569),
    ("sst-2", "dev"): (428, 444),
    ("sst-2", "test"): (912, 909),
    ("trec", "train"): (86, 1162, 1250, 1223, 835, 896),
    ("trec", "test"): (9, 138, 94, 65, 81, 113),
    ("mrpc", "train"): (1323, 2753),
    ("mrpc", "test"): (578, 1147),
}


def write(path, content: bytes):
    path.write_bytes(content)
    return path


def test_tokens_stand_between_single_blanks(tmp_path):
    positive = write(tmp_path / "x.pos", b" a  fine film . \n\n")
    rows = list(transfer.parse_classes(positive, write(tmp_path / "x.neg", b"dull\n")))
    assert rows == [
        transfer.LabelledTokens((["a", "fine", "film", "."],), 1),
        transfer.LabelledTokens(([],), 1),
        transfer.LabelledTokens((["dull"],), 0),
    ]


def test_trec_is_latin_1_under_its_coarse_classes(tmp_path):
    path = write(
        tmp_path / "x.label",
        b"LOC:city What sister\xf0city : Rome ?\nABBR:exp What ?\n",
    )
    (first, second) = transfer.parse_trec(path)
    assert first == transfer.LabelledTokens(
        (["What", "sister\u00f0city", ":", "Rome", "?"],), 4
    )
    assert second == transfer.LabelledTokens((["What", "?"],), 0)


@pytest.mark.parametrize(
    "line", [b"no colon at all", b"LOC:city", b"PLACE:city Where ?"]
)
def test_a_bad_line_of_trec_is_refused(tmp_path, line):
    path = write(tmp_path / "x.label", b"NUM:dist How far ?\n" + line + b"\n")
    with pytest.raises(DataError, match=r"x\.label:2: wanted"):
        list(transfer.parse_trec(path))


def test_mrpc_is_read_past_its_mark_and_quotes_are_ordinary(tmp_path):
    header = "\ufeff" + "\t".join(transfer.HEADER)
    rows = f'{header}\r\n1\t7\t8\tHe said " no\tHe  said so\r\n'
    path = write(tmp_path / "x.txt", rows.encode())
    pair = (["He", "said", '"', "no"], ["He", "said", "so"])
    assert list(transfer.parse_mrpc(path)) == [transfer.LabelledTokens(pair, 1)]


@pytest.mark.parametrize("label", ["2", "", "0.5"])
def test_another_label_than_0_and_1_is_refused(tmp_path, label):
    path = write(tmp_path / "x", f"good .\t1\nbad .\t{label}\n".encode())
    with pytest.raises(DataError, match=r"x:2: wanted 0 or 1, found"):
        list(transfer.parse_sst(path))


def test_rows_are_in_order_of_lengths_then_of_class_then_of_the_file():
    texts = (("b b", 1), ("a", 1), ("d d", 0), ("c", 0), ("e", 0))
    sentences = [
        transfer.LabelledTokens((text.split(),), label) for text, label in texts
    ]
    found = transfer.read_in_order(lambda: iter(sentences), "cr")
    assert (found.a, found.b) == (("c", "e", "a", "d d", "b b"), ())
    assert found.gold.tolist() == [0, 0, 1, 0, 1]
    pairs = [
        transfer.LabelledTokens((["a"], ["x", "y"]), 0),
        transfer.LabelledTokens((["b"], ["z"]), 1),
    ]
    found = transfer.read_in_order(lambda: iter(pairs), "mrpc")
    assert (found.a, found.b) == (("b", "a"), ("z", "x y"))


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), COUNTS, ids="-".join)
def test_every_published_row_is_there(name, split, data_dir):
    pairs = TASKS[name].load(data_dir, split)
    members = Counter(pairs.gold.tolist())
    assert tuple(members[n] for n in sorted(members)) == COUNTS[name, split]
    rows = zip(*pairs.columns, strict=True)
    lengths = [[len(text.split()) for text in texts] for texts in rows]
    assert lengths == sorted(lengths)


@pytest.mark.data
def test_another_copy_is_refused(data_dir, tmp_path):
    (tmp_path / "TREC").mkdir()
    whole = (data_dir / "transfer/TREC/TREC_10.label").read_bytes()
    write(tmp_path / "TREC/TREC_10.label", whole.replace(b"How far", b"How  far"))
    assert len(TASKS["trec"].pairs(tmp_path)) == 500  # blanks do not count
    write(tmp_path / "TREC/TREC_10.label", whole.replace(b"How far", b"how far"))
    with pytest.raises(DataError, match="sha256"):
        TASKS["trec"].pairs(tmp_path)
