"""Verification: true numbers hold, each falsification is found, and a search names it."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers
from scipy.stats import spearmanr

from harness.conclusions.card_statements import Statement
from harness.conclusions.cards import interpret
from harness.conclusions.verification import Verification
from harness.core.types import Progress
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.evaluation import neighbours
from harness.evaluation.check_work import work_of_check
from harness.evaluation.neighbours import prompts_of_mteb
from harness.evaluation.protocol import Prompt, Protocol
from harness.evaluation.run import fit_cell
from harness.evaluation.search import Search
from harness.evaluation.select import PlannedCell
from harness.evaluation.verification import check_numbers, explained
from harness.interop.exported import write_model
from harness.registry import load_registry
from harness.report.card_check import (
    verification_facts,
    verification_markdown,
    verification_text,
)
from harness.resolve import resolve
from harness.transforms.pooling import CLS, MAX, MEAN, WEIGHTED_MEAN

REGISTRY = load_registry()
# The splits of a data set, with few pairs each.
FEW = {
    name: replace(limited(task, 40), name=name)
    for name, task in REGISTRY.tasks.items()
    if name.startswith(("mini-sts", "mini-sick"))
}
FEW = replace(REGISTRY, tasks={**REGISTRY.tasks, **FEW})
TASK, DEV, OTHER = (
    FEW.tasks[name] for name in ("mini-sts", "mini-sts.dev", "mini-sick")
)
PROMPT = Prompt("asked", "query: ")


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """bert-mini as a sentence-transformers folder with a prompt that it does not use by itself.

    What a search may choose from are a few poolings, lengths and prompts.
    """
    folder = tmp_path_factory.mktemp("verified")
    places = Places(folder / "cache")
    cell = PlannedCell(REGISTRY.parse("bert-mini.mean"), TASK, 0)
    fitted = fit_cell(cell, TaskLoader(places, {}), Progress())
    write_model(cell, fitted, places, folder / "made")
    settings = folder / "made" / "config_sentence_transformers.json"
    stated = json.loads(settings.read_text()) if settings.exists() else {}
    settings.write_text(json.dumps({**stated, "prompts": {"asked": PROMPT.text}}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "LENGTHS", (16, 8))
        patch.setattr(neighbours, "PADDED_LENGTHS", (32,))
        patch.setattr(
            neighbours, "_poolings", lambda _: [CLS, MEAN, MAX, WEIGHTED_MEAN]
        )
        patch.setattr(neighbours, "KNOWN_PROMPTS", neighbours.KNOWN_PROMPTS[:2])
        yield resolve(places, [f"made={folder / 'made'}"])


@pytest.fixture
def search(known):
    """The model under its own modules."""
    method = known.registry.parse("made.native")
    return Search.of(method, known.places, FEW, most_encodings=30)


def number_of_card(value, metric="cosine_spearman", **names):
    statement = Statement(str(value), metric, data_set=TASK.name, **names)
    return interpret(statement, REGISTRY)


def score(search, name="spearman", task=TASK, **settings):
    """The score under a protocol that differs from the model's own in these settings."""
    return search.scores(Protocol(search.model, **settings), task)[name]["all"]


def measured_number(search, name="spearman", names=None, **settings):
    """The number of a card that states the score under a protocol, with all its digits."""
    fraction = score(search, name, **settings) / 100
    return number_of_card(f"{fraction:.6f}", f"cosine_{name}", **(names or {}))


def verified(search, *numbers):
    checked = [*check_numbers(search, numbers)]
    return Verification("made", "made.native", explained(search, checked))


def words_of(search, *numbers):
    """What a search says for each number."""
    return [
        item.explanation and item.explanation.words
        for item in verified(search, *numbers).numbers
    ]


# Numbers that hold


def test_true_numbers_hold_in_any_form(search):
    points = score(search)
    distance = score(search, "euclidean_pearson")
    names = ("spearman", "dot_spearman", "euclidean_spearman", "manhattan_spearman")
    highest = max(score(search, name) for name in names)
    verification = verified(
        search,
        number_of_card(points / 100),
        number_of_card(f"{points:.2f}"),
        number_of_card(f"{points:.1f}"),
        number_of_card(f"{points / 100:.4f}", "main_score"),
        number_of_card(f"{distance:.3f}", "euclidean_pearson"),
        number_of_card(highest, "spearman_max"),
    )
    assert {str(item.verdict.state) for item in verification.numbers} == {"exact"}
    assert verification.exit_status == 0


def test_numbers_are_measured_with_the_arguments_of_their_run(search):
    arguments = {"batch_size": 32, "prompt_name": "asked", "truncate_dim": 16}
    stated = Protocol(search.model, prompt=PROMPT, dimensions=16)
    assert search.model.stated(arguments) == stated
    names = {"settings": arguments}
    number = measured_number(search, names=names, prompt=PROMPT, dimensions=16)
    assert verified(search, number).exit_status == 0
    number = number_of_card("0.5", settings={"precision": "int8"})
    [checked] = check_numbers(search, [number])
    assert checked.why_not == "precision = 'int8' of its run is not measured here"


def test_a_number_on_pairs_that_are_not_known_is_never_refuted(search):
    stated = replace(number_of_card(f"{score(search):.2f}"), doubt="other pairs")
    wrong = replace(number_of_card("1.5"), doubt="other pairs")
    verification = verified(search, stated, wrong)
    assert [item.holds for item in verification.numbers] == [True, False]
    assert [item.differs for item in verification.numbers] == [False, False]
    assert verification.exit_status == 0


def test_a_number_that_may_be_of_two_tasks_is_checked_on_both(search):
    of_dev = number_of_card(f"{score(search, task=DEV):.4f}")
    either, neither = check_numbers(
        search,
        [
            replace(of_dev, or_task=DEV.name),
            replace(number_of_card("1.5000"), or_task=DEV.name),
        ],
    )
    assert (either.holds, either.task) == (True, DEV.name)
    assert (neither.differs, neither.task) == (True, TASK.name)


def test_what_is_missing_is_status_3(search):
    statement = Statement("75.46", "cosine_spearman", data_set="STS12")
    verification = verified(search, interpret(statement, REGISTRY))
    assert verification.exit_status == 3
    assert verification.numbers[0].is_missing
    assert Verification("made", "made.native").exit_status == 3


def test_every_form_of_a_report_has_every_number(search):
    search.most_encodings = 1
    wrong = number_of_card(f"{score(search) + 3:.2f}")
    verification = verified(search, wrong, number_of_card("0.5", "accuracy"))
    for text in (
        verification_text(verification),
        verification_markdown(verification, {"torch": "0.0.0"}, "2026-01-01"),
    ):
        assert "differs" in text
        assert "accuracy is not measured here" in text
    facts = verification_facts(verification)
    assert (facts["checked"], facts["hold"], len(facts["numbers"])) == (1, 0, 2)
    json.dumps(facts)


def test_only_what_is_not_cached_is_announced_by_the_rate_that_was_measured(search):
    numbers = [measured_number(search), number_of_card("0.5", "pearson")]
    cached = work_of_check(search, numbers)
    assert str(cached) == "1 task: all encodings are in the cache"
    prompted = number_of_card("0.5", settings={"prompt": "not seen before: "})
    work = work_of_check(search, [*numbers, prompted])
    texts = set(search.loader.texts(TASK).sentences)
    assert (work.encoded, work.texts) == ((TASK.name,), len(texts))
    assert not search.lacks(search.model.stated({}), TASK)
    asked = search.model.stated(prompted.statement.settings)
    assert search.lacks(asked, TASK).texts == len(texts)
    rate = search.encoder(Protocol(search.model).method(TASK).encoder).cache.rate
    assert work.seconds == pytest.approx(sum(map(len, texts)) / rate)
    missing = replace(prompted, why_not="no task here")
    assert work_of_check(search, [missing]).tasks == ()


# What others may have meant

PASSAGE = Prompt("tried-passage", "passage: ")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"prompt": PROMPT}, ("the prompt 'query: '",)),
        ({"prompt": PASSAGE}, ("the prompt 'passage: '",)),
        ({"pooling": CLS}, ("pooling cls instead of native",)),
        ({"pooling": MAX}, ("pooling max instead of native",)),
        ({"pooling": WEIGHTED_MEAN}, ("pooling weighted-mean instead of native",)),
        ({"max_length": 8}, ("max length 8",)),
        ({"form": "test-dev"}, ("raw text, split test+dev (mini-sts.test-dev)",)),
        pytest.param(
            {"prompt": PROMPT, "max_length": 8},
            ("the prompt 'query: '", "max length 8"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_search_names_the_choice_that_was_made(search, settings, words):
    numbers = [
        measured_number(search, name, **settings) for name in ("spearman", "pearson")
    ]
    verification = verified(search, *numbers)
    assert verification.exit_status == 1
    assert {item.explanation.words for item in verification.numbers} == {words}


def test_one_protocol_is_looked_for_that_gives_all_tasks_of_a_source(search):
    """Two decimals of one task are soon met by chance, those of several are not."""
    numbers = []
    for task in (TASK, DEV, OTHER):
        points = score(search, task=task, prompt=PASSAGE)
        statement = Statement(f"{points:.2f}", "cosine_spearman", data_set=task.name)
        numbers.append(interpret(statement, REGISTRY))
    verification = verified(search, *numbers)
    found = [item.explanation for item in verification.numbers]
    assert {each.words for each in found} == {("the prompt 'passage: '",)}
    assert not any(each.is_chance for each in found)


def test_a_search_finds_padding_in_the_mean(search):
    """Computed by transformers alone: texts padded to 32 tokens, and a mean without the mask."""
    folder = search.loader.places.encoder(search.model.method.encoder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    bert = transformers.AutoModel.from_pretrained(folder).eval()

    def vectors(texts):
        settings = {"padding": "max_length", "truncation": True, "max_length": 32}
        with torch.inference_mode():
            tokens = tokenizer(list(texts), return_tensors="pt", **settings)
            return bert(**tokens).last_hidden_state.mean(dim=1)

    pairs = search.loader.texts(TASK).pairs
    cosines = torch.cosine_similarity(vectors(pairs.a), vectors(pairs.b))
    fraction = spearmanr(cosines.numpy(), pairs.gold).statistic
    [words] = words_of(search, number_of_card(f"{fraction:.7f}"))
    assert words == ("the padding to 32 tokens in the mean",)


def test_a_search_ends_with_the_prompts_of_mtebs_implementation(search, monkeypatch):
    registry = pytest.importorskip("mteb.models.model_implementations").MODEL_REGISTRY
    meta = SimpleNamespace(loader_kwargs={"model_prompts": {"STS": "compare: "}})
    monkeypatch.setitem(registry, "someone/made", meta)
    monkeypatch.setattr(Search, "choices", lambda *_, **__: [])
    [choice] = prompts_of_mteb(search.model, search.loader.places)
    assert choice.words == "mteb's prompt STS ('compare: ')"
    number = measured_number(search, prompt=choice.value)
    assert words_of(search, number) == [(choice.words,)]


def test_what_needs_no_encoding_does_not_count(search, monkeypatch):
    """The first pairs alone, and what the cache has."""
    monkeypatch.setattr(neighbours, "FIRST_PAIRS", (20,))
    first, prompted = (
        measured_number(search, first_pairs=20),
        measured_number(search, prompt=PROMPT),
    )
    search.most_encodings = 0
    assert words_of(search, first) == [("the first 20 pairs",)]
    assert words_of(search, prompted) == [("the prompt 'query: '",)]


def test_the_bound_on_encodings_is_said_before_and_kept(search, known, tmp_path):
    places = replace(known.places, cache=tmp_path)
    fresh, notes = Search.of(search.model.method, places, FEW, most_encodings=1), []
    fresh.note = notes.append
    [item] = verified(fresh, number_of_card("12.3456")).numbers
    [announced] = [note for note in notes if "at most" in note]
    assert "a search of at most 1 encoding of mini-sts (" in announced
    reason = "no choice among the first 1 encoding gives it"
    assert item.explanation.reason == reason


def test_a_search_names_another_score_of_the_same_vectors(search):
    manhattan = score(search, "manhattan_spearman") / 100
    assert words_of(
        search,
        measured_number(search),
        number_of_card(f"{score(search, 'pearson') / 100:.5f}"),
        number_of_card(f"{manhattan:.5f}"),
    ) == [None, ("Pearson for Spearman",), ("manhattan for cosine",)]


def test_a_choice_has_to_give_the_numbers_of_the_run_that_hold(search):
    shorter = ("max length 8",)
    number = measured_number(search, max_length=8)
    holding = measured_number(search, "pearson")
    # Each of them, whichever comes first.
    given = measured_number(search, "pearson", max_length=8)
    search.most_encodings = 0
    assert words_of(search, number) == [shorter]
    assert words_of(search, number, holding)[0] == ()
    assert words_of(search, number, given) == [shorter, shorter]


def test_exchanged_digits_are_no_other_score_that_is_near(search):
    manhattan = score(search, "manhattan_spearman")
    search.most_encodings = 0
    assert words_of(search, number_of_card(f"{manhattan + 0.0008:.4f}")) == [()]


def test_a_precision_is_no_reason_for_a_number_that_is_near(search):
    half = score(search, dtype="bfloat16")
    search.most_encodings = 0
    assert words_of(search, number_of_card(f"{half + 0.023:.4f}"))[0] in ((), None)


def test_a_moved_number_is_found_and_not_explained_away(search):
    verification = verified(
        search,
        number_of_card(f"{score(search) + 0.4:.4f}"),
        number_of_card(score(search, "pearson"), "pearson"),
    )
    moved, true = verification.numbers
    assert (moved.differs, true.holds, verification.exit_status) == (True, True, 1)
    assert moved.explanation.reason == (
        "1 other numbers of this run are reproduced, this one is not"
    )


def test_a_number_of_another_row_is_told_without_a_search(search):
    points = score(search)
    number = number_of_card(f"{points:.4f}")
    true = number.judged(points)
    exchanged = replace(number, task=DEV.name).judged(points + 5)
    _, wrong = explained(search, (true, exchanged))
    assert wrong.explanation.words == (
        "the number of mini-sts cosine_spearman in its place",
    )
