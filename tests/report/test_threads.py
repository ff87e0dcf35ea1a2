"""The answers to public threads, and that an answer fits a terminal whatever is asked."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from committed import FOLDER

from harness.data.catalogue import DATA_ASSETS
from harness.data.places import Places
from harness.report.diagnosis import (
    ANSWER_LINES,
    ANSWER_WIDTH,
    answer_lines,
    diagnosis_facts,
)
from harness.report.next_steps import command_to_search
from harness.report.pages import answer, threads_made_from


def lines_of(diagnosis, **options):
    return answer_lines(diagnosis, FOLDER.causes, FOLDER.registry, **options)


def test_the_known_cause_of_every_thread_with_a_row_here_is_named_first():
    places = [answer(thread, FOLDER)[0] for thread in FOLDER.threads]
    asked = [place for place in places if place != "no such row"]
    assert len(asked) == 41
    assert "not named" not in asked
    assert asked.count("1") + asked.count("answered as unknown") >= 40


def test_the_page_is_made_from_the_records_and_every_text_that_an_answer_rests_on():
    whole = {
        "records": FOLDER.records,
        "threads": FOLDER.threads,
        "causes": FOLDER.causes,
        "tables": FOLDER.tables,
    }
    without_one = {
        "records": FOLDER.records.select(sorted(FOLDER.records.by_cell)[1:]),
        "threads": FOLDER.threads[1:],
        "causes": replace(FOLDER.causes, causes=FOLDER.causes.causes[1:]),
        "tables": FOLDER.tables[1:],
    }
    folders = [whole, *(whole | {name: part} for name, part in without_one.items())]
    made_from = {threads_made_from(SimpleNamespace(**parts)) for parts in folders}
    assert len(made_from) == len(folders)


@pytest.mark.parametrize("gap", [-0.7, 6.0])
def test_an_answer_has_at_most_ten_lines_of_eighty_columns(gap):
    for table in FOLDER.tables:
        for cell in table.numbers[::61]:
            if cell.points is None or not 0 <= cell.points + gap <= 100:
                continue
            lines = lines_of(FOLDER.diagnose(cell.id, f"{cell.points + gap:.2f}"))
            assert len(lines) <= ANSWER_LINES, cell.id
            assert max(map(len, lines)) <= ANSWER_WIDTH, cell.id


def test_facts_hold_what_the_lines_say():
    diagnosis = FOLDER.diagnose("simcse.t5/bert-base-first-last-avg/sts12", "0.4509")
    facts = diagnosis_facts(diagnosis, FOLDER.causes, FOLDER.registry)
    [number] = facts["numbers"]
    assert (number["mine"], number["difference"]) == (45.09, 5.39)
    [explanation] = facts["explanations"]
    assert explanation["printed"].startswith("simcse.issue-285/")
    assert explanation["explanation"] in " ".join(" ".join(lines_of(diagnosis)).split())


# The answer names the search of this machine's weights


def test_an_answer_names_the_search_where_weights_and_data_are_here(tmp_path):
    numbers = FOLDER.diagnose("mteb.1-12-75/minilm/sts12", "70.1").numbers
    minilm = FOLDER.registry.encoders["minilm"]
    (tmp_path / "minilm").mkdir()
    asset = next(a for a in DATA_ASSETS if a.name == "sts-senteval")
    (tmp_path / "data" / asset.probe[0]).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "data" / asset.probe[0]).touch()
    here = Places(
        tmp_path, tmp_path / "data", encoders={minilm.name: tmp_path / "minilm"}
    )
    search = "harness explain mteb.1-12-75/minilm"
    command = f"{search}/sts12 --model minilm.mean --mine 70.10"
    assert command_to_search(numbers, FOLDER.registry, here) == command
    several = "sts12=70.1,sts13=80.2"
    numbers = FOLDER.diagnose("mteb.1-12-75/minilm", several).numbers
    command = f"{search} --model minilm.mean --mine sts12=70.10,sts13=80.20"
    assert command_to_search(numbers, FOLDER.registry, here) == command
    nowhere = replace(here, data_dir=None)
    assert command_to_search(numbers, FOLDER.registry, nowhere) == ""


BELOW_ALL_SEEDS = (
    "sts12=45.1,sts13=61.0,sts14=52.3,sts15=64.9,sts16=65.9,sts-b=58.0,sick-r=61.2"
)


def test_the_first_explanation_says_what_to_change_whatever_the_notes():
    row = "simcse.t5/simcse-bert-base-unsup"
    lines = lines_of(FOLDER.diagnose(row, BELOW_ALL_SEEDS))
    assert any(line.lstrip().startswith("change: ") for line in lines)
    assert len(lines) <= ANSWER_LINES


def test_the_answer_is_the_first_line_and_no_note_is_cut():
    for thread in FOLDER.threads:
        if not thread.row:
            continue
        diagnosis = FOLDER.diagnose(thread.row, thread.mine)
        lines = lines_of(diagnosis)
        assert not lines[0].startswith(("Yours", "note")), thread.source
        note = "\n".join(lines).partition("\nnote: ")[2].partition("\n--verbose")[0]
        assert not note or " ".join(note.split()) in " ".join(diagnosis.notes)
        assert note == "" or note.endswith((".", "`"))
