"""Whose weights were measured: other ones are named, and are no verdict on a paper."""

from dataclasses import replace

import pytest
from committed import FOLDER, committed_records, committed_results
from fakes import results_folder

from baselines.bert import BERT_BASE, BERT_LARGE
from baselines.minilm import MINILM
from harness.conclusions.explain import explain
from harness.core.types import Record
from harness.registry import load_registry
from harness.report.boards import boards
from harness.report.cite import cite_method, cite_number
from harness.report.explanation import render_explanation
from harness.report.method_table import columns_of, method_table
from harness.report.papers import paper_page
from harness.results.index import Copy, Results
from harness.results.origins import origin_of_encoder, sentences_on_copies
from harness.results.reproduction import count, reproduce, seed_scores
from harness.results.scorings import SCORINGS
from harness.results.verdict import CellState

REGISTRY = load_registry()
TABLE = FOLDER.table("mteb.1-12-75")
METHOD, TASK = "minilm.mean", "sts-b"
[NUMBER] = [
    number
    for number in TABLE.numbers
    if (number.method, number.task) == (METHOD, TASK) and number.metric == "spearman"
]
OWN = vars(MINILM.pin) | {"files": None}
OF_MINILM = {name: value for name, value in OWN.items() if value}
SILU = {**OF_MINILM, "settings": f'{MINILM.pin.settings}, hidden_act="silu"'}
NOT_PINNED = "not the pinned weights of minilm"


def measured_with(fingerprint, weights=None, method=METHOD) -> Results:
    """The committed record, as it were measured with such a checkpoint."""
    records: list[Record] = []
    for record in committed_results().records(METHOD, TASK):
        digests = dict(record.digests)
        if weights:
            digests["weights"] = weights
        facts = {**record.facts, "fingerprint": fingerprint}
        records.append(replace(record, method=method, digests=digests, facts=facts))
    return Results.of(records)


OTHERS = {
    "under its settings": SILU,
    "with its tokenizer": {**OF_MINILM, "tokens": "of cased texts"},
    "": {**OF_MINILM, "tensors": "of another training"},
}


@pytest.mark.parametrize("words", OTHERS)
def test_other_weights_are_no_verdict_and_are_named_everywhere(tmp_path, words):
    results = measured_with(OTHERS[words])
    reproduction = reproduce(NUMBER, results, REGISTRY)
    assert reproduction.state is CellState.OTHER_WEIGHTS
    assert not reproduction.scores
    assert count([reproduction])["run"] == 0
    path = ("spearman", "all")
    assert seed_scores(METHOD, TASK, path, results, REGISTRY).scores == {}
    folder = results_folder(tmp_path, REGISTRY, results, TABLE)
    board = boards([METHOD], folder, SCORINGS, [])[0]
    columns = columns_of(folder, [REGISTRY.tasks[TASK]])
    cited, _ = cite_number(NUMBER.id, folder)
    of_method, _ = cite_method(METHOD, folder)
    texts = {
        "board": " ".join(board.notes),
        "page": paper_page(TABLE, folder),
        "table": " ".join(method_table([METHOD], columns, folder).notes),
        "cite": " ".join(cited),
        "cite -m": " ".join(of_method),
        "explain": render_explanation(explain(NUMBER, results, REGISTRY, {}), folder),
    }
    for place, text in texts.items():
        assert f"{NOT_PINNED} {words}".strip() in text, place
    assert MINILM.trained_on not in texts["cite -m"]
    assert "other weights" in texts["cite"]
    assert "measured 8" not in texts["cite"]


@pytest.mark.parametrize(
    ("fingerprint", "weights"),
    [
        ({}, None),  # as in older records
        (OF_MINILM, None),
        (OF_MINILM, "a conversion"),
        ({k: v for k, v in OF_MINILM.items() if k != "pooler"}, "a conversion"),
    ],
)
def test_its_own_weights_are_judged_as_before(fingerprint, weights):
    results = measured_with(fingerprint, weights)
    reproduction = reproduce(NUMBER, results, REGISTRY)
    assert reproduction.state is CellState.EXACT
    assert reproduction.unpinned == ()
    assert [*sentences_on_copies([METHOD], results, REGISTRY)] == []


def test_a_registered_checkpoint_under_a_name_of_ones_own_is_recognised():
    results = measured_with(OF_MINILM, "a conversion", "mine.mean")
    [sentence] = sentences_on_copies(["mine.mean"], results, REGISTRY)
    assert sentence.startswith("mine has the weights of minilm: --encoder minilm=PATH")
    for fingerprint in ({}, *OTHERS.values()):
        results = measured_with(fingerprint, "another file", "mine.mean")
        assert [*sentences_on_copies(["mine.mean"], results, REGISTRY)] == []


def test_a_copy_is_pinned_by_its_file_or_tensors_and_else_said_to_be_unpinned():
    pin = BERT_BASE.pin
    fingerprint = {
        name: getattr(pin, name) for name in ("tensors", "pooler", "settings", "tokens")
    }
    for copy in (Copy(pin.files[0]), Copy("a conversion", fingerprint)):
        assert origin_of_encoder(BERT_BASE, [copy]).is_pinned
    unknown = "a copy by hand of google-bert/bert-{}-uncased@{}, unpinned"
    older = origin_of_encoder(BERT_BASE, [Copy("a file")])
    assert str(older) == unknown.format("base", "86b5e0934494")
    fingerprint |= {"tensors": "unknown", "settings": BERT_LARGE.pin.settings}
    large = origin_of_encoder(BERT_LARGE, [Copy("a file", fingerprint)])
    assert str(large) == unknown.format("large", "6da4b6a26a18")
    fetched = Copy("a file", fingerprint, BERT_LARGE.revision)
    assert origin_of_encoder(BERT_LARGE, [fetched]).is_pinned


def test_the_copies_of_a_folder_are_looked_for_once_for_all_tables(monkeypatch):
    looked_at = []
    of_record = Copy.of
    monkeypatch.setattr(
        Copy, "of", lambda record: looked_at.append(record) or of_record(record)
    )
    results = Results.of(committed_records())
    methods = results.methods
    for _ in range(3):
        assert len([*sentences_on_copies(methods, results, REGISTRY)]) < len(methods)
    assert len(looked_at) == sum(map(len, results.by_cell.values()))
