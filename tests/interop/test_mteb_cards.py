"""Cards that mteb wrote of its runs: true ones hold, and a search names what a false one did."""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import mteb
import pytest
import yaml
from datasets import Dataset, DatasetDict
from huggingface_hub import ModelCard, ModelCardData
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

import harness
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.encoders.module_writer import write_settings
from harness.evaluation.search import Explainer
from harness.evaluation.variants import VariantScores
from harness.evaluation.verification import check_numbers, explained
from harness.registry import load_registry
from harness.resolve import Resolver
from harness.results.cards import numbers_of_model
from harness.results.checked_numbers import Verification

# mteb and sentence-transformers call what they themselves have deprecated.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning"
)

REGISTRY = load_registry()
BERT = Path(harness.__file__).parent / "data" / "embedded" / "bert-mini"
# Pairs that come with the harness, in the place of those of STS12.
TASK = replace(limited(REGISTRY.tasks["mini-sts"], 60), name="sts12.senteval")
TASKS = replace(REGISTRY, tasks={**REGISTRY.tasks, TASK.name: TASK})
PROMPT = "query: "


def as_it_is(_model):
    """What the folder says."""


def without_prompt(model):
    model.prompts = {}


def with_cls(model):
    model[1] = Pooling(model[0].get_embedding_dimension(), pooling_mode="cls")


def cut_at_8(model):
    model.max_seq_length = 8


FALSE_CARDS = [
    (without_prompt, ("no prompt",)),
    (with_cls, ("pooling cls",)),
    (cut_at_8, ("max length 8",)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """bert-mini, with a prompt for the tasks of mteb's kind STS."""
    place = shutil.copytree(BERT, tmp_path_factory.mktemp("cards") / "made")
    (place / "README.md").unlink()
    settings = {"prompts": {"STS": PROMPT}, "similarity_fn_name": "cosine"}
    write_settings(place / "config_sentence_transformers.json", settings)
    return place


@pytest.fixture(scope="module")
def cache(folder):
    """The encodings that all tests share."""
    return folder.parent / "cache"


@pytest.fixture(scope="module")
def run_of(folder, cache):
    """The result of mteb for the model, changed by hand before it runs."""
    pairs = TaskLoader(Places(cache), {}).texts(TASK).pairs
    columns = {"sentence1": pairs.a, "sentence2": pairs.b, "score": pairs.gold}
    results = {}

    def run(change):
        if change not in results:
            task = type(mteb.get_task("STS12"))()
            task.dataset = {"default": DatasetDict(test=Dataset.from_dict(columns))}
            task.data_loaded = True
            model = SentenceTransformer(str(folder), device="cpu")
            change(model)
            found = mteb.evaluate(model, task, cache=None, co2_tracker=False)
            results[change] = found.task_results[0]
        return results[change]

    return run


def verified(folder, cache, most=30):
    """The folder's numbers, checked, and followed up where they differ."""
    resolver = Resolver.from_options(Places(cache), [f"made={folder}"])
    numbers, faults = numbers_of_model(folder, TASKS)
    assert not faults
    model = VariantScores(
        resolver.registry.parse("made.native"), TaskLoader(resolver.places, {})
    )
    checked = tuple(check_numbers(model, numbers, TASKS))
    answers = explained(checked, Explainer(model, TASKS, most))
    return Verification("made", "made.native", answers)


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


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "made")
    return tmp_path / "made"


FORMS = (write_model_index, write_all_metrics, write_eval_results, write_result_file)


@pytest.mark.parametrize("write", FORMS)
def test_a_true_card_holds_in_every_form(copy, cache, run_of, write):
    write(run_of(as_it_is), copy)
    found = verified(copy, cache)
    assert {str(item.verdict.state) for item in found.checked} == {"exact"}
    assert all(item.has_its_digits for item in found.checked)
    assert (found.exit_status, len(found.checked) > 0) == (0, True)


@pytest.mark.parametrize(("change", "words"), FALSE_CARDS)
def test_a_search_names_what_a_false_card_did(copy, cache, run_of, change, words):
    write_model_index(run_of(change), copy)
    found = verified(copy, cache)
    assert found.exit_status == 1
    told = {item.explanation.words for item in found.checked if item.explanation}
    assert told == {words}
