"""The course of a training: what records keep of it, its table and its picture."""

from pathlib import Path

import pytest
from fakes import FakeConfig, made_record, registry, results_folder, results_of

from harness.data.places import Places
from harness.encoders.trained import course_of_training
from harness.registry import load_registry
from harness.report.leaderboard import encoder_page
from harness.report.training import TrainingPicture, courses_of
from harness.results.index import MISSING

SCORES = {"spearman": {"all": 60.0, "groups": {}}}


def course(before, scores, kept):
    return {
        "steps": 250,
        "seconds": 90.0,
        "before": before,
        "scores": scores,
        "kept": kept,
        "losses": [[125, 0.1], [250, 0.01]],
    }


COURSES = {
    1: course(None, [[125, 51.0], [250, 52.0]], kept=250),
    0: course(30.0, [[125, 42.5], [250, 41.0]], kept=125),
}


@pytest.fixture
def folder(tmp_path):
    records = [
        made_record("fake.mean", task, SCORES, seed, facts={"training": facts})
        for seed, facts in COURSES.items()
        for task in ("sts-b", "sick-r")
    ]
    records.append(made_record("fake.mean", "sts12", SCORES, 2))  # has no course
    return results_folder(tmp_path, registry(FakeConfig()), results_of(*records))


def test_the_page_of_an_encoder_has_each_seed_and_marks_what_was_kept(folder):
    lines = encoder_page("fake", folder).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert ["seed", "before", "step 125", "step 250", "took"] in rows
    assert ["0", "30.00", "42.50 (kept)", "41.00", "2 min"] in rows
    assert ["1", MISSING, "51.00", "52.00 (kept)", "2 min"] in rows
    assert "fake-training.svg" in encoder_page("fake", folder)


def test_the_picture_is_made_from_every_number_of_the_courses(folder):
    picture = TrainingPicture("fake", courses_of(["fake.mean"], folder.records))
    assert [*picture.courses] == [0, 1]
    svg = picture.svg()
    assert picture.made_from in svg
    assert svg == picture.svg()
    assert {"seed 0", "seed 1"} <= {*svg.replace(">", "<").split("<")}
    later = TrainingPicture("fake", picture.courses | {1: COURSES[0]})
    assert later.made_from != picture.made_from


def test_a_record_keeps_the_course_of_a_training_that_scores_chose(tmp_path):
    encoders, places = load_registry().encoders, Places(tmp_path)
    kept = course_of_training(places.encoder(encoders["simcse-sup-mini"]))
    assert (kept["steps"], kept["kept"], len(kept["scores"])) == (798, 798, 7)
    assert kept["losses"][-1][0] == 798
    # Trained on masked words, without a score; and not trained here.
    assert course_of_training(places.encoder(encoders["bert-mini"])) is None
    assert course_of_training(Path("nowhere")) is None
