"""Data from every kind of source, with every fault: the next serves, nothing wrong is kept."""

import gzip
import io
import json
import shutil
import socket
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest
from fakes import snapshot
from hub_server import Fault, hub_server, sha256, use_hub_server
from packers import tarred, zipped
from pyarrow import Table, parquet
from refusals import refused

from harness.core.errors import AssetMissing, DataError
from harness.core.pairs import Pairs, rows_digest
from harness.data import catalogue, fetch
from harness.data.catalogue import HUB, Asset, AssetPart, Download, RowFormat, Source
from harness.data.download import unpack
from harness.data.fetch import Fetcher
from harness.data.places import Places
from harness.data.tasks.readers import number, read_scored_pairs

COMMIT = "c" * 40
ROWS = tuple((f"A man eats {n}.", f"Someone eats {n}.", n / 10) for n in range(50))
TEXT = "".join(f"{a}\t{b}\t{gold}\n" for a, b, gold in ROWS).encode()
COLUMNS = tuple(zip(*ROWS, strict=True))
PAIRS = Pairs(COLUMNS[0], COLUMNS[1], np.array(COLUMNS[2]), ("g",) * 50)
PLACE = "pairs/pairs.tsv"
sleep = time.sleep


@dataclass(frozen=True)
class Reads:
    """As much of a task as a fetch looks at: the digest of the rows decides."""

    asset: str = "pairs"
    splits: tuple[str, ...] = ("test",)

    def load(self, data_dir, split):
        path = data_dir / PLACE
        if not path.is_file():
            raise AssetMissing("no pairs")

        def gold(place, text):
            return number(place, text, (0, 5))

        pairs = read_scored_pairs(path, "g", (0, 1, 2), gold, (3,))
        if rows_digest(pairs) != rows_digest(PAIRS):
            raise DataError(f"{path}: wanted other rows")
        return pairs


def packed_table():
    packed = io.BytesIO()
    columns = dict(zip("aby", COLUMNS, strict=True))
    parquet.write_table(Table.from_pydict(columns), packed)
    return packed.getvalue()


def source(kind, url):
    """A source of each kind, on one host."""
    at_hub = f"{HUB}/datasets/me/rows/resolve/{COMMIT}"
    rows, pattern = RowFormat("{a}\t{b}\t{y}"), r"(?:.*/)?(pairs\.tsv)"
    base, download = {
        "hub": (at_hub, Download("rows.parquet", PLACE, table=rows)),
        "plain": ("", Download(f"{url}/files/plain/pairs.tsv", PLACE)),
        "copy": (f"{url}/files/copy", Download("pairs.tsv", PLACE)),
        "archive": ("", Download(f"{url}/files/a.zip", r"pairs/\1", keep=pattern)),
    }[kind]
    return Source(kind, (download,), base)


ADDRESSES = {  # a part of the path of each
    "hub": "GET /datasets/me/rows/resolve",
    "plain": "/files/plain/",
    "archive": "/files/a.zip",
}


@pytest.fixture
def host(monkeypatch, tmp_path):
    """One stand-in for all hosts; hosts are given up after half a second."""
    monkeypatch.setattr("time.sleep", lambda seconds: sleep(min(seconds, 0.01)))
    monkeypatch.setattr("harness.data.download.TIMEOUT", (0.5, 0.5))
    monkeypatch.setattr(fetch, "KNOWN_DIGESTS", {PLACE: sha256(TEXT)})
    with hub_server() as running:
        use_hub_server(running, monkeypatch, tmp_path)
        running.dataset("me/rows", {"rows.parquet": packed_table()}, COMMIT)
        running.files = {
            "plain/pairs.tsv": TEXT,
            "copy/pairs.tsv": TEXT,
            "a.zip": zipped({"in/pairs.tsv": TEXT, "in/readme.txt": b"x"}),
        }
        yield running
    from huggingface_hub.utils import close_session

    close_session()


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def bring(data, tmp_path, monkeypatch):
    """Fetches assets with one scratch folder, and returns the line of the last."""

    def brought(*assets, **settings):
        monkeypatch.setattr("harness.data.places.DATA_ASSETS", assets)
        (tmp_path / "scratch").mkdir()
        places = Places(tmp_path / "cache", data)
        fetcher = Fetcher(places, (Reads(),), (), tmp_path / "scratch", **settings)
        try:
            return [fetcher.bring(asset) for asset in assets][-1]
        finally:
            shutil.rmtree(tmp_path / "scratch")

    return brought


def asset_of(host, *kinds, **changes):
    """An asset of one part; `changes` are of the download of the first source."""
    elsewhere = host.url.replace("127.0.0.1", "localhost")  # counts as another host
    first, *others = (source(kind, elsewhere) for kind in kinds)
    first = source(kinds[0], host.url)
    first = replace(first, downloads=(replace(first.downloads[0], **changes),))
    return asset_with("pairs", AssetPart("all", (PLACE,), (first, *others)), rows=True)


def asset_with(name, *parts, **settings):
    path = parts[0].files[0]
    return Asset(
        name, name, (path,), "me", "none", f"get {name}", parts=parts, **settings
    )


def dead_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/x"


# Sources, in order

PASSED_OVER = [  # a kind of source, and what is wrong with it
    ("hub", Fault(status=404)),
    ("archive", Fault(status=500)),
    ("plain", Fault(page=True)),
    *((kind, Fault(cut_after=20, unmeasured=True)) for kind in ADDRESSES),
    ("hub", Fault(cut_after=0)),
    ("archive", Fault(silent=1.5)),
    *((kind, Fault(other=True)) for kind in ADDRESSES),
    ("plain", Fault(location=dead_address())),
    ("hub", Fault(location="?again")),
    ("archive", Fault(more=7)),
]


@pytest.mark.parametrize(("kind", "fault"), PASSED_OVER)
def test_the_next_source_serves_within_seconds(host, data, bring, kind, fault):
    """`in/pairs.tsv` of a truncated archive, or half of the rows, are never taken for the whole."""
    host.fail(ADDRESSES[kind], fault)
    if kind == "hub":
        host.fail("GET /store/", fault)
    begun = time.monotonic()
    line = bring(asset_of(host, kind, "copy"))
    assert time.monotonic() - begun < 20  # on a busy machine, with imports
    assert "50 pairs checked" in line
    assert f"from copy, not from {kind}" in line
    assert (data / PLACE).read_bytes() == TEXT
    assert list(snapshot(data)) == [PLACE]  # no beginning, nothing empty


def test_all_that_was_tried_is_named_and_how_to_place_a_file_by_hand(host, data, bring):
    for path in ADDRESSES.values():
        host.fail(path, Fault(status=404))
    with pytest.raises(AssetMissing) as missing:
        bring(asset_of(host, *ADDRESSES))
    message = str(missing.value)
    assert "\n" not in message
    assert all(f"{kind}: its host answered 404" in message for kind in ADDRESSES)
    assert message.endswith("by hand: harness fetch --dry-run pairs")
    assert snapshot(data) == {}


# What is accepted

OTHER_ROWS = {
    "a word": TEXT.replace(b"Someone", b"Nobody", 1),
    "an order": b"".join(TEXT.splitlines(keepends=True)[::-1]),
    "nothing": b"",
}


@pytest.mark.parametrize("how", ["", "gz", "xz"])
def test_the_same_rows_are_accepted_however_they_are_packed(host, data, bring, how):
    content = TEXT.replace(b"\n", b"\r\n")
    members = {"b.txt": b"", "x/pairs.tsv": content}
    host.files["plain/pairs.tsv"] = content
    host.files["a.zip"] = tarred(members, f"w:{how}") if how else zipped(members)
    for kind in ("plain", "archive"):
        shutil.rmtree(data / "pairs", ignore_errors=True)
        assert "50 pairs" in bring(asset_of(host, kind))


@pytest.mark.parametrize("what", OTHER_ROWS)
def test_other_rows_are_never_accepted_and_replaced_where_they_are(
    host, data, bring, what
):
    host.files["plain/pairs.tsv"] = OTHER_ROWS[what]
    host.files["a.zip"] = zipped({"pairs.tsv": OTHER_ROWS[what]})
    asset = asset_of(host, "plain", "archive")
    with pytest.raises(DataError):
        bring(asset)
    assert snapshot(data) == {}
    (data / "pairs").mkdir()
    (data / PLACE).write_bytes(OTHER_ROWS[what])
    with pytest.raises(DataError):
        bring(asset, offline_switch="--offline")
    host.files["a.zip"] = zipped({"pairs.tsv": TEXT})
    assert "50 pairs checked" in bring(asset)
    assert (data / PLACE).read_bytes() == TEXT


@pytest.mark.parametrize(
    ("stated", "why"),
    [
        ({"sha256": "0" * 64}, f"expected {'0' * 64} but got {sha256(TEXT)}"),
        ({"size": 7}, f"wanted 7 bytes, found {len(TEXT):,}"),
    ],
)
def test_a_file_of_another_digest_or_size_is_refused(host, data, bring, stated, why):
    asset = replace(asset_of(host, "plain", **stated), rows=False)
    with refused(DataError, why):
        bring(asset)
    assert snapshot(data) == {}


def test_a_file_beyond_its_limit_is_not_received_to_its_end(
    host, data, bring, monkeypatch
):
    monkeypatch.setattr(catalogue, "GIB", 100)
    with refused(DataError, "found more than 100 bytes"):
        bring(asset_of(host, "plain"))
    assert snapshot(data) == {}


# Parts and archives


@pytest.mark.parametrize("dead", ["a", "b"])
def test_what_arrived_stays_where_another_part_is_dead(
    host, data, bring, monkeypatch, dead
):
    host.files |= {"a": b"a\n", "b": b"b\n"}
    known = {f"two/{n}.txt": sha256(f"{n}\n".encode()) for n in "ab"}
    monkeypatch.setattr(fetch, "KNOWN_DIGESTS", known)
    parts = []
    for name in "ab":
        download = Download(f"{host.url}/files/{name}", f"two/{name}.txt")
        parts.append(AssetPart(name, (download.into,), (Source("x", (download,)),)))
    asset = replace(asset_with("two", *parts), probe=("two",))
    host.fail(f"/files/{dead}", Fault(status=404))
    with refused(AssetMissing, rf"two \({dead} of 2 parts\) did not arr"):
        bring(asset)
    (there,) = {"a", "b"} - {dead}
    assert list(snapshot(data)) == [f"two/{there}.txt"]
    host.faults.clear()
    host.asked.clear()
    bring(asset)
    assert [path for _, path, _ in host.asked] == [f"/files/{dead}"]


TEXTS = Download("https://host/texts.zip", r"\1", keep=r"(.*\.txt)")
CHANGED = zipped({"a.txt": b"one two three"}).replace(b"two", b"owt")
OUTSIDE = ("/a.txt", "../a.txt", "x/../../a.txt", "..\\a.txt", "C:\\a.txt", "\\a.txt")
NO_ARCHIVES = [
    (b"", "wanted an archive"),
    (b"no archive at all", "wanted an archive"),
    (b"PK\3\4 cut", "wanted an archive"),
    (CHANGED, "CRC"),
    (zipped({"a.csv": b"one"}), "no member"),
    (zipped({"a.txt": bytes(101)}), "more than 100 bytes"),
    (tarred({"a.txt": bytes(101)}), "more than 100 bytes"),
    *((zipped({name: b"one"}), "unsafe name") for name in OUTSIDE),
    *((tarred({name: b"one"}), "unsafe name") for name in OUTSIDE),
]


@pytest.mark.parametrize(("content", "complaint"), NO_ARCHIVES)
def test_an_archive_that_is_damaged_or_leaves_its_folder_is_refused(
    tmp_path, monkeypatch, content, complaint
):
    monkeypatch.setattr(catalogue, "GIB", 100)
    archive, folder = tmp_path / "a.zip", tmp_path / "outside" / "into"
    archive.write_bytes(content)
    with refused(DataError, complaint):
        unpack(archive, TEXTS, folder)
    made = {name for name in snapshot(tmp_path) if name != "a.zip"}
    assert all(name.startswith("outside/into/") for name in made)


# Tables


def test_a_table_is_cut_and_has_a_header(host, data, bring, monkeypatch):
    monkeypatch.setattr(fetch, "KNOWN_DIGESTS", {})
    table = RowFormat("{number}\t{a}", header="n\ta", rows=(1, 3))
    bring(replace(asset_of(host, "hub", table=table), name="t", rows=False))
    lines = (data / PLACE).read_text().splitlines()
    assert lines == ["n\ta", "1\tA man eats 1.", "2\tA man eats 2."]


def test_json_lines_are_read_as_parquet_is(host, bring):
    lines = "".join(json.dumps({"a": a, "b": b, "y": y}) + "\n" for a, b, y in ROWS)
    host.dataset("me/rows", {"rows.jsonl.gz": gzip.compress(lines.encode())}, COMMIT)
    assert "50 pairs checked" in bring(asset_of(host, "hub", at="rows.jsonl.gz"))
