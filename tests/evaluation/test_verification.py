"""Verification: true numbers hold, each falsification is found, and a search names it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from scipy.stats import spearmanr

from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.evaluation.run import fit_cell
from harness.evaluation.select import PlannedCell
from harness.evaluation.variants import AS_IT_IS, Variant, VariantScores
from harness.evaluation.verification import Explainer, check_numbers
from harness.interop.exported import write_model
from harness.registry import load_registry
from harness.report.card_check import (
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.resolve import Resolver
from harness.results.card_statements import Statement
from harness.results.cards import interpret
from harness.results.checked_numbers import Verification, checked_number

REGISTRY = load_registry()
TASK = replace(limited(REGISTRY.tasks["mini-sts"], 40), name="mini-sts")
# The other splits of the data set have as few pairs.
OTHERS = {
    name: replace(limited(REGISTRY.tasks[name], 40), name=name)
    for name in REGISTRY.tasks
    if name.startswith("mini-sts.")
}
FEW = replace(REGISTRY, tasks={**REGISTRY.tasks, **OTHERS, TASK.name: TASK})
PROMPT = "query: "


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """bert-mini as a sentence-transformers folder with a prompt that it does not use by itself."""
    folder = tmp_path_factory.mktemp("verified")
    places = Places(folder / "cache")
    cell = PlannedCell(REGISTRY.parse("bert-mini.mean"), TASK, 0)
    from harness.core.types import Progress

    fitted = fit_cell(cell, TaskLoader(places, {}), Progress())
    write_model(cell, fitted, places, folder / "made")
    settings = folder / "made" / "config_sentence_transformers.json"
    about = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps({**about, "prompts": {"asked": PROMPT}}))
    resolver = Resolver.from_options(places, [f"made={folder / 'made'}"])
    method = resolver.registry.parse("made.native")
    return VariantScores(method, TaskLoader(resolver.places, {}))


def number_of_card(value, metric="cosine_spearman", **names):
    return interpret(Statement(value, metric, data_set=TASK.name, **names), REGISTRY)


def score(model, choice=AS_IT_IS, name="spearman"):
    return model.scores(choice, TASK)[name]["all"]


def verified(model, *numbers, most=30):
    checked = tuple(check_numbers(model, numbers, FEW))
    return Verification(
        "made", model.method.id, Explainer(model, FEW, most).explained(checked)
    )


def test_true_numbers_hold_in_any_form(model):
    points = score(model)
    distance = score(model, name="euclidean_pearson")
    found = verified(
        model,
        number_of_card(points / 100),
        number_of_card(f"{points:.2f}"),
        number_of_card(f"{points:.1f}"),
        number_of_card(f"{points / 100:.4f}", "main_score"),
        number_of_card(f"{distance:.3f}", "euclidean_pearson"),
        number_of_card(max(score(model, name=n) for n in ("spearman", "dot_spearman",
                "euclidean_spearman", "manhattan_spearman")), "spearman_max"),
    )  # fmt: skip
    assert [str(item.verdict.state) for item in found.numbers] == ["exact"] * 6
    assert found.exit_status == 0


FALSIFIED = {
    "a prompt of the model": Variant(prompt=PROMPT),
    "a prompt that others use": Variant(prompt="passage: "),
    "the pooling": Variant(pooling="cls"),
    "the maximum length": Variant(max_length=8),
    "a prompt and the maximum length": Variant(prompt=PROMPT, max_length=8),
}


TWO = "a prompt and the maximum length"


@pytest.mark.parametrize(
    "what",
    [pytest.param(w, marks=pytest.mark.slow) if w == TWO else w for w in FALSIFIED],
)
def test_a_search_names_the_choice_that_was_made(model, what):
    choice = FALSIFIED[what]
    names = ("spearman", "pearson")
    numbers = [
        number_of_card(f"{score(model, choice, n) / 100:.6f}", f"cosine_{n}")
        for n in names
    ]
    found = verified(model, *numbers)
    assert found.exit_status == 1
    assert {item.explanation.words for item in found.numbers} == {choice.words}


def test_a_search_finds_padding_in_the_mean(model):
    """Computed by transformers alone: texts padded to 32 tokens, and a mean without the mask."""
    folder = model.places.encoder(model.method.encoder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bert = transformers.AutoModel.from_pretrained(folder).eval()

    def vectors(texts):
        settings = {"padding": "max_length", "truncation": True, "max_length": 32}
        with torch.inference_mode():
            tokens = tokenizer(list(texts), return_tensors="pt", **settings)
            return bert(**tokens).last_hidden_state.mean(dim=1)

    pairs = model.loader.texts(TASK).pairs
    cosines = torch.cosine_similarity(vectors(pairs.a), vectors(pairs.b))
    points = 100 * spearmanr(cosines.numpy(), pairs.gold).statistic
    shorter, padded = (Variant(pooling="mean", padded_to=tokens) for tokens in (16, 32))
    explainer = Explainer(model, FEW, likely=[shorter, padded])
    [found] = explainer.search(TASK, [number_of_card(f"{points / 100:.7f}")])
    assert found.words == padded.words


def test_numbers_are_measured_with_the_arguments_of_their_run(model):
    arguments = (("batch_size", 32), ("prompt_name", "asked"), ("truncate_dim", 16))
    chosen = Variant(prompt=PROMPT, dimensions=16)
    assert model.stated_variant(arguments) == chosen
    number = number_of_card(f"{score(model, chosen) / 100:.6f}", settings=arguments)
    assert verified(model, number).exit_status == 0
    number = number_of_card("0.5", settings=(("precision", "int8"),))
    [checked] = check_numbers(model, [number], FEW)
    assert checked.why_not == "precision = 'int8' of its run is not measured here"


def test_a_search_ends_with_the_prompts_of_mtebs_implementation(model, monkeypatch):
    registry = pytest.importorskip("mteb.models.model_implementations").MODEL_REGISTRY
    meta = SimpleNamespace(loader_kwargs={"model_prompts": {"STS": "compare: "}})
    monkeypatch.setitem(registry, "someone/made", meta)
    [variant] = model.variants_of_mteb()
    assert variant.words == ("mteb's prompt STS ('compare: ')",)
    monkeypatch.setattr(Explainer, "_trials", lambda self, task: [])
    number = number_of_card(f"{score(model, variant) / 100:.6f}")
    [found] = Explainer(model, FEW).search(TASK, [number])
    assert found.words == variant.words


def test_a_search_tries_the_first_pairs_alone(model, monkeypatch):
    monkeypatch.setattr("harness.evaluation.variants.FIRST_PAIRS", (20,))
    choice = Variant(first_pairs=20)
    number = number_of_card(f"{score(model, choice) / 100:.6f}")
    [found] = Explainer(model, FEW, most_encodings=0).search(TASK, [number])
    assert found.words == choice.words == ("the first 20 pairs",)


def test_a_search_names_another_score_of_the_same_vectors(model):
    found = verified(
        model,
        number_of_card(f"{score(model) / 100:.5f}", source="one"),
        number_of_card(f"{score(model, name='pearson') / 100:.5f}", source="one"),
        number_of_card(
            f"{score(model, name='manhattan_spearman') / 100:.5f}", source="one"
        ),
    )
    words = [item.explanation and item.explanation.words for item in found.numbers]
    assert words == [None, ("Pearson for Spearman",), ("manhattan for cosine",)]


def test_a_moved_number_is_found_and_not_explained_away(model):
    points = score(model)
    found = verified(
        model,
        number_of_card(f"{points + 0.4:.4f}"),
        number_of_card(score(model, name="pearson"), "pearson"),
    )
    moved, true = found.numbers
    assert (moved.differs, true.holds, found.exit_status) == (True, True, 1)
    assert moved.explanation.reason == (
        "1 other numbers of this run are reproduced, this one is not"
    )


def test_exchanged_digits_are_no_other_score_that_is_near(model):
    manhattan = score(model, name="manhattan_spearman")
    found = verified(model, number_of_card(f"{manhattan + 0.0008:.4f}"), most=0)
    assert found.numbers[0].explanation.words == ()


def test_a_number_of_another_row_is_told_without_a_search(model):
    points = score(model)
    true = checked_number(number_of_card(f"{points:.4f}"), points)
    exchanged = replace(number_of_card(f"{points:.4f}"), task="mini-sts.dev")
    _, wrong = Explainer(model, FEW).explained(
        (true, checked_number(exchanged, points + 5))
    )
    assert wrong.explanation.words == (
        "the number of mini-sts cosine_spearman in its place",
    )


def test_a_number_on_pairs_that_are_not_known_is_never_refuted(model):
    stated = replace(number_of_card(f"{score(model):.2f}"), doubt="other pairs")
    wrong = replace(number_of_card("1.5"), doubt="other pairs")
    found = verified(model, stated, wrong)
    assert [item.holds for item in found.numbers] == [True, False]
    assert [item.differs for item in found.numbers] == [False, False]
    assert found.exit_status == 0


def test_a_number_that_may_be_of_two_tasks_is_checked_on_both(model):
    dev = model.scores(AS_IT_IS, OTHERS["mini-sts.dev"])["spearman"]["all"]
    either = replace(number_of_card(f"{dev:.4f}"), or_task="mini-sts.dev")
    [found] = verified(model, either).numbers
    assert (found.holds, found.number.task) == (True, "mini-sts.dev")
    neither = replace(number_of_card("1.5000"), or_task="mini-sts.dev")
    [found] = check_numbers(model, [neither], FEW)
    assert (found.differs, found.number.task) == (True, TASK.name)


def test_what_is_missing_is_status_3(model):
    number = interpret(
        Statement("75.46", "cosine_spearman", data_set="STS12"), REGISTRY
    )
    found = verified(model, number)
    assert (found.exit_status, found.numbers[0].is_missing) == (3, True)
    assert Verification("made", "made.native").exit_status == 3


def test_every_form_of_a_report_has_every_number(model):
    found = verified(
        model,
        number_of_card(f"{score(model) + 3:.2f}"),
        number_of_card("0.5", "accuracy"),
        most=1,
    )
    for text in (
        verification_text(found),
        verification_markdown(found, {"torch": "0.0.0"}, "2026-01-01"),
    ):
        assert "differs" in text
        assert "accuracy is not measured here" in text
    facts = verification_facts(found)
    assert (facts["checked"], facts["hold"], len(facts["numbers"])) == (1, 0, 2)
    json.dumps(facts)


def test_the_bound_on_encodings_is_said_before_and_kept(model):
    notes = []
    explainer = Explainer(model, FEW, most_encodings=1, note=notes.append)
    [unknown] = explainer.search(TASK, [number_of_card("12.3456")])
    assert "a search of at most 1 encodings" in notes[0]
    assert unknown.reason == "no choice among the first 1 encodings gives it"


def test_what_the_cache_has_does_not_count(model):
    choice = Variant(prompt=PROMPT)
    number = number_of_card(f"{score(model, choice) / 100:.6f}")
    [found] = Explainer(model, FEW, most_encodings=0).search(TASK, [number])
    assert found.words == choice.words
