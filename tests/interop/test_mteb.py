"""mteb as an oracle: its loop gives our scores, and we read its result files and cards."""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import mteb
import numpy as np
import pytest
import yaml
from committed import TABLES
from datasets import Dataset, DatasetDict
from fakes import FakeConfig, method, numbered
from huggingface_hub import ModelCard, ModelCardData
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mteb.mocks.mock_tasks import MockSTSTask
from mteb.results.task_result import TaskError, TaskResult
from mteb_training_data import FILE, stated
from refusals import refused
from sentence_transformers import SentenceTransformer

import harness
from harness.conclusions.cards import data_sets, numbers_of_model
from harness.conclusions.training_data import read_training_data
from harness.conclusions.verification import Verification
from harness.core.errors import UsageError
from harness.core.files import write_json
from harness.core.metrics import cosine, tie_rounded
from harness.core.metrics.correlation import CORRELATION_SCORES, CORRELATIONS
from harness.core.provenance import with_code
from harness.core.types import score_at
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.evaluation.evaluate import fit_method
from harness.evaluation.run import RunContext, execute
from harness.evaluation.search import Search
from harness.evaluation.select import PlannedCell
from harness.evaluation.verification import check_numbers
from harness.interop.mteb import COUNTERPARTS, as_mteb, local_task
from harness.registry import load_registry
from harness.resolve import resolve
from harness.results.index import main_path
from harness.results.store import Store

SENTENCES = numbered(0, 12)
SEEDED = method("mean", "centre", "stretch", on="target")
NOWHERE = Path("nowhere")  # the fake encoder reads no file


def fake(texts=SENTENCES, seed=0):
    here = Places(NOWHERE, encoders={"fake": NOWHERE})
    return as_mteb(SEEDED, places=here, texts=texts, seed=seed)


MODEL = fake()


def test_an_alias_is_the_name_of_the_counterpart():
    theirs = {n: (of.metadata.name,) for n, of in COUNTERPARTS.items()}
    assert theirs == {
        n: t.aliases for n, t in load_registry().tasks.items() if t.aliases
    }


# What mteb knows of its tasks


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "theirs", "split"),
    [
        ("sts-b", "STSBenchmark", "test"),
        ("sts-b.v2", "STSBenchmark.v2", "test"),
        ("sts-b.v2.dev", "STSBenchmark.v2", "validation"),
    ],
)
def test_sts_b_has_the_pairs_that_mteb_counted(name, theirs, split, data_dir):
    """Of each version: pairs, characters, distinct sentences, mean gold."""
    stated = mteb.get_task(theirs).metadata.descriptive_stats[split]
    pairs = load_registry().tasks[name].pairs(data_dir)
    assert len(pairs) == stated["num_samples"]
    assert sum(map(len, pairs.sentences)) == stated["number_of_characters"]
    for column, number in ((pairs.a, 1), (pairs.b, 2)):
        distinct = stated[f"text{number}_statistics"]["unique_texts"]
        assert len(set(column)) == distinct
    mean = stated["label_statistics"]["avg_score"]
    assert pairs.gold.mean() == pytest.approx(mean, rel=1e-12)


def test_the_committed_training_data_are_those_that_mteb_states():
    committed_data = read_training_data(FILE)
    if committed_data.mteb != mteb.__version__:
        pytest.skip(f"the file is of mteb {committed_data.mteb}")
    numbers = [number for table in TABLES for number in table.numbers]
    assert stated(numbers) == committed_data


def test_data_sets_of_cards_are_those_that_mteb_names():
    """Repository, today's revision, and the subsets that are English."""
    known = [
        each for each in data_sets() if each.ids[:1] and each.ids[0].startswith("mteb/")
    ]
    assert len(known) == 9
    for data_set in known:
        theirs = mteb.get_task(data_set.name).metadata
        assert theirs.dataset["path"] in data_set.ids
        revision = theirs.dataset["revision"]
        assert not data_set.revisions or revision in data_set.revisions
        if data_set.configs:
            languages = theirs.eval_langs
            english = [name for name in languages if languages[name] == ["eng-Latn"]]
            assert english == [*data_set.configs]
        else:
            assert theirs.eval_langs == ["eng-Latn"]


# A method as mteb's model


# The classifiers of its smallest tasks guess one class for all.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Precision is ill-defined:UserWarning")
def test_a_method_passes_mtebs_own_check():
    found = [status for _, status in mteb.mock_run(MODEL).items() if status is not None]
    assert not [status for status in found if isinstance(status, TaskError)]
    assert sum(isinstance(status, TaskResult) for status in found) > 20


@pytest.mark.parametrize("size", [1, 5, 100])
def test_our_rows_come_back_in_order_whatever_the_batches(size):
    batches = [
        {"text": SENTENCES[i : i + size]} for i in range(0, len(SENTENCES), size)
    ]
    found = MODEL.encode(
        batches, task_metadata=None, hf_split="", hf_subset="", batch_size=size
    )
    ours = fit_method(SEEDED, MODEL.embedder.encoder, SENTENCES, seed=0)(SENTENCES)
    assert np.array_equal(found, ours.astype(np.float32))


small = arrays(np.float32, (3, 2), elements=st.integers(-3, 3).map(float))


@given(small, small)
def test_similarities_are_our_cosines(a, b):
    """Zero vectors are among these, and identical and opposite ones."""
    every = MODEL.similarity(a, b)
    assert np.array_equal(MODEL.similarity_pairwise(a, b), tie_rounded(cosine(a, b)[0]))
    # 1.1e-10: a half of the last place kept may be rounded up or down.
    assert np.allclose(
        every.diagonal(), MODEL.similarity_pairwise(a, b), rtol=0, atol=1.1e-10
    )
    assert np.isclose(MODEL.similarity(a[0], b[2]), every[0, 2], rtol=0, atol=1.1e-10)


def test_every_seed_and_fit_corpus_has_results_of_its_own(tmp_path):
    cache = mteb.ResultCache(tmp_path)
    for model in (fake(), fake(seed=1), fake(texts=SENTENCES[1:]), fake()):
        task = MockSTSTask()
        mteb.evaluate(
            model, task, cache=cache, co2_tracker=False, show_progress_bar=False
        )
    folder = tmp_path / "results" / "harness__fake.mean+centre+stretch@own-texts"
    found = [
        path.relative_to(folder).parts for path in folder.rglob("MockSTSTask.json")
    ]
    assert len(found) == 3
    assert {parts[0] for parts in found} == {
        with_code(MODEL.embedder.encoder.key, FakeConfig())
    }


# Its tasks on our files

# That STS-B has a version without its duplicates is known: the papers score this one.
on_our_files = pytest.mark.filterwarnings(
    "ignore:The task 'STSBenchmark' is superseded:UserWarning"
)


# In points. mteb's distances are of float32 vectors, and rank their rounding noise.
OF_SINGLE_PRECISION = 2e-3


@pytest.mark.data
@on_our_files
@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        *(("glove-6b-50d-22k.mean", name) for name in COUNTERPARTS),
        ("glove-840b-sick.mean+whitening@target", "sick-r.all"),
        ("glove-6b-50d-22k.mean+sn+natsv:6@target", "sts16.senteval"),
    ],
)
def test_mteb_gives_our_scores(identifier, name, data_dir, tmp_path):
    registry, places = load_registry(), Places(tmp_path, data_dir)
    loader, store = TaskLoader(places, registry.corpora), Store(tmp_path / "runs")
    cell = PlannedCell(registry.parse(identifier), registry.tasks[name], 0)
    [outcome] = execute([cell], RunContext(loader, store))
    ours = outcome.record.scores

    corpus = loader.texts(cell.task, cell.method.fit_on).fit_corpus
    texts = tuple(corpus.sentences()) if corpus else None
    model = as_mteb(cell.method, places=places, texts=texts)
    silent = {"co2_tracker": False, "show_progress_bar": False}
    result = mteb.evaluate(model, local_task(name, data_dir), cache=None, **silent)
    [[theirs]] = result.task_results[0].scores.values()

    main_score = score_at(ours, main_path(ours)) / 100
    assert theirs["main_score"] == pytest.approx(main_score, abs=1e-6)
    # Its own cosine is of float32, knows no rule for ties, and gives 1/2 for a zero
    # vector (STS12).
    assert theirs["cosine_spearman"] == pytest.approx(main_score, abs=1e-5)
    of_distances = (
        theirs.keys() & ours.keys() & CORRELATION_SCORES.keys() - {*CORRELATIONS}
    )
    assert len(of_distances) == 4
    for score in of_distances:
        points = pytest.approx(100 * theirs[score], abs=OF_SINGLE_PRECISION)
        assert ours[score]["all"] == points


@pytest.mark.parametrize("inputs", [["It rains."], [{"text": "It rains."}]])
def test_what_are_no_batches_of_texts_is_refused(inputs):
    """The rows of a data set are dictionaries of one text, whose letters are no texts."""
    with refused(UsageError, r"wanted .*text"):
        as_mteb("glove-mini.mean").encode(inputs)


def test_a_task_without_counterpart_is_refused(tmp_path):
    with refused(UsageError, r"unknown task of mteb 'lexical\.raw'"):
        local_task("lexical.raw", tmp_path)


# Cards of its runs

REGISTRY = load_registry()
BERT = Path(harness.__file__).parent / "data" / "embedded" / "bert-mini"
# Pairs that come with the harness, in the place of those of STS12.
TASK = replace(limited(REGISTRY.tasks["mini-sts"], 60), name="sts12.senteval")
TASKS = replace(REGISTRY, tasks={**REGISTRY.tasks, TASK.name: TASK})
PROMPT = "query: "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """bert-mini, with a prompt for the tasks of mteb's kind STS."""
    place = shutil.copytree(BERT, tmp_path_factory.mktemp("cards") / "made")
    (place / "README.md").unlink()
    settings = {"prompts": {"STS": PROMPT}, "similarity_fn_name": "cosine"}
    write_json(place / "config_sentence_transformers.json", settings)
    return place


@pytest.fixture(scope="module")
def result(folder):
    """What mteb gives of the model."""
    pairs = TaskLoader(Places(folder.parent / "cache"), {}).texts(TASK).pairs
    columns = {"sentence1": pairs.a, "sentence2": pairs.b, "score": pairs.gold}
    task = type(mteb.get_task("STS12"))()
    task.dataset = {"default": DatasetDict(test=Dataset.from_dict(columns))}
    task.data_loaded = True
    model = SentenceTransformer(str(folder), device="cpu")
    found = mteb.evaluate(model, task, cache=None, co2_tracker=False)
    return found.task_results[0]


def write_model_index(result, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the hub now prefers .eval_results
        found = result.get_hf_eval_results()
    data = ModelCardData(model_name="made", eval_results=found)
    ModelCard(f"---\n{data.to_yaml()}\n---\n# made\n").save(folder / "README.md")


def write_all_metrics(result, folder):
    """The `model-index` of mteb's `create_meta`, which states every score, in percent."""
    [scores] = result.scores["test"]
    metrics = {n: 100 * v for n, v in scores.items() if isinstance(v, float)}
    about = {
        "type": "mteb/sts12-sts",
        "name": "MTEB STS12",
        "config": "default",
        "split": "test",
        "revision": result.dataset_revision,
    }
    row = {
        "task": {"type": "STS"},
        "dataset": about,
        "metrics": [{"type": n, "value": v} for n, v in metrics.items()],
    }
    front = yaml.safe_dump({"model-index": [{"name": "made", "results": [row]}]})
    (folder / "README.md").write_text(f"---\n{front}---\n# made\n")


def write_eval_results(result, folder):
    (folder / ".eval_results").mkdir()
    text = result._to_hf_benchmark_result().to_yaml()
    (folder / ".eval_results" / "STS12.yaml").write_text(text)


def write_result_file(result, folder):
    (folder / "results").mkdir()
    result.to_disk(folder / "results" / "STS12.json")


# mteb and sentence-transformers call what they themselves have deprecated.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    "write",
    [write_model_index, write_all_metrics, write_eval_results, write_result_file],
)
def test_a_true_card_holds_in_every_form(folder, result, write, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "made")
    write(result, copy)
    numbers, faults = numbers_of_model(copy, TASKS)
    assert numbers
    assert not faults
    known = resolve(Places(folder.parent / "cache"), [f"made={copy}"])
    method = known.registry.parse("made.native")
    found = tuple(check_numbers(Search.of(method, known.places, TASKS), numbers))
    checked = Verification("made", "made.native", found).checked
    assert {str(item.verdict.state) for item in checked} == {"exact"}
    assert all(item.has_its_digits for item in checked)
