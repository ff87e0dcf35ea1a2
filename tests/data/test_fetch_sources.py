"""Sources of every kind, with every fault: the next serves, and nothing wrong takes its place."""

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
from packers import tarred, zipped
from pyarrow import Table, parquet
from standin import Fault, at_standin, sha256, standin

from harness.core.errors import AssetMissing, DataError
from harness.core.pairs import Pairs, rows_digest
from harness.data import fetch
from harness.data.catalogue import Asset, AssetPart, Download, RowFormat, Source
from harness.data.fetch import ALREADY_HERE, LARGE_DOWNLOAD, Fetcher
from harness.data.places import Places
from harness.data.tasks.readers import number, read_scored_pairs

# `pooch` leaves connections over which something went wrong to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

COMMIT = "c" * 40
ROWS = tuple((f"A man eats {n}.", f"Someone eats {n}.", n / 10) for n in range(50))
TEXT = "".join(f"{a}\t{b}\t{gold}\n" for a, b, gold in ROWS).encode()
OTHER = TEXT.replace(b"Someone", b"Nobody", 1)
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


def packed_table(rows):
    packed = io.BytesIO()
    columns = zip(*rows, strict=True)
    parquet.write_table(
        Table.from_pydict(dict(zip("aby", columns, strict=True))), packed
    )
    return packed.getvalue()


def source(name, url):
    """A source of each kind, on one host."""
    raw = f"{url}/files/raw/me/copy/{COMMIT}"
    downloads = {
        "hub": Download("rows.parquet", PLACE, table=RowFormat("{a}\t{b}\t{y}")),
        "github": Download("pairs.tsv", PLACE),
        "plain": Download(f"{url}/files/plain/pairs.tsv", PLACE),
        "publisher": Download(
            f"{url}/files/pairs.zip", r"pairs/\1", keep=r"(?:.*/)?(pairs\.tsv)"
        ),
    }
    more = {"hub": {"repo": "me/rows", "revision": COMMIT}, "github": {"base": raw}}
    return Source(name, (downloads[name],), **more.get(name, {}))


KINDS = ("hub", "github", "plain", "publisher")
ADDRESSES = {  # a part of the path of each
    "hub": "GET /datasets/me/rows/resolve",
    "github": "/files/raw/",
    "plain": "/files/plain/",
    "publisher": "/files/pairs.zip",
}


@pytest.fixture
def host(monkeypatch, tmp_path):
    """One stand-in for all hosts; hosts are given up after half a second."""
    monkeypatch.setattr("time.sleep", lambda seconds: sleep(min(seconds, 0.01)))
    monkeypatch.setattr("harness.data.download.TIMEOUT", (0.5, 0.5))
    monkeypatch.setattr(fetch, "KNOWN_DIGESTS", {PLACE: sha256(TEXT)})
    with standin() as running:
        at_standin(running, monkeypatch, tmp_path)
        running.dataset("me/rows", {"rows.parquet": packed_table(ROWS)}, COMMIT)
        running.files = {
            f"raw/me/copy/{COMMIT}/pairs.tsv": TEXT,
            "plain/pairs.tsv": TEXT,
            "pairs.zip": zipped({"in/pairs.tsv": TEXT, "in/readme.txt": b"x"}),
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


def asset_of(host, *names, **changes):
    """An asset of one part; `changes` are of the download of the first source."""
    first, *others = names
    elsewhere = host.url.replace("127.0.0.1", "localhost")  # counts as another host
    one = source(first, host.url)
    one = replace(one, downloads=(replace(one.downloads[0], **changes),))
    sources = (one, *(source(name, elsewhere) for name in others))
    return asset_with("pairs", AssetPart("all", (PLACE,), sources), rows=True)


def asset_with(name, *parts, **settings):
    path = parts[0].files[0]
    return Asset(
        name, name, (path,), "me", "none", f"get {name}", parts=parts, **settings
    )


def dead_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/x"


PASSED_OVER = {
    "404": Fault(status=404, for_ever=True),
    "500": Fault(status=500, for_ever=True),
    "a web page": Fault(page=True, for_ever=True),
    "truncated": Fault(cut_after=20, for_ever=True, unmeasured=True),
    "nothing": Fault(cut_after=0, for_ever=True),
    "silence": Fault(silent=1.5, for_ever=True),
    "wrong bytes": Fault(other=True, for_ever=True),
    "a dead redirect": Fault(location=dead_address(), for_ever=True),
    "a loop of redirects": Fault(location="?again", for_ever=True),
    "a length beyond the file": Fault(more=7, for_ever=True),
}


@pytest.mark.parametrize("fault", PASSED_OVER)
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_source_serves_within_seconds(host, data, bring, kind, fault):
    """`in/pairs.tsv` of a truncated archive, or half of the rows, are never taken for the whole."""
    other = next(name for name in ("plain", "github") if name != kind)
    for path in (ADDRESSES[kind], *(["GET /store/"] if kind == "hub" else [])):
        host.fail(path, PASSED_OVER[fault])
    begun = time.monotonic()
    line = bring(asset_of(host, kind, other))
    assert time.monotonic() - begun < 5
    assert "50 pairs checked" in line
    assert f"from {other}, not from {kind}" in line
    assert (data / PLACE).read_bytes() == TEXT
    assert list(snapshot(data)) == [PLACE]  # no beginning, nothing empty


SAME_ROWS = {
    "CRLF": TEXT.replace(b"\n", b"\r\n"),
    "no last line end": TEXT.removesuffix(b"\n"),
    "a byte-order mark": b"\xef\xbb\xbf" + TEXT,
}
OTHER_ROWS = {
    "a word": OTHER,
    "an order": b"".join(TEXT.splitlines(keepends=True)[::-1]),
    "a row less": TEXT[TEXT.index(b"\n") + 1 :],
    "a row twice": TEXT + TEXT[: TEXT.index(b"\n") + 1],
    "a score": TEXT.replace(b"\t0.1\n", b"\t0.2\n"),
    "a blank": TEXT.replace(b"eats 1.", b"eats 1. ", 1),
    "nothing": b"",
}
ARCHIVES = {
    "another order": lambda text: zipped({"b.txt": b"", "x/pairs.tsv": text}),
    "a tar": lambda text: tarred({"pairs.tsv": text}),
    "a tar.gz": lambda text: tarred({"deep/er/pairs.tsv": text}, "w:gz"),
}


@pytest.mark.parametrize("how", ARCHIVES)
def test_the_same_rows_are_accepted_however_they_are_packed(host, data, bring, how):
    for content in SAME_ROWS.values():
        host.files["plain/pairs.tsv"] = content
        host.files["pairs.zip"] = ARCHIVES[how](content)
        for kind in ("plain", "publisher"):
            shutil.rmtree(data / "pairs", ignore_errors=True)
            assert "50 pairs" in bring(asset_of(host, kind))


@pytest.mark.parametrize("what", OTHER_ROWS)
def test_other_rows_are_never_accepted(host, data, bring, what):
    """The right ones are accepted afterwards: a wrong first copy leaves no trace."""
    host.files["plain/pairs.tsv"] = OTHER_ROWS[what]
    host.files["pairs.zip"] = zipped({"pairs.tsv": OTHER_ROWS[what]})
    asset = asset_of(host, "plain", "publisher")
    with pytest.raises(DataError) as refused:
        bring(asset)
    assert "\n" not in str(refused.value)
    assert snapshot(data) == {}
    host.files["pairs.zip"] = zipped({"pairs.tsv": TEXT})
    assert "50 pairs checked" in bring(asset)


def test_a_right_file_that_is_there_survives_wrong_sources(host, data, bring):
    (data / "pairs").mkdir()
    (data / PLACE).write_bytes(SAME_ROWS["CRLF"])
    host.files["plain/pairs.tsv"] = OTHER
    assert bring(asset_of(host, "plain")).startswith(ALREADY_HERE)
    assert (host.asked, (data / PLACE).read_bytes()) == ([], SAME_ROWS["CRLF"])


def test_a_wrong_file_that_is_there_is_replaced(host, data, bring):
    (data / "pairs").mkdir()
    (data / PLACE).write_bytes(OTHER)
    with pytest.raises(DataError):
        bring(asset_of(host, "plain"), offline_switch="--offline")
    assert "50 pairs checked" in bring(asset_of(host, "plain"))
    assert (data / PLACE).read_bytes() == TEXT


def test_all_that_was_tried_is_named_and_how_to_place_a_file_by_hand(host, data, bring):
    for kind in KINDS:
        host.fail(ADDRESSES[kind], Fault(status=404, for_ever=True))
    with pytest.raises(AssetMissing) as missing:
        bring(asset_of(host, *KINDS))
    message = str(missing.value)
    assert "\n" not in message
    for kind in KINDS:
        assert f"{kind}: its host answered 404" in message
    assert message.endswith("by hand: harness fetch --dry-run pairs")
    assert snapshot(data) == {}


def test_only_the_address_of_a_file_is_asked(host, bring):
    """The front page of its host may be slow, or lead to a dead host."""
    host.fail("GET /", Fault(), Fault(), Fault())
    bring(asset_of(host, "plain"))
    assert [path for _, path, _ in host.asked] == ["/files/plain/pairs.tsv"]


# Parts


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
    host.fail(f"/files/{dead}", Fault(status=404, for_ever=True))
    with pytest.raises(AssetMissing, match=rf"two \({dead} of 2 parts\) did not arr"):
        bring(asset)
    (there,) = {"a", "b"} - {dead}
    assert list(snapshot(data)) == [f"two/{there}.txt"]
    host.faults.clear()
    host.asked.clear()
    bring(asset)
    assert [path for _, path, _ in host.asked] == [f"/files/{dead}"]


def test_one_archive_serves_all_assets_that_are_taken_from_it(host, data, bring):
    host.files["both.tar"] = archive = tarred({"a.txt": b"a\n", "b.txt": b"b\n"})
    assets = []
    for name in "ab":
        download = Download(
            f"{host.url}/files/both.tar",
            rf"{name}/\1",
            keep=rf"({name}\.txt)",
            sha256=sha256(archive),
        )
        sources = (Source("publisher", (download,)),)
        assets.append(
            asset_with(name, AssetPart("all", (f"{name}/{name}.txt",), sources))
        )
    bring(*assets)
    assert len(host.got("both.tar")) == 1
    assert list(snapshot(data)) == ["a/a.txt", "b/b.txt"]


@pytest.mark.parametrize("stated", [{"sha256": "0" * 64}, {"size": 7}])
def test_a_file_of_another_digest_or_size_is_refused(host, data, bring, stated):
    asset = replace(asset_of(host, "plain", **stated), rows=False)
    with pytest.raises(DataError, match=r"wanted sha256 .* bytes, found .* and "):
        bring(asset)
    assert snapshot(data) == {}


# Tables


def test_a_table_is_cut_and_has_a_header(host, data, bring, monkeypatch):
    monkeypatch.setattr(fetch, "KNOWN_DIGESTS", {})
    table = RowFormat("{number}\t{a}", header="n\ta", rows=(1, 3))
    bring(replace(asset_of(host, "hub", table=table), name="t", rows=False))
    lines = (data / PLACE).read_text().splitlines()
    assert lines == ["n\ta", "1\tA man eats 1.", "2\tA man eats 2."]


BROKEN_ROWS = ((ROWS[0][0] + "\n", *ROWS[0][1:]), *ROWS[1:])


@pytest.mark.parametrize(
    ("table", "rows", "why"),
    [
        (RowFormat("{a}\t{none}"), ROWS, "row 0 has no 'none'"),
        (RowFormat("{a}", rows=(0, 51)), ROWS, "wanted 51 rows, found 50"),
        (RowFormat("{a}\t{b}\t{y}"), BROKEN_ROWS, "row 0 holds a tab or a line end"),
    ],
)
def test_a_table_of_other_rows_is_refused(host, bring, table, rows, why):
    host.dataset("me/rows", {"rows.parquet": packed_table(rows)}, COMMIT)
    with pytest.raises(DataError, match=why):
        bring(asset_of(host, "hub", table=table))


def test_json_lines_are_read_as_parquet_is(host, bring):
    lines = "".join(json.dumps({"a": a, "b": b, "y": y}) + "\n" for a, b, y in ROWS)
    host.dataset("me/rows", {"rows.jsonl.gz": gzip.compress(lines.encode())}, COMMIT)
    assert "50 pairs checked" in bring(asset_of(host, "hub", at="rows.jsonl.gz"))


# Order, limits and kills


def test_a_first_run_asks_a_source_of_one_large_download_last(host, bring):
    asset = asset_of(host, "publisher", "plain", size=LARGE_DOWNLOAD + 1)
    bring(asset, small_first=True)
    assert [path for _, path, _ in host.asked] == ["/files/plain/pairs.tsv"]


def test_a_file_beyond_its_limit_is_not_received_to_its_end(host, data, bring):
    with pytest.raises(DataError, match="found more than 100 bytes"):
        bring(asset_of(host, "plain", unpacked=100))
    assert snapshot(data) == {}


def test_a_fetch_that_is_killed_leaves_nothing_in_its_place(
    host, data, bring, monkeypatch
):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetch, "unpack", killed)
        with pytest.raises(KeyboardInterrupt):
            bring(asset_of(host, "publisher"))
    assert snapshot(data) == {}
    assert "50 pairs checked" in bring(asset_of(host, "publisher"))
