"""The catalogue's own downloads, from archives rebuilt as their publishers pack them."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from fakes import snapshot
from packers import tarred, zipped
from standin import Fault, at_standin, standin

from harness.assets.catalogue import DATA_ASSETS, Download
from harness.assets.fetch.batch import Fetcher, fetch_all
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
            if not isinstance(download, Download) or download.repo:
                return download
            return replace(download, at=f"{running.url}/files/{Path(download.at).name}")

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
    found = list(fetch_all(wanted, fetcher))
    assert [(one.name, one.error) for one in found if one.error] == []
    return {one.name: one.line for one in found}


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
    folders = [*sorted((held / "STS").iterdir()), held / "SICK"]
    members = {}
    for folder in folders:
        members |= files(folder, f"{folder.relative_to(held).as_posix()}/")
    (senteval,) = asset_named("sts-senteval").downloads
    hub.dataset(senteval.repo, {senteval.at: tarred(members, "w")})
    hub.fail("GET /store/", Fault(cut_after=1_000_000))

    said = fetched(["sts-raw", "sick-raw", "senteval"], tmp_path)
    assert f"STS ({STS} pairs checked)" in said["sts-raw"]
    assert f"SICK ({SICK} pairs checked)" in said["sick-raw"]
    assert f"STS ({STS} pairs checked)" in said["senteval"]
    assert f"SICK ({SICK} pairs checked)" in said["senteval"]
    assert len(hub.got("senteval.tar", "HEAD")) == 1
    assert len(hub.got("/store/")) == 2  # once, and once more after the cut
    new = snapshot(tmp_path / "data")
    for name, (content, _) in new.items():
        if not name.startswith(".harness"):
            assert content == (data_dir / name).read_bytes(), name
    assert fetched(["sick-raw"], tmp_path, "--offline")["sick-raw"].startswith("already here")


QNLI = asset_named("qnli").downloads[0]
CARD = """---
configs:
- config_name: qnli
  data_files:
  - split: validation
    path: qnli/validation-*
dataset_info:
- config_name: qnli
  features:
  - name: question
    dtype: string
  - name: sentence
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': entailment
          '1': not_entailment
  - name: idx
    dtype: int32
---
"""


def parquet(columns):
    packed = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), packed)
    return packed.getvalue()


def columns_of(path):
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[1:-1]]
    labels = [["entailment", "not_entailment"].index(row[3]) for row in rows]
    return {
        "question": [row[1] for row in rows],
        "sentence": [row[2] for row in rows],
        "label": pyarrow.array(labels, pyarrow.int64()),
        "idx": pyarrow.array([int(row[0]) for row in rows], pyarrow.int32()),
    }


CALL = "import sys; from harness.cli import main; main(sys.argv[1:])"


def run(code, *arguments, **environment):
    """Code in a process of its own, since `datasets` reads the environment when it is imported."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.data
def test_glues_rows_are_read_through_datasets(hub, data_dir, tmp_path):
    """The very bytes of GLUE's file, out of a parquet file that the stand-in redirects to."""
    wanted = data_dir / "glue/QNLI/dev.tsv"
    held = parquet(columns_of(wanted))
    files = {"README.md": CARD.encode(), "qnli/validation-00000-of-00001.parquet": held}
    hub.dataset(QNLI.repo, files, QNLI.revision)
    own = ("--data-dir", tmp_path / "data", "--cache", tmp_path / "cache")
    here = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "here")}
    assert "5,463 pairs checked" in run(CALL, "fetch", "qnli", *own, **here)
    assert (tmp_path / "data/glue/QNLI/dev.tsv").read_bytes() == wanted.read_bytes()
