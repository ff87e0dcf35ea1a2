"""Published files that are empty, cut or saved anew: read as published, or refused in one line."""

import re
import shutil

import pytest

from harness.core.errors import DataError
from harness.data.tasks import readers, transfer
from harness.data.tasks.readers import (
    CORRECT_ADVICE,
    REFETCH_ADVICE,
    PublishedSet,
    advising,
)
from harness.registry import load_registry

REGISTRY = load_registry()
# A task of each family, and the split whose files are changed.
SPLITS = {
    "sts-b": "dev",
    "sts-b.senteval": "dev",
    "sts14": "test",
    "sick-r": "dev",
    "qnli": "dev",
    "mr": "all",
    "cr": "all",
    "subj": "all",
    "mpqa": "all",
    "sst-2": "dev",
    "trec": "test",
    "mrpc": "test",
}
MARK = b"\xef\xbb\xbf"


def first_half(content):
    return content[: len(content) // 2]


def without_last_line(content):
    return content.rstrip(b"\r\n").rpartition(b"\n")[0] + b"\n"


def without_last_end(content):
    """Where the last line is empty, its end is the line."""
    shorter = content.removesuffix(b"\n").removesuffix(b"\r")
    return content if shorter.endswith(b"\n") else shorter


SAME = {
    "CRLF": lambda content: content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "a byte-order mark": lambda content: MARK + content.removeprefix(MARK),
    "no end of the last line": without_last_end,
}
OTHER = {
    "nothing": lambda _: b"",
    "a mark alone": lambda _: MARK,
    "a line end": lambda _: b"\n",
    "one line": lambda content: content.partition(b"\n")[0] + b"\n",
    "the first half": first_half,
    "a row less": without_last_line,
    "a row twice": lambda content: (
        content + content.rstrip(b"\r\n").rpartition(b"\n")[2] + b"\n"
    ),
    "UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
    "bytes that are no text": lambda content: b"\xff\xfe\x00" * 9 + content,
    "a page of a web site": lambda _: b"<!DOCTYPE html>\n<html>not found</html>\n",
    "CR alone": lambda content: content.replace(b"\r\n", b"\n").replace(b"\n", b"\r"),
}


def files_of(task, split, data_dir):
    """The files of a split under the data folder; of a year those of its first subset."""
    if isinstance(task.load, PublishedSet):
        load, name = task.load, split
    else:
        folder = data_dir / f"raw/STS/STS{task.load.year}-en-test"
        return sorted(folder.glob("*.deft-forum.txt"))
    return [
        readers.locate(
            data_dir, task.asset, *(folder + file for folder in load.folders)
        )
        for file in load.files[name]
    ]


@pytest.fixture
def copied(data_dir, tmp_path):
    """A split's files in a folder of the test; returns its task, its split and these files."""

    def copy(name):
        task, split = REGISTRY.tasks_by_name[name], SPLITS[name]
        first, *_ = files_of(task, split, data_dir)
        shutil.copytree(first.parent, tmp_path / first.parent.relative_to(data_dir))
        return task, split, files_of(task, split, tmp_path)

    return copy


@pytest.mark.data
@pytest.mark.parametrize("name", SPLITS)
def test_a_file_with_other_line_ends_or_a_mark_reads_alike(
    copied, data_dir, tmp_path, name
):
    task, split, paths = copied(name)
    wanted = task.load(data_dir, split)
    for change in SAME.values():
        for path in paths:
            content = path.read_bytes()
            path.chmod(0o644)
            path.write_bytes(change(content))
        found = task.load(tmp_path, split)
        assert (found.a, found.b, found.group) == (wanted.a, wanted.b, wanted.group)
        assert found.gold.tolist() == wanted.gold.tolist()


@pytest.mark.data
@pytest.mark.parametrize("name", SPLITS)
def test_any_other_file_is_refused_in_a_line_with_its_remedy(copied, tmp_path, name):
    task, split, paths = copied(name)
    for path in paths:
        content = path.read_bytes()
        path.chmod(0o644)
        for what, change in OTHER.items():
            path.write_bytes(change(content))
            with pytest.raises(DataError) as refused:
                task.load(tmp_path, split)
            line = str(refused.value)
            place = "|".join(re.escape(str(file)) for file in paths)
            assert re.match(rf"({place})(:\d+)?: wanted .*, found ", line), (what, line)
            assert line.endswith(REFETCH_ADVICE)
            assert line.count("\n") == 0
        path.write_bytes(content)


@pytest.mark.parametrize("task", transfer.TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("content", [b"", MARK, b"\n", b"\r\n", b"\0", b"a\n"])
def test_a_transfer_file_without_rows_is_refused_by_name(tmp_path, task, content):
    for split, names in task.load.files.items():
        for name in names:
            path = tmp_path / "transfer" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        with pytest.raises(
            DataError, match=rf"{names[0]}(:1)?: wanted .*, found .*; {REFETCH_ADVICE}$"
        ):
            task.load(tmp_path, split)


def test_the_remedy_is_that_of_the_file_that_is_read(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"one\tline\n\xe9\n")
    for remedy in (REFETCH_ADVICE, CORRECT_ADVICE):
        why = rf"x\.txt:2: wanted UTF-8, found .*; {remedy}$"
        with pytest.raises(DataError, match=why), advising(remedy):
            list(readers.lines(path))
