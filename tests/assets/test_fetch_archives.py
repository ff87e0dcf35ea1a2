"""Archives of others: what is wanted comes out as it was, and nothing else, nowhere else."""

import io
import re
import tarfile
import zipfile

import pytest
from fakes import snapshot
from standin import sha256

from harness.assets.catalogue import DATA_ASSETS, Download
from harness.assets.fetch.archives import unpack_archive
from harness.assets.places import asset_named
from harness.core.errors import DataError

TEXTS = Download("https://host/texts.zip", r"texts/\1", keep=r"(?:.*/)?([^/]+\.txt)", unpacked=100)


def zipped(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


def tarred(path, members):
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


PACKERS = {"a.zip": zipped, "a.tar": tarred, "a.tar.gz": tarred}


@pytest.fixture(params=PACKERS)
def pack(request, tmp_path):
    """Packs members into an archive of each kind."""
    return lambda members: PACKERS[request.param](tmp_path / request.param, members)


@pytest.fixture
def into(tmp_path):
    """An empty folder, with an empty one beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def files(folder):
    return {name: content for name, (content, _) in snapshot(folder).items()}


def test_the_wanted_members_come_out_as_they_were(pack, into):
    members = [("x/a.txt", b"one"), ("x/b.csv", b"two"), ("c.txt", b"three")]
    placed = unpack_archive(pack(members), TEXTS, into)
    assert placed == {"texts/a.txt": sha256(b"one"), "texts/c.txt": sha256(b"three")}
    assert files(into) == {"texts/a.txt": b"one", "texts/c.txt": b"three"}


@pytest.mark.parametrize(
    "name", ["/a.txt", "../a.txt", "x/../../a.txt", "..\\a.txt", "C:\\a.txt", "\\a.txt"]
)
def test_a_name_that_leaves_the_folder_is_refused(pack, into, tmp_path, name):
    wild = Download(TEXTS.at, r"\1", keep=r"(.*\.txt)")
    archive = pack([(name, b"one")])
    before = files(tmp_path)
    with pytest.raises(DataError, match="unsafe name"):
        unpack_archive(archive, wild, into)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_a_link_or_device_among_the_wanted_is_refused(into, tmp_path, kind):
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.type, info.linkname = kind, "../outside/secret"
        archive.addfile(info)
    with pytest.raises(DataError, match="link or a device"):
        unpack_archive(path, TEXTS, into)
    assert files(into) == {}


def test_an_archive_cannot_fill_the_disk(pack, into):
    members = [("a.txt", b"x" * 60), ("b.txt", b"x" * 60)]
    with pytest.raises(DataError, match="than the 40 bytes that it may hold"):
        unpack_archive(pack(members), TEXTS, into)
    assert files(into) == {}


def test_two_members_for_one_place_must_be_the_same(pack, into):
    unpack_archive(pack([("x/a.txt", b"one"), ("y/a.txt", b"one")]), TEXTS, into)
    with pytest.raises(DataError, match=r"two members are texts/a\.txt"):
        unpack_archive(pack([("x/a.txt", b"one"), ("y/a.txt", b"two")]), TEXTS, into)


REFUSED = {
    "an unsafe name": ("../b.txt", b"2"),
    "too much": ("b.txt", bytes(101)),
    "another file of that name": ("sub/a.txt", b"2"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_archive_leaves_nothing_of_what_came_before(pack, into, why):
    (into / "texts").mkdir()
    (into / "texts" / "a.txt").write_bytes(b"older")
    with pytest.raises(DataError):
        unpack_archive(pack([("a.txt", b"1"), ("c.txt", b"3"), REFUSED[why]]), TEXTS, into)
    assert files(into) == {"texts/a.txt": b"older"}
    assert [path.name for path in into.parent.rglob("*.members")] == []


@pytest.mark.parametrize("content", [b"", b"no archive at all", b"PK\3\4 cut"])
def test_what_is_no_archive_is_one_line(into, tmp_path, content):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(DataError, match="wanted an archive") as wrong:
        unpack_archive(tmp_path / "a.zip", TEXTS, into)
    assert "\n" not in str(wrong.value)


def test_a_damaged_archive_is_noticed(into, tmp_path):
    archive = zipped(tmp_path / "a.zip", [("a.txt", b"one two three")])
    archive.write_bytes(archive.read_bytes().replace(b"two", b"owt"))
    with pytest.raises(DataError, match="CRC"):
        unpack_archive(archive, TEXTS, into)
    assert files(into) == {}


def test_an_archive_without_what_is_wanted_is_refused(pack, into):
    with pytest.raises(DataError, match="found none"):
        unpack_archive(pack([("a.csv", b"one")]), TEXTS, into)


# The publishers' archives

STS_RAW, SICK_RAW = asset_named("sts-raw").downloads, asset_named("sick-raw").downloads
(SENTEVAL,) = asset_named("sts-senteval").downloads
MEMBERS = {
    STS_RAW[0]: {"stsbenchmark/sts-dev.csv": "raw/STS/STSBenchmark/sts-dev.csv"},
    STS_RAW[1]: {"test-gold/STS.input.MSRpar.txt": "raw/STS/STS12-en-test/STS.input.MSRpar.txt"},
    STS_RAW[3]: {"a/STS.gs.tweet-news.txt": "raw/STS/STS14-en-test/STS.gs.tweet-news.txt"},
    STS_RAW[5]: {
        "sts16/STS2016.gs.headlines.txt": "raw/STS/STS16-en-test/STS.gs.headlines.txt",
        "sts16/correlation.pl": None,
    },
    SICK_RAW[0]: {"SICK_train.txt": "raw/SICK/SICK_train.txt", "readme.txt": None},
    SICK_RAW[2]: {"SICK_test_annotated.txt": "raw/SICK/SICK_test_annotated.txt"},
    SENTEVAL: {
        "STS/STSBenchmark/sts-test.csv": "senteval/STS/STSBenchmark/sts-test.csv",
        "a/STS/STS12-en-test/STS.gs.MSRpar.txt": "senteval/STS/STS12-en-test/STS.gs.MSRpar.txt",
        "./SICK/SICK_trial.txt": "senteval/SICK/SICK_trial.txt",
        "STS/STSBenchmark/._sts-test.csv": None,
        "MR/rt-polarity.neg": None,
    },
}


@pytest.mark.parametrize("download", MEMBERS, ids=lambda download: download.at)
def test_members_go_where_the_tasks_read_them(download):
    for name, place in MEMBERS[download].items():
        found = re.fullmatch(download.keep, name)
        assert (found and found.expand(download.into)) == place


ARCHIVES = [d for asset in DATA_ASSETS for d in asset.downloads if getattr(d, "keep", None)]


@pytest.mark.parametrize("download", ARCHIVES, ids=lambda download: download.at)
def test_no_pattern_reaches_beyond_its_assets_places(download):
    probes = [p for asset in DATA_ASSETS if download in asset.downloads for p in asset.probe]
    literal = re.sub(r"\\\d.*", "", download.into)
    assert any(p.startswith(literal) or literal.startswith(p) for p in probes)
