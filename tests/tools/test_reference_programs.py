"""References of other programs: sentence-transformers gives our losses and scores, mteb's files."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from committed import committed_results
from fakes import Told
from mteb.results.task_result import TaskResult

from harness.assets.places import Places
from harness.core.errors import DataError, UsageError
from harness.core.metrics import cosine
from harness.core.metrics.correlation import spearman
from harness.core.types import Pairs
from harness.interop.mteb import COUNTERPARTS
from harness.registry import load_registry
from harness.results.conformance import read_reference
from harness.training.contrastive import Contrastive, ContrastiveTraining
from harness.training.datasets import Labelled, open_labelled_pairs, open_triplets
from harness.training.encoder import Setup, open_encoder
from harness.training.loop import CheckpointPolicy, train
from harness.training.siamese import ScoredPairs, Siamese, SiameseTraining
from harness.transforms.pooling import MEAN

programs = pytest.importorskip("reference_programs")

ROOT = Path(__file__).resolve().parents[2]
RESULTS = committed_results()
COUNT, BATCH = 96, 16
SETUP = Setup(pooling=MEAN, max_length=64, dropout=0.0)
METHOD = "minilm.mean"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def dev():
    pairs = load_registry().tasks["mini-sts.dev"].pairs(Path("nowhere"))
    return Pairs(pairs.a[:60], pairs.b[:60], pairs.gold[:60], pairs.group[:60])


@pytest.fixture
def task(tmp_path):
    """Six steps of a training, opened anew at every call, and the folder that it starts from."""
    places = Places(tmp_path)
    folder = places.encoder(load_registry().encoders["bert-mini"])

    def make(objective):
        encoder = open_encoder("bert-mini", folder, tmp_path, SETUP, seed=0)
        if objective == "regression":
            settings = replace(Siamese.regression(), setup=SETUP, batch=BATCH, epochs=1)
            whole = ScoredPairs.from_task(
                load_registry().tasks["mini-sts.train"], places
            )
            first = tuple(column[:COUNT] for column in whole.columns)
            scored = replace(whole, columns=first, scores=whole.scores[:COUNT])
            return SiameseTraining(settings, encoder, scored, 0), folder
        if objective == "softmax":
            settings = Siamese(setup=SETUP, batch=BATCH, learning_rate=2e-4)
            pairs = open_labelled_pairs("mini-nli", places).content
            columns = (
                pairs.premises[:COUNT],
                pairs.hypotheses[:COUNT],
                pairs.labels[:COUNT],
            )
            return SiameseTraining(settings, encoder, Labelled(*columns), 0), folder
        settings = Contrastive(setup=SETUP, batch=BATCH, learning_rate=2e-4)
        columns = tuple(
            c[:COUNT] for c in open_triplets("mini-triplets", places).content
        )
        return ContrastiveTraining(settings, encoder, columns, 0), folder

    return make


def scored(encoder, pairs):
    vectors = encoder.embed(pairs.sentences)
    return spearman(cosine(vectors[: len(pairs)], vectors[len(pairs) :])[0], pairs.gold)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of other packages
@pytest.mark.parametrize("objective", ["softmax", "regression", "ranking"])
def test_its_losses_and_scores_are_ours_step_by_step(objective, task, dev):
    ours, folder = task(objective)
    theirs = programs.train(ours, folder, dev)
    schedule = ours.settings.schedule(COUNT)
    policy = CheckpointPolicy(
        score=partial(scored, ours.encoder, dev), score_every=1000
    )
    curve = train(ours, schedule, 0, Told(), policy)
    assert len(curve.losses) == schedule.steps == COUNT // BATCH
    assert theirs.losses == pytest.approx(curve.losses, abs=1e-5)
    assert theirs.before == pytest.approx(curve.before, abs=1e-3)
    assert theirs.best == pytest.approx(
        curve.best, abs=0.05
    )  # a rank of 60 pairs is 0.006


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("program", ["sentence-transformers", "mteb"])
def test_a_package_gives_our_committed_score(program, tmp_path, monkeypatch):
    """On embedded sentences; 0.01: its cosines rank identical sentences by rounding noise."""
    monkeypatch.setitem(
        programs.COUNTERPARTS, "mini-sts", programs.COUNTERPARTS["sts-b"]
    )
    arguments = ["make", program, "-m", "bert-mini.mean", "-t", "mini-sts"]
    programs.main(["--out", str(tmp_path), "--cache", str(tmp_path), *arguments])
    [file] = tmp_path.glob("*.json")
    reference = read_reference(file)
    [cell] = reference.cells
    ours = RESULTS.value("bert-mini.mean", "mini-sts", "spearman", "all").mean
    assert cell.scores["spearman.all"] == pytest.approx(ours, abs=0.01)
    assert reference.command == " ".join(
        ["python tools/reference_programs.py", *arguments]
    )


@pytest.fixture
def published(tmp_path):
    """A folder as in the results repository: one model, one revision, one task, one experiment."""
    theirs = COUNTERPARTS["sts12.senteval"]
    scores = {"test": {"default": {"main_score": 0.7, "cosine_spearman": 0.7}}}
    folder = tmp_path / "results" / MODEL.replace("/", "__") / "8b3219a9"
    (folder / "experiments").mkdir(parents=True)
    for place in (folder, folder / "experiments"):
        TaskResult.from_task_results(theirs, scores, 1.0).to_disk(place / "STS12.json")
    return folder


def test_a_model_of_mteb_is_a_method_scored_in_points_without_experiments(
    published, tmp_path, capsys
):
    programs.main(
        ["--out", str(tmp_path), "results", str(tmp_path), f"{MODEL}={METHOD}"]
    )
    reference = read_reference(tmp_path / "mteb_results.json")
    [cell] = reference.cells
    assert (cell.method, cell.task) == (METHOD, "sts12.senteval")
    assert cell.scores == {"spearman.all": pytest.approx(70)}
    assert "experiments/STS12.json: of one fit or seed" in capsys.readouterr().out
    assert reference.version.startswith("mteb ")
    assert "other hardware" in reference.reason


def test_two_revisions_damaged_files_and_unknown_models_are_refused(
    published, tmp_path
):
    other = published.with_name("another")
    other.mkdir()
    (other / "STS12.json").write_bytes((published / "STS12.json").read_bytes())
    with pytest.raises(DataError, match=r"has another result on sts12\.senteval"):
        programs.read_mteb_results(tmp_path, {MODEL: METHOD}, "")
    (other / "STS12.json").write_text("{}")
    with pytest.raises(DataError, match=r"STS12\.json is no result file of mteb"):
        programs.read_mteb_results(tmp_path, {MODEL: METHOD}, "")
    with pytest.raises(UsageError, match="holds no results of nobody/model"):
        programs.read_mteb_results(tmp_path, {"nobody/model": METHOD}, "")
    with pytest.raises(UsageError, match="wanted MODEL=METHOD"):
        programs.main(["results", str(tmp_path), "nonsense"])


def result_file(**changed):
    """A result file of STSBenchmark, with some of its first subset's scores changed."""
    scores = {"cosine_spearman": 0.82, "cosine_pearson": 0.83, "hf_subset": "default"}
    scores |= {"main_score": 0.82, "languages": ["eng-Latn"], **changed}
    meta = COUNTERPARTS["sts-b"].metadata
    return {
        "dataset_revision": meta.dataset["revision"],
        "evaluation_time": 1.2,
        "kg_co2_emissions": None,
        "mteb_version": "1.12.75",
        "scores": {"test": [scores]},
        "task_name": "STSBenchmark",
    }


@pytest.fixture
def results_of(tmp_path):
    """Writes files of a model beside a good one, and reads them all."""
    folder = tmp_path / MODEL.replace("/", "__") / "abc"
    folder.mkdir(parents=True)

    def read(**contents):
        for name, content in contents.items():
            (folder / f"{name}.json").write_text(content)
        return programs.read_mteb_results(tmp_path, {MODEL: METHOD}, "the command")

    return read


UNDEFINED = {
    "null": {"cosine_spearman": None},
    "not a number": {"cosine_pearson": float("nan")},
    "text": {"cosine_spearman": "0.82"},
    "true": {"cosine_spearman": True},
    "a list": {"cosine_spearman": [0.82]},
}


@pytest.mark.parametrize("changed", UNDEFINED.values(), ids=UNDEFINED)
def test_a_score_that_mteb_could_not_compute_is_left_out_by_name(
    published, results_of, changed
):
    taken = results_of(STSBenchmark=json.dumps(result_file(**changed)))
    assert [cell.task for cell in taken.reference.cells] == ["sts12.senteval"]
    [line] = [line for line in taken.left_out if "experiments" not in line]
    assert re.search(r"STSBenchmark\.json: wanted a number as cosine_\w+, found ", line)
    assert "\n" not in line


@pytest.mark.parametrize("points", [82.03, -82.03, float("inf"), 2])
def test_a_score_in_points_is_an_error(results_of, points):
    for name in ("cosine_spearman", "cosine_pearson"):
        content = json.dumps(result_file(**{name: points}))
        with pytest.raises(
            DataError, match=rf"STSBenchmark\.json: wanted {name} as a fraction fr"
        ):
            results_of(STSBenchmark=content)


def test_one_subset_of_the_test_split_is_read_and_no_other(published, results_of):
    two, none = result_file(), result_file()
    two["scores"]["test"].append({**two["scores"]["test"][0], "hf_subset": "de"})
    none["scores"] = {"dev": none["scores"]["test"]}
    for content, found in (
        (two, "one subset .* found 2: default, de"),
        (none, "test, found dev"),
    ):
        lines = results_of(STSBenchmark=json.dumps(content)).left_out
        assert any(
            re.search(rf"STSBenchmark\.json: wanted scores of .*{found}", x)
            for x in lines
        )


@pytest.mark.parametrize(
    "content", ['[{"kg": 1}]', '{"kg": 1}', "{}", "[]", "1", "null", '"x"', ""]
)
def test_another_json_file_beside_results_is_left_out_by_name(
    published, results_of, content
):
    taken = results_of(emissions=content)
    assert [cell.task for cell in taken.reference.cells] == ["sts12.senteval"]
    [line] = [line for line in taken.left_out if "experiments" not in line]
    assert re.search(r"emissions\.json is no result file of mteb \(.+\)$", line)
    with pytest.raises(
        DataError, match=r"STSBenchmark\.json is no result file of mteb"
    ):
        results_of(STSBenchmark=content)
