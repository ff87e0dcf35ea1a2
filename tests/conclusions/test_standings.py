"""The standing of published numbers, and whose numbers a reader has."""

from dataclasses import replace
from operator import attrgetter

import pytest
from committed import FOLDER

from harness.conclusions.numbers import published_rows
from harness.conclusions.standings import StandingKind, standings_of, work_of
from harness.report.owners import origins_in_words
from harness.report.sentences import standing_in_words

STANDINGS = FOLDER.standings
NUMBERS = FOLDER.published_numbers


# Looked up in the sources of both numbers.
KNOWN = (
    "mteb.0-0-2/simcse-sup-bert-base/sts13",
    "bert-flow.t8/bert-nli-large/sts-b",
    "ct.readme/bert-base-ct/sts-b-spearman",
    "bert-whitening.t1/bert-base-flow-nli-quoted/sts-b",
    "bert-flow.t2/bert-cls-vector-quoted/sts16",
    "mteb.1/snowflake-arctic-embed-m-v1-5/sts13",
    "mteb.1/bge-base-en-v1-5/sts-b",
    "simcse.t5/simcse-roberta-base-unsup/sts12",
    # E5's card has a prompt that mteb's run has not: two protocols.
    "mteb.cards/e5-large-v2/sts12",
    # The models' authors sent in the file.
    "mteb.1/granite-embedding-30m-english/sts12",
    "bert-whitening.t1/bert-base-whitening-256-target/sts12",
    "simcse.c1/bert-flow-target/sick-r",
    # A misprint among columns with test sets, beside those with development sets.
    "simcse.e1/avg-bert-embeddings/mrpc",
    "simcse.e1/avg-bert-embeddings/trec",
)
MINE = (
    "sts12=72.37,sts13=80.60,sts-b=82.03",  # of a model with copies
    "sts12=72.38,sts13=80.61,sts-b=82.04",
    "sts12=72.38,sts13=80.61,sts-b=82.03",
    "sts12=72.38",
    "sts17=87.08,sts12=78.69",  # a task that is not here
    "avg=74.89,sts12=70.97",
    "sts12=1.23,sts13=4.56",
)


def test_standings_and_owners_are_golden(approved):
    lines = []
    for name in KNOWN:
        lines += [name, *map(standing_in_words, STANDINGS.get(name, ())), ""]
    for mine in MINE:
        lines += [mine, *origins_in_words(FOLDER.origins(mine)), ""]
    assert "\n".join(lines) == approved("golden/standings.txt")


def test_most_numbers_that_are_printed_twice_have_a_standing():
    assert len(STANDINGS) >= 640


# Rules that choose


def printed(table, row, **digits):
    """The numbers of a row of a small table: its columns, with an underscore for a hyphen.

    It stands in the place of a row of SBERT-NLI-base: seven tasks, one run.
    """
    numbers = []
    like = NUMBERS["sbert.t1/sbert-nli-base/sts12"]
    row = replace(like.row, id=row, quoted="quoted" in row)
    table = replace(like.table, id=table, cite=table.partition(".")[0])
    for name, text in digits.items():
        like = NUMBERS[f"sbert.t1/sbert-nli-base/{name.replace('_', '-')}"]
        numbers.append(
            replace(
                like,
                table=table,
                row=row,
                in_points=text,
                value=text,
                id=f"{table.id}/{row.id}/{name}",
            )
        )
    return numbers


def kinds(*rows):
    """What standings say of the numbers of rows, by their ids."""
    numbers = {number.id: number for row in rows for number in row}
    standings = standings_of(numbers.values(), published_rows(numbers.values()))
    return {
        name: [f"{each.kind} {each.other.row_id}" for each in standings[name]]
        for name in standings
    }


@pytest.mark.parametrize(
    ("mine", "others", "kind"),
    [
        ("39.70", "39.70", "confirmed"),
        ("39.7", "39.74", "confirmed"),  # the digits of the one that has fewer
        ("39.7", "39.7412", "confirmed"),
        ("39.70", "39.71", "same to rounding"),
        ("39.70", "39.72", "contradicted"),
        ("72.369", "72.36937", "same run"),
        ("72.369", "72.3695", "same run"),
        ("72.369", "72.3685", "same run"),
        ("72.3690", "72.3698", "confirmed"),
        ("72.36900", "72.41900", "same to rounding"),
        ("72.36900", "72.41901", "contradicted"),
    ],
)
def test_two_works_agree_or_do_not(mine, others, kind):
    found = kinds(
        printed("one.t1", "a", sts12=mine), printed("two.t1", "b", sts12=others)
    )
    assert found == {
        "one.t1/a/sts12": [f"{kind} two.t1/b"],
        "two.t1/b/sts12": [f"{kind} one.t1/a"],
    }


def test_tables_of_one_work_confirm_nothing_and_contradict_each_other():
    same, other = (
        kinds(
            printed("one.t1", "a", sts12="39.70"), printed("one.t2", "b", sts12=digits)
        )
        for digits in ("39.70", "40.70")
    )
    assert same == {}
    assert other["one.t1/a/sts12"] == ["contradicted one.t2/b"]


def test_a_work_is_told_once_for_each_of_its_scores_and_the_surest_first():
    mine = printed("one.t1", "a", sts12="39.70")
    others = [
        printed("two.t1", "b", sts12="41.70"),
        printed("two.t2", "c", sts12="41.70"),
        printed("two.t3", "d", sts12="42.70"),
        printed("three.t1", "e", sts12="39.71"),
        printed("four.t1", "f", sts12="39.70"),
        printed("four.t2", "g", sts12="39.70"),
    ]
    assert kinds(mine, *others)["one.t1/a/sts12"] == [
        "confirmed four.t1/f",
        "same to rounding three.t1/e",
        "contradicted two.t1/b",
        "contradicted two.t3/d",
    ]


def test_trained_methods_may_differ():
    rows = [
        printed("one.t1", "a", sts12="39.70"),
        printed("two.t1", "b", sts12="40.70"),
    ]
    for row in rows:
        row[0] = replace(row[0], method="bert-base.first-last+flow@target")
    assert kinds(*rows)["one.t1/a/sts12"] == ["another training two.t1/b"]


SIX = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts_b")


def six(*digits):
    return dict(zip(SIX, digits, strict=True))


def test_a_quotation_is_of_the_row_that_has_most_of_its_digits():
    quotation = printed(
        "one.t1", "quoted", **six("1.11", "2.22", "3.33", "4.44", "5.55", "6.66")
    )
    half = printed(
        "two.t1", "half", **six("1.11", "2.22", "3.33", "9.44", "9.55", "9.66")
    )
    four = printed(
        "two.t1", "four", **six("1.11", "2.22", "3.33", "4.44", "9.55", "6.67")
    )
    five = printed(
        "two.t1", "five", **six("1.11", "2.22", "3.33", "4.44", "5.55", "9.66")
    )
    # Half of its columns are not enough, two thirds are; a misprint by one unit is one.
    assert kinds(quotation, half) == {}
    found = kinds(quotation, four)
    assert found["one.t1/quoted/sts14"] == ["quoted two.t1/four"]
    assert found["one.t1/quoted/sts_b"] == ["contradicted two.t1/four"]
    # Of two sources the nearer one, whichever comes first.
    for rows in ((four, five), (five, four)):
        found = kinds(quotation, *rows)
        assert found["one.t1/quoted/sts14"] == ["quoted two.t1/five"]
        assert kinds(*rows, quotation) == found
    # With the digits of the one that has fewer, on whichever side of whole points.
    below = {"sts12": "1.46", "sts13": "3.46", "sts14": "5.46"}
    above = {"sts12": "2.53", "sts13": "4.53", "sts14": "6.53"}
    for source, half in (
        (below, ("1.5", "3.5", "5.5")),
        (above, ("2.5", "4.5", "6.5")),
    ):
        rounded = dict(zip(source, half, strict=True))
        found = kinds(
            printed("one.t1", "quoted", **rounded), printed("two.t1", "b", **source)
        )
        assert len(found) == 3
        assert all(said == ["quoted two.t1/b"] for said in found.values())


def test_a_quotation_is_of_another_work_and_has_as_many_equal_columns_as_name_a_model():
    quotation = printed(
        "one.t1", "quoted", **six("1.11", "2.22", "3.33", "4.44", "5.55", "6.66")
    )
    digits = six("1.11", "2.22", "3.33", "4.44", "9.55", "9.66")
    own = printed("one.t2", "own", **digits)
    first, second = (printed("two.t1", name, **digits) for name in ("b", "c"))
    assert kinds(quotation, own) == {}
    found = kinds(quotation, own, first, second)  # two that are as near
    assert found["one.t1/quoted/sts12"] == ["quoted two.t1/b"]
    # All of two common columns are not enough of six, and are of two.
    two = printed("two.t1", "two", sts12="1.11", sts13="2.22")
    assert kinds(quotation, two) == {}
    short = printed("one.t1", "short-quoted", sts12="1.11", sts13="2.22")
    assert {*kinds(short, two)} == {
        "one.t1/short-quoted/sts12",
        "one.t1/short-quoted/sts13",
    }
    half = printed("one.t1", "half-quoted", sts12="1.11", sts13="7.77")
    assert kinds(half, two) == {}
    one = printed("one.t1", "single-quoted", sts12="1.11")
    assert {*kinds(one, two)} == {"one.t1/single-quoted/sts12"}


def test_every_quotation_and_every_column_of_it_is_looked_up_among_rows_that_quote_none():
    first, second = (
        printed("one.t1", name, **six("1.11", "2.22", "3.33", "4.44", "5.55", "6.66"))
        for name in ("quoted", "quoted-again")
    )
    of_nobody = printed(
        "one.t1", "nobody-quoted", **six("7.1", "7.2", "7.3", "7.4", "7.5", "7.6")
    )
    lacks_two = {"sts12": "1.11", "sts14": "3.33", "sts15": "4.44", "sts_b": "6.66"}
    source = printed("two.t1", "b", **lacks_two)
    found = kinds(of_nobody, first, second, source)
    assert {*found} == {
        f"one.t1/{row}/{name}"
        for row in ("quoted", "quoted-again")
        for name in lacks_two
    }
    in_another_work = [
        replace(each, row=replace(each.row, quoted=True)) for each in source
    ]
    assert kinds(first, in_another_work) == {}


def test_of_two_sources_with_as_many_equal_columns_the_first_row_is_quoted():
    quotation = printed(
        "one.t1", "quoted", **six("1.11", "2.22", "3.33", "4.44", "5.55", "6.66")
    )
    last_four = six("9.11", "9.22", "3.33", "4.44", "5.55", "6.66")
    first_four = six("1.11", "2.22", "3.33", "4.44", "9.55", "9.66")
    first, second = (
        printed("two.t1", "b", **last_four),
        printed("two.t1", "c", **first_four),
    )
    assert kinds(quotation, first, second)["one.t1/quoted/sts14"] == ["quoted two.t1/b"]


@pytest.mark.parametrize(
    ("digits", "equal"),
    [
        (("1.11", "2.22", "3.33", "9.99"), ("sts12", "sts13", "sts14")),
        (("1.11", "2.22", "3.33", "4.44"), ("sts12", "sts13", "sts14", "sts15")),
        (("1.11", "2.22", "3.34", "9.99"), ()),
        # Three decimals that are rounded up, or down.
        (("1.105", "2.215", "3.325", "9.99"), ("sts12", "sts13", "sts14")),
        (("1.115", "2.225", "3.335", "9.99"), ("sts12", "sts13", "sts14")),
        (("1.1", "2.2", "3.3", "4.4"), ()),  # too few decimals to name a model
    ],
)
def test_three_figures_of_another_model_are_the_same_figures(digits, equal):
    mine = printed("one.t1", "a", **six("1.11", "2.22", "3.33", "4.44", "5.55", "6.66"))
    names = ("sts12", "sts13", "sts14", "sts15")
    theirs = [
        replace(each, method="minilm.mean")
        for each in printed("two.t1", "b", **dict(zip(names, digits, strict=True)))
    ]
    found = kinds(mine, theirs)
    assert found == {
        **{f"one.t1/a/{name}": ["same figures two.t1/b"] for name in equal},
        **{f"two.t1/b/{name}": ["same figures one.t1/a"] for name in equal},
    }
    again = [replace(each, row=replace(each.row, quoted=True)) for each in theirs]
    assert not any(
        "figures" in each for said in kinds(mine, again).values() for each in said
    )


def test_an_average_names_no_model_and_one_decimal_neither():
    def same_figures(mine, theirs):
        theirs = [
            replace(each, method="minilm.mean")
            for each in printed("two.t1", "b", **theirs)
        ]
        return kinds(printed("one.t1", "a", **mine), theirs)

    three = {"sts12": "1.10", "sts13": "2.20", "sts14": "3.30"}
    assert len(same_figures(three, three)) == 6
    two_and_average = {"sts12": "1.10", "sts13": "2.20", "avg": "3.30"}
    assert same_figures(two_and_average, two_and_average) == {}
    with_average = {"avg": "9.90", "sick_r": "9.90", **three}
    assert len(same_figures(with_average, {"avg": "9.90", **three})) == 6
    rounded = {"sts12": "1.1", "sts13": "2.2", "sts14": "3.3"}
    assert same_figures(three, rounded) == {}


def test_numbers_over_runs_and_of_no_model_have_no_standing():
    theirs = printed("two.t1", "b", sts12="39.70")
    [mine] = printed("one.t1", "a", sts12="39.70")
    assert len(kinds([mine], theirs)) == 2
    for change in ({"statistic": "mean", "n": 5}, {"model_free": True}):
        other = replace(mine, row=replace(mine.row, **change))
        assert kinds([other], theirs) == {}
        # Nor have rows of them, which quote others.
        digits = {"sts12": "39.70", "sts13": "2.22", "sts14": "3.33"}
        quotation = [
            replace(each, row=replace(each.row, **change))
            for each in printed("one.t1", "quoted", **digits)
        ]
        assert kinds(quotation, printed("two.t1", "b", **digits)) == {}


# Quotations without a method, and beside scores of another text form.
READ_OTHERWISE = {
    "mirror-bert.readme/sentence-bert/avg",
    "simcse.t5/glove-embeddings-avg/sts-b",
}


def test_a_standing_is_between_numbers_of_one_metric_and_the_same_tasks():
    for name, standings in STANDINGS.items():
        number = NUMBERS[name]
        assert number.is_of_one_run, name
        for standing in standings:
            other = standing.other
            assert number.data_sets == other.data_sets, name
            assert number.protocol.metric == other.protocol.metric, name
            difference = other.score - number.score
            assert standing.difference == pytest.approx(difference, abs=1e-8), name
            if standing.kind is StandingKind.CONFIRMED:
                assert work_of(number) != work_of(other), name
                assert not number.row.quoted, name
                assert not other.row.quoted, name
            if standing.kind is StandingKind.QUOTED and name not in READ_OTHERWISE:
                protocol = attrgetter("method", "task", "aggregation", "evidence")
                assert protocol(number) == protocol(other), name
            if number.row.quoted or standing.kind is StandingKind.SAME_FIGURES:
                continue
            assert number.method == other.method, name
            assert number.tasks == other.tasks, name


def test_numbers_of_tasks_that_are_not_here_stay_apart_in_their_row():
    kept = [
        number.id
        for row in published_rows(NUMBERS.values())
        for number in row.numbers.values()
    ]
    without_task = {number.id for number in NUMBERS.values() if not number.tasks}
    assert without_task <= set(kept)
