"""Result files of mteb: ours load with mteb and its tables."""

from pathlib import Path

import mteb
import pytest

from harness.cli import main
from harness.interop.mteb import COUNTERPARTS, SickRTest, write_mteb_results
from harness.results.index import Results
from harness.results.records import Store

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Results.read(Store(ROOT / "results"))
METHOD = "minilm.mean"
SEEDED = "minilm.mean+flow@target"


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mteb")
    tasks = [name for name in COUNTERPARTS if (METHOD, name) in RESULTS.by_cell]
    records = [r for name in tasks for r in RESULTS.by_cell[METHOD, name]]
    return folder, list(write_mteb_results([*records, *RESULTS.by_cell[SEEDED, "sts-b"]], folder))


def test_mteb_loads_every_file_with_our_score(exported):
    _, paths = exported
    files = [mteb.TaskResult.from_disk(path) for path in paths]
    assert len(files) == len(COUNTERPARTS) + 5
    by_name = {theirs.metadata.name: name for name, theirs in COUNTERPARTS.items()}
    for found in files[: len(COUNTERPARTS)]:
        ours = RESULTS.by_cell[METHOD, by_name[found.task_name]][0].scores["spearman"]["all"]
        [[theirs]] = found.scores.values()
        assert theirs["main_score"] == theirs["cosine_spearman"] == pytest.approx(ours / 100)


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


def test_the_papers_own_task_says_all_that_mteb_asks():
    assert SickRTest.metadata.is_filled()
    assert SickRTest.metadata.name not in {t.metadata.name for t in mteb.get_tasks()}


def test_the_command_writes_a_folder(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(ROOT)

    def call(method, folder, *words):
        with pytest.raises(SystemExit) as ended:
            main(["export", method, str(tmp_path / folder), "--mteb", *words])
        return ended.value.code, capfd.readouterr()

    status, said = call(METHOD, "mteb", "-t", "sts-b")
    assert (status, said.out) == (0, f"1 result files under {tmp_path / 'mteb'}\n")
    status, said = call(METHOD, "two", "-t", "STS12", "STS13")
    assert (status, "2 result files" in said.out) == (0, True)
    for method, words, why in (
        ("nobody.mean", [], "holds no such record"),
        (METHOD, ["-t", "sts12"], "sts12: mteb has no such task; name one of its"),
    ):
        status, said = call(method, "none", *words)
        assert (status, why in said.err) == (2, True)
