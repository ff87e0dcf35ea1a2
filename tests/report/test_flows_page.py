"""The page of flows and linear maps: every cell or a word, and an answer that follows from them."""

import re
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import DataError
from harness.core.toml import read_toml
from harness.core.types import Record
from harness.registry import load_registry
from harness.report.build import stale_files, write_files
from harness.report.flows import answer, flows_page
from harness.results.index import Results
from harness.results.map_comparisons import MapComparison, Maps
from harness.results.protocols import BERT_FLOW, LABELS, SEVEN
from harness.results.records import SCHEMA, Store

COMMITTED = Path(__file__).parents[2] / "results"
MAPS = 'linear = ["sn", "whitening"]\nflows = ["flow", "nice"]\nmeasured = ["flow:rare"]\n'
SEEDS = (-0.2, -0.1, 0.0, 0.1, 0.2)
SD = np.std(SEEDS, ddof=1)
H = 2.7764451 * SD * np.sqrt(1 + 1 / 5)  # Student's t with 4 degrees of freedom at .975


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
    return read_toml(Maps, path)


def lines(page: str, start: str) -> list[list[str]]:
    found = [line for line in page.splitlines() if line.startswith(f"| {start} ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found]


FOUR = (
    records("x.mean", "sts-b", 60.0),
    records("x.mean+sn@target", "sts-b", 61.0),
    records("x.mean+whitening@target", "sts-b", 62.0),
    seeded("x.mean+flow@target", "sts-b", 63.0),
    seeded("x.mean+nice@target", "sts-b", 59.0),
)


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


def test_the_answer_is_the_best_linear_map_minus_the_best_flow(maps):
    page = flows_page(results(*FOUR), maps)
    assert f"STS-B -1.00 (`whitening`, `flow`, h {H:.2f}); -1.00 on average" in page
    assert "ahead by more than h on 0 of 1 task, the flow on 1, and on 0 another run" in page
    assert "a linear map is enough on 0 of 1." in page
    assert "no map at all on 0 of 1 task." in page


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (62.0 - H - 0.01, "on 1 of 1 task, the flow on 0, and on 0 another"),
        (62.0 - H + 0.01, "on 0 of 1 task, the flow on 0, and on 1 another"),
        (62.0 + H - 0.01, "on 0 of 1 task, the flow on 0, and on 1 another"),
        (62.0 + H + 0.01, "on 0 of 1 task, the flow on 1, and on 0 another"),
    ],
)
def test_who_is_ahead_turns_at_h(maps, flow, said):
    found = (*FOUR[:3], seeded("x.mean+flow@target", "sts-b", flow))
    assert said in flows_page(results(*found), maps)


@pytest.mark.parametrize(("none", "said"), [(63.0, "1 of 1"), (62.5, "0 of 1"), (61.5, "0 of 1")])
def test_no_map_at_all_may_be_best(maps, none, said):
    found = (records("x.mean", "sts-b", none), *FOUR[1:])
    assert f"no map at all on {said} task." in flows_page(results(*found), maps)


def test_a_flow_of_few_seeds_says_so_and_takes_no_part(maps):
    found = (*FOUR[:3], records("x.mean+flow@target", "sts-b", 70.0, 71.0), FOUR[4])
    page = flows_page(results(*found), maps)
    assert "70.50 ± 0.71 (k=2)" in page
    assert "STS-B +3.00 (`whitening`, `nice`" in page
    alone = flows_page(results(*found[:4]), maps)
    assert alone.count("no answer yet") == 2


def test_a_score_that_is_undefined_takes_no_part(maps):
    found = (*FOUR[:3], FOUR[3], records("x.mean+nice@target", "sts-b", *[None] * 5))
    page = flows_page(results(*found), maps)
    assert "undefined" in page
    assert "STS-B -1.00 (`whitening`, `flow`" in page


def test_the_average_difference_is_over_the_tasks_that_have_both(maps):
    found = (
        *FOUR,
        records("x.mean+sn@target", "sick-r", 70.0),
        seeded("x.mean+nice@target", "sick-r", 65.0),
        records("x.mean+sn@target", "sts12", 10.0),
    )
    page = flows_page(results(*found), maps)
    assert "SICK-R +5.00 (`sn`, `nice`" in page
    assert "; +2.00 on average" in page
    assert "a linear map is enough on 1 of 2." in page
    assert "no map at all on 0 of 1 task." in page  # without a map SICK-R was not run


def test_each_pooling_and_fit_corpus_has_a_section_of_its_own(maps):
    found = (*FOUR, seeded("x:64.cls+flow@nli", "sts-b", 60.0))
    page = flows_page(results(*found), maps)
    assert re.findall(r"^## (.*)$", page, re.M) == [
        "`x.mean`, fitted on `target`",
        "`x:64.cls`, fitted on `nli`",
    ]
    assert lines(page, "`sn`")[2][2:] == ["not run"] * 7 + ["–"]


def test_rows_that_are_shown_where_they_were_measured(maps):
    assert "flow:rare" not in flows_page(results(*FOUR), maps)
    found = (*FOUR, seeded("x.mean+flow:rare@target", "sts-b", 70.0))
    assert "STS-B -8.00 (`whitening`, `flow:rare`" in flows_page(results(*found), maps)


def test_without_a_flow_there_is_no_page(maps):
    assert flows_page(results(*FOUR[:3]), maps) is None


@pytest.mark.parametrize(
    "text",
    ["", "linear = [", MAPS + "other = []\n", MAPS.replace('["sn", "whitening"]', '"sn"')],
)
def test_a_file_of_other_keys_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "flows.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=r"^flows\.toml: [^\n]*$"):
        read_toml(Maps, path)


def test_the_committed_lists_are_linear_and_not(tmp_path):
    """A map that a mean and a covariance suffice is affine, every other one is not."""
    found, maps = load_registry(), read_toml(Maps, COMMITTED / "questions" / "flows.toml")
    listed = (*maps.linear, *maps.every_flow)
    kinds = {name: all(post.from_moments for post in posts_of(found, name)) for name in listed}
    assert kinds == {name: name in maps.linear for name in listed}
    registered = {
        m.id.partition("+")[2].partition("@")[0] for m in found.methods.values() if m.post
    }
    not_linear = {c for c in registered if not all(p.from_moments for p in posts_of(found, c))}
    assert not_linear <= {*maps.every_flow}


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
    assert tmp_path / "tables" / "flows.md" in write_files(tmp_path, papers, None)
    assert stale_files(tmp_path, papers, None) == []
    maps.unlink()
    assert stale_files(tmp_path, papers, None) == [tmp_path / "tables" / "flows.md"]


def test_the_answer_has_a_number_for_every_task():
    found = [MapComparison(task, "sn", "nice", 1.0, 0.1, 1.0) for task in SEVEN]
    assert all(f"{label} +1.00" in answer(found) for label in LABELS.values())
    assert BERT_FLOW.aggregation == "wmean"
