"""SentEval's transfer tasks: how their files are read, in which order, and what they hold."""

from collections import Counter

import pytest

from harness.core.errors import DataError
from harness.data.tasks import transfer

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


def test_files_are_read_as_their_authors_made_them(tmp_path):
    """Tokens with any blanks between, TREC in Latin-1, MRPC with a mark and plain quotes."""
    positive = write(tmp_path / "x.pos", b" a  fine film . \n\n")
    negative = write(tmp_path / "x.neg", b"dull\n")
    rows = [(1, ["a", "fine", "film", "."]), (1, []), (0, ["dull"])]
    assert list(transfer.parse_classes(positive, negative)) == rows
    question = b"LOC:city What sister\xf0city : Rome ?\nABBR:exp What ?\n"
    rows = [(4, ["What", "sister\u00f0city", ":", "Rome", "?"]), (0, ["What", "?"])]
    assert list(transfer.parse_trec(write(tmp_path / "x.label", question))) == rows
    header = "\ufeff" + "\t".join(transfer.HEADER)
    pairs = f'{header}\r\n1\t7\t8\tHe said " no\tHe  said so\r\n'.encode()
    rows = [(1, ["He", "said", '"', "no"], ["He", "said", "so"])]
    assert list(transfer.parse_mrpc(write(tmp_path / "x.txt", pairs))) == rows


@pytest.mark.parametrize(
    ("parse", "right", "wrong"),
    [
        (transfer.parse_trec, b"NUM:dist How far ?", b"no colon at all"),
        (transfer.parse_trec, b"NUM:dist How far ?", b"LOC:city"),
        (transfer.parse_trec, b"NUM:dist How far ?", b"PLACE:city Where ?"),
        (transfer.parse_sst, b"good .\t1", b"bad .\t2"),
        (transfer.parse_sst, b"good .\t1", b"bad .\t"),
    ],
)
def test_a_bad_line_is_refused(tmp_path, parse, right, wrong):
    path = write(tmp_path / "x", right + b"\n" + wrong + b"\n")
    with pytest.raises(DataError, match=r"x:2: wanted .*, found"):
        list(parse(path))


def test_rows_are_in_order_of_lengths_then_of_class_then_of_the_file():
    texts = (("b b", 1), ("a", 1), ("d d", 0), ("c", 0), ("e", 0))
    sentences = [(label, text.split()) for text, label in texts]
    found = transfer.read_in_order(lambda: iter(sentences), "cr")
    assert (found.a, found.b) == (("c", "e", "a", "d d", "b b"), ())
    assert found.gold.tolist() == [0, 0, 1, 0, 1]
    pairs = [(0, ["a"], ["x", "y"]), (1, ["b"], ["z"])]
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
