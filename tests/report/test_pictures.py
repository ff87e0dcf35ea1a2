"""The two pictures: the same numbers give the same bytes, and another number another file."""

from dataclasses import replace

from committed import FOLDER

from harness.report.pictures import (
    pictures,
    post_processing,
    published_against_measured,
)
from harness.results.folder import ResultsFolder


def folder_with(reproductions):
    folder = ResultsFolder(FOLDER.path, FOLDER.registry)
    folder.records = FOLDER.records
    folder.all_reproductions = reproductions
    return folder


def test_the_same_numbers_give_the_same_bytes_whatever_the_users_style(monkeypatch):
    import matplotlib

    first = {name: picture.svg for name, picture in pictures(FOLDER).items()}
    assert len(first) == 2
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "another"}):
        again = {name: picture.svg for name, picture in pictures(FOLDER).items()}
    assert again == first
    for name, picture in pictures(FOLDER).items():
        assert picture.made_from in first[name]


def test_a_picture_is_out_of_date_where_a_published_number_changed_and_no_record():
    numbers = [number for number in FOLDER.all_reproductions if number.scores]
    before = published_against_measured(folder_with(numbers))
    cell = replace(numbers[0].cell, in_points="1.0")
    changed = [replace(numbers[0], cell=cell), *numbers[1:]]
    after = published_against_measured(folder_with(changed))
    assert before.made_from != after.made_from
    assert published_against_measured(folder_with([])) is None


def test_every_measured_number_is_a_point_against_its_published_one():
    picture = published_against_measured(FOLDER)
    measured = [number for number in FOLDER.all_reproductions if number.scores]
    points = [(number.cell.points, number.measured) for number in measured]
    assert [(x, y) for _, x, y in picture.numbers] == points


def test_a_kind_is_what_is_done_to_the_vectors():
    assert post_processing("minilm.mean") == "as encoded"
    assert post_processing("bert-base.mean+sn+natsv:6@target") == "sn + natsv"
