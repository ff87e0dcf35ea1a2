"""What arithmetic says of a card: the cause is named with its hedge, and no chance hit is one."""

from dataclasses import replace

import pytest
from committed import FOLDER

from harness.conclusions.card_arithmetic import of_another_model, read_card
from harness.conclusions.card_rows import ModelIdentity
from harness.conclusions.card_scores import weighed
from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import interpret
from harness.conclusions.verification import Verification
from harness.registry import load_registry
from harness.report.card_check import verification_facts, verification_text
from harness.report.card_readings import card_readings_in_words

REGISTRY, ROWS = load_registry(), FOLDER.numbers_by_row
# all-MiniLM-L6-v2 as its result files of mteb have it, and as sentence-transformers' table does.
MINILM = {"STS12": "0.723690", "STS13": "0.806032", "STS14": "0.755891", "STS15": "0.853897",
          "STS16": "0.789895", "STSBenchmark": "0.820325", "SICK-R": "0.775825"}  # fmt: skip
POINTS = {name: f"{100 * float(value):.2f}" for name, value in MINILM.items()}
MPNET = {"STS12": "72.63", "STS13": "83.48", "STS14": "78.00", "STS15": "85.66", "STS16": "80.03",
         "STSBenchmark": "83.42", "SICK-R": "80.59"}  # fmt: skip
WEIGHTS = REGISTRY.encoders["minilm"].weights_sha256
OWN = ModelIdentity.find(["me/all-MiniLM-L6-v2"], "minilm", WEIGHTS, REGISTRY)
UNKNOWN = ModelIdentity.find(["me/my-model"], "my-model", "0" * 64, REGISTRY)


def card(values, metric="cosine_spearman", source="README.md"):
    statements = [
        Statement(value, metric, data_set=f"MTEB {name}", split="test", source=source)
        for name, value in values.items()
    ]
    return [interpret(statement, REGISTRY) for statement in statements]


def faults(numbers, model=OWN):
    return [each for each in read_card(numbers, ROWS, model) if each.is_fault]


def facts(readings):
    """What is said, of which columns, and how surely."""
    return [
        (each.about, [n.statement.data_set.removeprefix("MTEB ") for n in each.numbers],
         each.certainty)
        for each in readings
    ]  # fmt: skip


def measured(numbers, scores):
    """The numbers as a check leaves them, where the model has these scores in points."""
    return [
        n.judged(float(scores[n.statement.data_set.removeprefix("MTEB ")]))
        if n.readings
        else n
        for n in numbers
    ]


# Of true cards nothing is said


@pytest.mark.parametrize("values", [MINILM, POINTS], ids=["fractions", "points"])
@pytest.mark.parametrize("metric", ["cosine_spearman", "euclidean_pearson"])
def test_nothing_is_said_of_true_numbers(values, metric):
    numbers = card(values, metric)
    assert faults(numbers) == []
    scores = {name: 100 * float(value) for name, value in MINILM.items()}
    checked = measured(numbers, scores)
    left = weighed(read_card(numbers, ROWS, OWN), checked, ROWS, OWN)
    assert not any(each.is_fault for each in left)


def test_another_runs_numbers_are_no_fault_of_copying():
    """Another version moves each score by a tenth: no exchange, and no other model."""
    moved = {name: f"{float(value) + 0.1:.2f}" for name, value in POINTS.items()}
    assert faults(card(moved)) == []
    left = weighed([], measured(card(moved), POINTS), ROWS, OWN)
    assert left == []


# Whose numbers


def test_another_models_numbers_need_no_encoding_where_the_weights_tell_the_model():
    numbers = card(MPNET)
    readings = read_card(numbers, ROWS, OWN)
    assert facts(readings) == [("owner", [*MPNET], "certain")]
    assert readings[0].explains
    row_of = of_another_model(readings, ROWS, OWN)
    assert {*row_of.values()} == {"mteb.1-12-75/mpnet-base"}
    assert {*row_of} == {number.statement for number in numbers}
    # By a name alone a folder may be any model, and its scores decide.
    by_name = replace(OWN, is_pinned=False)
    assert of_another_model(readings, ROWS, by_name) == {}


def test_a_row_that_may_be_of_this_folder_is_hedged_until_scores_are_measured():
    numbers = card(MPNET)
    readings = read_card(numbers, ROWS, UNKNOWN)
    [sentence] = card_readings_in_words(readings)
    assert "and this model's if it is a copy of that one" in sentence
    copied = weighed(readings, measured(numbers, MPNET), ROWS, UNKNOWN)
    assert not any(each.is_fault for each in copied)
    other = weighed(readings, measured(numbers, POINTS), ROWS, UNKNOWN)
    [sentence] = card_readings_in_words(other)
    assert "mteb.1-12-75/mpnet-base" in sentence
    assert "and not this model's scores here [certain]" in sentence
    # It may be that model under another pooling: a search decides.
    assert not other[0].explains


def test_of_two_rows_with_the_same_figures_this_models_own_is_the_owner():
    own = ROWS["mteb.1-12-75/minilm"]
    copy = {
        column: replace(
            number, method=None, row=replace(number.row, id="copy", label="Copy")
        )
        for column, number in own.items()
    }
    rows = {"mteb.1-12-75/copy": copy, "mteb.1-12-75/minilm": own}
    [reading] = read_card(card(POINTS), rows, OWN)
    assert (reading.is_own, reading.is_fault) == (True, False)
    assert [each.is_own for each in read_card(card(POINTS), rows, UNKNOWN)] == [False]


def test_own_published_numbers_that_do_not_come_out_are_said_to_be_so():
    readings = read_card(card(POINTS), ROWS, OWN)
    assert not any(each.is_fault for each in readings)
    left = weighed(readings, measured(card(POINTS), MPNET), ROWS, OWN)
    [sentence] = card_readings_in_words(left)
    assert not any(each.explains for each in left)
    assert "printed for this model in mteb." in sentence
    assert "are not its scores here" in sentence


def test_a_part_of_another_models_row_is_told_from_three_figures_on():
    """Three of a card's seven are another model's; two are a hint, and nobody's."""
    for count, said in ((3, [("owner", [*MPNET][:3], "certain")]), (2, [])):
        names = [*MPNET][:count]
        numbers = card({**POINTS, **{name: MPNET[name] for name in names}})
        assert facts(faults(numbers)) == said
        left = weighed(
            [], measured(numbers, POINTS), ROWS, replace(OWN, encoders=frozenset())
        )
        assert facts(left) == said


# Digits


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ("80.23", "two digits are exchanged"),
        ("28.03", "two digits are exchanged"),
        ("82.13", "one digit is another"),
        ("80.60", "it is the number of sts13"),
    ],
)
@pytest.mark.parametrize("model", [OWN, UNKNOWN], ids=["known", "unknown"])
def test_digits_are_told_by_the_row_that_has_the_others(value, how, model):
    numbers = card({**POINTS, "STSBenchmark": value})
    reading = next(each for each in faults(numbers, model) if each.about == "digits")
    assert reading.how == how
    surely = "possible" if "another" in how else "likely"
    assert reading.certainty == surely
    left = weighed([reading], measured(numbers, POINTS), ROWS, model)
    told = [each for each in left if each.about == "digits"]
    surely = "possible" if how == "one digit is another" else "certain"
    assert [(each.how, each.certainty) for each in told] == [(how, surely)]


def test_digits_of_a_number_that_holds_or_scores_otherwise_are_no_cause():
    numbers = card({**POINTS, "STSBenchmark": "80.23"})
    readings = faults(numbers)
    for score in ("80.23", "71.50"):
        scores = {**POINTS, "STSBenchmark": score}
        left = weighed(readings, measured(numbers, scores), ROWS, OWN)
        assert "digits" not in [each.about for each in left if each.is_fault]


@pytest.mark.parametrize(
    ("holding", "certainty"),
    [(6, "likely"), (3, "likely"), (1, "possible"), (0, "possible")],
)
def test_an_exchange_beside_a_measured_score_is_as_sure_as_numbers_hold(
    holding, certainty
):
    names = ["STSBenchmark", *[*MINILM][:holding]]
    scores = {name: f"{float(POINTS[name]) - 4.2:.2f}" for name in names}  # in no table
    numbers = card({**scores, "STSBenchmark": "77.38"})
    left = weighed(
        [], measured(numbers, {**scores, "STSBenchmark": "77.83"}), ROWS, UNKNOWN
    )
    assert facts(left) == [("digits", ["STSBenchmark"], certainty)]


# Scale and sign


@pytest.mark.parametrize(
    ("values", "odd", "meant"),
    [
        (POINTS, "0.7559", "75.59"),
        (MINILM, "75.59", "75.59"),
        (MINILM, "7559", "75.59"),
        (MINILM, "0.007559", "75.59"),
        (POINTS, "7558.91", "75.5891"),
    ],
)
def test_a_number_in_another_scale_is_told_with_what_is_meant(values, odd, meant):
    readings = faults(card({**values, "STS14": odd}), UNKNOWN)
    scale = [each for each in readings if each.about == "scale"]
    assert facts(scale) == [("scale", ["STS14"], "likely")]
    assert scale[0].meant == meant
    # The row is found all the same, with the number that is meant.
    assert [each.beside for each in readings if each.about == "owner"] == [7]


def test_a_scale_is_no_fault_where_no_scale_prevails():
    numbers = card({"STS12": "0.72", "STS13": "80.60"})
    assert faults(numbers, UNKNOWN) == []
    alone = faults(card({"STS12": "7236.9"}), UNKNOWN)
    assert facts(alone) == [("scale", ["STS12"], "possible")]
    weak = faults(card({"STS12": "0.5", "STS13": "3.0", "STS14": "2.0"}), UNKNOWN)
    assert facts(weak) == []


def test_a_small_score_that_is_measured_has_no_other_scale():
    numbers = card({**POINTS, "STS14": "0.76"})
    readings = faults(numbers)
    scores = {**POINTS, "STS14": "0.76"}
    left = weighed(readings, measured(numbers, scores), ROWS, OWN)
    assert "scale" not in [each.about for each in left]


@pytest.mark.parametrize("metric", ["cosine_spearman", "euclidean_spearman"])
def test_a_sign_is_told_of_one_number_and_of_a_row_of_distances(metric):
    one = card({**POINTS, "STS14": "-75.59"}, metric)
    assert facts(faults(one)) == [("sign", ["STS14"], "likely")]
    whole = card({name: f"-{value}" for name, value in POINTS.items()}, metric)
    [reading] = [each for each in faults(whole) if each.about == "sign"]
    assert (len(reading.numbers), reading.certainty) == (7, "likely")
    few = card({"STS14": "-75.59"}, metric)
    assert [each.certainty for each in faults(few) if each.about == "sign"] == [
        "possible"
    ]
    weak = card({"STS14": "-7.5", "STS13": "3.1"}, metric)
    assert faults(weak) == []
    checked = measured(one, POINTS)
    [left] = [e for e in weighed(faults(one), checked, ROWS, OWN) if e.is_fault]
    assert (left.about, left.certainty) == ("sign", "certain")


# Averages


@pytest.mark.parametrize(
    ("average", "said"),
    [("78.94", []), ("77.98", [("average", ["Average"], "certain")])],
)
def test_an_average_is_compared_with_the_numbers_beside_it(average, said):
    numbers = card({**POINTS, "Average": average})
    assert facts(faults(numbers)) == said
    about = [each.about for each in read_card(numbers, ROWS, OWN)]
    assert "average" in about


def test_the_value_that_would_mend_an_average_is_said():
    """The average is right; two digits of a number, which is in no table, are exchanged.

    Where an exchange in either of two columns would mend it, neither is named.
    """
    values = {name: f"{float(value) - 4.2:.2f}" for name, value in POINTS.items()}
    mean = sum(map(float, values.values())) / 7
    assert values["STS12"] == "68.17"
    numbers = card({**values, "STS12": "61.87", "Average": f"{mean:.2f}"})
    [reading] = faults(numbers, UNKNOWN)
    column, mended = reading.mended
    assert (column, mended) == ("sts12", pytest.approx(68.17, abs=0.07))
    [sentence] = card_readings_in_words([reading])
    assert sentence.endswith(f"with sts12 {mended:.2f} it would be [certain].")
    for value in ("74.60", "78.91"):  # of 76.40, or of 71.39 for 73.19; of nothing
        several = card({**values, "STS13": value, "Average": f"{mean:.2f}"})
        [reading] = faults(several, UNKNOWN)
        assert reading.mended is None


@pytest.mark.parametrize(
    ("digits", "before"), [(2, []), (4, [("mean", ["STSBenchmark"], "likely")])]
)
def test_a_number_that_is_the_mean_of_others_is_told_when_it_differs(digits, before):
    """With two decimals one in fifty is so by chance, and is told where it does not hold."""
    values = {
        name: f"{100 * float(value) - 4.2:.{digits}f}" for name, value in MINILM.items()
    }
    others = [float(values[f"STS{year}"]) for year in range(12, 17)]
    numbers = card({**values, "STSBenchmark": f"{sum(others) / 5:.{digits}f}"})
    readings = faults(numbers, UNKNOWN)
    assert facts(readings) == before
    left = weighed(readings, measured(numbers, values), ROWS, UNKNOWN)
    surely = "likely" if digits > 2 else "possible"
    assert facts(left)[0] == ("mean", ["STSBenchmark"], surely)
    holds = {
        n.statement.data_set.removeprefix("MTEB "): n.statement.value for n in numbers
    }
    assert weighed(readings, measured(numbers, holds), ROWS, UNKNOWN) == []


# Several at once, and the text


def test_several_faults_of_one_card_are_each_told():
    values = {**POINTS, "STS14": "0.7559", "STS15": "-85.39", "STSBenchmark": "80.23",
              "Average": "70.00"}  # fmt: skip
    said = {each.about: each.certainty for each in faults(card(values), UNKNOWN)}
    assert said == {"scale": "likely", "sign": "likely", "owner": "likely", "digits": "likely",
                    "average": "certain"}  # fmt: skip


def test_the_answer_comes_first_in_lines_of_eighty_columns():
    numbers = card(MPNET)
    readings = read_card(numbers, ROWS, OWN)
    row_of = of_another_model(readings, ROWS, OWN)
    numbers = [
        replace(
            n,
            why_not=f"of another model, {row_of[n.statement]}",
            is_of_other_model=True,
        )
        for n in numbers
    ]
    verification = Verification("mine", "mine.native", numbers, readings)
    assert verification.exit_status == 1
    first, second, *rest = verification_text(verification, 80).splitlines()
    assert first == "mine: all its 7 numbers are another model's"
    assert second.startswith("All 7 numbers are those of another model")
    assert max(map(len, (first, second, *rest))) <= 80
    [told] = verification_facts(verification)["readings"]
    assert (told["row"], told["certainty"]) == ("mteb.1-12-75/mpnet-base", "certain")
