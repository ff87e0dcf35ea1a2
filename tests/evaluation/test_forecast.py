"""How long a run takes: by records of its cells, of this machine, and what is left of it."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, Told, corpus, library, method, numbered, task, ticks

from harness.assets.places import Places
from harness.core.interfaces import Trained
from harness.core.types import Method, Record
from harness.evaluation.compare import PAIR_SECONDS, row_seconds
from harness.evaluation.forecast import TRAINING, Forecast
from harness.evaluation.plan import GUESSED, make_plan, render_plan
from harness.evaluation.runner import execute
from harness.registry import load_registry
from harness.results.comparisons import Comparisons
from harness.results.index import Results
from harness.results.protocols import SEVEN
from harness.results.records import PlannedCell, Store, cells
from harness.tasks.loader import limited_corpus
from harness.transforms.pooling import CLS, MEAN

FLOW = "fake.mean+stretch@target"
TIMINGS = {"encode": 7.0, "fit": 2.0, "apply": 0.5, "score": 0.5}


def record(name=FLOW, on="toy", seed=0, rate=100.0, **timings) -> Record:
    facts = {"sentences_per_second": rate}
    took = {name: float(seconds) for name, seconds in {**TIMINGS, **timings}.items()}
    return Record(1, name, name, on, seed, {"spearman": {}}, 4, took, {}, {}, facts)


def cell(name="mean", *post, on=None, of=TOY, seed=0) -> PlannedCell:
    return PlannedCell(method(name, *post, on=on), of, seed)


def forecast(own=(), other=()) -> Forecast:
    return Forecast.of(own).before(Forecast.of(other))


@pytest.mark.parametrize(
    ("of", "seconds"),
    [
        (cell("mean", "stretch", on="target"), 3.0),
        (cell("cls", "stretch", on="target"), 3.0),  # another pooling
        (cell("mean", "stretch", on="target", of=OTHER), 3.0),  # another task
        (cell("mean", "stretch", on="target-train"), 3.0),  # another fit
        (cell("mean", "centre", on="target"), None),
        (cell("mean"), None),
    ],
)
def test_a_cell_takes_what_the_records_of_its_kind_took(of, seconds):
    assert forecast(other=[record()]).of_cell(of) == seconds


def test_the_nearest_kind_counts_and_seeds_are_averaged():
    known = forecast(
        other=[record(fit=2), record(seed=1, fit=4), record(on="sts-b", fit=100)],
        own=[record("other.mean+stretch:2@target", fit=50)],
    )
    assert known.of_cell(cell("mean", "stretch", on="target")) == 4.0
    assert known.of_cell(cell("mean", "stretch", on="target", of=OTHER)) == 101.0


def test_a_pass_over_a_corpus_is_counted_once_and_not_in_each_fit():
    fits = [record(f"fake.mean+{post}@far", fit=fit) for post, fit in (("sn", 60), ("nice", 63))]
    known = forecast(other=fits)
    assert known.of_pass("fake", corpus("far", ()), rate=1.0) == 60
    assert known.of_cell(cell("mean", "centre", on="target")) is None
    assert [known.cells["post-processors", post] for post in ("sn", "nice")] == [1, 4]


def test_other_machines_clocks_are_scaled_by_the_cells_that_both_measured(tmp_path):
    committed, runs = Store(tmp_path / "committed"), Store(tmp_path / "runs")
    committed.promote([record(), record("fake.mean+centre@target", fit=9)])
    runs.write(record(fit=5, apply=3, score=1), np.zeros(4), {})
    planned = [cell("mean", "stretch", on="target"), cell("mean", "centre", on="target")]
    known = Forecast.read(planned, runs, Results.read(committed))
    assert known.pace == 3
    assert [known.of_cell(one) for one in planned] == [9, 30]
    assert known.rates["fake"] == pytest.approx(100 / 3)
    runs.path(planned[0].address).write_bytes(b"cut")
    assert Forecast.read(planned, runs, Results.read(committed)).pace == 1


def test_a_training_takes_what_other_seeds_took_here(tmp_path):
    places, source = Places(tmp_path), Trained("kin", "kin", "kin-1", seed=3)
    assert forecast().of_training(source, places) == TRAINING
    for seed, text in enumerate(('{"seconds": 10}', '{"seconds": 20}', "{", "{}")):
        folder = places.trained(replace(source, seed=seed))
        folder.mkdir(parents=True)
        (folder / "training.json").write_text(text)
    assert forecast().of_training(source, places) == 15


def test_a_plan_adds_up_what_is_left_and_leaves_out_what_is_measured(tmp_path):
    texts, runs = library(tmp_path), Store(tmp_path / "runs")
    posts = [method("mean", "stretch", on="target"), method("mean", "centre", on="target")]
    planned = cells(posts, [TOY], seeds=2)
    known = forecast(other=[record()])
    made = make_plan(planned, texts, runs, known, workers=2)
    [entry] = made.encoders
    assert (entry.measured, entry.guessed) == (0, 1)
    assert entry.fit_seconds == 2 * 3 + GUESSED
    assert made.parts["fitting and scoring"] == entry.fit_seconds / 2
    assert made.seconds == sum(made.parts.values())
    told = " ".join(render_plan(made).split())
    assert re.search("3 of 3 cells can run here; about . s of work is left for 2 processes", told)
    assert "3 s of fitting and scoring. No record tells how long 1 of the cells take." in told
    list(execute(planned[:2], texts, runs, Told(), ticks()))
    known = forecast(other=[record(rate=None)])
    made = make_plan(planned, texts, runs, known)
    assert made.encoders[0].measured == 2
    assert made.seconds == made.encoders[0].fit_seconds == GUESSED
    assert "3 of 3 cells can run here, 2 of them are measured already; about 0 s" in render_plan(
        made
    )
    changed = [replace(one, method=replace(one.method, pooling=CLS)) for one in planned]
    assert make_plan(changed, texts, runs, known).encoders[0].measured == 0


def test_a_corpus_that_was_passed_over_costs_no_second_pass(tmp_path):
    texts = library(tmp_path, corpus("far", numbered(300, 50)))
    centred = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")
    known = forecast(other=[record(centred.id, rate=None, fit=60)])
    planned = cells([centred], [TOY, OTHER], seeds=1)
    [before] = make_plan(planned, texts, None, known).encoders
    assert (before.passes, before.fit_seconds) == ({"far": 60}, 2 * 1)
    list(execute(planned[:1], texts, Store(tmp_path / "runs"), Told(), ticks()))
    [after] = make_plan(planned, texts, None, known).encoders
    assert (after.passes, after.fit_seconds) == ({}, 2 * 1)
    stretch = method("mean", "stretch", on="target").post
    for fitted_on_other_files in (replace(centred, pooling=CLS), replace(centred, post=stretch)):
        again = make_plan(cells([fitted_on_other_files], [TOY], 1), texts, None, known)
        assert again.encoders[0].passes == {"far": 60}


def test_a_pass_without_a_record_takes_its_sentences_at_the_rate_of_the_encoder(tmp_path):
    far = replace(corpus("far", numbered(300, 50)), count=1_000_000)
    on_far = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")
    planned = cells([on_far], [TOY], seeds=1)
    slow, quick = (forecast(other=[record(rate=rate)]) for rate in (100.0, 500.0))
    made = make_plan(planned, library(tmp_path, far), None, slow, workers=2)
    assert made.parts["passes over corpora"] == made.encoders[0].passes["far"] == 10_000
    assert "2.8 h of passes over corpora" in " ".join(render_plan(made).split())
    made = make_plan(planned, library(tmp_path, far), None, quick)
    assert made.encoders[0].passes == {"far": 2_000}
    texts = library(tmp_path, limited_corpus(far, 20))
    texts.corpora = {"far": limited_corpus(far, 20)}
    known = forecast(other=[record(on_far.id, rate=100.0, fit=60)])  # of the whole corpus
    assert make_plan(planned, texts, None, known).encoders[0].passes == {"far.limit-20": 0.2}


def test_the_time_of_a_pass_over_an_unknown_number_of_sentences_is_not_known(tmp_path):
    on_far = Method(FakeConfig(), MEAN, method("mean", "centre", on="target").post, "far")
    texts = library(tmp_path, corpus("far", numbered(300, 50)))
    made = make_plan(cells([on_far], [TOY], 1), texts, None, forecast(other=[record()]))
    assert (made.encoders[0].passes, made.parts["passes over corpora"]) == ({"far": None}, None)
    assert made.seconds == made.encoders[0].seconds + made.encoders[0].fit_seconds
    told = " ".join(render_plan(made).split())
    assert "+ not known" in told
    assert "without passes over corpora: how many sentences far has is not known." in told


def test_the_sentences_of_every_corpus_are_stated():
    assert all(corpus.count for corpus in load_registry().corpora.values())


def test_rows_are_compared_where_a_table_is_whole_and_was_not_compared(tmp_path):
    texts = library(tmp_path)
    tasks = [task(f"{base}.senteval") for base in SEVEN]
    planned = cells([method("mean"), method("cls")], tasks, seeds=1)
    pairs = sum(len(texts.inputs(one).pairs) for one in tasks)
    whole = 2 * 2 * pairs * PAIR_SECONDS  # two protocols, two rows
    assert row_seconds(planned, texts, ()) == pytest.approx(whole)
    assert row_seconds(planned[:-1], texts, ()) == 0
    rows = dict.fromkeys(("fake.mean", "fake.cls"), 50.0)
    known = Comparisons("fake", "senteval-spearman-all", 10, 0, rows, ())
    assert row_seconds(planned, texts, [known]) == pytest.approx(whole / 2)


def test_the_command_counts_the_cells_of_the_output_folder(tmp_path, monkeypatch, capsys):
    from harness.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DATA_DIR", raising=False)
    names = ("-m", "glove-mini.mean", "-t", "mini-kind", "-o", "mine")

    def answer(*words):
        with pytest.raises(SystemExit):
            main([*words])
        return capsys.readouterr().out

    before = json.loads(answer("plan", *names, "--json"))
    assert before["encoders"][0]["measured"] == 0
    assert before["encoders"][0]["fit_seconds"] > 0
    assert set(before["parts"]) == {
        "encoding",
        "passes over corpora",
        "training",
        "fitting and scoring",
        "comparing rows",
    }
    answer("run", *names, "-q")
    after = json.loads(answer("plan", *names, "--json"))
    assert (after["encoders"][0]["measured"], after["seconds"]) == (1, 0)
