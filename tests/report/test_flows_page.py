"""The page of flows and linear maps: every cell or a word, and an answer that follows from them."""

import re
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import DataError
from harness.core.toml import read_typed
from harness.core.types import Record
from harness.registry import load_registry
from harness.report.build import stale_files, write_files
from harness.report.flows import answer, flows_page
from harness.results.claims import ClaimOutcome, Decision
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.protocols import LABELS, SEVEN
from harness.results.questions import NONE, MapComparison, Maps, Question
from harness.results.records import SCHEMA, Store

COMMITTED = Path(__file__).parents[2] / "results"
MAPS = """
linear = ["sn", "whitening"]
flows = ["flow", "flow:rare"]
[[question]]
text = "Is a linear map enough?"
first = "whitening"
second = "flow"
[[question]]
text = "Does rarity matter?"
first = "flow:rare"
second = "flow"
"""
SEEDS = (-0.2, -0.1, 0.0, 0.1, 0.2)
SD = np.std(SEEDS, ddof=1)
H = 2.7764451 * SD / np.sqrt(5)  # Student's t with 4 degrees of freedom at .975
TWO = 2.3060041 * SD * np.sqrt(2 / 5)  # with 8, for the difference of two means


def records(method: str, task: str, *wmean: float, every: float = 50.0) -> list[Record]:
    """One a seed; under `all` each seed has the same."""
    return [
        Record(
            SCHEMA,
            method,
            "",
            task,
            seed,
            {"spearman": {"wmean": one, "all": every}},
            9,
            {},
            {},
            {},
        )
        for seed, one in enumerate(wmean)
    ]


def seeded(method: str, task: str, mean: float) -> list[Record]:
    return records(method, task, *(mean + step for step in SEEDS))


def results(*every: list[Record]) -> Results:
    by_cell: dict[tuple[str, str], list[Record]] = {}
    for record in chain(*every):
        by_cell.setdefault((record.method, record.task), []).append(record)
    return Results(by_cell)


@pytest.fixture
def maps(tmp_path) -> Maps:
    path = tmp_path / "flows.toml"
    path.write_text(MAPS)
    return read_typed(Maps, path)


def lines(page: str, start: str) -> list[list[str]]:
    found = [line for line in page.splitlines() if line.startswith(f"| {start} ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found]


FOUR = (
    records("x.mean", "sts-b", 60.0),
    records("x.mean+sn@target", "sts-b", 61.0),
    records("x.mean+whitening@target", "sts-b", 62.0),
    seeded("x.mean+flow@target", "sts-b", 63.0),
)
ENOUGH = "**Is a linear map enough?** `whitening` minus `flow`: "


def answers_of(page: str, question: str = ENOUGH) -> list[str]:
    return [line[2:].removeprefix(question) for line in page.splitlines() if question in line]


def test_every_cell_is_a_mean_with_its_spread_or_a_word(maps):
    page = flows_page(results(*FOUR), maps)
    assert "## `x.mean`, fitted on `target`" in page
    wmean, every = lines(page, "`flow`")
    at = [*LABELS].index("sts-b")
    assert wmean[:2] == ["`flow`", "flow"]
    assert wmean[2:9] == [*["not run"] * at, f"63.00 ± {SD:.2f}", *["not run"] * (6 - at)]
    assert wmean[9] == "–"
    assert every[2 + at] == "50.00 ± 0.00"
    assert [row[2 + at] for row in lines(page, "none")] == ["60.00", "50.00"]
    assert lines(page, "`sn`")[0][:2] == ["`sn`", "linear"]


def test_maps_that_were_not_run_are_named_beneath_the_table(maps):
    assert flows_page(results(*FOUR), maps).count("Not run on these encodings: `flow:rare`.") == 2
    some = flows_page(results(FOUR[3]), maps)
    assert "Not run on these encodings: none, `sn`, `whitening`, `flow:rare`." in some
    rare = seeded("x.mean+flow:rare@target", "sts-b", 70.0)
    assert "Not run" not in flows_page(results(*FOUR, rare), maps)


def test_a_planned_flow_has_a_row_before_it_is_run(maps):
    planned = replace(maps, planned=("flow:rare",), planned_on=("x.mean@target",))
    page = flows_page(results(*FOUR, seeded("y.mean+flow@target", "sts-b", 1.0)), planned)
    own, other = page.split("## `y.mean`, fitted on `target`")
    unmeasured = ["`flow:rare`", "flow", *["not run"] * 7, "–", "not measured"]
    assert lines(own, "`flow:rare`") == [unmeasured] * 2
    assert "Not run on these encodings" not in own
    assert "Not run on these encodings: none, `sn`, `whitening`, `flow:rare`." in other


def test_the_cost_of_a_fit_is_its_mean_on_sts_b(maps):
    timed = [
        replace(record, timings={"fit": seconds})
        for record, seconds in zip(FOUR[3], (2.0, 2.0, 4.0, 4.0, 3.2), strict=True)
    ]
    other = [replace(record, task="sts12", timings={"fit": 99.0}) for record in timed]
    page = flows_page(results(*FOUR[:3], timed, other), maps)
    assert [row[-1] for row in lines(page, "`flow`")] == ["3.0 s"] * 2
    assert [row[-1] for row in lines(page, "`sn`")] == ["not measured"] * 2
    assert [row[-1] for row in lines(page, "none")] == ["–"] * 2
    half = [timed[0], *FOUR[3][1:]]
    assert lines(flows_page(results(half), maps), "`flow`")[0][-1] == "not measured"


def test_what_is_planned_is_a_flow(tmp_path):
    path = tmp_path / "flows.toml"
    path.write_text('planned = ["flow", "sn", "other"]\n' + MAPS)
    with pytest.raises(DataError, match=r"wanted some of the flows, found sn, other$"):
        read_typed(Maps, path)


def test_an_answer_compares_the_two_maps_that_were_chosen_in_advance(maps):
    """The best linear map and the best flow have no part in it."""
    best = records("x.mean+sn@target", "sts-b", 99.0), seeded("x.mean+flow:rare@target", "sts-b", 9)
    wmean, _ = answers_of(flows_page(results(*FOUR, *best), maps))
    said = f"STS-B -1.00 ± {H:.2f}; -1.00 on average: `whitening` is ahead on 0, `flow` on 1, of "
    assert wmean == f"{said}1 task."


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (62.0 - H - 0.01, "`whitening` is ahead on 1, `flow` on 0, of 1 task."),
        (62.0 - H + 0.01, "no task is decided."),
        (62.0 + H - 0.01, "no task is decided."),
        (62.0 + H + 0.01, "`whitening` is ahead on 0, `flow` on 1, of 1 task."),
    ],
)
def test_a_task_is_decided_beyond_the_interval_over_seeds(maps, flow, said):
    page = flows_page(results(*FOUR[:3], seeded("x.mean+flow@target", "sts-b", flow)), maps)
    assert answers_of(page)[0].endswith(f" on average: {said}")


@pytest.mark.parametrize(("gap", "decided"), [(TWO + 0.01, True), (TWO - 0.01, False)])
def test_two_flows_are_compared_by_the_spread_of_both(maps, gap, decided):
    rare = seeded("x.mean+flow:rare@target", "sts-b", 63.0 + gap)
    page = flows_page(results(FOUR[3], rare), maps)
    (found, _) = answers_of(page, "**Does rarity matter?** `flow:rare` minus `flow`: ")
    assert f"± {TWO:.2f}" in found
    assert ("`flow:rare` is ahead on 1" in found) == decided


def test_an_undecided_task_counts_for_neither_side(maps):
    found = (
        *FOUR,
        records("x.mean+whitening@target", "sick-r", 70.0),
        seeded("x.mean+flow@target", "sick-r", 65.0),
        records("x.mean+whitening@target", "sts16", 70.0),
        seeded("x.mean+flow@target", "sts16", 70.0 - H + 0.01),
        records("x.mean+whitening@target", "sts12", 10.0),
    )
    wmean = answers_of(flows_page(results(*found), maps))[0]
    assert "STS12" not in wmean
    assert "`whitening` is ahead on 1, `flow` on 1, of 3 tasks; undecided: STS16." in wmean
    assert f"{(5 - 1 + H - 0.01) / 3:+.2f} on average" in wmean


@pytest.mark.parametrize("seeds", [1, 2, 4])
def test_a_flow_of_few_seeds_says_so_and_decides_nothing(maps, seeds):
    found = (*FOUR[:3], records("x.mean+flow@target", "sts-b", *[70.0] * seeds))
    page = flows_page(results(*found), maps)
    assert f"(k={seeds})" in page
    assert "STS-B -8.00 (too few seeds); -8.00 on average: no task is decided." in page


def test_a_score_that_is_undefined_takes_no_part(maps):
    found = (*FOUR[:3], records("x.mean+flow@target", "sts-b", *[None] * 5))
    page = flows_page(results(*found), maps)
    assert "undefined" in page
    (found,) = answers_of(page)  # under `all` it is defined
    assert found.startswith("STS-B +0.00 ± 0.00;")
    assert page.count("no answer yet") == 1


def test_without_both_maps_of_a_question_there_is_no_answer(maps):
    page = flows_page(results(FOUR[0], FOUR[3]), maps)
    assert page.count("No question has both of its maps measured: no answer yet.") == 2


def test_each_pooling_and_fit_corpus_has_a_section_of_its_own(maps):
    found = (*FOUR, seeded("x:64.cls+flow@nli", "sts-b", 60.0))
    page = flows_page(results(*found), maps)
    assert re.findall(r"^## (.*)$", page, re.M) == [
        "`whitening` beside every flow",
        "`x.mean`, fitted on `target`",
        "`x:64.cls`, fitted on `nli`",
    ]
    assert len(lines(page, "`sn`")) == 2  # of the first section alone


def test_the_overview_counts_the_tasks_that_are_decided(maps):
    """STS-B is decided for the flow, STS12 for whitening, STS16 not; SICK-R has one of both."""
    found = (
        *FOUR,
        records("x.mean+whitening@target", "sts12", 64.0),
        seeded("x.mean+flow@target", "sts12", 61.0),
        records("x.mean+whitening@target", "sts16", 50.0),
        seeded("x.mean+flow@target", "sts16", 50.0 + H / 2),
        records("x.mean+whitening@target", "sick-r", 90.0),
        seeded("x:64.cls+flow@nli", "sts-b", 60.0),
    )
    page = flows_page(results(*found), maps)
    first, second = lines(page, "`x.mean`")
    mean = (3 - 1 - H / 2) / 3
    assert first == ["`x.mean`", "`target`", "`wmean`", f"{mean:+.2f} (1, 1)"]
    assert second[2:] == ["`all`", "+0.00 (0, 0)"]
    assert lines(page, "`x:64.cls`") == []  # without whitening


def test_without_a_flow_there_is_no_page(maps):
    assert flows_page(results(*FOUR[:3]), maps) is None


@pytest.mark.parametrize(
    "text",
    ["", "linear = [", "other = []\n" + MAPS, MAPS.replace('["sn", "whitening"]', '"sn"')],
)
def test_a_file_of_other_keys_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "flows.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=r"^flows\.toml: [^\n]*$"):
        read_typed(Maps, path)


def test_the_committed_lists_are_linear_and_not(tmp_path):
    """A map that a mean and a covariance suffice is affine, every other one is not."""
    found, maps = load_registry(), read_typed(Maps, COMMITTED / "questions" / "flows.toml")
    listed = (*maps.linear, *maps.flows)
    kinds = {name: all(post.from_moments for post in posts_of(found, name)) for name in listed}
    assert kinds == {name: name in maps.linear for name in listed}
    registered = {
        m.id.partition("+")[2].partition("@")[0] for m in found.methods.values() if m.post
    }
    not_linear = {c for c in registered if not all(p.from_moments for p in posts_of(found, c))}
    assert not_linear <= {*maps.flows}
    encoded = {method.id.partition("+")[0] for method in found.methods.values()}
    assert {on.partition("@")[0] for on in maps.planned_on} <= encoded
    compared = {chain for asked in maps.questions for chain in (asked.first, asked.second)}
    assert compared <= {NONE, *listed}


def posts_of(found, chain):
    return found.parse(f"minilm.mean+{chain}@target").post


def test_the_page_is_written_and_checked_with_the_others(tmp_path):
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "sif.t1.toml").write_bytes((COMMITTED / "papers" / "sif.t1.toml").read_bytes())
    maps = tmp_path / "questions" / "flows.toml"
    maps.parent.mkdir()
    maps.write_text(MAPS)
    store = Store(tmp_path)
    for record in chain(*FOUR):
        store.write(record, np.zeros(1), {})
    assert tmp_path / "tables" / "flows.md" in write_files(ResultsFolder(tmp_path), None)
    assert stale_files(ResultsFolder(tmp_path), None) == []
    maps.unlink()
    assert stale_files(ResultsFolder(tmp_path), None) == [tmp_path / "tables" / "flows.md"]


def test_the_answer_has_a_number_for_every_task():
    asked = Question("Which?", "sn", "flow")
    ahead = Decision(ClaimOutcome.HOLDS, 1.0, (0.5, 1.5), "seeds")
    found = answer(MapComparison(asked, dict.fromkeys(SEVEN, ahead)))
    assert all(f"{label} +1.00 ± 0.50" in found for label in LABELS.values())
    assert "`sn` is ahead on 7, `flow` on 0, of 7 tasks." in found
