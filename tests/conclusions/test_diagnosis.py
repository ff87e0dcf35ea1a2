"""Why a reader's number differs: printed elsewhere, another seed, a known cause, or unknown."""

import pytest
from committed import FOLDER

from harness.conclusions.numbers import ACCIDENTAL_CHOICES
from harness.core.errors import UsageError
from harness.report.diagnosis import diagnosis_facts

UNSUPERVISED = "simcse.t5/simcse-bert-base-unsup"
SUPERVISED = "simcse.t5/simcse-bert-base-sup"
FIRST_LAST = "simcse.t5/bert-base-first-last-avg"
SBERT = "sbert.t2/sbert-stsb-base/sts-b"
MEAN_OF_SEEDS = "simple-simcse.bert-base/mean/avg"
TRANSFER = "simcse.e1/simcse-bert-base-unsup"
MINILM = "sts12=72.37,sts13=80.60,sts-b=82.03"
ONE_TRAINING = "sts12=75.57,sts13=81.32,sts14=78.94,sts15=85.87,sts16=81.57,sts-b=84.27"

ASKED = {
    "A number is read in points or as a fraction": [
        *((f"{FIRST_LAST}/sts12", mine) for mine in ("45.09", "0.4509", "45.09%"))
    ],
    "Without decimals it is no fraction, and printed nowhere": [
        (f"{FIRST_LAST}/sts12", "0.61"),
        ("bert-whitening.t1/bert-base-whitening-target/sts-b", "66"),
    ],
    "A difference of rounding is none": [
        (f"{FIRST_LAST}/sts12", "39.74"),
        (SBERT, "84.67"),
    ],
    "Columns that are unknown, or that the row prints with other numbers, are named": [
        (FIRST_LAST, "sts12=45.09,sts99=64.3"),
        (FIRST_LAST, "sts12=45.09,sts-b=59.05,avg=60.73,sts13=50.00"),
    ],
    "Numbers near a row have the answer of the row": [
        (FIRST_LAST, "sts12=45.39,sts-b=59.35,avg=61.03"),
        (FIRST_LAST, "sts12=44.79,sts-b=58.75,avg=60.43"),
        (FIRST_LAST, "sts12=45.09,sts-b=30.00,avg=40.00"),
    ],
    "Three numbers of another model name the model, two do not": [
        (UNSUPERVISED, MINILM),
        (UNSUPERVISED, "sts12=72.37,sts13=80.60"),
    ],
    "A seed is between the lowest and the highest of 50": [
        *(
            (f"{UNSUPERVISED}/avg", mine)
            for mine in ("73.15", "73.16", "74.84", "76.71")
        ),
        (MEAN_OF_SEEDS, "76.25"),
    ],
    "Twenty points below all seeds are a fault and no seed": [
        (f"{UNSUPERVISED}/avg", "56.87"),
        ("simcse.t5/simcse-roberta-base-unsup", "sts12=68.39"),
    ],
    "A single choice explains a part and says what it leaves": [
        ("sbert.t1/sbert-nli-base/sts13", "71.64")
    ],
    "A cause is named where it explains most of what it may move": [
        (SBERT, "86.0"),
        (TRANSFER, "subj=97.00"),
        (TRANSFER, "subj=99.65"),
        (TRANSFER, "mr=83.79,subj=99.65"),
        (SUPERVISED, ONE_TRAINING),
        (SUPERVISED, "sts12=65.57,sts13=71.32,sts14=78.94"),
    ],
}


def test_explanations_of_differences_are_golden(approved):
    page = []
    for why, cases in ASKED.items():
        page.append(f"# {why}\n")
        for place, mine in cases:
            diagnosis = FOLDER.diagnose(place, mine)
            facts = diagnosis_facts(diagnosis, FOLDER.causes, FOLDER.registry)
            page.append(f"{place} {mine}")
            for number in facts["numbers"]:
                page.append("{mine} for {published} in {cell}".format_map(number))
            page.append(facts["verdict"])
            for explained in facts["explanations"]:
                page.append("* {explanation} [{certainty}]".format_map(explained))
            page.append("")
    assert "\n".join(page) == approved("golden/differences.txt")


@pytest.mark.parametrize(
    ("place", "mine", "told"),
    [
        (f"{FIRST_LAST}/sts12", "high", "wanted a score x100 such as 47.29"),
        (f"{FIRST_LAST}/sts12", "nan", "wanted a score x100 such as 47.29"),
        (f"{FIRST_LAST}/sts12", "450.9", "from -100 to 100"),
        ("simcse.e1/infersent-glove/mrpc", "-3", "wanted a score x100, from 0 to 100"),
        (FIRST_LAST, "45.09", "wanted COLUMN=NUMBER"),
        (FIRST_LAST, "sts12=45.09,64.3", "wanted COLUMN=NUMBER"),
        (FIRST_LAST, "sts99=45.09", "unknown column"),
        ("simcse.t5/nobody", "sts12=45.09", "unknown row"),
        ("bert-flow.t1/mean-l2-norm/bucket-1", "45.09", "is no score"),
    ],
)
def test_what_is_no_number_of_a_published_row_is_refused(place, mine, told):
    with pytest.raises(UsageError, match=told):
        FOLDER.diagnose(place, mine)


@pytest.mark.parametrize("gap", [-20.0, -1.0, 3.0])
def test_post_processing_is_never_suggested_for_a_row_that_has_none(gap):
    for cell in [*FOLDER.published_numbers.values()][::97]:
        mine = cell.points + gap
        if cell.row.fit == "none" and 0 < mine < 100:
            diagnosis = FOLDER.diagnose(cell.id, f"{mine:.2f}")
            for suggestion in diagnosis.explanations:
                is_accident = {*suggestion.changes} <= {*ACCIDENTAL_CHOICES}
                assert suggestion.is_printed or is_accident, cell.id
