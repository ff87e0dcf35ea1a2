"""The picture: the same numbers give the same bytes, and another number another file."""

from dataclasses import replace

from committed import FOLDER

from harness.conclusions.folder import Conclusions
from harness.report.pictures import picture_of


def folder_with(reproductions):
    folder = Conclusions(FOLDER.path, FOLDER.registry)
    folder.records = FOLDER.records
    folder.all_reproductions = reproductions
    return folder


def test_the_same_numbers_give_the_same_bytes_whatever_the_users_style(monkeypatch):
    import matplotlib

    first = picture_of(FOLDER)
    svg = first.svg
    assert first.made_from in svg
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": "another"}):
        assert picture_of(FOLDER).svg == svg


def test_every_measured_number_is_in_it_and_another_number_makes_it_stale():
    numbers = [number for number in FOLDER.all_reproductions if number.scores]
    before = picture_of(folder_with(numbers))
    assert [(x, y) for _, x, y in before.numbers] == [
        (number.number.points, number.verdict.difference) for number in numbers
    ]
    cell = replace(numbers[0].number, in_points="1.0")
    changed = [replace(numbers[0], number=cell), *numbers[1:]]
    assert picture_of(folder_with(changed)).made_from != before.made_from
    assert picture_of(folder_with([])) is None
