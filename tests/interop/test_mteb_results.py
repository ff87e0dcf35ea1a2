"""Result files of mteb: ours load with mteb and its tables, and scores come back as references."""

import json
from pathlib import Path

import mteb
import pytest

from harness.cli import main
from harness.core.errors import DataError, UsageError
from harness.interop.mteb import COUNTERPARTS, OWN_TASKS
from harness.interop.mteb_results import FILE, export, read_results
from harness.results.conformance import read_reference
from harness.results.index import Results
from harness.results.records import Store

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Results.read(Store(ROOT / "results"))
METHOD = "minilm.mean"
SEEDED = "minilm.mean+flow@target"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mteb")
    tasks = [name for name in COUNTERPARTS if (METHOD, name) in RESULTS.by_cell]
    records = [r for name in tasks for r in RESULTS.by_cell[METHOD, name]]
    return folder, list(export([*records, *RESULTS.by_cell[SEEDED, "sts-b"]], folder))


def edited(path, **change):
    """A result file with other fields, in a folder of another model."""
    fields = json.loads(path.read_text()) | change
    path.write_text(json.dumps(fields))


MAIN = ("cosine_spearman", "cosine_roc_auc")  # what mteb calls the scores that a task is known by


def test_mteb_loads_every_file_with_our_score(exported):
    _, paths = exported
    files = [mteb.TaskResult.from_disk(path) for path in paths]
    assert len(files) == len(COUNTERPARTS) + 5
    by_name = {theirs.metadata.name: name for name, theirs in COUNTERPARTS.items()}
    for found in files[: len(COUNTERPARTS)]:
        scores = RESULTS.by_cell[METHOD, by_name[found.task_name]][0].scores
        ours = scores.get("auc", scores.get("edit_distance")) or scores["spearman"]["all"]
        [[theirs]] = found.scores.values()
        assert theirs["main_score"] == pytest.approx(ours / 100, abs=1e-6)
        assert theirs["main_score"] in [theirs.get(name) for name in MAIN]


def test_its_tables_show_our_scores_and_keep_seeds_apart(exported):
    folder, _ = exported
    cache = mteb.ResultCache(folder)
    loaded = cache.load_results(tasks=["STSBenchmark", "STS12"], include_remote=False)
    frame = loaded.to_dataframe(aggregation_level="task", format="long")
    [score] = frame[frame.task_name == "STS12"].score
    ours = RESULTS.value(METHOD, "sts12.senteval", "spearman", "all").mean
    assert score == pytest.approx(ours / 100, abs=1e-6)
    seeds = {path.parent.name for path in folder.rglob("experiments/*/STSBenchmark.json")}
    assert len(seeds) == 5
    every = cache.load_results(
        tasks=["STSBenchmark"], include_remote=False, load_experiments="match_name"
    )
    [model] = [m for m in every.model_results if "flow" in m.model_name][:1]
    assert model.task_results


def test_the_papers_own_tasks_say_all_that_mteb_asks():
    its_own = {task.metadata.name for task in mteb.get_tasks(languages=["eng"])}
    for theirs in OWN_TASKS.values():
        assert theirs.metadata.is_filled()
        assert theirs.metadata.name not in its_own


def test_what_was_exported_comes_back(exported):
    folder, _ = exported
    found = read_results(folder, {}, "harness import")
    scores = {(c.method, c.task, n): s for c in found.reference.cells for n, s in c.scores.items()}
    assert scores[METHOD, "sts-b", "spearman.all"] == pytest.approx(82.03246731235654, abs=1e-4)
    assert scores[METHOD, "lexical", "edit_distance"] < 0
    assert {method for method, _, _ in scores} == {METHOD}  # seeds are experiments
    assert len(found.left_out) == 5
    assert all("of one fit or seed" in line for line in found.left_out)


@pytest.fixture
def published(exported, tmp_path):
    """A folder as in the results repository: one model, one revision, two tasks."""
    folder = tmp_path / "results" / MODEL.replace("/", "__") / "8b3219a9"
    folder.mkdir(parents=True)
    for path in exported[1]:
        if path.stem in ("STS12", "STS13") and "experiments" not in path.parts:
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_a_model_of_mteb_is_read_as_the_method_that_it_is_named(published, tmp_path):
    found = read_results(tmp_path, {MODEL: METHOD}, "harness import").reference
    assert [(cell.method, cell.task) for cell in found.cells] == [
        (METHOD, "sts12.senteval"),
        (METHOD, "sts13.senteval"),
    ]
    assert found.version.startswith("mteb ")
    assert "other hardware" in found.reason


def test_other_data_and_unknown_tasks_are_left_out_by_name(published, tmp_path):
    edited(published / "STS12.json", dataset_revision="another")
    edited(published / "STS13.json", task_name="BIOSSES")
    (published / "STS14.json").write_text((published / "STS12.json").read_text())
    with pytest.raises(UsageError, match=r"found another.*no task of the harness.*BIOSSES"):
        read_results(tmp_path, {MODEL: METHOD}, "")


def test_two_revisions_and_damaged_files_are_refused(published, tmp_path):
    other = published.with_name("another")
    other.mkdir()
    (other / "STS12.json").write_bytes((published / "STS12.json").read_bytes())
    with pytest.raises(DataError, match=r"has another result on sts12\.senteval"):
        read_results(tmp_path, {MODEL: METHOD}, "")
    (other / "STS12.json").write_text("{}")
    with pytest.raises(DataError, match=r"STS12\.json is no result file of mteb"):
        read_results(tmp_path, {MODEL: METHOD}, "")
    with pytest.raises(UsageError, match="holds no results of nobody/model"):
        read_results(tmp_path, {"nobody/model": METHOD}, "")


def test_the_commands_write_a_folder_and_a_reference(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(ROOT)

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return ended.value.code, capfd.readouterr()

    status, said = call("export", "--mteb", tmp_path / "mteb", "-m", METHOD, "-t", "sts-b")
    assert (status, said.out) == (0, f"1 result files under {tmp_path / 'mteb'}\n")
    status, said = call("import", "--mteb", tmp_path / "mteb", "--results", tmp_path)
    assert (status, "| `minilm.mean` | `sts-b` | spearman.all |" in said.out) == (0, True)
    assert len(read_reference(tmp_path / "references" / FILE).cells) == 1
    status, said = call("import", "nonsense", "--mteb", tmp_path / "mteb")
    assert (status, "wanted MODEL=METHOD" in said.err) == (2, True)
    status, said = call("export", "--mteb", tmp_path / "none", "-m", "nobody.mean")
    assert (status, "holds no such record" in said.err) == (2, True)
    status, said = call("export", "--mteb", tmp_path / "two", "-m", METHOD, "-t", "STS12", "STS13")
    assert (status, "2 result files" in said.out) == (0, True)
    status, said = call("export", "--mteb", tmp_path / "none", "-m", METHOD, "-t", "sts12")
    assert (status, "sts12: mteb has no such task; name one of its" in said.err) == (2, True)
