"""Scores in the schema of Every Eval Ever: its own schema holds every exported file.

`every_eval_ever-0.3.0.schema.json` is that of the package every-eval-ever 0.3.0 (MIT
licence, EvalEval), which needs Python 3.12.
"""

import json
from pathlib import Path

import pytest
from committed import FOLDER

from harness.cli import main
from harness.interop.every_eval_ever import SCHEMA_VERSION, every_eval_ever
from harness.results.score_rows import score_rows

SCHEMA = json.loads(
    Path(__file__)
    .with_name(f"every_eval_ever-{SCHEMA_VERSION}.schema.json")
    .read_text(encoding="utf-8")
)
ROWS = score_rows(FOLDER.records, FOLDER.tables, FOLDER.registry)
FILES = every_eval_ever(ROWS, FOLDER.registry, timestamp=1_790_000_000)


def test_every_committed_score_is_exported_and_keeps_the_schema():
    reason = "holds files to their schema"
    validate = pytest.importorskip("fastjsonschema", reason=reason).compile(SCHEMA)
    assert SCHEMA["version"] == SCHEMA_VERSION
    for content in FILES.values():
        validate(content)
    exported = sum(len(content["evaluation_results"]) for content in FILES.values())
    defined = [row for row in ROWS if row.state == "measured" and row.score is not None]
    assert exported == len(defined) > 4000


def test_a_score_has_its_protocol_its_published_number_and_its_verdict():
    content = FILES["minilm.mean", 0]
    assert content["model_info"]["id"] == "sentence-transformers/all-MiniLM-L6-v2"
    [result] = [
        result
        for result in content["evaluation_results"]
        if result["evaluation_name"] == "sts-b"
    ]
    details = result["score_details"]["details"]
    assert result["score_details"]["score"] == pytest.approx(82.0325, abs=1e-4)
    assert details["verdict"] == "exact"
    assert details["published_in"].endswith("/sts-b")
    assert (details["text_form"], details["split"]) == ("raw", "test")
    assert result["source_data"]["hf_repo"] == "mteb/stsbenchmark-sts"
    assert result["metric_config"]["additional_details"] == {"aggregation": "all"}


def test_the_command_writes_a_file_a_seed_and_names_what_was_not_measured(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # where no run has left records
    with pytest.raises(SystemExit) as ended:
        main(["export", "minilm.mean", str(tmp_path / "eee"), "--every-eval-ever"])
    assert not ended.value.code
    [file] = (tmp_path / "eee").iterdir()
    assert file.name == "minilm.mean.seed-0.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    assert (
        written["evaluation_results"] == FILES["minilm.mean", 0]["evaluation_results"]
    )
    with pytest.raises(SystemExit):
        main(["export", "minilm.nope", str(tmp_path / "no"), "--every-eval-ever"])
    assert "found none" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
