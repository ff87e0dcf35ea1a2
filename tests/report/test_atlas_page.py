"""The page of atlases and its pictures: a hole is a word, and a picture says what it is from."""

from dataclasses import replace

from fakes import FakeConfig, made_record, registry, results_folder

from harness.report.atlas import atlas_page, atlas_pictures
from harness.results.index import Results
from harness.results.scorings import SEVEN


def folder_of(path, of_whitening=62.0):
    """An encoder with two layers and the last, whitening over k, and one point on STS-B."""
    scores = {
        "fake.mean": 47.29,
        "fake.layer:0": 40.0,
        "fake.layer:2": 45.0,
        "fake.last2": 48.18,
        "fake.mean+whitening:1@target": 50.0,
        "fake.mean+whitening:2@target": of_whitening,
        "fake.mean+whitening:3@target": 61.5,
        "fake.mean+whitening@target": 61.0,
    }
    records = [
        made_record(
            method,
            f"{task}.senteval",
            {"spearman": {"all": score, "wmean": score}},
            facts={"dimensions": 4},
        )
        for method, score in scores.items()
        for task in SEVEN
    ]
    geometry = {"alignment": 0.2, "uniformity": -1.5, "spearman": {"all": 47.0}}
    records.append(made_record("fake.mean", "sts-b", geometry))
    return results_folder(path, registry(FakeConfig()), Results.of(records))


def test_the_page_says_whose_number_it_is_and_what_was_not_run(tmp_path):
    page = atlas_page(folder_of(tmp_path))
    assert "47.29 is the mean of the last layer, 48.18 is that of the last two" in page
    layer_1 = next(line for line in page.splitlines() if line.startswith("| 1 "))
    assert layer_1.count("not run") == len(SEVEN)
    for picture in atlas_pictures(folder_of(tmp_path)):
        assert f"]({picture.file})" in page
    empty = results_folder(tmp_path, registry(FakeConfig()), Results.of([]))
    assert not atlas_page(empty)
    assert not [*atlas_pictures(empty)]


def test_a_picture_is_known_by_its_numbers_and_has_the_same_bytes_again(tmp_path):
    first, again = (
        {picture.file: picture for picture in atlas_pictures(folder_of(tmp_path))}
        for _ in range(2)
    )
    assert [*first] == [
        "atlas-fake-layers.svg",
        "atlas-fake-whitening.svg",
        "atlas-geometry.svg",
    ]
    for file, picture in first.items():
        svg = picture.svg()
        assert picture.made_from in svg
        assert svg == again[file].svg()
    others = folder_of(tmp_path, of_whitening=62.5)
    moved = {picture.file: picture.made_from for picture in atlas_pictures(others)}
    same = {file for file in moved if moved[file] == first[file].made_from}
    assert same == {"atlas-geometry.svg"}
    other = replace(first["atlas-fake-layers.svg"], title="Another")
    assert other.made_from != first["atlas-fake-layers.svg"].made_from
