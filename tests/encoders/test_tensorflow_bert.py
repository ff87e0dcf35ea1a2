"""A BERT of TensorFlow or without a model type is the one that it came from; damage is named."""

import json
import shutil

import bundles
import numpy as np
import pytest
import tiny_models
import torch
import transformers as hf
from fakes import snapshot
from refusals import refused
from safetensors.numpy import load_file

from harness.core.errors import DataError
from harness.data.places import Places
from harness.encoders.tensor_bundle import TensorBundle, masked_crc32c
from harness.encoders.tensorflow_bert import is_tensorflow_folder, readable_folder
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.evaluate import encoder

PLAIN = TransformerConfig("m", "")
PIECES = [*tiny_models.pieces(*tiny_models.BERT)]
TEXTS = ("the cat sat on the mat", "Dog!", "", "the dog, the cat's mat 42 " * 6)
MATRIX = "bert/encoder/layer_0/output/dense/kernel"
WORDS = "bert/embeddings/word_embeddings"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A BERT with both heads of its pre-training, 2 layers and 2 heads of 64 dimensions."""
    folder = tmp_path_factory.mktemp("original")
    config = tiny_models.config("bert", len(PIECES), width=128, layers=2)
    torch.manual_seed(0)
    hf.BertForPreTraining(config).save_pretrained(folder)
    hf.BertTokenizer(vocab=tiny_models.pieces(*tiny_models.BERT)).save_pretrained(
        folder
    )
    return folder


@pytest.fixture
def archive(original, tmp_path):
    return bundles.write_archive(tmp_path / "archive", original, PIECES)


def test_the_checksum_is_that_of_leveldb():
    turned = (masked_crc32c(b"123456789") - 0xA282EAD8) % 2**32
    assert (turned << 15 | turned >> 17) % 2**32 == 0xE3069283, "CRC32C's check value"


@pytest.mark.parametrize("shards", [1, 3])
def test_a_bundle_is_read_as_it_was_written(shards, tmp_path):
    rng = np.random.default_rng(0)
    arrays = {
        f"a/long/name/of/{number:03d}": rng.normal(size=(number % 5, 3)).astype("f4")
        for number in range(100)
    }
    arrays["scalar"] = np.float32(3)
    arrays["global_step"] = np.int64(7)
    bundles.write_bundle(tmp_path / "b", arrays, shards)
    bundle = TensorBundle.open(tmp_path / "b")
    assert [*bundle.tensors] == sorted(arrays)
    del arrays["global_step"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(bundle.read(name), array)


OPTIMISER = {
    f"{MATRIX}/adam_m": np.zeros(3, "f4"),
    f"{MATRIX}/adam_v": np.zeros(3, "f4"),
    "global_step": np.int64(1000),
    "output_weights": np.zeros((2, 128), "f4"),
}
LAYOUTS = {
    "an archive": lambda folder, original: bundles.write_archive(
        folder, original, PIECES
    ),
    "an archive in shards, with what is left out": lambda folder, original: (
        bundles.write_archive(folder, original, PIECES, shards=4, extra=OPTIMISER)
    ),
    "a SavedModel": lambda folder, original: bundles.write_saved_model(
        folder, original, PIECES
    ),
    "a SavedModel that states its case": lambda folder, original: (
        bundles.write_saved_model(folder, original, PIECES, lower_cases=True, shards=2)
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_layouts_are_the_checkpoint_that_they_came_from(
    layout, original, tmp_path
):
    folder = LAYOUTS[layout](tmp_path / "tf", original)
    before = snapshot(folder)
    made = readable_folder(folder, tmp_path / "cache")
    assert snapshot(folder) == before
    tensors = load_file(original / "model.safetensors")
    converted = load_file(made / "model.safetensors")
    assert converted.keys() == {name for name in tensors if "decoder" not in name}
    for name, array in converted.items():
        np.testing.assert_array_equal(array, tensors[name])
    settings = json.loads((made / "config.json").read_text())
    stated = json.loads((original / "config.json").read_text())
    for name in bundles.GOOGLE_SETTINGS:
        assert settings[name] == stated[name], name
    theirs = PLAIN.load(original, tmp_path).encode(TEXTS)
    ours = PLAIN.load(made, tmp_path).encode(TEXTS)
    for name, array in theirs.arrays.items():
        np.testing.assert_array_equal(ours.arrays[name], array, err_msg=name)


def test_a_folder_is_an_encoder_and_is_converted_once(archive, tmp_path):
    cache = tmp_path / "cache"
    assert is_tensorflow_folder(archive)
    model = "archive.mean"
    places = Places(cache, encoders={"archive": archive})
    vectors = encoder(model, places=places)(TEXTS[:2])
    [conversion] = (cache / "converted").iterdir()
    before = snapshot(cache / "converted")
    again = encoder(model, places=places)(TEXTS[:2])
    np.testing.assert_array_equal(vectors, again)
    assert snapshot(cache / "converted") == before
    assert {path.name for path in conversion.iterdir()} == {
        *("config.json", "model.safetensors", "vocab.txt"),
        *("tokenizer.json", "tokenizer_config.json"),
    }


def test_a_pooler_and_heads_may_be_missing(original, tmp_path):
    variables = bundles.variables_of(original)
    kept = {
        n: a for n, a in variables.items() if not n.startswith(("cls/", "bert/pool"))
    }
    folder = bundles.write_archive(tmp_path / "tf", original, PIECES)
    bundles.write_bundle(folder / "bert_model.ckpt", kept)
    made = readable_folder(folder, tmp_path / "cache")
    assert json.loads((made / "config.json").read_text())["architectures"] == [
        "BertModel"
    ]
    encoding = PLAIN.load(made, tmp_path).encode(TEXTS)
    assert encoding.pooler is None


@pytest.mark.parametrize("cased", [True, False])
def test_case_is_that_of_the_vocabulary(cased, original, tmp_path):
    pieces = [piece.title() if cased and piece == "cat" else piece for piece in PIECES]
    folder = bundles.write_archive(tmp_path / "tf", original, pieces)
    made = readable_folder(folder, tmp_path / "cache")
    tokenizer = json.loads((made / "tokenizer.json").read_text())
    assert tokenizer["normalizer"]["lowercase"] is not cased
    settings = json.loads((made / "tokenizer_config.json").read_text())
    assert settings == {"do_lower_case": not cased, "model_max_length": 40}


# What is refused


def edit(file, change):
    return lambda folder: (folder / file).write_bytes(
        change((folder / file).read_bytes())
    )


def settings(**changes):
    def change(content):
        return json.dumps(json.loads(content) | changes).encode()

    return edit("bert_config.json", change)


INDEX, DATA = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"
HUGE = bundles.entry(1, (2**20, 2**20), 0, 0, 2**42)
FILES = {  # what is done to the files of an archive, by what the line says
    "another kind of file, or one that is cut off": edit(INDEX, lambda b: b[:-9]),
    "a damaged block at 0": edit(INDEX, lambda b: b[:50] + b"\xff" + b[51:]),
    "it is cut off, or of another": edit(DATA, lambda b: b[:-1]),
    "it is of another checkpoint": edit(DATA, lambda b: b + b[:512]),
    "wanted this shard .* found no such file": lambda f: (f / DATA).unlink(),
    "git-lfs pointer": edit(
        INDEX, lambda b: b"version https://git-lfs.github.com/spec/v1\n"
    ),
    "wanted bert_model.ckpt.index, .* no such file": lambda f: (f / INDEX).unlink(),
    "wanted vocab.txt, .* no such file": lambda f: (f / "vocab.txt").unlink(),
    "wanted bert_config.json, .* no such": lambda f: (f / "bert_config.json").unlink(),
    "leave the files of one": lambda f: shutil.copy(f / INDEX, f / "b.ckpt.index"),
    r"kernel of shape \(128, 40\), where its settings give \(128, 50\)": settings(
        intermediate_size=50
    ),
    "no bert/encoder/layer_2/": settings(num_hidden_layers=3),
    "variables for 1000000000 layers": settings(num_hidden_layers=10**9),
    "layer_1/.* more that it has not": settings(num_hidden_layers=1),
    "'embedding_size' = 128; only BERT": settings(embedding_size=128),
    "wanted a number of 1 or more as hidden_size, found 'x'": settings(hidden_size="x"),
    "multiple of num_attention_heads": settings(num_attention_heads=3),
    "hidden_act": settings(hidden_act="mish"),
    "wanted 93 word pieces, .* found 94": edit("vocab.txt", lambda b: b + b"more\n"),
    "found no .MASK.": edit("vocab.txt", lambda b: b.replace(b"[MASK]", b"mask")),
    "wanted a word piece of UTF-8": edit("vocab.txt", lambda b: b"\xff" + b),
}
ENTRIES = {  # what is done to the entries of the index
    "a tensor of shape": lambda e: e | {MATRIX: bundles.entry(1, (40, 128), 0, 0, 12)},
    f"wanted the {2**42:,} bytes": lambda e: e | {WORDS: HUGE},
    "in shard 1": lambda e: e | {WORDS: bundles.entry(1, (1,), 1, 0, 4)},
    "a dimension": lambda e: e | {WORDS: bundles.entry(1, (2**63,), 0, 0, 4)},
    "a variable in slices": lambda e: e | {WORDS: bundles.message_field(7, b"")},
    "a number that is cut off": lambda e: e | {WORDS: b"\x08\xff"},
    "0 shards of data": lambda e: e | {"": bundles.header(0)},
    "big endian": lambda e: e | {"": bundles.header() + bundles.number_field(2, 1)},
    "a name that is no text": lambda e: e | {"two\nlines": e[WORDS]},
    "a name of 600 bytes": lambda e: e | {"n" * 600: e[WORDS]},
    "found no bert/encoder/layer_0/output/dense/kernel": lambda e: {
        name: value for name, value in e.items() if name != MATRIX
    },
    f"{MATRIX} twice": lambda e: e | {f"module/{MATRIX}": e[MATRIX]},
    "ALBERT": lambda e: e | {"bert/encoder/embedding_hidden_mapping_in/x": e[MATRIX]},
    "a model of TensorFlow 2": lambda e: e | {"_CHECKPOINTABLE_OBJECT_GRAPH": e[WORDS]},
    "bert/adapter/kernel and 0 more": lambda e: e | {"bert/adapter/kernel": e[MATRIX]},
}
TABLES = {  # how the table of the index is written
    "compressed by Snappy": {"compression": 1},
    "a block of .* outside the file": {"moved": 10**9},
}


@pytest.mark.parametrize("complaint", FILES)
def test_damaged_and_foreign_files_get_one_line(complaint, archive, tmp_path):
    FILES[complaint](archive)
    with refused(DataError, complaint):
        readable_folder(archive, tmp_path / "cache")
    assert not any((tmp_path / "cache").rglob("*.*")), "nothing half is left"


@pytest.mark.parametrize("complaint", ENTRIES)
def test_a_false_index_gets_one_line(complaint, original, tmp_path):
    folder = bundles.write_archive(
        tmp_path / "tf", original, PIECES, change=ENTRIES[complaint]
    )
    with refused(DataError, complaint):
        readable_folder(folder, tmp_path / "cache")


@pytest.mark.parametrize("complaint", TABLES)
def test_a_false_table_gets_one_line(complaint, original, tmp_path):
    folder = bundles.write_archive(
        tmp_path / "tf", original, PIECES, **TABLES[complaint]
    )
    with refused(DataError, complaint):
        readable_folder(folder, tmp_path / "cache")


def test_a_saved_model_whose_heads_cannot_be_counted_is_refused(original, tmp_path):
    folder = bundles.write_saved_model(tmp_path / "tf", original, PIECES)
    narrow = {WORDS: np.zeros((len(PIECES), 32), "f4")}
    variables = {
        f"module/{n}": a for n, a in (bundles.variables_of(original) | narrow).items()
    }
    bundles.write_bundle(folder / "variables" / "variables", variables)
    with refused(DataError, "32 dimensions, no multiple of the 64 of a head"):
        readable_folder(folder, tmp_path / "cache")


def test_half_precision_is_named(original, tmp_path):
    folder = bundles.write_archive(tmp_path / "tf", original, PIECES)
    halves = {n: a.astype("f2") for n, a in bundles.variables_of(original).items()}
    bundles.write_bundle(folder / "bert_model.ckpt", halves)
    with refused(DataError, "in float32, found the type 19"):
        readable_folder(folder, tmp_path / "cache")


# A BERT of 2018 and 2019


def aged(folder, original, **changes):
    """A checkpoint with its vocabulary alone, and without the name of its model type."""
    folder.mkdir()
    config = json.loads((original / "config.json").read_text()) | changes
    for name in ("model_type", "architectures"):
        if name not in changes:
            config.pop(name)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("\n".join(PIECES))
    shutil.copy(original / "model.safetensors", folder)
    return folder


@pytest.mark.parametrize("changes", [{}, {"architectures": ["BertForMaskedLM"]}])
def test_a_bert_without_a_model_type_is_read(changes, original, tmp_path):
    folder = aged(tmp_path / "old", original, **changes)
    theirs = PLAIN.load(original, tmp_path).encode(TEXTS)
    ours = PLAIN.load(folder, tmp_path).encode(TEXTS)
    for name, array in theirs.arrays.items():
        np.testing.assert_array_equal(ours.arrays[name], array, err_msg=name)


def test_an_old_folder_of_another_model_is_told_what_to_write(original, tmp_path):
    folder = aged(tmp_path / "old", original, architectures=["RobertaModel"])
    with refused(DataError, "wanted model_type, .* found none; write it into the file"):
        PLAIN.load(folder, tmp_path)


def test_an_old_folder_with_capitals_has_to_state_its_case(original, tmp_path):
    folder = aged(tmp_path / "old", original)
    pieces = [piece.replace("cat", "Cat") for piece in PIECES]
    (folder / "vocab.txt").write_text("\n".join(pieces))
    with refused(DataError, "wanted do_lower_case, .* found none"):
        PLAIN.load(folder, tmp_path)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    tokenizer = PLAIN.load(folder, tmp_path).tokenizer
    assert tokenizer(["Cat"])[0][1] == PIECES.index("cat")
    assert len(tokenizer(["cat"])[0]) > 3
