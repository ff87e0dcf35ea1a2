"""Method against method: the paired bootstrap of seed 0, corrected by Holm, or why it cannot be."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, library, task
from fakes import registry as fake_registry

from harness.core.errors import DataError, UsageError
from harness.core.types import Record
from harness.evaluation.compare import RESAMPLES, SEED, compare_methods
from harness.evaluation.runner import RunContext
from harness.results.comparisons import bootstrap_scores, compare_resamples, holm
from harness.results.records import SCHEMA, Cell, Store

LEXICAL = task("lexical", metric="lexical")
REGISTRY = fake_registry(FakeConfig())
REGISTRY = replace(REGISTRY, tasks={**REGISTRY.tasks, "lexical": LEXICAL})
METHODS = ("fake.mean", "fake.cls")


@pytest.fixture
def loader(tmp_path):
    return library(tmp_path / "library")


@pytest.fixture
def runs(tmp_path, loader):
    """Records of both methods: alike on one task, one equal to gold on the other."""
    rng, store = np.random.default_rng(7), Store(tmp_path / "runs")
    for method in METHODS:
        for of in (TOY, OTHER):
            inputs = loader.inputs(of)
            values = rng.normal(size=len(inputs.pairs))
            if (method, of) == ("fake.mean", OTHER):
                values = inputs.pairs.gold / 5
            write(store, method, of, values, inputs.digests["data"])
    return store


def write(store, method, of, values, data, scores=None):
    scores = scores or {"spearman": {"all": 50.0 + len(method)}}
    made = Record(SCHEMA, method, "", of.name, 0, scores, len(values), {}, {"data": data}, {})
    store.write(made, values.astype(np.float32), {})


def test_it_is_the_paired_bootstrap_on_each_task(runs, loader):
    found = compare_methods(*METHODS, (), REGISTRY, RunContext(loader, runs))
    assert [one.task for one in found] == ["toy", "sts-b"]
    ps = []
    for one, of in zip(found, (TOY, OTHER), strict=True):
        pairs = loader.inputs(of).pairs
        both = np.stack([runs.cosines(Cell(method, of.name)) for method in METHODS])
        rng = np.random.default_rng(SEED)
        wanted = compare_resamples(
            *bootstrap_scores(both, pairs.gold, pairs.group, resamples=RESAMPLES, rng=rng)
        )
        assert (one.low, one.high, one.p) == pytest.approx((wanted.low, wanted.high, wanted.p))
        assert (one.first, one.second, one.difference) == (59.0, 58.0, 1.0)
        ps.append(wanted.p)
    assert [one.p_holm for one in found] == pytest.approx(holm(ps))
    assert [one.differs for one in found] == [False, True]


def test_a_chosen_task_is_compared_alone(runs, loader):
    [one] = compare_methods(*METHODS, (OTHER,), REGISTRY, RunContext(loader, runs))
    assert (one.task, one.p_holm) == ("sts-b", one.p)


def test_what_cannot_be_compared_is_told_with_the_reason(runs, loader):
    def refused(*tasks, match, error=UsageError, second="fake.cls"):
        with pytest.raises(error, match=match):
            compare_methods("fake.mean", second, tasks, REGISTRY, RunContext(loader, runs))

    refused(match="no task that fake.mean and fake.last2", second="fake.last2")
    refused(REGISTRY.tasks["no-train"], match="a record of fake.mean and of fake.cls on no-train")
    for method in METHODS:
        write(runs, method, LEXICAL, np.ones(30), "d", {"edit_distance": -5.0})
    refused(LEXICAL, match="lexical: wanted a correlation or an accuracy, found edit_distance")
    write(runs, "fake.cls", TOY, np.ones(30), "other pairs", {"spearman": {"all": 3.0}})
    refused(TOY, match="fake.cls was scored on other pairs of toy", error=DataError)
    runs.path(Cell("fake.cls", "toy")).with_suffix(".safetensors").unlink()
    refused(TOY, match="the similarities of fake.mean or fake.cls do not lie beside")
    write(runs, "fake.cls", TOY, np.ones(30), "d", {"spearman": {"all": None}})
    refused(TOY, match="toy: a score is undefined")
