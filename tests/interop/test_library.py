"""Models as functions, functions as models, and scores as a data frame."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from processes import ROOT, run
from refusals import refused

import harness
from harness import read_results
from harness.core.digests import text_digest
from harness.core.errors import ScoreError, UsageError
from harness.core.metrics import cosine
from harness.data.places import Places
from harness.data.tasks.loader import TaskLoader, limited
from harness.encoders.config import FunctionConfig
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import PlannedCell
from harness.registry import load_registry
from harness.results.index import Results
from harness.results.records import Cell, cell_of
from harness.results.store import Store


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The folder of the cache, as the environment names it."""
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def hashed(texts):
    """A bag of letters."""
    return (
        np.array(
            [[text.count(letter) for letter in "aeioust"] for text in texts], float
        )
        + 0.1
    )


def test_a_name_a_folder_and_a_method_are_functions_from_texts_to_vectors(tmp_path):
    texts = ["A man eats.", "", "A man eats."]
    method = load_registry().parse("bert-mini.mean")
    by_name = harness.encoder("bert-mini.mean")
    assert by_name.method == method
    shutil.copytree(Places(tmp_path).encoder(method.encoder), tmp_path / "My_model")
    by_folder = harness.encoder(tmp_path / "My_model")
    assert by_folder.method.id == "my-model.mean"
    for embed in (by_folder, harness.encoder(method)):
        np.testing.assert_array_equal(embed(texts), by_name(texts))


def test_an_encoder_is_fitted_on_the_corpus_of_its_id_as_a_cell_of_a_run_is(tmp_path):
    name = "glove-mini.mean+sn+whitening:8@mini-text"
    embed = harness.encoder(name, seed=1)
    registry, runs = load_registry(), Store(tmp_path / "runs")
    task = registry.tasks["mini-sts"]
    cell = PlannedCell(registry.parse(name), task, 1)
    loader = TaskLoader(Places(tmp_path / "another cache"), registry.corpora)
    [outcome] = execute([cell], RunContext(loader, runs))
    pairs = loader.texts(task).pairs
    cosines, _ = cosine(embed(pairs.a), embed(pairs.b))
    np.testing.assert_allclose(cosines, runs.cosines(cell.address), atol=1e-5)
    assert embed.fitted_on == outcome.record.digests["fit"]


UNKNOWN = ["xylem ylem zyme"]


# Functions, since `harness.as_mteb` imports mteb, which takes seconds, where it is named.
def encoder_of_texts(model, **given):
    return harness.encoder(model, **given)


def as_mteb(model, **given):
    return harness.as_mteb(model, **given)


def as_mteb_of_texts(model, **given):
    encoder = harness.as_mteb(model, **given)
    return lambda texts: encoder.encode([{"text": texts}])


@pytest.mark.parametrize("opened", [encoder_of_texts, as_mteb_of_texts])
def test_texts_whose_words_the_vectors_lack_are_refused_unless_allowed(
    opened, tmp_path
):
    (tmp_path / "words.txt").write_text("one 1 0.5 2\nnil 3 1 1\n")
    embed = opened(tmp_path / "words.txt")
    with refused(ScoreError, r"found one for 0\.0 %.* with min_coverage=0$"):
        embed(UNKNOWN)
    assert embed(["one", ""]).shape == (2, 3)
    with pytest.warns(
        UserWarning, match=r"words-txt\.mean: 25\.0 % of the tokens have a vector"
    ):
        embed(["one two " * 4 + "one", "two " * 11])
    with pytest.warns(UserWarning, match=r": 0\.0 %"):
        assert not opened(tmp_path / "words.txt", min_coverage=0.0)(UNKNOWN).any()


def opened_and_measured(model, **given):
    few = replace(limited(load_registry().tasks["mini-sts"], 20), name="few-pairs")
    return harness.evaluate(model, few, **given)


@pytest.mark.parametrize("opened", [encoder_of_texts, as_mteb, opened_and_measured])
def test_what_a_name_does_not_say_of_the_pooling_is_a_warning(opened, tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(
        Places(tmp_path).encoder(load_registry().encoders["bert-mini"]), folder
    )
    opened(folder)  # modules.json says what its pooling is
    with pytest.warns(UserWarning, match=r"`cls` .* modules of mine"):
        opened(f"{folder}.cls")
    (folder / "modules.json").unlink()
    opened(f"{folder}.mean")
    with pytest.warns(
        UserWarning, match=r"mine: its folder has no modules.json.*mine\.mean here"
    ):
        opened(folder)


@pytest.mark.parametrize("corpus", ["mini-text", "target"])
def test_a_fit_on_texts_of_ones_own_names_no_corpus(corpus):
    texts = ["A man eats.", "A dog runs.", "It rains."]
    name = f"glove-mini.mean+sn@{corpus}"
    by_name = harness.encoder(name, texts=iter(texts))
    assert by_name.method.id == "glove-mini.mean+sn@own-texts"
    assert by_name.fitted_on == text_digest(texts)
    model = harness.as_mteb(name, texts=iter(texts))
    assert model.mteb_model_meta.name == "harness/glove-mini.mean+sn@own-texts"
    for what_needs_texts in (harness.encoder, harness.as_mteb):
        with refused(UsageError, "wanted texts to fit it on"):
            what_needs_texts(by_name.method)
    with refused(UsageError, "only a program fits on texts of its own"):
        harness.evaluate(by_name.method, "mini-sts")


def test_a_frame_has_the_scores_that_a_run_has(tmp_path):
    methods = ["glove-mini.mean", "glove-mini.mean+sn@target"]
    tasks = ["mini-sts", "mini-kind"]
    where = {"output": tmp_path / "runs", "places": Places(tmp_path / "other cache")}
    frame = harness.evaluate(methods, tasks, **where)
    stored = {(r.method, r.task): r for r in Store(tmp_path / "runs").records()}
    assert len(stored) == len(frame) == 4
    for row in frame.itertuples():
        scores = stored[row.method, row.task].scores[row.metric]
        assert row.score == (scores["all"] if row.metric == "spearman" else scores)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda texts: hashed(texts)[:-1],
            "wanted 2 rows for 2 texts, all of one width, found an",
        ),
        (
            lambda texts: hashed(texts) * np.inf,
            "found another in the vector of 'a'; mend the function",
        ),
        (lambda texts: [["1", "2"] for _ in texts], "found an array of <U1"),
        (lambda texts: [[1] * len(text) for text in texts], "found a list"),
    ],
)
def test_a_function_that_gives_no_vectors_is_refused(function, said):
    with refused(ScoreError, said):
        FunctionConfig("f", function).vectors(["a", "be"])


def test_a_function_whose_rows_depend_on_more_than_their_text_is_refused():
    def centred_on_its_batch(texts):
        return hashed(texts) - hashed(texts).mean(axis=0)

    with refused(
        ScoreError, "wanted one vector of a text whatever the texts next to it"
    ):
        harness.evaluate(centred_on_its_batch, "mini-sts")


def test_a_function_or_an_object_that_encodes_is_a_model_and_a_task_can_be_ones_own(
    cache,
):
    class Model:
        def encode(self, texts):
            return hashed(texts)

    task = load_registry().tasks["mini-sts"]
    mine = replace(task, name="my-sts", scored=("dev",))
    frame = harness.evaluate(Model(), [mine, "mini-sts", task])
    assert list(frame.task) == ["my-sts", "mini-sts"]
    tasks = ["mini-sts.dev", "mini-sts"]
    by_name = harness.evaluate(hashed, tasks, name="letters")
    assert list(frame.score) == list(by_name.score)
    assert set(by_name.method) == {"letters.native"}
    assert not cache.exists()  # nothing of a function is kept


def test_a_word_for_a_task_means_what_it_means_to_a_run(tmp_path):
    pairs = tmp_path / "my-pairs.tsv"
    pairs.write_text("a\ta b\t4\ne\ti o\t1\no\to o\t5\n")
    frame = harness.evaluate(hashed, [str(pairs), "mini-st?"])
    assert list(frame.task) == ["my-pairs", "mini-sts"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": []}, "wanted models and tasks, found 0 models and 1 tasks"),
        ({"tasks": []}, "wanted models and tasks, found 1 models and 0 tasks"),
        ({"name": "minilm"}, "and no encoder's name; take another"),
        ({"name": "My model"}, "wanted lower-case letters"),
        ({"seeds": 0}, "wanted 1 to 1000 seeds, found 0"),
    ],
    ids=str,
)
def test_what_is_asked_wrongly_is_refused_before_it_is_measured(given, said, cache):
    with refused(UsageError, said):
        harness.evaluate(**{"model": hashed, "tasks": "mini-sts"} | given)
    assert not cache.exists()


WRONG_TYPES = {
    'embed("A man.")': "wanted a list of texts, found one text; put it into a list",
    'harness.encoder("")': "wanted the name, the folder or the Method of a model, found ''",
    'embed(["A man.", None])': "wanted texts, found None in row 1; leave it out, or make a str of",
    "harness.encoder(len)": "wanted the name, the folder or the Method of a model, found <built",
    'harness.as_mteb("glove-mini.mean").encode([["a"]])': "batches with the key 'text', as mteb",
    'harness.evaluate("glove-mini.mean", [3])': "unknown task '3'",
    'harness.evaluate([len], "mini-sts")': "harness.evaluate takes a function, one at a time",
}


def test_values_of_a_wrong_type_are_refused_in_words(tmp_path):
    """In a process of its own: while tests run, signatures are checked before the function is."""
    code = f"""
import harness
embed = harness.encoder("glove-mini")
for text in {[*WRONG_TYPES]!r}:
    try:
        eval(text)
        print("nothing raised by", text)
    except harness.UsageError as error:
        print(error)
"""
    ended = run(cwd=tmp_path, code=code)
    assert ended.status == 0, ended.err
    for line, said in zip(ended.out.splitlines(), WRONG_TYPES.values(), strict=True):
        assert said in line


# Stored results as a frame


def test_a_frame_holds_the_committed_records(tmp_path):
    frame = read_results(ROOT / "results")
    store = Store(ROOT / "results")
    assert len(frame) == len(list(store.records()))
    assert not frame.duplicated(["method", "task", "seed"]).any()
    value = Results.read(store).value("minilm.mean", "sts12", "spearman", "all")
    table = frame.pivot_table(index="method", columns="task", values="score")
    assert table.loc["minilm.mean", "sts12"] == pytest.approx(value.mean)
    exact = frame[frame.verdict == "exact"]
    assert (exact.score - exact.published).abs().max() <= 0.005
    with refused(UsageError, "wanted a folder of results"):
        read_results(tmp_path)


def test_ones_own_results_stand_before_the_packaged_ones_and_replace_their_cells(
    tmp_path, monkeypatch
):
    """A cell with five packaged seeds, and one that is not packaged."""
    records = {cell_of(record): record for record in Store(ROOT / "results").records()}
    cell = ("minilm.mean+flow@target", "sts-b")
    shared = records[Cell(*cell, 0)]
    new = replace(shared, method="minilm.mean+flow:mine@target")
    mine = replace(shared, scores={"spearman": {"all": 1.0}})
    Store(tmp_path / "results").promote([mine, new])
    monkeypatch.chdir(tmp_path)
    frame = read_results()
    others = [key for key in records if (key.method, key.task) != cell]
    assert list(frame.source) == ["own"] * 2 + ["packaged"] * len(others)
    own, packaged = frame[:2], frame[2:]
    assert set(own.method) == {cell[0], "minilm.mean+flow:mine@target"}
    assert own[own.method == cell[0]].score.tolist() == [1.0]
    names = [(key.method, key.task, key.seed) for key in others]
    keys = zip(packaged.method, packaged.task, packaged.seed, strict=True)
    assert list(keys) == names
    assert packaged.published.notna().any()
    assert list(read_results(tmp_path / "results").source) == ["own"] * 2
