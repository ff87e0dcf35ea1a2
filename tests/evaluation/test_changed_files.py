"""Files that change during a run: a key holds the vectors of its own files, or the cell fails."""

import json
import mmap
import shutil
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module, invalidate_caches
from types import ModuleType

import numpy as np
import pytest
import subword_tables
import tiny_models
import torch
from fakes import OTHER, TOY, FakeConfig, FakeEncoder, Told, library, method
from safetensors.torch import load_file, save_file
from tiny_models import rest_slow

from baselines.sif import SifWeights
from harness.assets.places import DIGESTS_FOLDER, Places
from harness.core import digests, provenance
from harness.core.errors import DataError
from harness.core.provenance import code_of, with_code
from harness.encoders.cache.encodings import EncoderCache
from harness.encoders.counted_vectors import CountedConfig
from harness.encoders.function import FunctionConfig
from harness.encoders.module_writer import (
    LinearLayer,
    append_dense,
    append_mode,
    append_transformer,
)
from harness.encoders.modules import LINEAR
from harness.encoders.native import NativeConfig
from harness.encoders.subword_vectors import SubwordConfig
from harness.encoders.transformer import TransformerConfig
from harness.encoders.vector_files import write_vectors
from harness.encoders.word_vectors import StaticConfig
from harness.evaluation.embeddings import CachedEncoder
from harness.evaluation.run import RunContext, execute
from harness.evaluation.select import planned_cells
from harness.evaluation.workers import (
    WorkerContext,
    encode_block_in_worker,
    encode_in_worker,
    measure_in_worker,
)
from harness.registry import load_registry
from harness.results.store import Store

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
        for text in [
            t for one in (TOY, OTHER) for s in one.splits for t in one.load(root, s).a
        ]:
            if not cache.missing([text]):
                wanted = FakeEncoder(folder.name).encode([text])
                np.testing.assert_array_equal(cache.read([text]).mean, wanted.mean)


def test_weights_replaced_before_they_are_loaded_are_refused_by_every_cell(tmp_path):
    """Two tasks, so that the sentences of each are tried again after the first refusal."""
    planned = planned_cells([method(encoder=Replaced())], [TOY, OTHER], seeds=1)
    context = RunContext(library(tmp_path), Store(tmp_path / "runs"))
    outcomes = [*execute(planned, context)]
    assert [outcome.status for outcome in outcomes] == ["failed", "failed"]
    assert all(
        "its files changed during the run" in outcome.message for outcome in outcomes
    )
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
def test_a_worker_keeps_nothing_of_other_weights_than_those_of_its_run(
    tmp_path, changed_in
):
    """`between`: after the process that started the run has read them, and before the worker."""
    config = Replaced() if changed_in == "load" else TWO
    identity = library(tmp_path).places.identify(ONE, tmp_path)
    context = RunContext(library(tmp_path), Store(tmp_path / "runs"))
    context.store.folder.mkdir()
    worker = WorkerContext.for_run(context, workers=2)
    encode_in_worker(worker, identity, config, ["a sentence", "another"])
    unit = planned_cells([method(encoder=config)], [TOY], seeds=1)
    fitted = planned_cells(
        [method("mean", "centre", on="target", encoder=config)], [TOY], seeds=1
    )
    encode_block_in_worker(worker, identity, fitted, range(2))
    [outcome] = measure_in_worker(worker, identity, unit)
    assert outcome.status == "failed"
    assert "its files changed during the run" in outcome.message
    assert not [*(tmp_path / "cache").rglob("*.safetensors")]


def test_a_worker_does_not_read_the_files_again_that_the_run_has_read(tmp_path):
    """It takes their identity, and compares it with what it loads."""
    places = library(tmp_path).places
    encoder = CachedEncoder.open(
        ONE, places, lambda: 0.0, identity=places.identify(ONE, tmp_path)
    )
    encoder.ensure(["a sentence"], Told())
    assert not encoder.cache.missing(["a sentence"])


def test_a_run_reads_the_bytes_whatever_was_noted_of_them(tmp_path, monkeypatch):
    """The note is one of other weights: forged, or the file changed and kept size and times."""
    monkeypatch.setattr(digests, "LARGE_FILE", 1)
    (here := tmp_path / "model").mkdir()
    file = here / "v.safetensors"
    write_vectors(file, *vectors_of_words(0))
    config, places = (
        StaticConfig("m", file=file.name),
        Places(tmp_path, encoders={"m": here}),
    )
    true = places.identify(config, here).key
    [note] = (tmp_path / DIGESTS_FOLDER).iterdir()
    other = "0" * 64
    seal = digests.digest_of_repr((digests.state_of(file), other))
    note.write_text(f"{other} {seal}\n")
    assert places.identify(config, here, noted=True).key != true
    assert places.identify(config, here, writable=False).key == true
    encoder = CachedEncoder.open(config, places, lambda: 0.0)
    assert (encoder.identity.key, encoder.loaded().key) == (true, true)


def stored_through_a_map(file, content):
    """Put bytes into a page that is already changed, which moves no time."""
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as mapped:
        mapped[:] = file.read_bytes()
        before = digests.state_of(file)
        yield
        mapped[:] = content
        if digests.state_of(file) != before:
            pytest.skip("the page was written in between, so that its time moved")
        yield


def stored_in_the_same_state(file, content, monkeypatch):
    """As two images of a file system at one path, or a clock that knows whole seconds."""
    monkeypatch.setattr(digests, "state_of", str)
    yield
    file.write_bytes(content)
    yield


@pytest.mark.parametrize("change", [stored_through_a_map, stored_in_the_same_state])
def test_a_run_reads_the_bytes_that_are_there_whatever_size_and_times_say(
    tmp_path, monkeypatch, change
):
    """A plan takes the note for true; the key of a run is that of the new bytes, as its vectors."""
    monkeypatch.setattr(digests, "LARGE_FILE", 1)
    (here := tmp_path / "model").mkdir()
    file, places = here / "v.safetensors", Places(tmp_path, encoders={"m": here})
    config = StaticConfig("m", file=file.name)
    write_vectors(file, *vectors_of_words(1))
    key, content = config.identify(here).key, file.read_bytes()
    write_vectors(file, *vectors_of_words(0))
    steps = change(
        file, content, *([monkeypatch] if change is stored_in_the_same_state else [])
    )
    next(steps)
    noted = places.identify(config, here).key
    next(steps)
    assert places.identify(config, here, noted=True).key == noted != key
    encoder = CachedEncoder.open(config, places, lambda: 0.0)
    assert (encoder.identity.key, encoder.loaded().key) == (key, key)


# At every step of loading: another model's files take the place of the model's own.

TEXTS = ["the cat sat on the mat", "the dog, the cat's mat 42", "a dog"]


def transformers_folder(folder, number):
    """Weights, ids of tokens, and one file more in the second."""
    tiny_models.make("bert", folder, seed=number)
    if number:
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        words = tokenizer["model"]["vocab"]
        words["cat"], words["dog"] = words["dog"], words["cat"]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 5}')


def modules_folder(folder, number):
    """A dense layer behind the pooling."""
    transformers_folder(folder, number)
    append_transformer(folder, None)
    append_mode(folder, 32, "mean")
    weight = np.random.default_rng(number).normal(size=(4, 32))
    append_dense(folder, LinearLayer(weight, np.zeros(4)), LINEAR)


def pickled_folder(folder, number):
    transformers_folder(folder, number)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def subwords_folder(folder, number):
    subword_tables.made(folder, unit=bool(number))
    if number:
        table = folder / "model.safetensors"
        save_file(
            {"embeddings": load_file(table)["embeddings"].flip(0).contiguous()}, table
        )


def vectors_of_words(number):
    words = ("the", "cat", "dog", "mat", "on", "a")
    return words, np.random.default_rng(number).normal(size=(len(words), 3)).astype(
        np.float32
    )


def counted_folder(folder, number):
    folder.mkdir()
    write_vectors(folder / "v.safetensors", *vectors_of_words(number))
    counts = {"the": 90 - 80 * number, "cat": 5, "dog": 3, "mat": 2 + number}
    (folder / "counts.txt").write_text(
        "".join(f"{word} {n}\n" for word, n in counts.items())
    )


def text_folder(folder, number):
    folder.mkdir()
    lines = (
        " ".join([word, *map(str, row)])
        for word, row in zip(*vectors_of_words(number), strict=True)
    )
    (folder / "v.txt").write_text("".join(f"{line}\n" for line in lines))


def arrays_folder(folder, number):
    folder.mkdir()
    words, vectors = vectors_of_words(number)
    np.savez(folder / "v.npz", words=np.array(words), vectors=vectors)


TINY = TransformerConfig("m", "", plain_pass=True)
MODELS = {
    "transformer": (transformers_folder, TINY),
    "modules": (modules_folder, NativeConfig(TINY)),
    "pickle": (pickled_folder, TINY),
    "sub-words": (subwords_folder, SubwordConfig("m")),
    "text": (text_folder, StaticConfig("m", file="v.txt")),
    "arrays": (arrays_folder, StaticConfig("m", file="v.npz")),
    "counts": (
        counted_folder,
        CountedConfig(
            "m", file="v.safetensors", counts="counts.txt", maps=(SifWeights(),)
        ),
    ),
}


class Openings:
    """Counts the openings of files below a folder, and calls what is due before one of them."""

    def __init__(self, folder, due):
        self.folder, self.due, self.count = str(folder), due, 0

    def __call__(self, event, arguments):
        if event == "open" and str(arguments[0]).startswith(self.folder):
            number, self.count = self.count, self.count + 1
            if number in self.due:
                watching.clear()  # what is due opens files, too
                self.due[number]()
                watching.append(self)


watching: list[Openings] = []
sys.addaudithook(
    lambda event, arguments: [watch(event, arguments) for watch in [*watching]]
)


@contextmanager
def watching_opens(folder, due):
    watching.append(openings := Openings(folder, due))
    try:
        yield openings
    finally:
        watching.clear()


def replace_files(source, model):
    """Make the model's files those of the source; what it has beyond these goes."""
    for file in [*model.rglob("*")]:
        if file.is_file() and not (source / file.relative_to(model)).exists():
            file.unlink()
    for file in source.rglob("*"):
        place = model / file.relative_to(source)
        if file.is_file():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, place.with_suffix(".new"))
            place.with_suffix(".new").rename(place)


@pytest.mark.parametrize("model", rest_slow(MODELS, "sub-words", "text", "counts"))
def test_a_key_holds_the_vectors_of_its_files_at_whatever_step_they_are_replaced(
    tmp_path, model
):
    make, config = MODELS[model]
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        make(folder, number)
    keys = [config.identify(folder).key for folder in folders]
    loaded = [
        config.load(folder, tmp_path / "apart").encode(TEXTS) for folder in folders
    ]
    true = dict(zip(keys, loaded, strict=True))
    assert len(true) == 2
    here, cache = tmp_path / "model", tmp_path / "cache"
    encoded = 0

    def measured(due):
        nonlocal encoded
        shutil.rmtree(cache, ignore_errors=True)
        replace_files(folders[0], here)
        places = Places(cache, encoders={"m": here})
        with watching_opens(here, due) as openings, suppress(DataError, OSError):
            encoder = CachedEncoder.open(config, places, lambda: 0.0)
            for _ in range(2):  # a cell that failed is tried again
                with suppress(DataError, OSError):
                    encoder.ensure(TEXTS, Told())
        for shard in cache.glob("encodings/*/*.safetensors"):
            found = EncoderCache.open(cache, shard.parent.name).read(TEXTS)
            wanted = true[shard.parent.name].arrays
            for name in wanted.keys() - {"tokens"}:
                np.testing.assert_array_equal(getattr(found, name), wanted[name])
            encoded += 1
        return openings.count

    steps = measured({})
    assert encoded == 1
    for step in range(steps):
        other = partial(replace_files, folders[1], here)
        measured({step: other})
        if step % 3 == 0:
            measured({step: other, step + 1: partial(replace_files, folders[0], here)})
    assert encoded > 1


# A program's own classes, in no plug-in

OWN = """
from dataclasses import dataclass, replace
from harness import StaticConfig
from harness.transforms.pooling import Mean

class Doubled(StaticConfig):
    def load(self, path, cache):
        loaded = super().load(path, cache)
        return replace(loaded, vectors=2 * loaded.vectors)

@dataclass(frozen=True)
class Halved:
    name = "halved"
    def __call__(self, encoding):
        return encoding.mean[:, -1] / 2

def rows(texts):
    return [[1.0, 2.0] for _ in texts]
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Imports a module of a program after a change of its text, as another process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def imported(old="", new=""):
        (tmp_path / "own_classes.py").write_text(OWN.replace(old, new) if old else OWN)
        provenance._file_digest.cache_clear()
        sys.modules.pop("own_classes", None)
        invalidate_caches()
        return import_module("own_classes")

    yield imported
    sys.modules.pop("own_classes", None)


def test_the_file_of_a_program_s_own_class_is_in_the_key_of_its_vectors(
    program, tmp_path
):
    (here := tmp_path / "model").mkdir()
    write_vectors(here / "v.safetensors", *vectors_of_words(0))
    places = Places(tmp_path / "cache", encoders={"m": here})
    built_in = StaticConfig("m", file="v.safetensors")
    true = places.identify(built_in, here).key
    assert true == built_in.identify(here).key

    def key(module):
        config = module.Doubled("m", file="v.safetensors")
        encoder = CachedEncoder.open(config, places, lambda: 0.0)
        encoder.ensure(["the cat"], Told())
        return encoder.identity.key

    keys = [key(program()), key(program("2 * loaded", "3 * loaded")), key(program())]
    assert keys[0] == keys[2]
    assert len({*keys, true}) == 3
    encoder = CachedEncoder.open(built_in, places, lambda: 0.0)
    assert encoder.cache.missing(["the cat"])


def test_the_file_of_a_program_s_own_pooling_or_function_is_in_what_a_cell_depends_on(
    program,
):
    built_in = load_registry().parse("glove-mini.mean")
    for part in (lambda own: own.Halved(), lambda own: FunctionConfig("f", own.rows)):
        before, after = code_of(part(program())), code_of(part(program("/ 2", "/ 3")))
        assert before.keys() == after.keys() == {"file own_classes"}
        assert before != after
    assert code_of(built_in.encoder, built_in.pooling) == {}
    assert with_code("k", built_in.encoder) == "k"


def test_vectors_of_a_class_that_no_file_defines_are_found_by_no_other_process(
    monkeypatch,
):
    interpreter = ModuleType("interpreter")  # it has no file
    monkeypatch.setitem(sys.modules, "interpreter", interpreter)
    exec(OWN, vars(interpreter))  # noqa: S102 - as an interpreter does
    config = interpreter.Doubled("m", file="v.safetensors")
    key = with_code("k", config)
    assert key != "k"
    assert key == with_code("k", config)
    provenance._file_digest.cache_clear()
    monkeypatch.setattr(provenance, "THIS_PROCESS", "another")
    assert with_code("k", config) != key
