"""Transformers: what is kept of a pass, that neighbours leave no trace, and what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from fakes import Vandal
from refusals import refused
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as st
from tolerances import ROUNDING, encoding_gap, relative_gap

from baselines.minilm import MINILM
from harness.core.errors import DataError, ScoreError, UsageError
from harness.encoders.config import GOLDEN_SENTENCE
from harness.encoders.modules import edit_json
from harness.encoders.transformer import TransformerConfig

TINY = TransformerConfig("tiny", "none")
TEXTS = (
    "The cat sat on the mat.",
    "a",
    "dog cat " * 60,
    "Hello, world! 42",
    "the dog",
    "mat?",
)
WORDS = "embeddings.word_embeddings.weight"


@pytest.fixture
def copied(checkpoint, tmp_path):
    """A tiny checkpoint to change."""
    return lambda kind: Path(shutil.copytree(checkpoint(kind), tmp_path / kind))


@pytest.fixture
def bert(copied):
    return copied("bert")


# Ways to change a folder


def change(file="config.json", **changes):
    return lambda folder: edit_json(folder / file, **changes)


def change_tensors(changed):
    def apply(folder):
        file = folder / "model.safetensors"
        save_file(changed(load_file(file)), file)

    return apply


def without_weights(start):
    return change_tensors(
        lambda t: {k: v for k, v in t.items() if not k.startswith(start)}
    )


def with_weights(**tensors):
    return change_tensors(lambda t: {**t, **tensors})


def with_file(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def remove(pattern):
    return lambda folder: [file.unlink() for file in folder.glob(pattern)]


def to_pickle(folder, content=None):
    """Replace the weights by the legacy form of them, or of something else."""
    file = folder / "model.safetensors"
    torch.save(
        load_file(file) if content is None else content, folder / "pytorch_model.bin"
    )
    file.unlink()


def to_pickle_with_views(folder):
    tensors = load_file(folder / "model.safetensors")
    views = {
        "cls.predictions.decoder.weight": tensors[WORDS],
        "cls.spare": tensors[WORDS].T,
    }
    to_pickle(folder, {**tensors, **views})


def to_shards(folder):
    model = transformers.AutoModel.from_pretrained(folder)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="20KB")


def to_half(folder):
    change_tensors(lambda t: {k: v.half() for k, v in t.items()})(folder)
    change(dtype="float16")(folder)


def cut_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def other_tokenizer(folder):
    remove("tokenizer*")(folder)
    tiny_models.TOKENIZERS["roberta"]().save_pretrained(folder)


# What one pass keeps


def test_text_beyond_the_maximum_length_leaves_no_trace(checkpoint, tmp_path):
    encoder = TINY.with_max_length(6).load(checkpoint("bert"), tmp_path)
    assert len(encoder.tokenizer(["the cat sat on the mat"])[0]) == 6
    cut, whole = (
        encoder.encode([text]) for text in ("the cat sat on the mat", "the cat sat on")
    )
    assert encoding_gap(cut, whole) == 0
    assert encoder.encode([]).mean.shape == (0, 4, 32)


HEADS = (
    "cls.predictions.bias",
    "lm_head.weight",
    "mlp.dense.weight",
    "discriminator.encoder.layer.0.output.dense.bias",  # DiffCSE's training
)
HARMLESS_SETTINGS = {
    "transformers_version": "9.9",
    "architectures": ["Other"],
    "_name_or_path": "x",
}
ALIKE = {
    "heads of the pre-training": (
        "bert",
        with_weights(**{head: torch.zeros(3) for head in HEADS}),
    ),
    "harmless settings": ("bert", change(**HARMLESS_SETTINGS)),
    "a decoder that is not run": ("t5", without_weights("decoder")),
    "half precision, computed in float32": ("bert", to_half),
    "shards": ("bert", to_shards),
    "a pickle of views and tied tensors": ("bert", to_pickle_with_views),
    "a pickle beside safetensors": (
        "bert",
        with_file("pytorch_model.bin", b"not a pickle"),
    ),
}


@pytest.mark.parametrize(("kind", "change"), ALIKE.values(), ids=ALIKE)
def test_how_the_same_weights_lie_on_disk_moves_no_vector(
    kind, change, copied, tmp_path
):
    folder = copied(kind)
    change_tensors(lambda t: {k: v.half().float() for k, v in t.items()})(
        folder
    )  # what it holds
    whole = TINY.load(folder, tmp_path).encode(TEXTS)
    change(folder)
    assert encoding_gap(whole, TINY.load(folder, tmp_path).encode(TEXTS)) == 0


@pytest.mark.parametrize(
    ("setting", "value"), [("num_hidden_layers", 400_000_000), ("hidden_size", 10**12)]
)
def test_a_configuration_of_a_larger_model_than_the_weights_is_refused(
    bert, tmp_path, setting, value
):
    change(**{setting: value})(bert)
    with refused(DataError, f"{setting} = {value:,} is more than the"):
        TINY.load(bert, tmp_path)


def test_weights_that_are_not_finite_never_reach_a_score(bert, tmp_path):
    with_weights(**{"pooler.dense.bias": torch.full((32,), torch.nan)})(bert)
    with refused(ScoreError, "found others in the encoding of text 2"):
        TINY.load(bert, tmp_path).encode(TEXTS)


# What a name stands for


def test_other_weights_than_the_pinned_are_refused(bert):
    weights = TINY.identify(bert).digests["weights"]
    assert (
        replace(TINY, weights_sha256=weights).identify(bert).digests["weights"]
        == weights
    )
    with refused(DataError, f"sha256 {weights}, wanted {'0' * 64}"):
        replace(TINY, weights_sha256="0" * 64).identify(bert)


def test_the_key_is_the_content_and_not_the_place(bert, checkpoint, tmp_path):
    (bert / "onnx").mkdir()
    for name in ("README.md", "LICENSE", "tf_model.h5", "onnx/model.onnx"):
        (bert / name).write_text("It is not read.")
    identity = TINY.identify(bert)
    assert identity == replace(TINY, name="other", repo="other").identify(
        checkpoint("bert")
    )
    assert TINY.load(bert, tmp_path).key == identity.key


@pytest.mark.parametrize(
    "change",
    [
        with_weights(spare=torch.zeros(1)),
        change("tokenizer_config.json", do_lower_case=False),
        change(layer_norm_eps=1e-5),
        with_file("sentence_bert_config.json", b'{"max_seq_length": 7}'),
        with_file("emoji.json", b"{}"),  # of GPTNeoXJapaneseTokenizer
    ],
    ids=["weights", "tokenizer", "config", "length", "emoji"],
)
def test_whatever_changes_the_output_changes_the_key(change, bert):
    before = TINY.identify(bert).key
    change(bert)
    assert TINY.identify(bert).key != before


# Pickled weights


def test_a_pickled_checkpoint_is_converted_once(bert, tmp_path):
    to_pickle(bert)
    weights = TINY.identify(bert).digests["weights"]
    TINY.load(bert, tmp_path)
    [converted] = (tmp_path / "converted").iterdir()
    assert converted.name == f"{weights}.safetensors"
    written = converted.stat().st_mtime_ns
    TINY.load(bert, tmp_path)
    assert converted.stat().st_mtime_ns == written


@pytest.mark.parametrize("hidden", [False, True])
def test_a_pickle_that_runs_code_is_refused_before_it_does(hidden, bert, tmp_path):
    target = tmp_path / "touched"
    tensors = load_file(bert / "model.safetensors")
    to_pickle(bert, {**tensors, "x": Vandal(target)} if hidden else Vandal(target))
    with refused(DataError, "nothing but tensors"):
        TINY.load(bert, tmp_path / "cache")
    assert not target.exists()
    torch.load(bert / "pytorch_model.bin", weights_only=False)
    assert target.exists()  # the trap works


# The maximum length

LISTED = '[{"path": "", "type": "sentence_transformers.models.Transformer"}]'


def with_length(length):
    """A folder in which sentence-transformers states a length."""

    def change(folder):
        (folder / "modules.json").write_text(LISTED)
        settings = json.dumps({"max_seq_length": length})
        (folder / "sentence_bert_config.json").write_text(settings)

    return change


@pytest.mark.parametrize(
    ("kind", "sentence_bert", "tokenizer", "wanted"),
    [
        ("bert", 7, 9, 7),
        ("bert", None, 9, 9),
        ("bert", 99, int(1e30), 40),
        ("roberta", None, None, 38),  # 40 positions, the first two never used
        ("gpt2", None, None, 40),
        ("xlnet", None, 25, 25),
    ],
)
def test_the_checkpoints_own_length(kind, sentence_bert, tokenizer, wanted, copied):
    folder = copied(kind)
    with_length(sentence_bert)(folder)
    edit_json(folder / "tokenizer_config.json", model_max_length=tokenizer)
    assert TINY.identify(folder).max_length == wanted


def test_a_length_that_nobody_states_must_be_given(copied):
    folder = copied("xlnet")
    edit_json(folder / "tokenizer_config.json", model_max_length=None)
    with refused(UsageError, "states no maximum length; give one, as in tiny:512"):
        TINY.identify(folder)
    assert TINY.with_max_length(512).identify(folder).max_length == 512


# Folders that are no encoder


def with_an_index_that_leaves_the_folder(folder):
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    index = json.dumps({"weight_map": {"x": "../model.safetensors"}})
    (folder / "model.safetensors.index.json").write_text(index)


def without_a_shard(folder):
    to_shards(folder)
    sorted(folder.glob("model-*.safetensors"))[-1].unlink()


def with_token_types(folder):
    """A tokenizer that gives all tokens the type of the second text of a pair."""
    content = json.loads((folder / "tokenizer.json").read_text())
    for piece in content["post_processor"]["single"]:
        for place in piece.values():
            place["type_id"] = 1
    (folder / "tokenizer.json").write_text(json.dumps(content))
    names = ["input_ids", "token_type_ids", "attention_mask"]
    edit_json(
        folder / "tokenizer_config.json",
        tokenizer_class="PreTrainedTokenizerFast",
        model_input_names=names,
    )


BROKEN = [
    (without_weights(WORDS), f"lacks 1 of its encoder's weights, first {WORDS}"),
    (
        with_weights(**{"pooler.dense.bias": torch.zeros(3)}),
        "wanted an encoder that transformers opens",
    ),
    (
        with_weights(**{WORDS: torch.ones(93, 32, dtype=torch.int8)}),
        r"torch.int8 as the weights embeddings\.word.*, which are real numbers",
    ),
    (
        change(num_hidden_layers=2),
        r"16 weights .* no place for, first encoder\.layer\.2\.",
    ),
    (remove("model.safetensors"), "wanted model.safetensors, .* found no weights"),
    (cut_weights, "wanted safetensors"),
    (without_a_shard, "in the same folder; fetch the whole checkpoint"),
    (with_an_index_that_leaves_the_folder, "in the same folder"),
    (remove("config.json"), "wanted a config.json in it"),
    (with_file("config.json", b"{"), "config.json: wanted JSON"),
    (remove("tokenizer*"), "the tokenizer makes each of man, .* it has no vocabulary"),
    (other_tokenizer, "261 tokens, the checkpoint vectors for 93"),
    (with_token_types, r"gives the tokens of a text the type 0, found the types \[1\]"),
    (with_length("9"), "wanted a number of tokens, found max_seq_length = '9'"),
]


@pytest.mark.parametrize(("spoil", "complaint"), BROKEN)
def test_a_broken_folder_is_refused_in_one_line(spoil, complaint, bert, tmp_path):
    spoil(bert)
    with refused(DataError, complaint) as refusal:
        TINY.load(bert, tmp_path / "cache")
    assert "weights_only" not in str(refusal.value)


# A real one


@pytest.mark.weights
def test_minilm_is_sentence_transformers_minilm(minilm, tmp_path):
    words = GOLDEN_SENTENCE.split()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(0, 40, 13)]
    texts.append("beyond the 256 tokens " * 80)
    ours = MINILM.load(minilm, tmp_path).encode(texts).mean[:, -1]
    modules = [st.Transformer(str(minilm), max_seq_length=256), st.Pooling(384, "mean")]
    theirs = SentenceTransformer(modules=modules, device="cpu").encode(texts)
    assert relative_gap(ours, theirs) <= ROUNDING
