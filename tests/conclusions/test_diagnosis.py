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


SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
PRINTED = (75.30, 84.67, 80.19, 85.40, 80.82, 84.25, 80.39)


def of_columns(values, names=SEVEN, **others):
    pairs = [*zip(names, values, strict=True), *others.items()]
    return ",".join(f"{name}={value:.2f}" for name, value in pairs)


def test_an_average_is_compared_with_the_readers_own_columns():
    for average, faults in ((60.00, [("average",)]), (81.57, []), (81.58, [])):
        diagnosis = FOLDER.diagnose(SUPERVISED, of_columns(PRINTED, avg=average))
        assert [fault.about for fault in diagnosis.faults] == faults
        assert diagnosis.is_rounding
        assert diagnosis.nothing_is_wrong is not bool(faults)
    values = [*PRINTED]
    values[5] = 82.45  # two digits are exchanged, and the average is of the right ones
    [fault] = FOLDER.diagnose(SUPERVISED, of_columns(values, avg=81.57)).faults
    assert "with sts-b 84.2" in fault.fault


def test_exchanged_columns_are_certain_and_are_explained_in_no_other_way():
    values = [*PRINTED]
    values[1], values[5] = values[5] + 0.1, values[1] - 4.0
    row = "bert-whitening.t1/bert-base-whitening-nli"
    diagnosis = FOLDER.diagnose(row, "sts-b=63.65,sick-r=68.29")
    [fault] = diagnosis.faults
    assert (fault.about, fault.certainty) == (("columns",), "certain")
    assert not diagnosis.explanations
    assert not FOLDER.diagnose(SUPERVISED, of_columns(values)).faults


def test_a_column_has_one_verdict():
    row = "simcse.t5/simcse-bert-base-unsup"
    usual = (67.6, 80.4, 72.7, 80.3, 78.1, 76.3, 70.4)
    assert FOLDER.diagnose(row, of_columns(usual)).nothing_is_wrong
    for place in range(len(usual)):
        values = [*usual]
        values[place] -= 9.0
        diagnosis = FOLDER.diagnose(row, of_columns(values))
        assert not diagnosis.nothing_is_wrong
        assert ("seed",) not in [each.about for each in diagnosis.explanations]
        assert diagnosis.distant.number.published.column.id == SEVEN[place]


def test_what_neither_explains_is_likely_for_none():
    for thread in FOLDER.threads:
        if not thread.row:
            continue
        for each in FOLDER.diagnose(thread.row, thread.mine).explanations:
            if each.certainty == "likely" and each.evidence.kind != "digits":
                assert not each.misfits, thread.source


def test_columns_without_subsets_tell_the_aggregation():
    values = (69.0, 77.5, 79.2, 83.2, 81.7, 84.3, 80.4)
    diagnosis = FOLDER.diagnose(SUPERVISED, of_columns(values))
    first = diagnosis.explanations[0]
    assert (first.about, first.certainty) == (("aggregation",), "likely")


TASKS = dict(
    zip(
        ("sts12", "sts13", "sts14", "sts-b"),
        ("sts12.senteval", "sts13.senteval", "sts14.senteval", "sts-b"),
        strict=True,
    )
)


@pytest.mark.parametrize(
    ("method", "aggregation", "about"),
    [
        ("minilm.cls", "all", ("pooling",)),
        ("minilm.last2", "all", ("pooling",)),
        ("minilm.mean", "wmean", ("aggregation",)),
    ],
)
def test_a_measured_method_of_the_encoder_gives_all_columns_or_none(
    method, aggregation, about
):
    scores = [
        FOLDER.records.value(method, task, "spearman", aggregation).mean
        for task in TASKS.values()
    ]
    row = "mteb.1-12-75/minilm"
    diagnosis = FOLDER.diagnose(row, of_columns(scores, TASKS))
    first = diagnosis.explanations[0]
    assert (first.about, first.method, first.certainty) == (about, method, "certain")
    moved = [score + 0.3 * (-1) ** place for place, score in enumerate(scores)]
    for names, values in ((TASKS, moved), (["sts12"], scores[:1])):
        diagnosis = FOLDER.diagnose(row, of_columns(values, names))
        assert not any(each.method for each in diagnosis.explanations)


def test_rows_of_bert_are_answered_by_what_bert_was_measured_to_score():
    row = "simcse.b2/bert-whitening-target-all"
    values = (43.20, 77.63, 66.25, 64.03, 67.15, 71.34, 60.60)
    first = FOLDER.diagnose(row, of_columns(values)).explanations[0]
    assert (first.certainty, first.changes) == ("certain", {"pooling": "first-last"})
    row = "sbert.t1/avg-bert-embeddings"
    values = (38.78, 57.98, 48.68, 63.15, 61.06, 46.35, 58.40)
    diagnosis = FOLDER.diagnose(row, of_columns(values))
    [fault] = diagnosis.faults
    assert "57.98 is a misprint" in fault.fault
    assert "your 48.68 is right" in fault.fault
    assert diagnosis.is_rounding


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


def test_versions_of_causes_are_specifiers():
    """They are read where versions are compared, which is later than the file."""
    with_versions = [cause for cause in FOLDER.causes.causes if cause.versions]
    for cause in with_versions:
        none = dict.fromkeys(cause.versions, "0")
        assert cause.is_of_versions(none) in (True, False), cause.id
    assert with_versions
