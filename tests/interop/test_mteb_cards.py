"""Cards that mteb wrote of its runs hold in every form that it has for them."""

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

import harness
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.encoders.module_writer import write_settings
from harness.evaluation.variants import VariantScores
from harness.evaluation.verification import check_numbers
from harness.registry import load_registry
from harness.resolve import Resolver
from harness.results.cards import numbers_of_model

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """bert-mini, with a prompt for the tasks of mteb's kind STS."""
    place = shutil.copytree(BERT, tmp_path_factory.mktemp("cards") / "made")
    (place / "README.md").unlink()
    settings = {"prompts": {"STS": PROMPT}, "similarity_fn_name": "cosine"}
    write_settings(place / "config_sentence_transformers.json", settings)
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


@pytest.mark.parametrize(
    "write", [write_model_index, write_all_metrics, write_eval_results]
)
def test_a_true_card_holds_in_every_form(folder, result, write, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "made")
    write(result, copy)
    numbers, faults = numbers_of_model(copy, TASKS)
    assert numbers
    assert not faults
    resolver = Resolver.from_options(Places(folder.parent / "cache"), [f"made={copy}"])
    method = resolver.registry.parse("made.native")
    model = VariantScores(method, TaskLoader(resolver.places, {}))
    checked = check_numbers(model, numbers, TASKS)
    assert {str(item.verdict.state) for item in checked} == {"exact"}
    assert all(item.has_its_digits for item in checked)
