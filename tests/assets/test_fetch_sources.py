"""Sources of every kind, with every fault: the next serves, and nothing wrong takes its place."""

import gzip
import io
import json
import shutil
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from fakes import snapshot
from filelock import FileLock
from packers import tarred, zipped
from standin import PAGE, Fault, at_standin, sha256, standin

from harness.assets.catalogue import (
    Asset,
    AssetPart,
    Download,
    KnownFile,
    RowFormat,
    Source,
)
from harness.assets.fetch import fetcher
from harness.assets.fetch.fetcher import ALREADY_HERE, LARGE_DOWNLOAD, Fetcher
from harness.assets.places import Pins, Places
from harness.core.errors import AssetMissing, DataError, OtherData
from harness.core.pairs import Pairs, rows_digest
from harness.tasks.readers import number, read_scored_pairs, require_published_rows

# `pooch` leaves connections over which something went wrong to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)

COMMIT = "c" * 40
ROWS = tuple((f"A man eats {n}.", f"Someone eats {n}.", n / 10) for n in range(50))
TEXT = "".join(f"{a}\t{b}\t{gold}\n" for a, b, gold in ROWS).encode()
OTHER = TEXT.replace(b"Someone", b"Nobody", 1)
PAIRS = Pairs(
    tuple(a for a, _, _ in ROWS),
    tuple(b for _, b, _ in ROWS),
    np.array([gold for _, _, gold in ROWS]),
    ("g",) * 50,
)
PLACE = "pairs/pairs.tsv"
sleep = time.sleep


def load(data_dir, split):
    """Reads the pairs, as a task's file does: whatever the line ends, by the digest of the rows."""
    path = data_dir / PLACE
    if not path.is_file():
        raise AssetMissing("no pairs")

    def gold(place, text):
        return number(place, text, (0, 5))

    pairs = read_scored_pairs(path, "g", (0, 1, 2), gold, (3,))
    return require_published_rows(pairs, path, len(PAIRS), rows_digest(PAIRS))


@dataclass(frozen=True)
class Reads:
    """As much of a task as a fetch looks at."""

    asset: str = "pairs"
    splits: tuple[str, ...] = ("test",)

    def load(self, data_dir, split):
        return load(data_dir, split)


def parquet(rows):
    from datasets import Dataset

    table = Dataset.from_dict(
        {
            "a": [a for a, _, _ in rows],
            "b": [b for _, b, _ in rows],
            "y": [y for _, _, y in rows],
        }
    )
    packed = io.BytesIO()
    table.to_parquet(packed)
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
    monkeypatch.setattr("harness.assets.fetch.download.TIMEOUT", (0.5, 0.5))
    known = {PLACE: KnownFile(sha256(TEXT), len(TEXT))}
    monkeypatch.setattr(fetcher, "KNOWN_FILES", known)
    with standin() as running:
        at_standin(running, monkeypatch, tmp_path)
        running.dataset("me/rows", {"rows.parquet": parquet(ROWS)}, COMMIT)
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


def asset_of(host, *names, rows=True):
    first, *others = names
    elsewhere = host.url.replace("127.0.0.1", "localhost")  # counts as another host
    sources = (source(first, host.url), *(source(name, elsewhere) for name in others))
    part = AssetPart("all", (PLACE,), sources)
    return Asset(
        "pairs",
        "pairs",
        (PLACE,),
        "me",
        "none",
        "harness fetch pairs",
        parts=(part,),
        rows=rows,
    )


def line_of_fetch(asset, data, monkeypatch):
    """The line that a fetch gives of the asset."""
    monkeypatch.setattr("harness.assets.places.DATA_ASSETS", (asset,))
    return Fetcher(Places(data.parent / "cache", data), (Reads(),), ()).bring(asset)


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
    "a redirect to itself": Fault(location="/files/pairs.zip", for_ever=True),
    "a loop of redirects": Fault(location="?again", for_ever=True),
    "a length beyond the file": Fault(more=7, for_ever=True),
}


@pytest.mark.parametrize("fault", PASSED_OVER)
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_source_serves_within_seconds(host, data, monkeypatch, kind, fault):
    """`in/pairs.tsv` of a truncated archive, or half of the rows, are never taken for the whole."""
    other = next(name for name in ("plain", "github") if name != kind)
    for path in (ADDRESSES[kind], *(["GET /store/"] if kind == "hub" else [])):
        host.fail(path, PASSED_OVER[fault])
    begun = time.monotonic()
    line = line_of_fetch(asset_of(host, kind, other), data, monkeypatch)
    assert time.monotonic() - begun < 5
    assert "50 pairs checked" in line
    assert f"from {other}, not from {kind}" in line
    assert (data / PLACE).read_bytes() == TEXT
    assert list(snapshot(data)) == [PLACE]  # no pin, no beginning, nothing empty


SAME_ROWS = {
    "CRLF": TEXT.replace(b"\n", b"\r\n"),
    "no last line end": TEXT.removesuffix(b"\n"),
    "a byte-order mark": b"\xef\xbb\xbf" + TEXT,
}
ARCHIVES = {
    "a zip in another order": zipped({"b.txt": b"", "x/pairs.tsv": TEXT, "a.txt": b""}),
    "a tar": tarred({"pairs.tsv": TEXT}),
    "a tar.gz": tarred({"deep/er/pairs.tsv": TEXT}, "w:gz"),
    "names in capitals": zipped({"IN/PAIRS.TSV": TEXT, "IN/README.TXT": b"x"}),
    "names in another case, and lines that end with CRLF": tarred(
        {"In/Pairs.tsv": TEXT.replace(b"\n", b"\r\n")}, "w:gz"
    ),
}


@pytest.mark.parametrize("how", [*SAME_ROWS, *ARCHIVES])
def test_the_same_rows_are_accepted_however_they_are_packed(
    host, data, monkeypatch, how
):
    if how in SAME_ROWS:
        host.files["plain/pairs.tsv"] = SAME_ROWS[how]
        assert "50 pairs" in line_of_fetch(asset_of(host, "plain"), data, monkeypatch)
        host.files["pairs.zip"] = zipped({"pairs.tsv": SAME_ROWS[how]})
    else:
        host.files["pairs.zip"] = ARCHIVES[how]
    shutil.rmtree(data / "pairs", ignore_errors=True)
    assert "50 pairs" in line_of_fetch(asset_of(host, "publisher"), data, monkeypatch)


OTHER_ROWS = {
    "a word": OTHER,
    "an order": b"".join(TEXT.splitlines(keepends=True)[::-1]),
    "a row less": TEXT[TEXT.index(b"\n") + 1 :],
    "a row twice": TEXT + TEXT[: TEXT.index(b"\n") + 1],
    "a score": TEXT.replace(b"\t0.1\n", b"\t0.2\n"),
    "a blank": TEXT.replace(b"eats 1.", b"eats 1. ", 1),
    "nothing": b"",
}


@pytest.mark.parametrize("what", OTHER_ROWS)
def test_other_rows_are_never_accepted_and_never_pinned(host, data, monkeypatch, what):
    """The right ones are accepted afterwards: a wrong first copy leaves no trace."""
    host.files["plain/pairs.tsv"] = OTHER_ROWS[what]
    host.files["pairs.zip"] = zipped({"pairs.tsv": OTHER_ROWS[what]})
    asset = asset_of(host, "plain", "publisher")
    with pytest.raises(DataError) as refused:
        line_of_fetch(asset, data, monkeypatch)
    assert "\n" not in str(refused.value)
    assert snapshot(data) == {}
    host.files["pairs.zip"] = zipped({"pairs.tsv": TEXT})
    assert "50 pairs checked" in line_of_fetch(asset, data, monkeypatch)


def test_a_right_file_that_is_there_survives_wrong_sources(host, data, monkeypatch):
    (data / "pairs").mkdir()
    (data / PLACE).write_bytes(SAME_ROWS["CRLF"])
    host.files["plain/pairs.tsv"] = OTHER
    assert line_of_fetch(asset_of(host, "plain"), data, monkeypatch).startswith(
        ALREADY_HERE
    )
    assert (host.asked, (data / PLACE).read_bytes()) == ([], SAME_ROWS["CRLF"])


def test_all_that_was_tried_is_named_and_how_to_place_a_file_by_hand(
    host, data, monkeypatch
):
    for kind in KINDS:
        host.fail(ADDRESSES[kind], Fault(status=404, for_ever=True))
    with pytest.raises(AssetMissing) as missing:
        line_of_fetch(asset_of(host, *KINDS), data, monkeypatch)
    message = str(missing.value)
    assert "\n" not in message
    for kind in KINDS:
        assert f"{kind}: its host answered 404" in message
    assert message.endswith("by hand: harness fetch --dry-run pairs")
    assert snapshot(data) == {}


def test_only_the_address_of_a_file_is_asked(host, data, monkeypatch):
    """The front page of its host may be slow, or lead to a dead host."""
    host.fail("GET /", Fault(), Fault(), Fault())
    line_of_fetch(asset_of(host, "plain"), data, monkeypatch)
    assert [path for _, path, _ in host.asked] == ["/files/plain/pairs.tsv"]


# Parts
def two_parts(host, monkeypatch):
    """An asset of two files, each with a part of its own and one source."""
    first = AssetPart(
        "one",
        ("two/a.txt",),
        (Source("x", (Download(f"{host.url}/files/a", "two/a.txt"),)),),
    )
    second = AssetPart(
        "other",
        ("two/b.txt",),
        (Source("y", (Download(f"{host.url}/files/b", "two/b.txt"),)),),
    )
    host.files |= {"a": b"a\n", "b": b"b\n"}
    known = {f"two/{n}.txt": KnownFile(sha256(f"{n}\n".encode()), 2) for n in "ab"}
    monkeypatch.setattr(fetcher, "KNOWN_FILES", known)
    monkeypatch.setattr("harness.assets.catalogue.KNOWN_FILES", known)
    return Asset(
        "two", "two", ("two",), "me", "none", "harness fetch two", parts=(first, second)
    )


@pytest.mark.parametrize("dead", ["a", "b"])
def test_what_arrived_stays_where_another_part_is_dead(host, data, monkeypatch, dead):
    asset = two_parts(host, monkeypatch)
    host.fail(f"/files/{dead}", Fault(status=404, for_ever=True))
    with pytest.raises(AssetMissing, match=r"two \(\w+ of 2 parts\) did not arrive"):
        line_of_fetch(asset, data, monkeypatch)
    (there,) = {"a", "b"} - {dead}
    assert list(snapshot(data)) == [f"two/{there}.txt"]
    host.faults.clear()
    host.asked.clear()
    line_of_fetch(asset, data, monkeypatch)
    assert [path for _, path, _ in host.asked] == [f"/files/{dead}"]


def test_one_archive_serves_all_assets_that_are_taken_from_it(host, data, monkeypatch):
    """In one run, and in two."""
    archive = tarred({"a.txt": b"a\n", "b.txt": b"b\n"})
    host.files["both.tar"] = archive

    def taken(name):
        wanted = Download(
            f"{host.url}/files/both.tar",
            rf"{name}/\1",
            keep=rf"({name}\.txt)",
            sha256=sha256(archive),
        )
        part = AssetPart(
            "all", (f"{name}/{name}.txt",), (Source("publisher", (wanted,)),)
        )
        return Asset(
            name, name, (f"{name}/{name}.txt",), "me", "none", "get", parts=(part,)
        )

    assets = (taken("a"), taken("b"))
    monkeypatch.setattr("harness.assets.places.DATA_ASSETS", assets)
    for asset in assets:
        Fetcher(Places(data.parent / "cache", data), (), ()).bring(asset)
    assert len(host.got("both.tar")) == 1
    assert list(snapshot(data)) == ["a/a.txt", "b/b.txt"]


# What nothing fixes
def asset_without_digest(host, content):
    host.files["v.gz"] = content
    return Asset(
        "loose",
        "vectors",
        ("vectors/v.gz",),
        "me",
        "none",
        "get",
        (Download(f"{host.url}/files/v.gz", "vectors/v.gz"),),
    )


VECTORS = gzip.compress(b"the 0.1 -0.2 3e-05\nof 1 2 3\n")
IMPLAUSIBLE = {"a web page": PAGE, "nothing": b""}


@pytest.mark.parametrize("what", IMPLAUSIBLE)
def test_a_first_copy_is_looked_at_before_it_is_trusted(host, data, monkeypatch, what):
    with pytest.raises(DataError):
        line_of_fetch(asset_without_digest(host, IMPLAUSIBLE[what]), data, monkeypatch)
    assert snapshot(data) == {}
    line = line_of_fetch(asset_without_digest(host, VECTORS), data, monkeypatch)
    assert sha256(VECTORS)[:12] in line
    assert Pins(data / ".harness/pins.json").pin_of("loose") == {
        "vectors/v.gz": sha256(VECTORS)
    }
    (data / "vectors/v.gz").write_bytes(IMPLAUSIBLE[what])
    with pytest.raises(DataError):
        Fetcher(Places(data.parent / "cache", data), (), (), "--offline").bring(
            asset_without_digest(host, VECTORS)
        )


def test_rows_decide_over_a_pin_of_an_earlier_version(host, data, monkeypatch):
    """Such a pin is of an archive, which a mirror packs otherwise; it may be of a wrong one."""
    Pins(data / ".harness/pins.json").record(
        "pairs", {"pairs.zip": "0" * 64, PLACE: "1" * 64}
    )
    assert "50 pairs checked" in line_of_fetch(
        asset_of(host, "publisher"), data, monkeypatch
    )


def test_a_table_is_cut_and_its_classes_are_named(host, data, monkeypatch):
    part = AssetPart(
        "all",
        ("t/t.tsv",),
        (
            Source(
                "hub",
                (
                    Download(
                        "rows.parquet",
                        "t/t.tsv",
                        table=RowFormat("{number}\t{a}", header="n\ta", rows=(1, 3)),
                    ),
                ),
                repo="me/rows",
                revision=COMMIT,
            ),
        ),
    )
    asset = Asset("t", "t", ("t",), "me", "none", "get", parts=(part,))
    line_of_fetch(asset, data, monkeypatch)
    assert (
        data / "t/t.tsv"
    ).read_text() == "n\ta\n1\tA man eats 1.\n2\tA man eats 2.\n"


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (RowFormat("{a}\t{none}"), "row 0 has no 'none'"),
        (RowFormat("{a}", rows=(0, 51)), "wanted 51 rows, found 50"),
    ],
)
def test_a_table_of_other_rows_is_refused(host, data, monkeypatch, table, why):
    asset = asset_of(host, "hub")
    (whole,) = asset.parts[0].sources
    changed = replace(whole, downloads=(replace(whole.downloads[0], table=table),))
    asset = replace(asset, parts=(replace(asset.parts[0], sources=(changed,)),))
    with pytest.raises(DataError, match=why):
        line_of_fetch(asset, data, monkeypatch)


def test_a_text_that_breaks_a_line_is_refused(host, data, monkeypatch):
    rows = ((ROWS[0][0] + "\n", *ROWS[0][1:]), *ROWS[1:])
    host.dataset("me/rows", {"rows.parquet": parquet(rows)}, COMMIT)
    with pytest.raises(DataError, match="row 0 holds a tab or a line end"):
        line_of_fetch(asset_of(host, "hub"), data, monkeypatch)


def test_json_lines_are_read_as_parquet_is(host, data, monkeypatch):
    lines = "".join(json.dumps({"a": a, "b": b, "y": y}) + "\n" for a, b, y in ROWS)
    host.dataset("me/rows", {"rows.jsonl.gz": gzip.compress(lines.encode())}, COMMIT)
    asset = asset_of(host, "hub")
    (whole,) = asset.parts[0].sources
    changed = replace(
        whole, downloads=(replace(whole.downloads[0], at="rows.jsonl.gz"),)
    )
    asset = replace(asset, parts=(replace(asset.parts[0], sources=(changed,)),))
    assert "50 pairs checked" in line_of_fetch(asset, data, monkeypatch)


def test_a_fetch_that_is_killed_leaves_nothing_in_its_place(host, data, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fetcher, "unpack", killed)
        with pytest.raises(KeyboardInterrupt):
            line_of_fetch(asset_of(host, "publisher"), data, monkeypatch)
    assert not (data / PLACE).exists()
    assert "50 pairs checked" in line_of_fetch(
        asset_of(host, "publisher"), data, monkeypatch
    )
    assert not Path(data / ".harness").exists()


@pytest.mark.parametrize("also_known", [True, False])
def test_other_data_serve_only_where_no_source_has_known_ones(
    host, data, monkeypatch, also_known
):
    """A third version of SentEval's form is scored, but never in the place of a known one."""

    def load_versions(self, data_dir, split):
        try:
            return load(data_dir, split)
        except DataError:
            raise OtherData("other data: please report them", PAIRS) from None

    monkeypatch.setattr(Reads, "load", load_versions)
    host.files["plain/pairs.tsv"] = OTHER
    asset = asset_of(host, "plain", *(["publisher"] if also_known else []))
    line = line_of_fetch(asset, data, monkeypatch)
    assert (data / PLACE).read_bytes() == (TEXT if also_known else OTHER)
    assert ("please report them" in line.partition("; all from")[0]) == (not also_known)
    assert "50 pairs checked" in line
    assert line_of_fetch(asset, data, monkeypatch).startswith(ALREADY_HERE)


def test_a_first_run_asks_a_source_of_one_large_download_last(host, data, monkeypatch):
    asset = asset_of(host, "publisher", "plain")
    [part] = asset.parts
    large = replace(part.sources[0].downloads[0], size=LARGE_DOWNLOAD + 1)
    large_source = replace(part.sources[0], downloads=(large,))
    parts = (replace(part, sources=(large_source, part.sources[1])),)
    asset = replace(asset, parts=parts)
    monkeypatch.setattr("harness.assets.places.DATA_ASSETS", (asset,))
    places = Places(data.parent / "cache", data)
    Fetcher(places, (Reads(),), (), small_first=True).bring(asset)
    assert [path for _, path, _ in host.asked] == ["/files/plain/pairs.tsv"]


def test_two_fetches_do_not_write_into_one_folder(host, data, monkeypatch):
    asset = asset_of(host, "plain")
    (data / ".harness").mkdir()
    with (
        FileLock(data / ".harness/fetch.lock"),
        pytest.raises(AssetMissing, match="another `harness fetch` is at work"),
    ):
        line_of_fetch(asset, data, monkeypatch)
    assert "50 pairs checked" in line_of_fetch(asset, data, monkeypatch)


def test_a_file_beyond_its_limit_is_not_received_to_its_end(host, data, monkeypatch):
    asset = asset_of(host, "plain")
    [part] = asset.parts
    [small] = [replace(d, unpacked=100) for d in part.sources[0].downloads]
    source = replace(part.sources[0], downloads=(small,))
    asset = replace(asset, parts=(replace(part, sources=(source,)),))
    with pytest.raises(DataError, match="found more than 100 bytes"):
        line_of_fetch(asset, data, monkeypatch)
    assert snapshot(data) == {}
