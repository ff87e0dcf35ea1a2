"""What the profiles of a reproduction choose; the plan of a run: what is left and missing."""

from dataclasses import replace
from itertools import groupby

import pytest
from committed import RESULTS
from fakes import NOT_HERE, OTHER, TOY, FakeConfig, corpus, library, method
from refusals import refused

from harness.core.errors import UsageError
from harness.core.hardware import Hardware
from harness.core.types import Method
from harness.encoders.encodings import EncoderCache
from harness.evaluation.plan import make_plan, plan_text
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import (
    PROFILES,
    is_embedded,
    narrowed,
    on_hardware,
    planned_cells,
    profile,
    run_order,
    select_cells,
)
from harness.registry import load_registry
from harness.results.published_tables import load_tables
from harness.results.store import Store
from harness.transforms.pooling import CLS, MEAN

PAPERS = RESULTS / "papers"


@pytest.fixture(scope="module")
def chosen():
    return {name: profile(load_registry(), name, PAPERS, 1) for name in PROFILES}


def cells(planned):
    return {p.address for p in planned}


def test_all_is_what_is_registered_and_what_is_published(chosen):
    assert cells(chosen["all"]) == cells(chosen["standard"]) | cells(chosen["papers"])
    assert cells(chosen["embedded"]) < cells(chosen["standard"])


def test_the_embedded_profile_reads_nothing_from_outside(chosen):
    assert chosen["embedded"]
    for planned in chosen["embedded"]:
        assert is_embedded(planned.method.encoder)
        assert planned.task.asset == "embedded"
        assert planned.method.fit_on in (None, "target", "target-train", "mini-text")
    assert {p.task.name for p in chosen["embedded"]} >= {
        name
        for name, task in load_registry().tasks.items()
        if name.startswith("mini-") and task.scored != (task.train,)
    }


@pytest.mark.parametrize("name", PROFILES)
def test_an_encoder_comes_once_and_what_is_carried_first(chosen, name):
    planned = sorted(chosen[name], key=run_order)
    encoders = [key for key, _ in groupby(p.method.encoder.name for p in planned)]
    assert len(encoders) == len(set(encoders))
    carried = [is_embedded(p.method.encoder) for p in planned]
    assert carried == sorted(carried, reverse=True)


def test_a_map_fitted_on_the_train_split_is_not_scored_on_it():
    found = load_registry()
    method = found.parse("glove-mini.mean+sn@target-train")
    with refused(
        UsageError, "no training split other than the sentences that are scored"
    ):
        planned_cells([method], [found.tasks["sick-r.all"]], 1)


def test_patterns_choose_among_the_cells_of_a_profile(chosen):
    found, papers = load_registry(), chosen["papers"]
    assert narrowed(papers, found, [], []) == papers
    kept = narrowed(papers, found, ["bert-base*"], ["sts1?.senteval", "sts-b"])
    tasks = {f"sts1{n}.senteval" for n in range(2, 7)} | {"sts-b"}
    assert cells(kept) == {
        cell
        for cell in cells(papers)
        if cell.method.startswith("bert-base") and cell.task in tasks
    }
    assert kept


# Precisions and devices


def planned_cells_of(*methods):
    found = load_registry()
    planned = [found.parse(method) for method in methods]
    return planned_cells(planned, [found.tasks["mini-sts"]], 1)


def test_cells_keep_the_precision_of_their_ids_unless_another_is_wanted():
    cells = planned_cells_of("bert-mini.mean", "bert-mini-float16.mean")
    assert on_hardware(cells, "cpu", None, None) == cells
    with refused(UsageError, "leave one of them out"):
        on_hardware(cells, "cuda", "bfloat16", 64)
    placed = on_hardware(planned_cells_of("bert-mini.mean"), "cuda", "bfloat16", 64)
    assert {cell.method.id for cell in placed} == {"bert-mini-bfloat16.mean"}
    assert placed[0].encoder.hardware == Hardware("cuda", "bfloat16", 64)
    words = planned_cells_of("glove-mini.mean")
    assert on_hardware(words, "cuda", None, 64) == words


# What globs leave out


def test_a_glob_names_what_it_leaves_out_and_how_to_run_it():
    found, tasks = load_registry(), ["sick-r.senteval.dev"]
    globs = ["bert-mini.mean+s*", "bert-mini.mean+f*"]
    selected, message = select_cells(found, globs, tasks, 1)
    chosen = {cell.method.id for cell in selected}
    dropped = {method.id for method in found.select_methods(globs)} - chosen
    assert chosen
    assert set(message.partition("to run it: ")[2].split(", ")) == dropped
    every, message = select_cells(found, [*globs, *dropped], tasks, 1)
    assert {cell.method.id for cell in every} == chosen | dropped
    assert message == ""


def test_the_first_profile_reproduces_published_numbers_and_tries_each_kind_of_method(
    chosen,
):
    published, smoke = [], []
    for planned in chosen["first"]:
        (smoke if is_embedded(planned.method.encoder) else published).append(planned)
    named = {(planned.method.id, planned.task.name) for planned in published}
    numbers = [
        cell
        for table in load_tables(PAPERS, load_registry())
        for cell in table.numbers
        if (cell.method, cell.task) in named
    ]
    assert len(numbers) >= 28
    assert len(smoke) <= 60
    embedded = chosen["embedded"]
    assert cells(smoke) <= cells(embedded)
    assert {p.task.name for p in smoke} == {p.task.name for p in embedded}

    def kinds(planned):
        untrained = [cell.method for cell in planned if not cell.method.seeded]
        return {type(post) for method in untrained for post in method.post}

    assert kinds(smoke) == kinds(embedded)


# The plan of a run

FAR = replace(corpus("far", (("of the same length, " * 3),) * 50), count=1_000_000)
ON_FAR = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")


def text(plan):
    return " ".join(plan_text(plan).split())


def test_a_plan_times_sentences_and_counts_what_else_is_left(tmp_path):
    texts, runs = library(tmp_path), Store(tmp_path / "runs")
    # Sentences of another task were encoded, 1,000 letters in a second.
    encoded, config = ["x" * 500, "y" * 500], FakeConfig()
    identity = texts.places.identify(config, tmp_path)
    vectors = config.load(tmp_path, tmp_path).encode(encoded)
    EncoderCache.open(texts.places.cache, identity).add(encoded, vectors, 1.0)
    posts = [
        method("mean", "stretch", on="target"),
        method("mean", "centre", on="target"),
    ]
    planned = planned_cells([*posts, method("mean")], [TOY], seeds=2)
    plan = make_plan(planned, texts, runs)
    sentences = {t for split in TOY.splits for t in TOY.load(tmp_path, split).sentences}
    assert plan.sentences == len(sentences)
    expected = pytest.approx(sum(map(len, sentences)) / 1000)
    assert plan.first.encode_seconds == expected
    assert text(plan) == (
        f"4 of 4 cells can run here. {len(sentences)} sentences to encode (about 2 s), "
        "then 3 fits (time not known yet) and 4 scores."
    )
    list(execute(planned[:2], RunContext(texts, runs)))
    assert text(make_plan(planned, texts, runs)) == (
        "4 of 4 cells can run here; 2 are already measured. 1 fit (time not known yet) "
        "and 2 scores."
    )
    list(execute(planned, RunContext(texts, runs)))
    assert text(make_plan(planned[:1], texts, runs)) == (
        "1 of 1 cell can run here; 1 is already measured."
    )
    changed = [replace(one, method=replace(one.method, pooling=CLS)) for one in planned]
    assert make_plan(changed, texts, runs).measured == 0


def test_a_pass_over_a_corpus_is_left_until_it_is_made(tmp_path):
    texts = library(tmp_path, FAR)
    planned = planned_cells([ON_FAR], [TOY, OTHER], seeds=1)
    plan = make_plan(planned, texts)
    assert plan.sentences > FAR.count
    assert plan.then.encode_seconds is None
    assert "1,000,045 sentences to encode (speed not known yet), then" in text(
        make_plan(planned[:1], texts)
    )
    list(execute(planned[:1], RunContext(texts, Store(tmp_path / "runs"))))
    assert make_plan(planned, texts).sentences < 100


def test_what_is_missing_is_named_with_what_gets_it(tmp_path):
    planned = planned_cells([method("mean")], [TOY, NOT_HERE], seeds=1)
    plan = make_plan(planned, library(tmp_path))
    assert (plan.cells, plan.runnable, list(plan.missing)) == (2, 1, ["sts-raw"])
    assert plan.missing["sts-raw"].get == "harness fetch sts-raw"
