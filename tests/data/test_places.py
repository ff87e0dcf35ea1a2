"""The catalogue and the places: what is said of an asset holds, and a local folder serves as is."""

import re
from dataclasses import replace

import pytest
from fakes import made_record
from refusals import refused

from harness.cli.listing import assets_rows
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing
from harness.core.interfaces import Hub
from harness.data.catalogue import BUNDLES, DATA_ASSETS
from harness.data.download import is_complete, seal, snapshot_of
from harness.data.fetch import listing
from harness.data.places import Places, asset_named, revision_of
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry
from harness.results.index import Copy
from harness.results.origins import unpinned_origins

FOUND = load_registry()
DOWNLOADS = [
    (asset, part, download)
    for asset in DATA_ASSETS
    for part in asset.parts
    for source in part.sources
    for download in part.downloads_of(source)
]


def test_every_asset_has_one_name_that_is_no_encoders():
    names = [*(asset.name for asset in DATA_ASSETS), *BUNDLES, *FOUND.encoders]
    assert len(set(names)) == len(names)


def test_a_download_is_named_by_full_digests_and_goes_to_its_assets_place():
    for asset, part, download in DOWNLOADS:
        assert download.at.startswith("https://")
        assert "{}" not in download.at
        assert re.fullmatch(r"[0-9a-f]{64}", download.sha256 or "0" * 64)
        if download.keep is None:
            assert download.into in part.paths
        probe = re.sub(r"\\\d.*", "", download.into).rstrip("/")
        assert asset.probe[0].startswith(probe) or probe.startswith(asset.probe[0])


def test_an_archive_gives_every_file_of_its_part_wherever_it_lies_in_it():
    for _, part, download in DOWNLOADS:
        pattern = re.compile(download.keep or "")
        for path in part.paths if download.keep else ():
            names = path.split("/")
            members = ["/".join(["any", *names[k:]]) for k in range(len(names))]
            made = {
                pattern.sub(download.into, m) for m in members if pattern.fullmatch(m)
            }
            assert made == {path}, download.at


def test_every_source_of_an_asset_is_listed_and_one_without_a_source_says_so():
    for asset in DATA_ASSETS:
        lines = "\n".join(listing(asset))
        assert all(download.at in lines for download in asset.downloads)
        assert ("no address" in lines) == (not asset.parts)


# No digest of them has been published, but the beginning of CoVe's.
LOOSE_ASSETS = (
    *("komninos-vectors", "cove-weights", "elmo-original-weights"),
    *("elmo-original-5b-weights", "elmo-medium-weights", "elmo-small-weights"),
)
ONE_SOURCE = (*LOOSE_ASSETS, "snli-18k", "word2vec-google-news-vectors")


@pytest.mark.parametrize(
    "asset", [a for a in DATA_ASSETS if a.parts], ids=lambda a: a.name
)
def test_an_asset_has_two_sources_and_a_pin(asset):
    """Sources of two owners, so that one who goes takes nothing along."""
    for part in asset.parts:
        owners = {source.base or source.downloads[0].at for source in part.sources}
        assert len(owners) >= (1 if asset.name in ONE_SOURCE else 2)
    assert (asset.pinned == "unpinned") == (asset.name in LOOSE_ASSETS)


@pytest.mark.data
@pytest.mark.parametrize(
    "asset", [a for a in DATA_ASSETS if a.size], ids=lambda a: a.name
)
def test_sizes_and_digests_are_those_of_the_real_files(asset, data_dir):
    path = Places(data_dir, data_dir).data(asset)
    if path is None:
        pytest.skip(f"{asset.name} is not in the data folder")
    if path.is_file():
        assert path.stat().st_size == asset.size
        assert asset.sha256 in (None, sha256_of(path))


def test_what_is_given_goes_before_the_environment_and_that_before_the_default(
    tmp_path,
):
    cache, other = tmp_path / "cache", tmp_path / "other"
    other.mkdir()
    named = {"HARNESS_DATA_DIR": str(tmp_path), "HARNESS_CACHE_DIR": str(cache)}
    assert Places.from_environment(named) == Places(cache, tmp_path)
    given = {"cache": tmp_path / "mine", "data_dir": other}
    assert Places.from_environment(named, **given) == Places(**given)
    default = Places.from_environment({})
    assert (default.data_dir, default.cache.is_absolute()) == (None, True)
    assert Places.from_environment(dict.fromkeys(named, "")) == default


def test_sick_and_its_words_are_here_without_a_data_folder_which_comes_first(tmp_path):
    """Readers compare the rows with the published ones."""
    places = Places(cache=tmp_path)
    for name in ("sick-r.all", "sick-r.senteval.all"):
        task = FOUND.tasks[name]
        assert len(task.pairs(places.require_data(task.asset))) == 9_927
    config = FOUND.encoders["glove-840b-sick-lower-sif"]
    vectors = places.encoder(config)
    assert sha256_of(vectors) == asset_named("glove-840b-sick-vectors").sha256
    assert config.identify(vectors)  # compares the counts with their digest
    (tmp_path / "raw" / "SICK").mkdir(parents=True)
    mine = Places(cache=tmp_path, data_dir=tmp_path)
    assert mine.require_data("sick-raw") == tmp_path
    assert not Places(cache=tmp_path, included=False).has_data("sick-raw")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sick-raw", "(SICK (SemEval-2014) as first published, about 1 MB): no data"),
        ("glove-6b-vectors", "300 dimensions, about 862 MB): no data"),  # the archive
        ("komninos-vectors", "vectors of English Wikipedia): no data"),  # not known
    ],
)
def test_what_is_missing_is_told_with_its_size_and_with_what_gets_it(
    tmp_path, name, words
):
    with pytest.raises(AssetMissing) as missing:
        Places(tmp_path, included=False).require_data(name)
    assert words in str(missing.value)
    assert str(missing.value).endswith(f"harness fetch {name}")
    assert missing.value.get == f"harness fetch {name}"


def test_an_encoder_to_be_fetched_is_told_with_its_size(tmp_path):
    bert = FOUND.encoders["bert-base"]
    with refused(AssetMissing, r"@86b5e0934494, about 440 MB\)"):
        Places(tmp_path).encoder(bert.with_max_length(64))
    rows = {row["asset"]: row for row in assets_rows(FOUND, Places(tmp_path))}
    of_hub = [name for name, e in FOUND.encoders.items() if isinstance(e.source, Hub)]
    assert all(rows[name]["bytes"] > 5e6 for name in of_hub)


def test_a_snapshot_is_that_of_main_unless_pinned_and_whole_or_none(
    tmp_path, monkeypatch
):
    """One that was never sealed, or lacks a file, is not read."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    model, places = tmp_path / "hub" / "models--me--loose", Places(tmp_path / "cache")
    loose = TransformerConfig("loose", "me/loose")
    assert snapshot_of(loose.source) is None
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("2" * 40)
    for commit in ("1" * 40, "2" * 40):
        pinned = replace(loose, revision=commit)
        folder = snapshot_of(pinned.source)
        (folder / "1_Pooling").mkdir(parents=True)
        (folder / "config.json").touch()
        (folder / "1_Pooling/config.json").touch()
        assert not places.has_encoder(pinned)
        seal(folder)
        assert revision_of(places.encoder(pinned)) == commit
    assert revision_of(places.encoder(loose)) == "2" * 40
    (folder / "1_Pooling/config.json").unlink()
    assert not is_complete(folder)
    assert not places.has_encoder(loose)


@pytest.mark.parametrize(
    "method", ["bert-base.mean+sn@nli", "simcse-sup-bert-base.cls"]
)
def test_a_method_is_noted_for_what_nothing_fixes(method):
    parsed = FOUND.parse(method)
    facts = {"revision": getattr(parsed.encoder, "revision", None)}
    copies = [Copy.of(made_record(method, "sts-b", {}, facts=facts))]
    notes = [origin.name for origin in unpinned_origins(parsed, copies, FOUND)]
    assert notes == (["simcse-sup-bert-base"] if method.startswith("simcse") else [])
