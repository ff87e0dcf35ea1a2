"""What of mteb gives another number: tasks that papers score otherwise, and prompts."""

import json
from pathlib import Path

import pytest

from harness.core.errors import UsageError
from harness.interop.mteb import COUNTERPARTS
from harness.interop.mteb_lint import differences, prompts
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.records import Store

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Results.read(Store(ROOT / "results"))


def test_a_difference_is_that_of_the_records():
    rows = {row["here"]: row for row in differences(load_registry(), RESULTS)}
    method = rows["sts14.senteval"]["method"]
    ours, papers = (
        RESULTS.value(method, "sts14.senteval", "spearman", way).mean for way in ("all", "wmean")
    )
    assert rows["sts14.senteval"]["moves by"] == f"{papers - ours:+.2f}"
    assert rows["sick-r.all"]["in papers"] == "sick-r.senteval, all"
    assert {row["moves by"] for row in differences(load_registry(), Results({}))} == {
        "not measured"
    }


@pytest.fixture
def model(tmp_path):
    """A sentence-transformers folder with these prompts; nothing of it is loaded."""

    def made(**settings):
        kinds = {"Transformer": "", "Pooling": "1_Pooling"}
        modules = [
            {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (kind, path) in enumerate(kinds.items())
        ]
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
        (tmp_path / "modules.json").write_text(json.dumps(modules))
        (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(settings))
        return {row["here"]: row for row in prompts(tmp_path)}

    return made


def test_a_prompt_of_a_tasks_name_or_type_is_mtebs_own(model):
    rows = model(prompts={"STS": "sts: ", "query": "query: ", "QNLI": "pair: "})
    assert set(rows) == set(COUNTERPARTS)
    assert rows["sts-b"]["prompt of mteb"] == "'sts: '"
    assert rows["qnli"]["prompt of mteb"] == "'pair: '"
    assert rows["sts-b"]["prompt here"] == "''"
    assert rows["sts-b"]["number"] == "another: .native:STS is mteb's"


def test_a_default_prompt_is_taken_by_both(model):
    rows = model(prompts={"query": "query: "}, default_prompt_name="query")
    assert {row["number"] for row in rows.values()} == {"the same prompt"}
    assert rows["sts-b"]["prompt here"] == "'query: '"


def test_a_folder_without_modules_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"has no modules\.json"):
        prompts(tmp_path)
