"""The real data sets: what they hold, and copies that are cut, changed or saved anew."""

import re
import shutil

import pytest
from refusals import refused

from harness.core.errors import AssetMissing, DataError
from harness.core.metrics.edit_distance import edit_distance
from harness.data.places import Places
from harness.data.tasks import readers
from harness.data.tasks.readers import REFETCH_ADVICE, PublishedSet
from harness.registry import load_registry

pytestmark = pytest.mark.data

REGISTRY = load_registry()
TASKS = REGISTRY.tasks_by_name
SIZES = {
    **{"sts12": 3108, "sts13": 1500, "sts14": 3750, "sts15": 3000, "sts16": 1186},
    **{"sts-b": 1379, "sts-b.dev": 1500, "sts-b.train": 5749, "lexical": 1500},
    **{"sts-b.v2": 1362, "sts-b.v2.dev": 1485},
    **{"sick-r": 4927, "sick-r.dev": 500, "sick-r.train": 4500, "sick-r.all": 9927},
    "qnli": 5463,
}
FORM = re.compile(r"\.(senteval|raw|regression)")


@pytest.mark.parametrize(
    "name", [name for name in TASKS if FORM.sub("", name) in SIZES]
)
def test_a_task_has_its_published_number_of_pairs_on_its_scale(name, data_dir):
    task, plain_name = TASKS[name], FORM.sub("", name)
    pairs = task.pairs(data_dir)
    assert len(pairs) == SIZES[plain_name]
    low, high = task.graded or (0.0, 1.0)
    assert low <= pairs.gold.min() < pairs.gold.max() <= high


@pytest.mark.parametrize("name", ["mr", "cr", "subj", "mpqa", "sst-2", "trec", "mrpc"])
def test_a_transfer_task_has_its_rows_in_order_of_lengths(name, data_dir):
    for split in TASKS[name].splits:
        rows = zip(*TASKS[name].load(data_dir, split).columns, strict=True)
        lengths = [[len(text.split()) for text in texts] for texts in rows]
        assert lengths == sorted(lengths)


@pytest.mark.parametrize(
    ("name", "value"), [("lexical", -24.54), ("lexical.raw", -22.51)]
)
def test_token_edit_distance_gives_the_gold_row_of_the_lexical_table(
    data_dir, name, value
):
    pairs = TASKS[name].pairs(data_dir)
    found = edit_distance(pairs.gold, pairs)["gold_edit_distance"]
    assert found == pytest.approx(value, abs=0.005)  # half a printed digit


@pytest.mark.parametrize("under", [".", "downstream", "SentEval/data/downstream"])
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
    with refused(AssetMissing, "raw/STS"):
        TASKS["sts-b"].pairs(tmp_path)


@pytest.mark.parametrize(
    ("name", "count"),
    [("snli-18k", 36_000), ("enwiki-10k", 10_000), ("enwiki-100k", 100_000)],
)
def test_a_corpus_passes_its_digests(name, count, data_dir):
    assert sum(1 for _ in REGISTRY.corpora[name].sentences(data_dir)) == count


def test_the_true_beginning_of_wiki1m_passes_its_digest(data_dir, tmp_path):
    start = (data_dir / "wiki/wiki1m_for_simcse.first1280000bytes.txt").read_bytes()
    copy = tmp_path / "wiki/wiki1m_for_simcse.txt"
    copy.parent.mkdir()
    copy.write_bytes(start[: start.rindex(b"\n") + 1])
    with refused(DataError, "wanted 1000000 sentences, found 11914"):
        list(REGISTRY.corpora["wiki"].sentences(tmp_path))


# Copies

# A task of each family, and the split whose files are changed.
SPLITS = {
    **{"sts-b": "dev", "sts-b.senteval": "dev", "sts14": "test", "sick-r": "dev"},
    **{"qnli": "dev", "mr": "all", "cr": "all", "subj": "all", "mpqa": "all"},
    **{"sst-2": "dev", "trec": "test", "mrpc": "test"},
}
MARK = b"\xef\xbb\xbf"


def with_lf(content):
    return content.replace(b"\r\n", b"\n")


def last_line(content):
    return content.rstrip(b"\r\n").rpartition(b"\n")[2]


def without_last_end(content):
    """Where the last line is empty, its end is the line."""
    shorter = content.removesuffix(b"\n").removesuffix(b"\r")
    return content if shorter.endswith(b"\n") else shorter


SAME = {
    "CRLF": lambda content: with_lf(content).replace(b"\n", b"\r\n"),
    "a byte-order mark": lambda content: MARK + content.removeprefix(MARK),
    "no end of the last line": without_last_end,
}
OTHER = {
    "nothing": lambda _: b"",
    "a mark alone": lambda _: MARK,
    "a line end": lambda _: b"\n",
    "one line": lambda content: content.partition(b"\n")[0] + b"\n",
    "the first half": lambda content: content[: len(content) // 2],
    "a row less": lambda content: content.rstrip(b"\r\n").rpartition(b"\n")[0] + b"\n",
    "a row twice": lambda content: content + last_line(content) + b"\n",
    "UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
    "bytes that are no text": lambda content: b"\xff\xfe\x00" * 9 + content,
    "a page of a web site": lambda _: b"<!DOCTYPE html>\n<html>not found</html>\n",
    "CR alone": lambda content: with_lf(content).replace(b"\n", b"\r"),
}


def files_of(task, split, data_dir):
    """The files of a split under the data folder; of a year those of its first subset."""
    if not isinstance(task.load, PublishedSet):
        folder = data_dir / f"raw/STS/STS{task.load.year}-en-test"
        return sorted(folder.glob("*.deft-forum.txt"))
    paths = []
    for file in task.load.files[split]:
        candidates = [folder + file for folder in task.load.folders]
        paths.append(readers.locate(data_dir, task.asset, *candidates))
    return paths


@pytest.mark.parametrize("name", SPLITS)
def test_a_copy_with_the_same_rows_reads_alike_and_any_other_is_refused(
    data_dir, tmp_path, name
):
    """In one line with its remedy."""
    task, split = TASKS[name], SPLITS[name]
    wanted = task.load(data_dir, split)
    first, *_ = files_of(task, split, data_dir)
    shutil.copytree(first.parent, tmp_path / first.parent.relative_to(data_dir))
    paths = files_of(task, split, tmp_path)
    place = "|".join(re.escape(str(file)) for file in paths)
    for path in paths:
        content = path.read_bytes()
        path.chmod(0o644)
        for change in SAME.values():
            path.write_bytes(change(content))
            found = task.load(tmp_path, split)
            assert (found.a, found.b, found.group) == (wanted.a, wanted.b, wanted.group)
            assert found.gold.tolist() == wanted.gold.tolist()
        for what, change in OTHER.items():
            path.write_bytes(change(content))
            with refused(DataError, rf"^({place})(:\d+)?: wanted .*, found ") as error:
                task.load(tmp_path, split)
            assert str(error.value).endswith(REFETCH_ADVICE), what
        path.write_bytes(content)
