"""The catalogue's own downloads: the publishers' archives, and every copy, by its rows.

All hosts of the catalogue are one stand-in, which serves each address under its own
path.
"""

from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from fakes import snapshot
from hub_server import hub_server, use_hub_server
from packers import tarred, zipped

from harness.cli.fetch import fetched_things, scored_assets
from harness.data.catalogue import DATA_ASSETS, HUB
from harness.data.fetch import ALREADY_HERE, Fetcher, listing
from harness.data.places import Places, asset_named
from harness.registry import load_registry

# STS-B in three splits and five years; SICK in three splits.
STS = f"{5749 + 1500 + 1379 + 3108 + 1500 + 3750 + 3000 + 1186:,}"
SICK = f"{4500 + 500 + 4927:,}"


def at_stand_in(asset, url):
    """An asset whose addresses of hosts other than the hub are those of the stand-in."""

    def moved(address):
        if address.startswith(HUB) or "://" not in address:
            return address
        return f"{url}/files/{urlsplit(address).netloc}{urlsplit(address).path}"

    parts = []
    for part in asset.parts:
        sources = []
        for source in part.sources:
            downloads = tuple(replace(d, at=moved(d.at)) for d in source.downloads)
            sources.append(
                replace(source, base=moved(source.base), downloads=downloads)
            )
        parts.append(replace(part, sources=tuple(sources)))
    return replace(asset, parts=tuple(parts))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The stand-in for the hub and for every other host of the catalogue."""
    with hub_server() as running:
        use_hub_server(running, monkeypatch, tmp_path)
        known = tuple(at_stand_in(asset, running.url) for asset in DATA_ASSETS)
        monkeypatch.setattr("harness.data.places.DATA_ASSETS", known)
        yield running


def files(folder, into=""):
    return {
        f"{into}{path.name}": path.read_bytes() for path in sorted(folder.iterdir())
    }


def lines_of_fetches(names, tmp_path, switch=None):
    """What fetching says of each name; none may fail."""
    (tmp_path / "data").mkdir(exist_ok=True)
    places = Places(tmp_path / "cache", tmp_path / "data")
    known = load_registry()
    (tmp_path / "scratch").mkdir(exist_ok=True)
    readers = known.tasks.values(), known.corpora.values()
    fetcher = Fetcher(places, *readers, tmp_path / "scratch", switch)
    wanted = fetched_things(names or scored_assets(known), known)
    return {
        name: ", ".join(map(fetcher.bring, things)) for name, things in wanted.items()
    }


def serve_publishers(hub, data_dir):
    """Archives rebuilt as their publishers pack them."""
    raw, held = data_dir / "raw", data_dir / "senteval"
    wiki = "ixa2.si.ehu.eus/stswiki/images"
    benchmark = files(raw / "STS/STSBenchmark", "stsbenchmark/")
    hub.files[f"{wiki}/4/48/Stsbenchmark.tar.gz"] = tarred(benchmark, "w:gz")
    folders = {12: "4/40", 13: "2/2f", 14: "8/8c", 15: "d/da", 16: "9/98"}
    for year, folder in folders.items():
        stem = "STS2016." if year == 16 else "STS."
        named = {
            f"test/{name.replace('STS.', stem)}": text
            for name, text in files(raw / f"STS/STS{year}-en-test").items()
        }
        hub.files[f"{wiki}/{folder}/STS20{year}-en-test.zip"] = zipped(named)
    for part in ("train", "trial", "test_annotated"):
        name = f"SICK_{part}.txt"
        content = {name: (raw / "SICK" / name).read_bytes(), "readme.txt": b"read me"}
        path = f"alt.qcri.org/semeval2014/task1/data/uploads/sick_{part}.zip"
        hub.files[path] = zipped(content)
    members = {}
    for folder in (*(held / "STS").iterdir(), held / "SICK"):
        members |= files(folder, f"{folder.relative_to(held).as_posix()}/")
    for name in ("MR", "CR", "SUBJ", "MPQA", "TREC"):
        members |= files(data_dir / "transfer" / name, f"{name}/")
    [address] = {d.at for d in asset_named("sts-senteval").downloads if d.sha256}
    _, owner, name, _, commit, file = urlsplit(address).path[1:].split("/")
    hub.dataset(f"{owner}/{name}", {file: tarred(members)}, commit)
    qnli = {
        "QNLI/dev.tsv": (data_dir / "glue/QNLI/dev.tsv").read_bytes(),
        "QNLI/train.tsv": b"not read",
    }
    hub.files["dl.fbaipublicfiles.com/glue/data/QNLIv2.zip"] = zipped(qnli)


@pytest.mark.data
def test_what_publishers_pack_becomes_what_tasks_read(hub, data_dir, tmp_path):
    """Every split of every task passes the digest of its rows, and every file is byte for byte."""
    serve_publishers(hub, data_dir)
    names = ["sts-raw", "sick-raw", "senteval", "qnli"]
    names += ["mr", "cr", "subj", "mpqa", "trec"]
    lines = lines_of_fetches(names, tmp_path)
    assert "dev.tsv (5,463 pairs checked)" in lines["qnli"]
    assert f"STS ({STS} pairs checked)" in lines["sts-raw"]
    assert f"SICK ({SICK} pairs checked)" in lines["sick-raw"]
    assert f"STS ({STS} pairs checked)" in lines["senteval"]
    assert f"SICK ({SICK} pairs checked)" in lines["senteval"]
    assert not any("not from" in line for line in lines.values())
    assert len(hub.got("/store/")) == 1
    new = snapshot(tmp_path / "data")
    for name, (content, _) in new.items():
        assert content == (data_dir / name).read_bytes(), name
    assert lines_of_fetches(["sick-raw"], tmp_path, "--offline")["sick-raw"].startswith(
        ALREADY_HERE
    )


def test_every_address_is_listed_once_for_each_source():
    for asset in DATA_ASSETS:
        addresses = [line for line in listing(asset) if "://" in line]
        assert len(set(addresses)) == len(addresses)
        assert bool(addresses) == bool(asset.parts)
