"""The standing of published numbers, and whose numbers a reader has."""

import json
from itertools import cycle
from operator import attrgetter

import pytest
from committed import FOLDER

from harness.conclusions.numbers import published_rows
from harness.conclusions.owners import owners_of, read_figures
from harness.conclusions.standings import StandingKind, work_of
from harness.core.errors import DataError, UsageError
from harness.report.explanation import owners_in_words
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
)
MINE = (
    "sts12=72.37,sts13=80.60,sts-b=82.03",  # of a model with copies
    "sts17=87.08,sts12=78.69",  # a task that is not here
    "avg=74.89,sts12=70.97",
    "sts12=1.23,sts13=4.56",
)


def test_standings_and_owners_are_golden(approved):
    lines = []
    for name in KNOWN:
        lines += [name, *map(standing_in_words, STANDINGS.get(name, ())), ""]
    for mine in MINE:
        lines += [mine, *owners_in_words(*owners(mine)), ""]
    assert "\n".join(lines) == approved("golden/standings.txt")


def test_most_numbers_that_are_printed_twice_have_a_standing():
    assert len(STANDINGS) >= 500


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


# Whose numbers


def owners(mine):
    figures = read_figures(mine)
    return owners_of(figures, NUMBERS.values()), len(figures)


def test_rows_that_are_moved_have_no_false_owner():
    every_third = published_rows(NUMBERS.values())[::3]
    for moved, row in zip(cycle((0.1, 0.2, 0.3)), every_third, strict=False):
        first_four = [*row.numbers.values()][:4]
        mine = ",".join(
            f"{number.column.id}={number.points + moved * (-1) ** place:.2f}"
            for place, number in enumerate(first_four)
        )
        assert len(first_four) < 4 or owners(mine)[0] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mine.csv", "STS12,STS13,STSBenchmark\n72.37,80.60,82.03\n"),
        (
            "STS12.json",
            json.dumps(
                {
                    "task_name": "STS12",
                    "scores": {"test": [{"cosine_spearman": 0.7236899999}]},
                }
            ),
        ),
    ],
)
def test_figures_are_read_from_files(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found, _ = owners(str(tmp_path / name))
    assert found[0].first.method == "minilm.mean"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name\nsomething\n", "wanted Spearman correlations in .* found none"),
        ("model,STS12\nmine,72.37\nother,72.63\n", "one model in one row .* 2 rows"),
    ],
)
def test_a_file_without_the_figures_of_one_model_is_refused(tmp_path, text, complaint):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_figures(str(tmp_path / "mine.csv"))


def test_a_repeated_column_is_refused():
    with pytest.raises(UsageError, match="one number a column"):
        read_figures("sts12=1.0,STS12=2.0")
