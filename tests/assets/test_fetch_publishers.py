"""The catalogue's own downloads, from archives rebuilt as their publishers pack them."""

from dataclasses import replace
from pathlib import Path

import pytest
from fakes import snapshot
from packers import tarred, zipped
from standin import Fault, at_standin, standin

from harness.assets.catalogue import DATA_ASSETS
from harness.assets.fetch.batch import Fetcher
from harness.assets.places import Places, asset_named
from harness.cli.exchange import fetched_things, scored_assets
from harness.registry import load_registry

ROOT = Path(__file__).resolve().parents[2]
# STS-B in three splits and five years; SICK in three splits.
STS = f"{5749 + 1500 + 1379 + 3108 + 1500 + 3750 + 3000 + 1186:,}"
SICK = f"{4500 + 500 + 4927:,}"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The stand-in for the hub and for every other host of the catalogue."""
    with standin() as running:
        at_standin(running, monkeypatch, tmp_path)

        def moved(download):
            if download.repo:
                return download
            at = f"{running.url}/files/{Path(download.at).name}"
            return replace(download, at=at, sha256=None)

        known = [replace(a, downloads=tuple(map(moved, a.downloads))) for a in DATA_ASSETS]
        monkeypatch.setattr("harness.assets.places.DATA_ASSETS", tuple(known))
        yield running


def files(folder, into=""):
    return {f"{into}{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}


def fetched(names, tmp_path, switch=None):
    """What fetching says of each name; none may fail."""
    (tmp_path / "data").mkdir(exist_ok=True)
    places = Places(tmp_path / "cache", tmp_path / "data")
    known = load_registry()
    fetcher = Fetcher(places, known.tasks.values(), known.corpora.values(), switch)
    wanted = fetched_things(names or scored_assets(known), known)
    return {name: ", ".join(map(fetcher.bring, things)) for name, things in wanted.items()}


@pytest.mark.data
def test_what_publishers_pack_becomes_what_tasks_read(hub, data_dir, tmp_path):
    """Every split of every task passes the digest of its rows, and every file is byte for byte."""
    raw, held = data_dir / "raw", data_dir / "senteval"
    benchmark = files(raw / "STS/STSBenchmark", "stsbenchmark/")
    hub.files["Stsbenchmark.tar.gz"] = tarred(benchmark, "w:gz")
    for year in (12, 13, 14, 15, 16):
        stem = "STS2016." if year == 16 else "STS."
        members = files(raw / f"STS/STS{year}-en-test")
        named = {f"test/{name.replace('STS.', stem)}": text for name, text in members.items()}
        hub.files[f"STS20{year}-en-test.zip"] = zipped(named)
    for part in ("train", "trial", "test_annotated"):
        name = f"SICK_{part}.txt"
        content = (raw / "SICK" / name).read_bytes()
        hub.files[f"sick_{part}.zip"] = zipped({name: content, "readme.txt": b"read me"})
    members = {}
    for folder in (*(held / "STS").iterdir(), held / "SICK"):
        members |= files(folder, f"{folder.relative_to(held).as_posix()}/")
    (senteval,) = asset_named("sts-senteval").downloads
    hub.dataset(senteval.repo, {senteval.at: tarred(members, "w")})
    hub.fail("GET /store/", Fault(cut_after=1_000_000))

    qnli = (data_dir / "glue/QNLI/dev.tsv").read_bytes()
    hub.files["QNLIv2.zip"] = zipped({"QNLI/dev.tsv": qnli, "QNLI/train.tsv": b"not read"})

    lines = fetched(["sts-raw", "sick-raw", "senteval", "qnli"], tmp_path)
    assert "dev.tsv (5,463 pairs checked)" in lines["qnli"]
    assert f"STS ({STS} pairs checked)" in lines["sts-raw"]
    assert f"SICK ({SICK} pairs checked)" in lines["sick-raw"]
    assert f"STS ({STS} pairs checked)" in lines["senteval"]
    assert f"SICK ({SICK} pairs checked)" in lines["senteval"]
    assert len(hub.got("senteval.tar", "HEAD")) == 1
    assert len(hub.got("/store/")) == 2  # once, and once more after the cut
    new = snapshot(tmp_path / "data")
    for name, (content, _) in new.items():
        if not name.startswith(".harness"):
            assert content == (data_dir / name).read_bytes(), name
    assert fetched(["sick-raw"], tmp_path, "--offline")["sick-raw"].startswith("already here")
