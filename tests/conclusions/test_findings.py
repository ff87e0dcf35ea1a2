"""Misprints and protocols that measuring found: what the pages say has to hold."""

from types import SimpleNamespace

import pytest
from committed import FOLDER

from harness.conclusions.findings import Misprint, averages_with
from harness.results.verdict import CellState


@pytest.mark.parametrize(
    "misprint", FOLDER.misprints, ids=lambda misprint: misprint.number.id
)
def test_a_misprint_alone_differs_from_what_is_measured(misprint):
    source = misprint.source
    if not misprint.reproduction.scores or (source and not source.scores):
        pytest.skip("it is not measured")
    assert misprint.is_measured


@pytest.mark.parametrize(
    "found",
    FOLDER.found_protocols,
    ids=lambda found: f"{found.table.id}/{found.row.id}",
)
def test_a_measured_protocol_gives_all_numbers_of_its_row(found):
    assert found.row.note, "the note says what was taken before"
    assert found.as_printed == len(found.reproductions)


def test_who_quotes_a_misprint_stands_with_it_and_is_none_of_its_own():
    quotations = {each.id for one in FOLDER.misprints for each in one.quoted_by}
    assert "bert-flow.t2/avg-bert-embeddings-quoted/sts14" in quotations
    assert not quotations & {each.number.id for each in FOLDER.misprints}


def measured(state):
    """A number that was measured, with its verdict."""
    return SimpleNamespace(scores=(1.0,), state=state)


def test_one_neighbour_that_differs_leaves_a_misprint_in_doubt():
    exact, differs = measured(CellState.EXACT), measured(CellState.DIFFERS)
    not_run = SimpleNamespace(scores=(), state=CellState.NOT_RUN)
    for of_number, neighbours, source, expected in (
        (differs, [exact, exact], None, True),
        (differs, [exact, differs], None, False),
        (differs, [], None, False),
        (exact, [exact, exact], None, False),
        (not_run, [exact, exact], None, False),
        # Of a quotation, the number that it quotes decides.
        (differs, [exact, differs], exact, True),
        (exact, [exact, exact], exact, False),
        (differs, [exact, differs], not_run, False),
    ):
        misprint = Misprint(
            reproduction=of_number,
            neighbours=neighbours,
            quoted_by=(),
            averages=(),
            source=source,
        )
        assert misprint.is_measured is expected


def number(column, points, average_of=()):
    """A printed number of two decimals, as far as an average asks for it."""
    return SimpleNamespace(
        column=SimpleNamespace(id=column, average_of=average_of),
        points=points,
        half_unit=0.005,
    )


def test_an_average_inherits_a_misprint_if_it_is_the_mean_with_it():
    wrong, right = number("a", 57.98), number("b", 38.78)
    columns = ("a", "b")
    inheriting = number("avg", 48.38, columns)
    of_right_numbers = number("avg", 43.73, columns)
    of_others = number("avg", 38.78, ("b",))
    incomplete = number("avg", 48.38, ("a", "b", "c"))
    for average, expected in (
        (inheriting, [inheriting]),
        (of_right_numbers, []),
        (of_others, []),
        (incomplete, []),
    ):
        assert averages_with(wrong, [wrong, right, average]) == expected
