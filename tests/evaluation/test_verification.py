"""Verification: true numbers hold, each falsification is found, and a search names it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from scipy.stats import spearmanr

from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import Verification, interpret
from harness.core.types import Progress
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.evaluation import search
from harness.evaluation.run import fit_cell
from harness.evaluation.search import (
    Explainer,
    check_numbers,
    explained,
    variants_of_mteb,
)
from harness.evaluation.select import PlannedCell
from harness.evaluation.variants import AS_IT_IS, Variant, VariantScores
from harness.interop.exported import write_model
from harness.registry import load_registry
from harness.report.card_check import (
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.resolve import resolve

REGISTRY = load_registry()
# The splits of a data set, with few pairs each.
FEW = {
    name: replace(limited(task, 40), name=name)
    for name, task in REGISTRY.tasks.items()
    if name.startswith("mini-sts")
}
FEW = replace(REGISTRY, tasks={**REGISTRY.tasks, **FEW})
TASK, DEV = FEW.tasks["mini-sts"], FEW.tasks["mini-sts.dev"]
PROMPT = "query: "


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """bert-mini as a sentence-transformers folder with a prompt that it does not use by itself."""
    folder = tmp_path_factory.mktemp("verified")
    places = Places(folder / "cache")
    cell = PlannedCell(REGISTRY.parse("bert-mini.mean"), TASK, 0)
    fitted = fit_cell(cell, TaskLoader(places, {}), Progress())
    write_model(cell, fitted, places, folder / "made")
    settings = folder / "made" / "config_sentence_transformers.json"
    stated = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps({**stated, "prompts": {"asked": PROMPT}}))
    known = resolve(places, [f"made={folder / 'made'}"])
    method = known.registry.parse("made.native")
    return VariantScores(method, TaskLoader(known.places, {}))


def number_of_card(value, metric="cosine_spearman", **names):
    statement = Statement(str(value), metric, data_set=TASK.name, **names)
    return interpret(statement, REGISTRY)


def score(model, variant=AS_IT_IS, name="spearman", task=TASK):
    return model.scores(variant, task)[name]["all"]


def measured_number(model, variant=AS_IT_IS, name="spearman", **names):
    """The number of a card that states the score under a variant, with all its digits."""
    fraction = score(model, variant, name) / 100
    return number_of_card(f"{fraction:.6f}", f"cosine_{name}", **names)


def verified(model, *numbers, most=30):
    checked = tuple(check_numbers(model, numbers, FEW))
    numbers = explained(checked, Explainer(model, FEW, most))
    return Verification("made", model.method.id, numbers)


def found(model, number, **options):
    """What a search finds for a number."""
    return Explainer(model, FEW, **options).search(TASK, [number])[number]


# Numbers that hold


def test_true_numbers_hold_in_any_form(model):
    points = score(model)
    distance = score(model, name="euclidean_pearson")
    names = ("spearman", "dot_spearman", "euclidean_spearman", "manhattan_spearman")
    highest = max(score(model, name=name) for name in names)
    verification = verified(
        model,
        number_of_card(points / 100),
        number_of_card(f"{points:.2f}"),
        number_of_card(f"{points:.1f}"),
        number_of_card(f"{points / 100:.4f}", "main_score"),
        number_of_card(f"{distance:.3f}", "euclidean_pearson"),
        number_of_card(highest, "spearman_max"),
    )
    assert {str(item.verdict.state) for item in verification.numbers} == {"exact"}
    assert verification.exit_status == 0


def test_numbers_are_measured_with_the_arguments_of_their_run(model):
    arguments = {"batch_size": 32, "prompt_name": "asked", "truncate_dim": 16}
    stated = Variant(prompt=PROMPT, dimensions=16)
    assert model.stated_variant(arguments) == stated
    number = measured_number(model, stated, settings=arguments)
    assert verified(model, number).exit_status == 0
    number = number_of_card("0.5", settings={"precision": "int8"})
    [checked] = check_numbers(model, [number], FEW)
    assert checked.why_not == "precision = 'int8' of its run is not measured here"


def test_a_number_on_pairs_that_are_not_known_is_never_refuted(model):
    stated = replace(number_of_card(f"{score(model):.2f}"), doubt="other pairs")
    wrong = replace(number_of_card("1.5"), doubt="other pairs")
    verification = verified(model, stated, wrong)
    assert [item.holds for item in verification.numbers] == [True, False]
    assert [item.differs for item in verification.numbers] == [False, False]
    assert verification.exit_status == 0


def test_a_number_that_may_be_of_two_tasks_is_checked_on_both(model):
    of_dev = number_of_card(f"{score(model, task=DEV):.4f}")
    either, neither = check_numbers(
        model,
        [
            replace(of_dev, or_task=DEV.name),
            replace(number_of_card("1.5000"), or_task=DEV.name),
        ],
        FEW,
    )
    assert (either.holds, either.task) == (True, DEV.name)
    assert (neither.differs, neither.task) == (True, TASK.name)


def test_what_is_missing_is_status_3(model):
    statement = Statement("75.46", "cosine_spearman", data_set="STS12")
    verification = verified(model, interpret(statement, REGISTRY))
    assert verification.exit_status == 3
    assert verification.numbers[0].is_missing
    assert Verification("made", "made.native").exit_status == 3


def test_every_form_of_a_report_has_every_number(model):
    wrong = number_of_card(f"{score(model) + 3:.2f}")
    verification = verified(model, wrong, number_of_card("0.5", "accuracy"), most=1)
    for text in (
        verification_text(verification),
        verification_markdown(verification, {"torch": "0.0.0"}, "2026-01-01"),
    ):
        assert "differs" in text
        assert "accuracy is not measured here" in text
    facts = verification_facts(verification)
    assert (facts["checked"], facts["hold"], len(facts["numbers"])) == (1, 0, 2)
    json.dumps(facts)


# What others may have meant


@pytest.mark.parametrize(
    "variant",
    [
        Variant(prompt=PROMPT),
        Variant(prompt="passage: "),
        Variant(pooling="cls"),
        Variant(max_length=8),
        pytest.param(Variant(prompt=PROMPT, max_length=8), marks=pytest.mark.slow),
    ],
    ids=lambda variant: " and ".join(variant.words),
)
def test_a_search_names_the_choice_that_was_made(model, variant):
    numbers = [
        measured_number(model, variant, name) for name in ("spearman", "pearson")
    ]
    verification = verified(model, *numbers)
    assert verification.exit_status == 1
    words = {item.explanation.words for item in verification.numbers}
    assert words == {variant.words}


def test_a_search_finds_padding_in_the_mean(model):
    """Computed by transformers alone: texts padded to 32 tokens, and a mean without the mask."""
    folder = model.loader.places.encoder(model.method.encoder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bert = transformers.AutoModel.from_pretrained(folder).eval()

    def vectors(texts):
        settings = {"padding": "max_length", "truncation": True, "max_length": 32}
        with torch.inference_mode():
            tokens = tokenizer(list(texts), return_tensors="pt", **settings)
            return bert(**tokens).last_hidden_state.mean(dim=1)

    pairs = model.loader.texts(TASK).pairs
    cosines = torch.cosine_similarity(vectors(pairs.a), vectors(pairs.b))
    fraction = spearmanr(cosines.numpy(), pairs.gold).statistic
    shorter, padded = (Variant(pooling="mean", padded_to=tokens) for tokens in (16, 32))
    number = number_of_card(f"{fraction:.7f}")
    assert found(model, number, likely=[shorter, padded]).words == padded.words


def test_a_search_ends_with_the_prompts_of_mtebs_implementation(model, monkeypatch):
    registry = pytest.importorskip("mteb.models.model_implementations").MODEL_REGISTRY
    meta = SimpleNamespace(loader_kwargs={"model_prompts": {"STS": "compare: "}})
    monkeypatch.setitem(registry, "someone/made", meta)
    [variant] = variants_of_mteb(model)
    assert variant.words == ("mteb's prompt STS ('compare: ')",)
    monkeypatch.setattr(Explainer, "_candidates", lambda self, task: [])
    assert found(model, measured_number(model, variant)).words == variant.words


def test_what_needs_no_encoding_does_not_count(model, monkeypatch):
    """The first pairs alone, and what the cache has."""
    monkeypatch.setattr(search, "FIRST_PAIRS", (20,))
    for variant in (Variant(first_pairs=20), Variant(prompt=PROMPT)):
        number = measured_number(model, variant)
        assert found(model, number, most_encodings=0).words == variant.words


def test_the_bound_on_encodings_is_said_before_and_kept(model):
    notes = []
    number = number_of_card("12.3456")
    unknown = found(model, number, most_encodings=1, note=notes.append)
    assert "a search of at most 1 encodings" in notes[0]
    assert unknown.reason == "no choice among the first 1 encodings gives it"


def test_a_search_names_another_score_of_the_same_vectors(model):
    manhattan = score(model, name="manhattan_spearman") / 100
    verification = verified(
        model,
        measured_number(model),
        number_of_card(f"{score(model, name='pearson') / 100:.5f}"),
        number_of_card(f"{manhattan:.5f}"),
    )
    words = [
        item.explanation and item.explanation.words for item in verification.numbers
    ]
    assert words == [None, ("Pearson for Spearman",), ("manhattan for cosine",)]


def test_a_choice_has_to_give_the_numbers_of_the_run_that_hold(model):
    shorter = Variant(max_length=8)
    number, holding = (
        measured_number(model, shorter),
        measured_number(model, name="pearson"),
    )
    explainer = Explainer(model, FEW, most_encodings=0)
    assert explainer.search(TASK, [number])[number].words == shorter.words
    assert explainer.search(TASK, [number], [holding])[number].words == ()
    # Each of them, whichever comes first.
    given = measured_number(model, shorter, name="pearson")
    assert explainer.search(TASK, [number], [given])[number].words == shorter.words
    for both in ([given, holding], [holding, given]):
        assert explainer.search(TASK, [number], both)[number].words == ()


def test_exchanged_digits_are_no_other_score_that_is_near(model):
    manhattan = score(model, name="manhattan_spearman")
    [item] = verified(
        model, number_of_card(f"{manhattan + 0.0008:.4f}"), most=0
    ).numbers
    assert item.explanation.words == ()


def test_a_moved_number_is_found_and_not_explained_away(model):
    verification = verified(
        model,
        number_of_card(f"{score(model) + 0.4:.4f}"),
        number_of_card(score(model, name="pearson"), "pearson"),
    )
    moved, true = verification.numbers
    assert (moved.differs, true.holds, verification.exit_status) == (True, True, 1)
    assert moved.explanation.reason == (
        "1 other numbers of this run are reproduced, this one is not"
    )


def test_a_number_of_another_row_is_told_without_a_search(model):
    points = score(model)
    number = number_of_card(f"{points:.4f}")
    true = number.judged(points)
    exchanged = replace(number, task=DEV.name).judged(points + 5)
    _, wrong = explained((true, exchanged), Explainer(model, FEW))
    assert wrong.explanation.words == (
        "the number of mini-sts cosine_spearman in its place",
    )
