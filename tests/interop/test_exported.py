"""An exported method gives in sentence-transformers what it gives here, or is refused."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tiny_models
import torch
from committed import committed_results
from fakes import OTHER, TOY, Told, library
from huggingface_hub import ModelCardData
from modular_models import PROMPTS, saved
from refusals import refused
from sentence_transformers import SentenceTransformer
from subword_tables import made as model2vec
from tolerances import ROUNDING, relative_gap

from baselines.sn import SN
from harness.cli import main
from harness.conclusions.card_statements import statements_of_file
from harness.conclusions.cards import data_sets, interpret
from harness.contracts.samples import rows
from harness.core.errors import UsageError
from harness.core.types import Method
from harness.data.places import Places
from harness.encoders.modules import edit_json
from harness.encoders.native import NativeConfig, PromptedConfig
from harness.encoders.subword_vectors import SubwordConfig
from harness.encoders.transformer import TransformerConfig
from harness.encoders.weights import read_tensors
from harness.evaluation.evaluate import Embedder
from harness.evaluation.fits import FittedTransforms, fit
from harness.evaluation.run import RunContext, execute, fit_cell
from harness.evaluation.select import PlannedCell
from harness.interop.exported import (
    eval_results,
    records_of,
    write_card,
    write_eval_results,
    write_model,
)
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.store import Store
from harness.transforms.pooling import (
    CLS,
    MEAN,
    NATIVE,
    POOLER,
    POOLINGS,
    SECOND_LAST_CLS,
)

pytestmark = pytest.mark.filterwarnings("ignore")  # of another's library

TEXTS = (
    "the cat sat on the mat",
    "Dog!",
    "the dog, the cat's mat 42 " * 6,
    "THE CAT",
    "a b c",
)
CONFIG = TransformerConfig("m", "", max_length=38)


def vectors_and_folder(tmp_path, method, model):
    """The vectors here and the folder of a method whose encoder lies at a path."""
    encoder, transforms = method.encoder.load(model, tmp_path), []
    if method.post:
        x = rows(200, method.pooling(encoder.encode(["a"])).shape[1])
        transforms = fit(method.post, x, np.random.default_rng(0))
    cell = FittedTransforms(method.encoder.identify(model), tuple(transforms))
    places = Places(tmp_path, encoders={method.encoder.name: model})
    write_model(PlannedCell(method, TOY, 0), cell, places, tmp_path / "out")
    return Embedder(method, encoder, cell.transforms)(TEXTS), tmp_path / "out"


def vectors_of_library(folder):
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(
        list(TEXTS)
    )


def assert_alike(ours, folder):
    """Up to the rounding of float32, of the largest coordinate."""
    found = vectors_of_library(folder)
    assert found.shape == ours.shape
    assert relative_gap(found, ours) <= ROUNDING


def assert_refused(tmp_path, method, model, why):
    with refused(UsageError, why):
        vectors_and_folder(tmp_path, method, model)
    assert not (tmp_path / "out").exists()


# The library pads on the left of XLNet, and needs a padding token, which GPT-2 has not.
LACKING = dict.fromkeys(("distilbert", "electra", "xlnet"), (POOLER,)) | {
    "t5": (CLS, SECOND_LAST_CLS, POOLER)
}
KINDS = [kind for kind in tiny_models.KINDS if kind not in ("bart", "gpt2")]


@pytest.mark.parametrize("pooling", POOLINGS, ids=lambda pooling: pooling.name)
@pytest.mark.parametrize("kind", KINDS)
def test_every_pooling_of_every_architecture_is_the_librarys(
    checkpoint, tmp_path, kind, pooling
):
    model = checkpoint(kind)
    method = Method(CONFIG, pooling)
    if pooling in LACKING.get(kind, ()):
        assert_refused(tmp_path, method, model, "")
    else:
        assert_alike(*vectors_and_folder(tmp_path, method, model))


@pytest.mark.parametrize("post", ["natsv:2", "whitening", "sn+natsv:1+whitening:8"])
def test_a_chain_of_affine_maps_is_one_dense_layer(checkpoint, tmp_path, post):
    posts = load_registry().parse_posts(post)
    method = Method(CONFIG, CLS, posts, "target")
    ours, folder = vectors_and_folder(tmp_path, method, checkpoint("bert"))
    assert len(json.loads((folder / "modules.json").read_text())) == 3
    assert_alike(ours, folder)


REGISTERED = PromptedConfig(CONFIG.name, "", prompts=(("sts", PROMPTS["query"]),))


@pytest.mark.parametrize(("config", "prompt"), [(CONFIG, "query"), (REGISTERED, "sts")])
def test_a_model_under_its_modules_keeps_them_and_its_prompt(config, prompt, tmp_path):
    model = saved(tmp_path, "without-prompt", prompts=PROMPTS)
    method = Method(NativeConfig(config, prompt), replace(NATIVE, prompt=prompt))
    ours, folder = vectors_and_folder(tmp_path, method, model)
    assert_alike(ours, folder)
    assert np.abs(ours - vectors_of_library(model)).max() > 0.01


@pytest.mark.parametrize("kind", ["dense", "static"])
def test_a_map_stands_behind_a_models_modules(tmp_path, kind):
    model = saved(tmp_path, kind)
    method = Method(NativeConfig(TransformerConfig("m", "")), NATIVE, (SN(),), "target")
    ours, folder = vectors_and_folder(tmp_path, method, model)
    assert_alike(ours, folder)
    whole = "config_sentence_transformers.json"
    assert json.loads((folder / whole).read_text())["similarity_fn_name"] == "cosine"
    edit_json(model / whole, truncate_dim=2)
    shutil.rmtree(folder)
    assert_refused(tmp_path, method, model, "truncate_dim would cut")


def test_what_the_librarys_modules_cannot_say_is_refused(checkpoint, tmp_path):
    table = model2vec(tmp_path / "m2v")
    words = Method(SubwordConfig("m"), MEAN)
    assert_refused(tmp_path, words, table, r"wanted a transformer, .* as m\.native")
    assert_refused(tmp_path, Method(CONFIG, MEAN), checkpoint("bart"), "found a bart")
    flow = Method(CONFIG, MEAN, load_registry().parse_posts("flow"), "target")
    why = "wanted affine maps, found a Fitted"
    assert_refused(tmp_path, flow, checkpoint("bert"), why)


def test_a_folder_that_holds_something_is_left_as_it_is(checkpoint, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with refused(UsageError, "wanted a new or an empty folder"):
        vectors_and_folder(tmp_path, Method(CONFIG, POOLER), checkpoint("bert"))
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_a_card_shows_the_scores_of_these_very_maps_and_no_other(checkpoint, tmp_path):
    texts = library(tmp_path)
    places = Places(tmp_path, tmp_path / "data", {"m": checkpoint("bert")})
    texts = replace(texts, places=places)
    planned = PlannedCell(Method(CONFIG, MEAN, (SN(),), "target"), OTHER, 0)
    store = Store(tmp_path / "runs")
    [outcome] = execute([planned], RunContext(texts, store))
    cell, results = fit_cell(planned, texts, Told()), Results.read(store)
    out = tmp_path / "out"
    write_model(planned, cell, places, out)

    def scores_on_card(planned, cell):
        tasks = {"sts-b": OTHER}
        records = records_of(planned, cell, tasks, results)
        write_card(out, planned, cell, tasks, records, "@misc{x}")
        return len(records)

    assert scores_on_card(planned, cell) == 1
    card = (out / "README.md").read_text()
    points = outcome.record.scores["spearman"]["all"]
    assert f"| sts-b | spearman.all | {points:.2f} |" in card
    assert f"{outcome.record.pairs} scored (" in card
    assert "raw text), Spearman x100 of cosine and gold |" in card
    assert "@misc{x}" in card
    assert str(cell.fitted_on) in card
    elsewhere = replace(cell, identity=replace(cell.identity, key="0"))
    for other in (replace(cell, fitted_on="0"), elsewhere):
        assert not scores_on_card(planned, other)
    assert not scores_on_card(replace(planned, seed=1), cell)


@pytest.mark.parametrize("pooling", ["mean", "native"])
def test_no_weight_is_written_that_the_checkpoint_lacks(pooling, tmp_path):
    """bert-mini has no pooler, which the library would make up."""
    method = load_registry().parse(f"bert-mini.{pooling}")
    model = Places(tmp_path).encoder(method.encoder)
    _, folder = vectors_and_folder(tmp_path, method, model)
    written, wanted = read_tensors(folder), read_tensors(model)
    assert written.keys() == wanted.keys()
    assert all(torch.equal(written[name], wanted[name]) for name in wanted)


def test_a_command_exports_a_method(tmp_path, capfd, checkpoint):
    method, out = "tiny.mean+natsv:1@target", tmp_path / "out"
    encoder = ["--encoder", f"tiny={checkpoint('bert')}"]
    folders = ["--cache", str(tmp_path / "cache"), "--results", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        main(["export", method, str(out), "-t", "mini-sts", *encoder, *folders])
    assert not ended.value.code
    assert (
        capfd.readouterr().out == f"{out}: {method}, seed 0, with 0 measured scores\n"
    )
    assert vectors_of_library(out).shape == (len(TEXTS), 32)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, task in load_registry().tasks.items()
        if task.graded and task.metric != "regression"
    ],
)
def test_a_score_in_the_front_matter_is_read_as_one_of_its_task(name, tmp_path):
    [record, *_] = committed_results().records("bert-mini.mean", "sick-r")
    registry = load_registry()
    results = eval_results([replace(record, task=name)], registry.tasks)
    data = ModelCardData(model_name="mine", eval_results=results)
    (tmp_path / "README.md").write_text(f"---\n{data.to_yaml()}\n---\n")
    [statement] = statements_of_file(tmp_path / "README.md")
    claim = interpret(statement, registry)
    assert (claim.task, claim.score) == (name, "spearman")
    assert (claim.why_not, claim.doubt) == ("", "")
    write_eval_results(tmp_path, results, "2026-01-31")
    on_the_hub = [known for known in data_sets() if known.revisions]
    has_a_file = any(name in known.tasks.values() for known in on_the_hub)
    files = list(tmp_path.glob(".eval_results/*"))
    assert len(files) == has_a_file
    for file in files:
        [statement] = statements_of_file(file)
        assert interpret(statement, registry).task == name
        assert "source:" in file.read_text()


def test_a_regressions_score_is_no_spearman_of_cosines():
    """sick-r.regression's 59.70 was published for the cosine's 51.85."""
    [record, *_] = committed_results().records("bert-mini.mean", "sick-r")
    regression = replace(record, task="sick-r.regression")
    assert eval_results([regression], load_registry().tasks) == []
