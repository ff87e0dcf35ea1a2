"""Files that change during a run: a key holds the vectors of its own files, or the cell fails."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from fakes import OTHER, TOY, FakeConfig, FakeEncoder, Told, library, method

from harness.core.errors import DataError
from harness.encoders.cache.encodings import EncoderCache
from harness.evaluation import parallel
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.fit_corpus import CorpusPass
from harness.evaluation.parallel import Site
from harness.evaluation.runner import RunContext, execute
from harness.results.records import Store, cells

ONE, TWO = FakeConfig(weights="one"), FakeConfig(weights="two")


@dataclass(frozen=True)
class Replaced(FakeConfig):
    """An encoder whose weights are replaced between the reading of their digest and their load."""

    def load(self, path, cache):
        return replace(TWO, log=self.log).load(path, cache)


def require_own_vectors(root):
    """Each key of the cache holds the vectors of its own weights alone."""
    for folder in (root / "cache" / "encodings").iterdir():
        cache = EncoderCache.open(root / "cache", folder.name)
        for text in [t for one in (TOY, OTHER) for s in one.splits for t in one.load(root, s).a]:
            if not cache.missing([text]):
                wanted = FakeEncoder(folder.name).encode([text])
                np.testing.assert_array_equal(cache.read([text]).mean, wanted.mean)


def test_weights_replaced_before_they_are_loaded_are_refused_by_every_cell(tmp_path):
    """Two tasks, so that the sentences of each are tried again after the first refusal."""
    planned = cells([method(encoder=Replaced())], [TOY, OTHER], seeds=1)
    context = RunContext(library(tmp_path), Store(tmp_path / "runs"))
    outcomes = [*execute(planned, context)]
    assert [outcome.status for outcome in outcomes] == ["failed", "failed"]
    assert all("its files changed during the run" in outcome.message for outcome in outcomes)
    require_own_vectors(tmp_path)
    assert not [*(tmp_path / "cache").rglob("*.safetensors")]


def test_an_encoder_that_was_refused_is_refused_again(tmp_path):
    config = Replaced()
    encoder = CachedEncoder.open(config, library(tmp_path).places, lambda: 0.0)
    for _ in range(2):
        with pytest.raises(DataError, match="its files changed during the run"):
            encoder.loaded()
        with pytest.raises(DataError, match="its files changed during the run"):
            _ = encoder.probe
    assert encoder.encoder is None


@pytest.mark.parametrize("changed_in", ["load", "between"])
def test_a_worker_keeps_nothing_of_other_weights_than_those_of_its_run(tmp_path, changed_in):
    """`between`: after the process that started the run has read them, and before the worker."""
    config = Replaced() if changed_in == "load" else TWO
    identity = ONE.identify(tmp_path)
    site = Site.of(RunContext(library(tmp_path), Store(tmp_path / "runs")), workers=2)
    parallel._encode(site, identity, config, ["a sentence", "another"])
    unit = cells([method(encoder=config)], [TOY], seeds=1)
    fitted = cells([method("mean", "centre", on="target", encoder=config)], [TOY], seeds=1)
    parallel._in_pass(site, identity, fitted, CorpusPass.encode, range(2))
    [outcome] = parallel._measured(site, identity, unit)
    assert outcome.status == "failed"
    assert "its files changed during the run" in outcome.message
    assert not [*(tmp_path / "cache").rglob("*.safetensors")]


def test_a_worker_does_not_read_the_files_again_that_the_run_has_read(tmp_path):
    """It takes their identity, and compares it with what it loads."""
    places = library(tmp_path).places
    encoder = CachedEncoder.open(ONE, places, lambda: 0.0, identity=ONE.identify(tmp_path))
    encoder.ensure(["a sentence"], Told())
    assert not encoder.cache.missing(["a sentence"])
