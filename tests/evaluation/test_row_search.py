"""How a search decides, on scores that are given: nothing is encoded here."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from harness.conclusions.found_protocols import Choice
from harness.core.errors import AssetMissing, UsageError
from harness.evaluation import row_search
from harness.evaluation.protocol import Model, Prompt, Protocol, Target
from harness.evaluation.row_search import search_row
from harness.evaluation.search import Missing, Search
from harness.registry import load_registry
from harness.report.row_search import row_search_lines
from harness.results.verdict import TOLERANCES, CellState, Published
from harness.transforms.pooling import CLS, FIRST_LAST, MAX

REGISTRY = load_registry()
METHOD = REGISTRY.parse("bert-mini.mean")
PAIRS = {"sts16": 1186, "sts-b": 1379, "sts13": 1500, "sts14": 3750}
TASKS = [REGISTRY.tasks[name] for name in PAIRS]


class Given(Search):
    """A search whose scores are computed by `points` from a protocol and a task's name.

    `uncached` are settings and values whose texts have to be encoded, of all tasks or of
    the one that follows.
    """

    def __init__(self, points, uncached=(), modules=None, **options):
        texts = lambda task: SimpleNamespace(pairs=range(PAIRS[task.name]))  # noqa: E731
        loader = SimpleNamespace(texts=texts, places=None)
        model = Model(METHOD, modules)
        super().__init__(model, SimpleNamespace(loader=loader), REGISTRY, **options)
        self.points, self.uncached = points, [*uncached]
        self.asked, self.notes, self.offered, self.looked_at = [], [], [], set()
        self.note = self.notes.append
        self.texts = 3

    def depth(self):
        return 4

    def choices(self, *_):
        return self.offered

    def encoder(self, _):
        return SimpleNamespace(cache=SimpleNamespace(rate=10.0))

    def lacks(self, protocol, stated):
        self.looked_at.add(stated.name)
        is_uncached = any(
            getattr(protocol, setting) == value and task in ([], [stated.name])
            for setting, value, *task in self.uncached
        )
        return Missing(texts=self.texts, characters=600) if is_uncached else Missing()

    def measure(self, cells):
        """Nothing is measured."""

    def scores(self, protocol, stated):
        self.asked.append((protocol, stated.name))
        points = self.points(protocol, stated.name)
        if points is None:
            raise AssetMissing("not here")
        return {"spearman": {"all": points}}


def targets_of(points, tasks=TASKS, decimals=2, is_fixed=False):
    """The numbers of a row whose scores are these, or those of a function of a task's name."""
    made = []
    for task in tasks:
        point = points if isinstance(points, float) else points(task.name)
        number = Published(f"{point:.{decimals}f}")
        target = Target(
            task.name, task, "cosine", "spearman", "all", (number,), is_fixed
        )
        made.append(target)
    return made


def first(count):
    return Choice("dimensions", count, f"the first {count}")


def cut(length):
    return Choice("max_length", length, f"max length {length}")


SIXTEEN, EIGHT, HALF = first(16), first(8), Choice("dtype", "bfloat16", "bfloat16")
PADDED = Choice("padded_to", 64, "padded")


def spread(protocol, name):
    """Scores that no two protocols share."""
    return (
        50
        + 3 * PAIRS[name] / 1000
        + (protocol.dimensions or 0)
        + (protocol.max_length or 0) / 4
        + protocol.padded_to / 100
    )


def under(*choices):
    """The scores of a protocol with these choices, by task."""
    protocol = Protocol(Model(METHOD)).changed(choices)
    return lambda name: spread(protocol, name)


def found_words(search, targets, choices):
    return [each.words for each in search_row(search, targets, choices=choices).given]


# Stages: what is cached before what is not, one choice before two


def test_one_choice_comes_before_two_and_the_stated_protocol_before_both():
    choices = [SIXTEEN, EIGHT, PADDED]
    for wanted in ((), (EIGHT,), (PADDED,), (SIXTEEN, PADDED)):
        found = search_row(Given(spread), targets_of(under(*wanted)), choices=choices)
        assert [each.choices for each in found.given] == [wanted]
        assert (found.is_found, found.state) == (True, CellState.EXACT)
        # Of the first task: the stated protocol, three single choices, two pairs of settings.
        assert found.tried == (6 if len(wanted) == 2 else 4)
        assert (found.columns, found.encodings, found.left_out) == (4, 0, 0)
        assert found.nearly == ()
    found = search_row(Given(spread), targets_of(under(first(99))), choices=choices)
    assert (found.given, found.tried) == ((), 6)


def test_a_row_that_the_stated_method_gives_is_found_though_nothing_else_was_tried():
    found = search_row(Given(spread), targets_of(under()), choices=[])
    assert (found.is_found, found.tried) == (True, 1)
    [answer, *_] = row_search_lines("row", found)
    assert "the method as it is stated gives the digits of all 4 numbers" in answer


def test_other_lengths_are_opened_only_if_nothing_else_gives_the_numbers():
    choices = [cut(32), SIXTEEN]
    search = Given(spread)
    assert found_words(search, targets_of(under(SIXTEEN)), choices) == ["the first 16"]
    assert {protocol.max_length for protocol, _ in search.asked} == {None}
    targets = targets_of(under(cut(32)))
    assert found_words(Given(spread), targets, choices) == ["max length 32"]


def test_nothing_is_encoded_where_the_cache_answers_and_two_choices_are_of_the_cache():
    uncached = [("dimensions", 16)]
    choices = [SIXTEEN, EIGHT, PADDED]
    search = Given(spread, uncached)
    both = targets_of(under(EIGHT, PADDED))
    assert found_words(search, both, choices) == ["the first 8 and padded"]
    assert all(protocol.dimensions != 16 for protocol, _ in search.asked)
    # Two choices are not encoded for, where the choices are given.
    search = Given(spread, uncached)
    found = search_row(search, targets_of(under(SIXTEEN, PADDED)), choices=choices)
    assert (found.given, found.encodings, found.left_out) == ((), 1, 0)
    search = Given(spread, uncached)
    found = search_row(search, targets_of(under(SIXTEEN)), choices=choices)
    assert [each.choices for each in found.given] == [(SIXTEEN,)]
    # Those of two choices that were tried before it do not count.
    assert (found.encodings, found.tried) == (1, 4)


def test_what_is_cached_is_asked_of_the_two_smallest_tasks():
    *_, third = (each.name for each in TASKS[:3])
    for task, count in ((TASKS[0].name, 1), (TASKS[1].name, 1), (third, 0)):
        search = Given(spread, [("dimensions", 16, task)])
        targets = targets_of(under(SIXTEEN))
        assert search_row(search, targets, choices=[SIXTEEN]).encodings == count
        assert search.looked_at == {each.name for each in TASKS[:2]}


def test_no_more_is_encoded_than_is_allowed_and_what_is_left_out_is_counted():
    lengths = [cut(64), cut(32), cut(16)]
    uncached = [("max_length", choice.value) for choice in lengths]
    targets = targets_of(under(cut(16)))
    for most in (0, 1, 2):
        search = Given(spread, uncached, most_encodings=most)
        found = search_row(search, targets, choices=lengths)
        assert found.given == ()
        assert (found.encodings, found.left_out) == (most, 3 - most)
        assert len(search.notes) == (most > 0)
    search = Given(spread, uncached, most_encodings=3)
    assert found_words(search, targets, lengths) == ["max length 16"]
    # What an encoding has brought into the cache is compared without another one.
    search = Given(spread, uncached, most_encodings=1)
    lacks = search.lacks

    def lacks_until_asked(protocol, stated):
        has_encoded = any(asked.max_length == 64 for asked, _ in search.asked)
        is_brought = has_encoded and protocol.max_length == 16
        return Missing() if is_brought else lacks(protocol, stated)

    search.lacks = lacks_until_asked
    found = search_row(search, targets, choices=lengths)
    assert [each.words for each in found.given] == ["max length 16"]
    assert (found.encodings, found.left_out) == (1, 1)
    # What shares the texts of an encoding costs none of its own.
    search = Given(spread, [("dtype", "bfloat16")], most_encodings=1)
    choices = [HALF, first(32)]
    assert found_words(search, targets_of(under(first(32))), choices)


def test_what_is_going_to_be_encoded_is_said_with_its_time():
    uncached = [("max_length", 64), ("max_length", 32)]
    targets = targets_of(under(first(7)))
    for most, texts, said in (
        (None, 3, "2 encodings of sts16 (6 texts that are not cached), about 2 min"),
        (1, 3, "1 encoding of sts16 (3 texts that are not cached), about 60 s"),
        (1, 1, "1 encoding of sts16 (1 text that is not cached), about 60 s"),
    ):
        search = Given(spread, uncached, most_encodings=most)
        search.texts = texts
        search_row(search, targets, choices=[cut(64), cut(32)])
        [note] = search.notes
        assert said in note


def test_what_explained_an_earlier_row_is_encoded_for_first():
    lengths = [cut(64), cut(32), cut(16)]
    uncached = [("max_length", choice.value) for choice in lengths]
    search = Given(spread, uncached)
    targets = targets_of(under(cut(16)))
    assert search_row(search, targets, choices=lengths).encodings == 3
    assert search.likely == [(cut(16),)]
    found = search_row(search, targets, choices=lengths)
    assert (found.encodings, found.left_out) == (1, 2)
    assert search_row(search, targets, choices=lengths[:2]).encodings == 2
    assert search_row(search, targets_of(under(cut(32))), choices=lengths).given
    assert search.likely[:2] == [(cut(32),), (cut(16),)]


def test_what_is_given_by_chance_after_an_encoding_is_shown_and_not_found():
    [coarse] = targets_of(under(cut(16)), TASKS[:1], decimals=0)
    search = Given(spread, [("max_length", 16), ("max_length", 32)])
    found = search_row(search, [coarse], choices=[cut(16), cut(32)])
    assert [each.words for each in found.given] == ["max length 16"]
    assert not found.is_found
    assert (found.tried, found.encodings, found.left_out) == (3, 2, 0)
    [answer, *_] = row_search_lines("sts16", found)
    assert "1 of 3 protocols gives this number" in answer
    assert "a single column cannot decide" in answer


def test_a_model_with_modules_is_tried_with_two_choices_and_with_mtebs_prompts(
    monkeypatch,
):
    query = Choice("prompt", Prompt("asked", "query: "), "the prompt 'query: '")
    told = Choice("prompt", Prompt("mteb-STS", "compare: "), "mteb's prompt")
    pooling = Choice("pooling", CLS, "pooling cls")
    monkeypatch.setattr(row_search, "prompts_of_mteb", lambda *_: [told])
    modules = SimpleNamespace(prompts={"asked": "query: "})

    def points(protocol, name):
        prompt = "" if protocol.prompt is None else protocol.prompt.text
        return PAIRS[name] / 100 + len(prompt) + 5 * (protocol.pooling == CLS)

    uncached = [("prompt", query.value), ("prompt", told.value), ("pooling", CLS)]
    for choices, wanted in (((query, pooling), 4), ((told,), 5)):
        protocol = Protocol(Model(METHOD)).changed(choices)
        targets = targets_of(lambda name: points(protocol, name))  # noqa: B023
        search = Given(points, uncached, modules)
        search.offered = [query, pooling]
        found = search_row(search, targets)
        assert [each.choices for each in found.given] == [choices]
        assert found.encodings == wanted - 1
        # Those of a model without modules have no prompts.
        search = Given(points, uncached)
        search.offered = [query, pooling]
        assert not search_row(search, targets).given
    # What was encoded for single choices counts.
    search = Given(points, uncached, modules, most_encodings=2)
    search.offered = [query, pooling]
    found = search_row(search, targets)
    assert (found.encodings, found.left_out) == (2, 2)
    assert len([note for note in search.notes if "at most" in note]) == 1
    notes = [note for note in search.notes if "from the cache" in note]
    assert notes == [
        "1 protocol with one other choice, from the cache",
        "0 protocols with two other choices, from the cache",
    ]


# Comparison


def test_the_smallest_task_is_asked_first_and_few_protocols_get_beyond_it():
    search = Given(spread)
    targets = targets_of(under(EIGHT), [TASKS[3], TASKS[0], TASKS[2]])
    search_row(search, targets, choices=[SIXTEEN, EIGHT])
    asked = [name for _, name in search.asked]
    assert asked == ["sts16"] * 3 + ["sts13", "sts14"]


def test_a_match_counts_on_several_tasks_and_the_digits_are_preferred():
    near = 0.9 * TOLERANCES.match
    for tasks, words in ((TASKS[:1], []), (TASKS[:2], ["the first 8"])):
        targets = targets_of(lambda name: under(EIGHT)(name) + near, tasks)
        found = search_row(Given(spread), targets, choices=[EIGHT])
        assert [each.words for each in found.given] == words
        assert found.state == (CellState.MATCH if words else None)

    def points(protocol, name):
        return spread(protocol, name) % 8 + near * (protocol.dimensions == 16)

    wanted = Protocol(Model(METHOD)).changed([EIGHT])
    targets = targets_of(lambda name: points(wanted, name))
    choices = [SIXTEEN, EIGHT]
    search = Given(points, [("dimensions", None)])
    found = search_row(search, targets, choices=choices)
    assert [each.words for each in found.given] == ["the first 8"]
    # A row is a match if one of its numbers is.
    targets[1] = targets_of(points(wanted, targets[1].task.name) + near, TASKS[1:2])[0]
    found = search_row(search, targets, choices=[EIGHT])
    assert (len(found.given), found.state) == (1, CellState.MATCH)


def test_half_precision_is_told_by_the_digits_alone():
    near = 0.9 * TOLERANCES.match

    def points(protocol, name):
        return spread(protocol, name) + 4 * (protocol.dtype == "bfloat16")

    for move, words in ((0.0, ["bfloat16"]), (near, [])):
        targets = targets_of(lambda name: spread(STATED, name) + 4 + move)  # noqa: B023
        assert found_words(Given(points), targets, [HALF]) == words
        # Of two choices, too.
        targets = targets_of(lambda name: under(EIGHT)(name) + 4 + move)  # noqa: B023
        both = [f"the first 8 and {each}" for each in words]
        assert found_words(Given(points), targets, [EIGHT, HALF]) == both


STATED = Protocol(Model(METHOD))


@pytest.mark.parametrize(("count", "remembered"), [(3, 0), (4, 1)])
def test_one_number_of_four_tasks_may_be_a_misprint(count, remembered):
    tasks = TASKS[:count]
    targets = targets_of(under(EIGHT), tasks)
    targets[1] = targets_of(under(EIGHT)(tasks[1].name) + 9, tasks[1:2])[0]
    found = search_row(Given(spread), targets, choices=[SIXTEEN, EIGHT])
    assert found.given == ()
    assert len(found.nearly) == remembered
    for finding in found.nearly:
        assert (finding.words, finding.missed) == ("the first 8", (tasks[1].name,))
        text = "\n".join(row_search_lines("row", found))
        assert f"All but {tasks[1].name} are given by the first 8" in text
    targets[2] = targets_of(under(EIGHT)(tasks[2].name) + 9, tasks[2:3])[0]
    found = search_row(Given(spread), targets, choices=[SIXTEEN, EIGHT])
    assert found.nearly == ()


def test_a_protocol_that_cannot_be_measured_on_a_task_gives_no_row():
    def points(protocol, name):
        return (
            None if protocol.dimensions and name == "sts14" else spread(protocol, name)
        )

    found = search_row(Given(points), targets_of(under(EIGHT)), choices=[EIGHT])
    assert (found.given, found.nearly) == ((), ())

    [of_another_score] = targets_of(under(), TASKS[1:2])
    of_another_score = replace(of_another_score, correlation="pearson")
    targets = [*targets_of(under(), TASKS[:1]), of_another_score]
    assert search_row(Given(spread), targets, choices=[]).given == ()

    def unknown(protocol, _):
        if protocol.dimensions == 8:
            raise UsageError("no such setting")
        return Missing()

    search = Given(spread)
    search.lacks = unknown
    found = search_row(search, targets_of(under(EIGHT)), choices=[EIGHT, SIXTEEN])
    assert (found.given, found.tried, found.left_out) == ((), 2, 0)


def test_many_decimals_are_held_to_what_runs_years_apart_share():
    [target] = targets_of(50.0, TASKS[:1], decimals=6)
    fixed = replace(target, is_fixed=True)
    coarse = targets_of(50.0, TASKS[:1])[0]
    for off, given in ((4.5e-4, True), (5.5e-4, False)):
        search = Given(lambda *_: 50.0 + off)  # noqa: B023
        assert bool(search_row(search, [target], choices=[]).given) is given
        # One that holds as it is stated, and one of two decimals, are known to 0.005.
        for other in (fixed, coarse):
            assert search_row(search, [other], choices=[]).given


def test_a_number_that_may_be_meant_in_two_ways_is_given_by_either():
    [one], [other] = (targets_of(points, TASKS[:1]) for points in (12.34, 98.76))
    either = replace(one, readings=one.readings + other.readings)
    for points in (12.34, 98.76):
        search = Given(lambda *_: points)  # noqa: B023
        assert search_row(search, [either], choices=[]).state is CellState.EXACT
    assert not search_row(Given(lambda *_: 55.0), [either], choices=[]).given


def test_numbers_that_hold_as_they_are_stated_have_to_be_given_too():
    [fixed] = targets_of(under(), TASKS[:1], is_fixed=True)
    free = targets_of(under(EIGHT), TASKS[1:2])
    assert found_words(Given(spread), [fixed, *free], [EIGHT]) == []
    [fixed] = targets_of(under(EIGHT), TASKS[:1], is_fixed=True)
    assert found_words(Given(spread), [fixed, *free], [EIGHT]) == ["the first 8"]


# Chance


def expected(scores, targets):
    """How many protocols give the numbers by chance, where each has one of the scores."""
    values = dict(enumerate(scores, start=1))

    def points(protocol, name):
        del name
        return values.get(protocol.dimensions, scores[0])

    found = search_row(
        Given(points), targets, choices=[first(count) for count in values]
    )
    return found.by_chance


def test_chance_is_the_share_of_the_range_that_has_the_digits_of_each_task():
    scores = [50.0 + step for step in range(11)]  # a range of 10 points
    [target] = targets_of(50.5, TASKS[:1])
    # A score lies within 0.005 on either side, and 11 are tried.
    assert expected(scores, [target]) == pytest.approx(11 * 0.01 / 10)
    [coarse] = targets_of(50.5, TASKS[:1], decimals=0)
    assert expected(scores, [coarse]) == pytest.approx(11 * 1.0 / 10)
    two = targets_of(49.4, TASKS[:2])
    assert expected(scores, two) == pytest.approx(11 * (0.01 / 10) ** 2)
    # Of numbers on one task the finest counts, and one that holds as it is stated does not.
    of_a_task = [target, coarse]
    assert expected(scores, of_a_task) == pytest.approx(11 * 0.01 / 10)
    [fixed] = targets_of(50.5, TASKS[:1], is_fixed=True)
    assert expected(scores, [coarse, fixed]) == pytest.approx(11 * 1.0 / 10)


def test_where_scores_crowd_around_the_first_number_chance_is_larger():
    crowd = [50.0 + 0.1 * step for step in range(1, 11)]
    scores = [0.0, *crowd, 100.0]
    [target] = targets_of(50.0, TASKS[:1])
    # Ten lie within a point, and 0.005 of a point would have the digits.
    assert expected(scores, [target]) == pytest.approx(10 * 0.005)
    assert expected(scores, targets_of(50.0, TASKS[:2])) == pytest.approx(
        10 * 0.005 * 0.01 / 100
    )


def test_equal_scores_are_tried_once_and_one_alone_may_lie_anywhere():
    scores = [50.0, 60.0, 60.0, 60.0, 60.0]
    [target] = targets_of(57.0, TASKS[:1])
    assert expected(scores, [target]) == pytest.approx(2 * 0.01 / 10)
    assert expected([50.0, 50.0], [target]) == pytest.approx(0.01 / 100)
    # Runs of one protocol differ by rounding.
    assert expected([50.0, 60.0, 60.0000001], [target]) == pytest.approx(2 * 0.01 / 10)
    # A number cannot be given by more than all.
    [coarse] = targets_of(57.0, TASKS[:1], decimals=0)
    assert expected([50.0, 50.5], [coarse]) == 2


def test_several_protocols_that_give_the_numbers_are_all_named():
    def points(protocol, name):
        return spread(protocol, name) - (protocol.dimensions or 0)

    choices = [Choice("pooling", each, each.name) for each in (CLS, MAX, FIRST_LAST)]
    found = search_row(Given(points), targets_of(under()), choices=choices)
    assert len(found.given) == 4
    assert found.given[0].choices == ()
