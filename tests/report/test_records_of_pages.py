"""The records that a page returns are those that its numbers come from: no other, and none less."""

import pytest
from committed import FOLDER, RESULTS
from fakes import FakeConfig, made_record, results_of, task
from fakes import registry as fake_registry

from harness.core.types import LeaderboardColumn
from harness.report.claims import claims_page
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.pages import conformance_page, examples_part, traps_page
from harness.report.papers import paper_page
from harness.results.encoder_sizes import sizes_of_encoders
from harness.results.folder import ResultsFolder
from harness.results.index import methods_by_encoder
from harness.results.store import Store

REGISTRY = FOLDER.registry
METHODS = methods_by_encoder(FOLDER.records.methods)


def folder_of(results):
    """The committed folder with these records."""
    folder = ResultsFolder(RESULTS, REGISTRY, literature=FOLDER.literature)
    folder.records = results
    return folder


PAGES = {
    "the leaderboard": lambda results: leaderboard(
        results, REGISTRY, FOLDER.comparisons
    ),
    "an encoder": lambda results: encoder_page(
        results,
        REGISTRY,
        "minilm",
        METHODS["minilm"],
        sizes_of_encoders(results, REGISTRY),
    ),
    "traps": lambda results: traps_page(folder_of(results)),
    "claims": lambda results: claims_page(folder_of(results)),
    "conformance": lambda results: conformance_page(folder_of(results)),
    "a published table": lambda results: paper_page(
        FOLDER.table("mteb.1-12-75"), folder_of(results)
    ),
}


def without_digest(page):
    return page.text.rpartition("Records:")[0]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_its_own_records_alone_is_the_same_page(name):
    page = PAGES[name](FOLDER.records)
    returned = {*page.records.by_cell}
    assert 0 < len(returned) < len(FOLDER.records.by_cell)
    in_order = [cell for cell in FOLDER.records.by_cell if cell in returned]
    assert PAGES[name](FOLDER.records.select(in_order)).text == page.text


@pytest.mark.parametrize("name", PAGES)
def test_a_page_without_one_of_its_records_is_another_page(name):
    page = PAGES[name](FOLDER.records)
    for lost in [*page.records.by_cell][:: max(1, len(page.records.by_cell) // 3)]:
        others = FOLDER.records.select(
            cell for cell in FOLDER.records.by_cell if cell != lost
        )
        assert without_digest(PAGES[name](others)) != without_digest(page)


def test_the_scores_in_a_legend_are_of_records_of_the_page():
    registry = fake_registry(FakeConfig())
    column = LeaderboardColumn("other", "SPECIMEN", legend="Gold has {gold}.")
    registry.tasks["specimen"] = task("specimen", columns=(column,))
    score = {"spearman": {"all": 12.34}}
    results = results_of(
        made_record("fake.mean", "specimen", score),
        made_record("others.mean", "specimen", {**score, "gold": 77.0}),
        made_record("others.cls", "specimen", {**score, "gold": 77.0}),
    )
    page = encoder_page(
        results, registry, "fake", ["fake.mean"], sizes_of_encoders(results, registry)
    )
    assert "Gold has 77.00." in page.text
    assert {*page.records.by_cell} == {
        ("fake.mean", "specimen"),
        ("others.mean", "specimen"),
    }


def test_each_table_of_the_guide_to_plug_ins_has_the_digest_of_its_own_records():
    store = Store(RESULTS.parent / "examples" / "plugins" / "results")
    whole = examples_part(store, REGISTRY)
    results = FOLDER.records.read(store)
    for methods in methods_by_encoder(results.methods).values():
        cells = [cell for cell in results.by_cell if cell[0] in methods]
        assert f"records: {results.select(cells).digest()[:12]}." in whole
