"""Published numbers next to each other: those that differ in one choice."""

from committed import FOLDER

from harness.conclusions.numbers import NEIGHBOURS_SHOWN, Neighbourhoods, accident_rank
from harness.results.protocols import Protocol

NUMBERS = [*FOLDER.published_numbers.values()]


def neighbours_among_all(number):
    """The definition: every published number is compared with this one."""
    found = {}
    for other in NUMBERS:
        is_candidate = other.data_sets == number.data_sets and other.is_of_one_run
        if not is_candidate or not other.is_of_encoder(number):
            continue
        changes = number.protocol.changes(other.protocol)
        if len(changes) == 1:
            [(choice, value)] = changes.items()
            found.setdefault((choice, value, other.score), other)
    in_order = sorted(found, key=lambda change: accident_rank(change[0]))
    return [found[change] for change in in_order[:NEIGHBOURS_SHOWN]]


def test_neighbours_are_those_of_a_comparison_with_every_published_number():
    with_neighbours = 0
    for number in NUMBERS[::23]:
        expected = neighbours_among_all(number)
        assert [*FOLDER.neighbourhoods.of(number)] == expected
        with_neighbours += bool(expected)
    assert with_neighbours > 20


def test_ten_times_the_numbers_take_ten_times_as_long_at_most(monkeypatch):
    compared = []
    changes = Protocol.changes
    monkeypatch.setattr(
        Protocol,
        "changes",
        lambda self, other: compared.append(self) or changes(self, other),
    )
    counts = []
    for copies in (1, 10):
        compared.clear()
        numbers = NUMBERS[::5] * copies
        neighbourhoods = Neighbourhoods(numbers)
        for number in numbers:
            neighbourhoods.of(number)
        counts.append(len(compared))
    assert 0 < counts[1] <= 10 * counts[0]
