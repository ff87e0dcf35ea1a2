"""Scores that are exported are read again as scores of the tasks that they were measured on."""

from dataclasses import replace

import pytest
from committed import committed_results
from huggingface_hub import ModelCard

from harness.interop.hub_results import (
    reported_scores,
    write_eval_results,
    write_model_index,
)
from harness.registry import load_registry
from harness.results.card_statements import statements_of_file
from harness.results.cards import interpret

REGISTRY = load_registry()
GRADED = [name for name, task in REGISTRY.tasks.items() if task.graded is not None]


@pytest.fixture(scope="module")
def record():
    [record, *_] = committed_results().records("bert-mini.mean", "sick-r")
    return record


@pytest.mark.parametrize("name", GRADED)
def test_a_card_of_a_task_is_read_as_a_card_of_that_task(name, record, tmp_path):
    (tmp_path / "README.md").write_text(str(ModelCard("---\nlicense: mit\n---\n")))
    scores = list(reported_scores([replace(record, task=name)], REGISTRY.tasks))
    assert write_model_index(tmp_path, "mine", scores) == 1
    [statement] = statements_of_file(tmp_path / "README.md")
    claim = interpret(statement, REGISTRY)
    assert (claim.task, claim.why_not, claim.doubt) == (name, "", "")
    assert claim.score == "spearman"
    if write_eval_results(tmp_path, scores, "2026-01-31"):
        [file] = (tmp_path / ".eval_results").iterdir()
        [statement] = statements_of_file(file)
        assert interpret(statement, REGISTRY).task == name
