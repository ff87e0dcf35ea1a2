"""Archives of others: what is wanted comes out as it was, and nothing else, nowhere else."""

import pytest
from fakes import snapshot
from packers import tarred, zipped

from harness.core.errors import DataError
from harness.data.archives import unpack
from harness.data.catalogue import Download

TEXTS = Download(
    "https://host/texts.zip", r"texts/\1", keep=r"(?:.*/)?([^/]+\.txt)", unpacked=100
)
PACKERS = {
    "zip": zipped,
    "tar": tarred,
    "tar.gz": lambda members: tarred(members, "w:gz"),
}


@pytest.fixture(params=PACKERS)
def make_archive(request, tmp_path):
    """Packs members into an archive of each kind."""

    def packed(members):
        path = tmp_path / f"a.{request.param}"
        path.write_bytes(PACKERS[request.param](members))
        return path

    return packed


@pytest.fixture
def empty_folder(tmp_path):
    """An empty folder, with an empty one beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def files(folder):
    return {name: content for name, (content, _) in snapshot(folder).items()}


def test_the_wanted_members_come_out_as_they_were(make_archive, empty_folder):
    members = {
        "x/a.txt": b"one",
        "y/a.txt": b"one",
        "x/b.csv": b"two",
        "c.txt": b"three",
    }
    unpack(make_archive(members), TEXTS, empty_folder)
    assert files(empty_folder) == {"texts/a.txt": b"one", "texts/c.txt": b"three"}


@pytest.mark.parametrize(
    "name", ["/a.txt", "../a.txt", "x/../../a.txt", "..\\a.txt", "C:\\a.txt", "\\a.txt"]
)
def test_a_name_that_leaves_the_folder_is_refused(
    make_archive, empty_folder, tmp_path, name
):
    name = f"{tmp_path}{name}" if name.startswith("/") else name
    archive = make_archive({name: b"one"})
    before = files(tmp_path)
    with pytest.raises(DataError, match="unsafe name") as refused:
        unpack(archive, Download(TEXTS.at, r"\1", keep=r"(.*\.txt)"), empty_folder)
    assert files(tmp_path) == before
    assert name not in str(refused.value)


def test_an_archive_beyond_its_limit_is_refused(make_archive, empty_folder):
    with pytest.raises(DataError, match="more than 100 bytes"):
        unpack(make_archive({"b.txt": bytes(101)}), TEXTS, empty_folder)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "wanted an archive"),
        (b"no archive at all", "wanted an archive"),
        (b"PK\3\4 cut", "wanted an archive"),
        (zipped({"a.txt": b"one two three"}).replace(b"two", b"owt"), "CRC"),
        (zipped({"a.csv": b"one"}), "no member"),
    ],
)
def test_what_is_no_archive_or_a_damaged_one_is_one_line(
    empty_folder, tmp_path, content, complaint
):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(DataError, match=complaint) as wrong:
        unpack(tmp_path / "a.zip", TEXTS, empty_folder)
    assert "\n" not in str(wrong.value)
