"""Where things of a results folder stand."""

from pathlib import Path

import pytest

from harness.results.layout import measured_for


@pytest.mark.parametrize(
    ("question", "measured"),
    [
        ("results/questions/speed.toml", "results/records/speed.toml"),
        ("/a/questions/searches/one.toml", "/a/records/searches/one.toml"),
        ("questions/b/questions/one.toml", "questions/b/records/one.toml"),
        ("elsewhere/one.toml", "elsewhere/one.toml"),
        ("questions.toml", "questions.toml"),
    ],
)
def test_what_was_measured_for_a_question_stands_among_the_records(question, measured):
    assert measured_for(Path(question)) == Path(measured)
