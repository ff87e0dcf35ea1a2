"""A search is a run of cells: measured once, an encoder at a time, with the errors of a run."""

from dataclasses import replace
from itertools import product

import pytest
from fakes import (
    BROKEN,
    DEPTH,
    NO_TRAIN,
    NOT_HERE,
    OTHER,
    TOY,
    FakeConfig,
    Told,
    corpus,
    library,
    method,
    numbered,
    registry,
)

from harness.core.errors import AssetMissing, DataError, HarnessError, UsageError
from harness.data.places import Places
from harness.data.tasks.loader import limited
from harness.evaluation.protocol import Model, Protocol
from harness.evaluation.run import RunContext
from harness.evaluation.search import Missing, Search
from harness.registry import load_registry
from harness.results.store import Store
from harness.transforms.pooling import CLS, MEAN

CORPUS = corpus("book", numbered(500, 40))


def search_of(folder, stated, *corpora):
    """A search over a fake encoder, as `Search.of` makes it of one that is here."""
    loader = library(folder, *corpora)
    context = RunContext(loader, Store(folder / "searches"), Told(), min_coverage=0.0)
    return Search(Model(stated), context, registry(stated.encoder, *corpora))


@pytest.fixture
def search(tmp_path):
    return search_of(tmp_path, method())


def encoded(search):
    """The texts that went through the stated encoder."""
    return search.model.method.encoder.log


def test_of_a_method_that_is_not_here_there_is_no_search(tmp_path):
    places = library(tmp_path).places
    with pytest.raises(AssetMissing):
        Search.of(method(encoder=FakeConfig("nowhere")), places, registry(FakeConfig()))
    found = Search.of(method(), places, registry(FakeConfig()), most_encodings=7)
    assert found.context.store.folder == places.cache / "searches"
    assert (found.most_encodings, found.context.min_coverage) == (7, 0.0)


def test_a_cell_is_measured_once_and_kept_for_the_next_search(search, tmp_path):
    stated = Protocol(search.model)
    scores = search.scores(stated, TOY)
    assert scores["spearman"].keys() >= {"all", "mean", "wmean"}
    count = len(encoded(search))
    assert count == len(set(TOY.pairs(tmp_path).sentences))
    assert search.scores(stated, TOY) is scores
    # Another pooling has other scores of the same encodings.
    other = search.scores(replace(stated, pooling=CLS), TOY)
    assert other["spearman"]["all"] != scores["spearman"]["all"]
    assert len(encoded(search)) == count
    again = search_of(tmp_path, method())
    assert again.scores(stated, TOY) == scores
    assert encoded(again) == []
    names = {(record.method, record.task) for record in again.context.store.records()}
    assert names == {("fake.mean", "toy"), ("fake.cls", "toy")}


def test_cells_are_measured_an_encoder_after_the_other(tmp_path):
    search = search_of(tmp_path, method())
    loads = []

    class Counted(FakeConfig):
        def load(self, path, cache):
            loads.append(self.name)
            return super().load(path, cache)

    encoders = [Counted("fake"), Counted("fine", weights="another")]
    cells = [
        (method(pooling, encoder=encoder), task)
        for task, pooling in product((TOY, OTHER), ("mean", "cls"))
        for encoder in encoders
    ]
    search.measure(cells)
    assert sorted(loads) == ["fake", "fine"]
    assert len(search.records) == len(cells)
    assert not any(isinstance(each, HarnessError) for each in search.records.values())


def test_what_cannot_be_measured_is_the_error_of_its_cell(search):
    stated = Protocol(search.model)
    with pytest.raises(AssetMissing):
        search.scores(stated, NOT_HERE)
    with pytest.raises(HarnessError, match="wanted pairs, found none") as broken:
        search.scores(stated, BROKEN)
    assert not isinstance(broken.value, AssetMissing)
    with pytest.raises(UsageError, match="no maximum length"):
        search.scores(replace(stated, max_length=8), TOY)
    # A cell that no run would plan.
    unplanned = method("mean", "centre", on="target-train")
    search.measure([(unplanned, NO_TRAIN)])
    assert isinstance(search.records[unplanned.id, NO_TRAIN.name], UsageError)
    # The others are measured all the same.
    assert search.scores(stated, TOY)


def test_an_encoder_that_is_broken_leaves_the_cells_of_others(search):
    class Broken(FakeConfig):
        def load(self, path, cache):
            raise DataError(f"{self.name}: wanted weights, found none; fetch them")

    cells = [(method(encoder=Broken("broken")), TOY), (method(), TOY)]
    search.measure(cells)
    assert isinstance(search.records["broken.mean", "toy"], HarnessError)
    assert not isinstance(search.records["fake.mean", "toy"], HarnessError)


def test_what_has_to_be_encoded_is_counted_until_it_is_cached(search, tmp_path):
    stated = Protocol(search.model)
    texts = set(TOY.pairs(tmp_path).sentences)
    whole = Missing(len(texts), sum(map(len, texts)))
    assert search.lacks(stated, TOY) == whole
    assert search.lacks(replace(stated, pooling=CLS), TOY) == whole
    assert Missing(1)
    assert not Missing()
    # Tasks share half of their sentences.
    shared = texts & set(OTHER.pairs(tmp_path).sentences)
    search.scores(stated, OTHER)
    left = search.lacks(stated, TOY)
    assert 0 < left.texts == len(texts) - len(shared)
    assert left.characters == sum(map(len, texts - shared))
    search.scores(stated, TOY)
    assert search.lacks(stated, TOY) == Missing()
    with pytest.raises(AssetMissing):
        search.lacks(stated, NOT_HERE)


def test_a_pass_over_a_fit_corpus_is_missing_until_it_is_made(tmp_path):
    stated = method("mean", "centre", on="book")
    search = search_of(tmp_path, stated, CORPUS)
    protocol = Protocol(search.model)
    plain = replace(protocol, post=())
    search.scores(plain, TOY)
    assert search.lacks(plain, TOY) == Missing()
    # A fit on the task's own sentences encodes those of all splits, and needs no pass.
    of_task = replace(protocol, fit_on="target")
    assert search.lacks(of_task, TOY).texts > 0
    assert not search.lacks(of_task, TOY).has_pass
    search.scores(of_task, TOY)
    assert search.lacks(of_task, TOY) == Missing()
    assert search.lacks(protocol, TOY) == Missing(has_pass=True)
    assert search.lacks(protocol, TOY)
    search.scores(protocol, TOY)
    assert search.lacks(protocol, TOY) == Missing()


def test_cells_that_share_their_texts_are_encoded_together(search):
    stated = Protocol(search.model)
    key = search.texts_of(stated, TOY)
    assert search.texts_of(replace(stated, correlation="pearson"), TOY) == key
    assert search.texts_of(replace(stated, pooling=CLS), TOY) == key
    assert search.texts_of(stated, OTHER) != key


def test_another_setting_of_the_model_is_read_from_its_own_files(search):
    renamed = FakeConfig("fake-rebuilt")
    folder = search.loader.places.encoder(search.model.method.encoder)
    encoder = search.encoder(renamed)
    assert search.loader.places.encoder(renamed) == folder
    assert search.encoder(renamed) is encoder
    assert search.encoder(search.model.method.encoder) is not encoder


def test_the_depth_is_known_from_the_cache_or_from_the_encoder(search, tmp_path):
    assert search.depth() == DEPTH
    search.scores(Protocol(search.model), TOY)
    again = search_of(tmp_path, method())
    assert again.depth() == DEPTH
    assert encoded(again) == []
    found = again.choices([], DEPTH)
    poolings = [choice.value for choice in found if choice.setting == "pooling"]
    assert CLS in poolings
    assert MEAN not in poolings


def test_what_another_maximum_length_has_encoded_is_not_missing(tmp_path):
    """Of sentences that are not cut; those are encoded once for all lengths."""
    found = load_registry()
    task = replace(limited(found.tasks["mini-sts"], 12), name="mini-sts")
    few = replace(found, tasks={"mini-sts": task})
    search = Search.of(found.parse("bert-mini.mean"), Places(tmp_path), few)
    stated = Protocol(search.model)
    cut = replace(stated, max_length=16)
    texts = len(set(search.loader.texts(task).sentences))
    assert search.lacks(cut, task).texts == search.lacks(stated, task).texts == texts
    search.scores(stated, task)
    assert search.lacks(stated, task) == Missing()
    assert 0 < search.lacks(cut, task).texts < texts / 2
    search.scores(cut, task)
    assert search.lacks(cut, task) == Missing()
