"""The answers to public threads, and that an answer fits a terminal whatever is asked."""

from pathlib import Path

import pytest

from harness.registry import load_registry
from harness.report.diagnosis import ANSWER_LINES, ANSWER_WIDTH, answer_lines, diagnosis_facts
from harness.report.threads import CAUSE_ABSENT, NO_ROW, answered_threads
from harness.results.folder import ResultsFolder

FOLDER = ResultsFolder(Path(__file__).resolve().parents[2] / "results", load_registry())


def lines_of(diagnosis, **options):
    return answer_lines(diagnosis, FOLDER.causes, FOLDER.registry, **options)


def test_the_known_cause_of_every_thread_with_a_row_here_is_named_first():
    places = [answered.place for answered in answered_threads(FOLDER)]
    asked = [place for place in places if place != NO_ROW]
    assert len(asked) == 19
    assert CAUSE_ABSENT not in asked
    assert asked.count("1") + asked.count("answered as unknown") >= 17


@pytest.mark.parametrize("gap", [-35.0, -0.7, 6.0])
def test_an_answer_has_at_most_ten_lines_of_eighty_columns(gap):
    for table in FOLDER.tables:
        for cell in table.cells[::61]:
            if cell.points is None or not 0 <= cell.points + gap <= 100:
                continue
            lines = lines_of(FOLDER.diagnose(cell.id, f"{cell.points + gap:.2f}"))
            assert len(lines) <= ANSWER_LINES, cell.id
            assert max(map(len, lines)) <= ANSWER_WIDTH, cell.id


def test_all_columns_of_a_row_fit_an_answer():
    mine = "sts12=46.88,sts13=55,sts14=50,sts15=60,sts16=61,sts-b=56.71,sick-r=60,avg=56.87"
    lines = lines_of(FOLDER.diagnose("simcse.t5/simcse-bert-base-unsup", mine))
    assert len(lines) <= ANSWER_LINES
    assert any("No seed gives that" in line for line in lines)
    assert any("newly initialised" in line for line in lines)


def test_a_verbose_answer_has_all_notes_and_the_sources():
    diagnosis = FOLDER.diagnose("sbert.t1/sbert-nli-base/sts13", "71.64")
    text = " ".join(" ".join(lines_of(diagnosis, verbose=True)).split())
    for note in diagnosis.notes:
        assert note in text
    assert "source: sentence-transformers#50, #1090" in text
    assert "--verbose" not in text


def test_facts_hold_what_the_lines_say():
    diagnosis = FOLDER.diagnose("simcse.t5/bert-base-first-last-avg/sts12", "0.4509")
    facts = diagnosis_facts(diagnosis, FOLDER.causes, FOLDER.registry)
    [number] = facts["numbers"]
    assert (number["mine"], number["difference"]) == (45.09, 5.39)
    [explanation] = facts["explanations"]
    assert explanation["printed"].startswith("simcse.issue-285/")
    assert explanation["explanation"] in " ".join(" ".join(lines_of(diagnosis)).split())
