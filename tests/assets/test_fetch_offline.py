"""Assets in a folder: what one machine writes the other takes, and takes nothing else."""

import json
import random
import shutil
from dataclasses import replace

import pytest
from fakes import snapshot, use_registry
from standin import sha256

from harness.assets.catalogue import Asset
from harness.assets.places import OF_DATA, Pins
from harness.cli import main
from harness.core.errors import DataError
from harness.encoders.transformer import TransformerConfig
from harness.encoders.word_vectors import StaticConfig
from harness.registry import load_registry

COMMIT = "1" * 40
WEIGHTS = random.Random(3).randbytes(9_000)
MODEL = {
    "config.json": b'{"max_position_embeddings": 16}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
}
PINNED = TransformerConfig("pinned", "me/pinned", revision=COMMIT)
LOOSE = TransformerConfig("loose", "me/loose")
PACKED = TransformerConfig("packed", "me/packed", package="harness_of_tests/model")
VECTORS = StaticConfig("vectors", file="vectors/tiny.npz")
TEXTS = Asset("texts", "texts", ("texts", "other/texts"), "me", "none", "ask")
TABLE = Asset("table", "a table", ("tables/one.csv",), "me", "none", "ask")


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Only these things there are."""
    found = replace(load_registry(), encoders={c.name: c for c in (PINNED, LOOSE, PACKED, VECTORS)})
    use_registry(monkeypatch, found)
    monkeypatch.setattr("harness.assets.places.DATA_ASSETS", (TEXTS, TABLE))


class Machine:
    """A machine with a data folder, a cache and a hub cache of its own."""

    def __init__(self, folder, monkeypatch, capfd):
        self.folder, self.monkeypatch, self.capfd = folder, monkeypatch, capfd
        self.data, self.cache = folder / "data", folder / "cache"

    def snapshot(self, repo):
        name = f"models--{repo.replace('/', '--')}"
        return self.folder / "hub" / name / "snapshots" / COMMIT

    def __call__(self, *arguments):
        self.monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(self.folder / "hub"))
        own = ("--data-dir", self.data, "--cache", self.cache)
        with pytest.raises(SystemExit) as ended:
            main(["fetch", *map(str, (*arguments, *own))])
        out, err = self.capfd.readouterr()
        said = [line for line in err.splitlines() if line.startswith("harness: ")]
        return ended.value.code or 0, out, "\n".join(said)


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


@pytest.fixture
def here(tmp_path, monkeypatch, capfd):
    """A machine that holds everything; what is unpinned has been seen."""
    machine = Machine(tmp_path / "here", monkeypatch, capfd)
    write(machine.data, {"other/texts/a.txt": b"one", "other/texts/b/c.txt": b"two"})
    write(machine.data, {"tables/one.csv": b"1,2", "tables/two.csv": b"not of an asset"})
    write(machine.data, {"vectors/tiny.npz": b"numbers", "other/texts/.hidden": b"not carried"})
    write(machine.snapshot("me/pinned"), MODEL | {"tf_model.h5": b"not wanted"})
    write(machine.snapshot("me/loose"), MODEL)
    Pins(machine.data / OF_DATA).record("table", {"tables/one.csv": sha256(b"1,2")})
    seen = {"revision": COMMIT, "weights": sha256(WEIGHTS)}
    Pins(machine.cache / "pins.json").record("me/loose", seen)
    return machine


@pytest.fixture
def there(tmp_path, monkeypatch, capfd):
    """A machine that holds nothing."""
    return Machine(tmp_path / "there", monkeypatch, capfd)


@pytest.fixture
def carried(here, tmp_path):
    """What the first machine writes."""
    status, out, err = here("--export", tmp_path / "carried")
    assert (status, err) == (0, "")
    assert {line.split(":")[0] for line in out.splitlines()} == {
        *("texts", "table", "pinned", "loose", "vectors")
    }
    return tmp_path / "carried"


def contents(folder):
    return {name: content for name, (content, _) in snapshot(folder).items()}


def test_everything_that_is_here_is_there_afterwards(carried, there):
    status, out, err = there("--import", carried)
    assert (status, err) == (0, "")
    assert "texts: 2 of 2 files are new" in out
    assert contents(there.data) == {
        "other/texts/a.txt": b"one",
        "other/texts/b/c.txt": b"two",
        "tables/one.csv": b"1,2",
        "vectors/tiny.npz": b"numbers",
        OF_DATA: (there.data / OF_DATA).read_bytes(),
    }
    assert contents(there.snapshot("me/pinned")) == MODEL
    status, out, _ = there("texts", "table", "pinned", "loose", "--offline")
    assert (status, out.count("already here")) == (0, 4)


def test_both_ways_can_be_repeated(carried, here, there):
    before = snapshot(carried)
    here("--export", carried)
    names = {name for name in before if name != "index.json"}
    assert {name: snapshot(carried)[name] for name in names} == {n: before[n] for n in names}
    there("--import", carried)
    before = snapshot(there.folder)
    status, out, _ = there("--import", carried)
    assert (status, out.count(": 0 of ")) == (0, 5)
    assert snapshot(there.folder) == before


def test_some_can_be_chosen_and_others_added(here, there, tmp_path):
    folder = tmp_path / "carried"
    here("table", "--export", folder)
    assert [e["name"] for e in index(folder)["assets"]] == ["table"]
    here("pinned", "--export", folder)
    assert [e["name"] for e in index(folder)["assets"]] == ["pinned", "table"]
    assert there("--import", folder)[0] == 0


def index(folder):
    return json.loads((folder / "index.json").read_text())


@pytest.mark.parametrize("name", ["texts", "pinned", "packed"])
def test_what_is_not_here_cannot_be_exported(there, tmp_path, name):
    there.data.mkdir(parents=True)
    status, _, err = there(name, "--export", tmp_path / "carried")
    assert (status, len(err.splitlines())) == (3, 1)
    assert not (tmp_path / "carried").exists()


def test_what_comes_in_a_package_is_installed_there(here, tmp_path, monkeypatch):
    folder = tmp_path / "packages"
    write(folder / "harness_of_tests", {"__init__.py": b"", "model/config.json": b"{}"})
    monkeypatch.syspath_prepend(str(folder))
    status, _, err = here("packed", "--export", tmp_path / "carried")
    assert (status, "what comes in a package is installed there" in err) == (3, True)


# Damage and malice

DAMAGE = {
    "wanted sha256": lambda path: path.write_bytes(b"1,3"),
    "copy it again": lambda path: path.write_bytes(b"1"),
    "found none": lambda path: path.unlink(),
    "found none: export": lambda path: (path.unlink(), path.symlink_to("/etc/hostname")),
    "wanted a file": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("complaint", DAMAGE)
def test_a_damaged_file_is_named_and_not_placed(carried, there, complaint):
    DAMAGE[complaint](carried / "data/tables/one.csv")
    status, out, err = there("--import", carried)
    assert (status, len(err.splitlines())) == (1, 1)
    assert str(carried / "data/tables/one.csv") in err
    assert complaint in err
    assert not (there.data / "tables/one.csv").exists()
    assert "texts: 2 of 2" in out  # the rest still comes


def test_another_file_in_the_place_is_not_overwritten(carried, there):
    write(there.data, {"tables/one.csv": b"mine"})
    status, _, err = there("--import", carried)
    assert status == 1
    assert f"wanted sha256 {sha256(b'1,2')}, found {sha256(b'mine')}" in err
    assert (there.data / "tables/one.csv").read_bytes() == b"mine"


def test_what_was_seen_here_is_not_replaced_by_what_was_seen_there(carried, there):
    Pins(there.data / OF_DATA).record("table", {"tables/one.csv": sha256(b"mine")})
    status, _, err = there("--import", carried)
    assert status == 1
    assert f"wanted {sha256(b'mine')}, found {sha256(b'1,2')}" in err
    assert not (there.data / "tables/one.csv").exists()


PATHS = (
    "../evil",
    "/evil",
    "data/../../evil",
    "data/evil",
    "data/.harness/pins.json",
    "data/texts/../../evil",
    "data/textsevil",
    f"models/me/other/{COMMIT}/config.json",
    f"models/me/pinned/{'2' * 40}/config.json",
    "models/me/pinned/../refs/main",
    "models/me/loose/no-commit/config.json",
    "models/me/loose/refs",
    f"models/me/pinned/{COMMIT}/{{outside}}",
    f"models/me/loose/{COMMIT}/{{outside}}",
    "data/texts/{outside}",  # an absolute path
    "index.json",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", ["texts", "pinned", "loose"])
def test_a_path_that_is_not_the_assets_own_is_refused(carried, there, path, name, tmp_path):
    path = path.format(outside=tmp_path / "outside")
    made = index(carried)
    made["assets"] = [{"name": name, "files": {path: sha256(b"evil")}, "pin": {}}]
    (carried / "index.json").write_text(json.dumps(made))
    if not path.startswith("/"):
        write(carried, {path: b"evil"} if path != "index.json" else {})
    status, _, err = there("--import", carried)
    assert (status, len(err.splitlines())) == (1, 1)
    placed = [p for p in there.folder.rglob("*") if p.is_file() and p.name != "pins.json"]
    assert placed == []
    assert not (tmp_path / "outside").exists()


PINS = (
    {"../x": 1},
    {"../x": "00"},
    {"/etc/passwd": "00"},
    {"revision": "../../../else"},
    {"weights": "00/.."},
    {"weights": None},
    ["weights"],
    "weights",
)


@pytest.mark.parametrize("pin", PINS)
@pytest.mark.parametrize("name", ["table", "loose"])
def test_a_pin_that_leads_elsewhere_is_refused_and_not_recorded(carried, there, pin, name):
    made = index(carried)
    for entry in made["assets"]:
        if entry["name"] == name:
            entry["pin"] = pin
    (carried / "index.json").write_text(json.dumps(made))
    status, _, err = there("--import", carried)
    assert (status, len(err.splitlines())) == (1, 1)
    assert "index.json" in err
    assert not [path for path in there.folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("pin", PINS[:4])
def test_a_file_of_pins_that_leads_elsewhere_is_refused(there, pin):
    write(there.data, {OF_DATA: json.dumps({"schema": 1, "pins": {"table": pin}}).encode()})
    with pytest.raises(DataError, match="wanted pins as harness fetch writes them"):
        Pins(there.data / OF_DATA).of("table")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 2, "assets": []}', '{"schema": 1}'])
def test_an_index_that_is_none_is_one_line(carried, there, text):
    (carried / "index.json").write_text(text)
    status, out, err = there("--import", carried)
    assert (status, out, len(err.splitlines())) == (1, "", 1)


def test_an_unknown_asset_is_wrong_usage(carried, there):
    made = index(carried)
    made["assets"][0]["name"] = "tabel"
    (carried / "index.json").write_text(json.dumps(made))
    status, _, err = there("--import", carried)
    assert (status, "did you mean table?" in err) == (2, True)


def test_half_a_model_is_not_enough(carried, there):
    made = index(carried)
    (entry,) = (e for e in made["assets"] if e["name"] == "pinned")
    entry["files"] = {path: sha for path, sha in entry["files"].items() if "config.json" in path}
    made["assets"] = [entry]
    (carried / "index.json").write_text(json.dumps(made))
    shutil.rmtree(carried / "data")
    status, _, err = there("--import", carried)
    assert (status, "no weights" in err) == (1, True)
