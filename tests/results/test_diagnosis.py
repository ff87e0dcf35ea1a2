"""Why a reader's number differs: printed elsewhere, another seed, a known cause, or unknown."""

import pytest
from committed import FOLDER

from harness.core.errors import UsageError
from harness.results.numbers import ACCIDENTAL_CHOICES

UNSUPERVISED = "simcse.t5/simcse-bert-base-unsup"
FIRST_LAST = "simcse.t5/bert-base-first-last-avg"


def subjects(place, mine):
    return [suggestion.about for suggestion in FOLDER.diagnose(place, mine).suggestions]


# What a reader may write


@pytest.mark.parametrize(
    ("mine", "points", "is_fraction", "decimals"),
    [
        ("45.09", 45.09, False, 2),
        ("0.4509", 45.09, True, 2),
        ("45.09%", 45.09, False, 2),
        ("0.61", 61.0, True, 0),  # no score of half a point
    ],
)
def test_a_number_is_read_in_points_or_as_a_fraction(
    mine, points, is_fraction, decimals
):
    [number] = FOLDER.diagnose(f"{FIRST_LAST}/sts12", mine).numbers
    assert (number.points, number.is_fraction) == (points, is_fraction)
    assert number.given.decimals == decimals


def test_an_unknown_column_is_named_and_the_others_are_answered():
    diagnosis = FOLDER.diagnose(FIRST_LAST, "sts12=45.09,sts99=64.3")
    assert diagnosis.unknown_columns == ("sts99",)
    assert diagnosis.suggestions[0].changes == {"pooling": "first-last"}


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


# The four kinds of evidence


def test_the_columns_that_a_row_does_not_print_are_named():
    mine = "sts12=45.09,sts-b=59.05,avg=60.73,sts13=50.00"
    [first, *_] = FOLDER.diagnose(FIRST_LAST, mine).suggestions
    assert (first.certainty, first.misfits) == ("likely", ("sts13",))


@pytest.mark.parametrize(
    ("moved", "certainty"), [(0.0, "certain"), (0.3, "likely"), (-0.3, "likely")]
)
def test_numbers_near_a_row_have_the_answer_of_the_row(moved, certainty):
    numbers = {"sts12": 45.09, "sts-b": 59.05, "avg": 60.73}
    mine = ",".join(f"{name}={points + moved:.2f}" for name, points in numbers.items())
    [first, *_] = FOLDER.diagnose(FIRST_LAST, mine).suggestions
    assert (first.changes, first.certainty) == ({"pooling": "first-last"}, certainty)
    assert first.unexplained == pytest.approx(abs(moved))
    assert first.printed_number.table.id == "simcse.issue-285"


def test_a_number_without_decimals_is_printed_nowhere():
    diagnosis = FOLDER.diagnose(
        "bert-whitening.t1/bert-base-whitening-target/sts-b", "66"
    )
    assert not any(suggestion.is_printed for suggestion in diagnosis.suggestions)


def test_three_numbers_of_another_model_name_the_model():
    diagnosis = FOLDER.diagnose(UNSUPERVISED, "sts12=72.37,sts13=80.60,sts-b=82.03")
    [first] = diagnosis.suggestions
    assert (first.about, first.certainty) == (("model",), "certain")
    assert first.printed_number.method == "minilm.mean"


MEAN_OF_SEEDS, SBERT = (
    "simple-simcse.bert-base/mean/avg",
    "sbert.t2/sbert-stsb-base/sts-b",
)
TRANSFER = "simcse.e1/simcse-bert-base-unsup"


@pytest.mark.parametrize(
    ("place", "mine", "subject", "is_named"),
    [
        (UNSUPERVISED, "sts12=72.37,sts13=80.60", "model", False),
        # Between the lowest and the highest of 50 seeds, or outside.
        (f"{UNSUPERVISED}/avg", "73.16", "seed", True),
        (f"{UNSUPERVISED}/avg", "74.84", "seed", True),
        (f"{UNSUPERVISED}/avg", "73.15", "seed", False),
        (f"{UNSUPERVISED}/avg", "76.71", "seed", False),
        (f"{UNSUPERVISED}/avg", "56.87", "new-heads", True),
        (MEAN_OF_SEEDS, "76.25", "seed", True),
        (SBERT, "86.0", "development-score-stsb", True),
        # A score that is too high for any but damaged data.
        (TRANSFER, "subj=99.65", "damaged-data", True),
        (TRANSFER, "subj=97.00", "damaged-data", False),
        (TRANSFER, "mr=83.79,subj=99.65", "damaged-data", True),
    ],
)
def test_a_cause_is_named_where_the_numbers_show_it(place, mine, subject, is_named):
    diagnosis = FOLDER.diagnose(place, mine)
    assert ((subject,) in subjects(place, mine)) == is_named
    assert diagnosis.nothing_is_wrong == (is_named and subject == "seed")


@pytest.mark.parametrize(
    ("place", "mine"),
    [(FIRST_LAST, "sts12=45.09,sts-b=30.00,avg=40.00"), (SBERT, "84.67")],
)
def test_without_a_row_like_it_or_a_difference_nothing_is_suggested(place, mine):
    assert subjects(place, mine) == []


def test_twenty_points_below_all_seeds_are_a_fault_and_no_seed():
    assert FOLDER.diagnose(f"{UNSUPERVISED}/avg", "56.87").distant_spread.seeds == 50
    nearer = FOLDER.diagnose("simcse.t5/simcse-roberta-base-unsup", "sts12=68.39")
    assert nearer.distant_spread is None  # the published number is further away


def test_a_single_choice_explains_a_part_and_says_what_it_leaves():
    [partly, known] = FOLDER.diagnose(
        "sbert.t1/sbert-nli-base/sts13", "71.64"
    ).suggestions
    assert (partly.about, partly.certainty) == (("aggregation",), "possible")
    assert partly.unexplained == pytest.approx(73.76 - 71.64)
    assert known.about == ("retrained",)


def test_a_difference_of_rounding_is_none():
    diagnosis = FOLDER.diagnose(f"{FIRST_LAST}/sts12", "39.74")
    assert (diagnosis.is_rounding, diagnosis.nothing_is_wrong) == (True, True)


@pytest.mark.parametrize("gap", [-20.0, -1.0, 3.0])
def test_post_processing_is_never_suggested_for_a_row_that_has_none(gap):
    rows = [
        table.numbers
        for table in FOLDER.tables
        if table.id in ("simcse.t5", "sbert.t1")
    ]
    for cell in [cell for cells in rows for cell in cells][::11]:
        if (
            cell.row.fit == "none"
            and cell.points is not None
            and cell.points + gap < 100
        ):
            diagnosis = FOLDER.diagnose(cell.id, f"{cell.points + gap:.2f}")
            for suggestion in diagnosis.explanations:
                is_accident = {*suggestion.changes} <= {*ACCIDENTAL_CHOICES}
                assert suggestion.is_printed or is_accident, cell.id


def test_a_cause_is_named_where_it_explains_most_of_what_it_may_move():
    supervised = "simcse.t5/simcse-bert-base-sup"
    mine = "sts12=75.57,sts13=81.32,sts14=78.94,sts15=85.87,sts16=81.57,sts-b=84.27"
    suggestions = FOLDER.diagnose(supervised, mine).suggestions
    [one_training] = [item for item in suggestions if item.about == ("one-training",)]
    assert one_training.misfits == ("sts13",)
    assert one_training.certainty == "possible"
    about = subjects(supervised, "sts12=65.57,sts13=71.32,sts14=78.94")
    assert ("one-training",) not in about
