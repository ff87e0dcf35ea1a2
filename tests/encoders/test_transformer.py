"""Transformers: what is kept of a pass, that neighbours leave no trace, and what is refused."""

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from fakes import Vandal
from safetensors.torch import load_file, save_file
from tolerances import ROUNDING, encoding_gap, relative_gap

from harness.core.errors import AssetMissing, DataError, ScoreError, UsageError
from harness.core.files import digest_of, sha256_of
from harness.encoders.checkpoint import (
    BERT_UNCASED,
    GOLDEN_SENTENCE,
    Fingerprint,
    config_digest,
)
from harness.encoders.transformer import TransformerConfig

MINILM = TransformerConfig(
    "minilm",
    "sentence-transformers/all-MiniLM-L6-v2",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    fingerprint=BERT_UNCASED,
)
TINY = TransformerConfig("tiny", "none")
TEXTS = ("The cat sat on the mat.", "a", "dog cat " * 60, "Hello, world! 42", "the dog", "mat?")


@pytest.fixture
def bert(checkpoint, tmp_path):
    """A tiny BERT to damage."""
    return Path(shutil.copytree(checkpoint("bert"), tmp_path / "bert"))


def change_json(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_tensors(folder, change):
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file)


def to_pickle(folder, content=None):
    """Replace the weights by the legacy form of them, or of something else."""
    file = folder / "model.safetensors"
    torch.save(load_file(file) if content is None else content, folder / "pytorch_model.bin")
    file.unlink()


# What one pass keeps


def test_text_beyond_the_maximum_length_leaves_no_trace(checkpoint, tmp_path):
    encoder = TINY.with_max_length(6).load(checkpoint("bert"), tmp_path)
    assert len(encoder.tokenizer(["the cat sat on the mat"])[0]) == 6
    cut, whole = (encoder.encode([text]) for text in ("the cat sat on the mat", "the cat sat on"))
    assert encoding_gap(cut, whole) == 0


def test_no_text_is_no_row(checkpoint, tmp_path):
    assert TINY.load(checkpoint("bert"), tmp_path).encode([]).mean.shape == (0, 4, 32)


# Weights


def test_a_missing_pooler_is_none_and_the_rest_as_before(bert, tmp_path):
    whole = TINY.load(bert, tmp_path).encode(TEXTS)
    without_weights("pooler")(bert)
    found = TINY.load(bert, tmp_path).encode(TEXTS)
    assert found.pooler is None
    assert encoding_gap(replace(whole, pooler=None), found) == 0


def test_a_decoder_that_is_not_run_may_be_missing(checkpoint, tmp_path):
    half = Path(shutil.copytree(checkpoint("t5"), tmp_path / "half"))
    without_weights("decoder")(half)
    whole = TINY.load(checkpoint("t5"), tmp_path).encode(TEXTS)
    assert encoding_gap(whole, TINY.load(half, tmp_path).encode(TEXTS)) == 0


def test_half_precision_on_disk_is_computed_in_float32(bert, tmp_path):
    change_tensors(bert, lambda t: {k: v.half().float() for k, v in t.items()})
    rounded = TINY.load(bert, tmp_path).encode(TEXTS)
    change_tensors(bert, lambda t: {k: v.half() for k, v in t.items()})
    change_json(bert / "config.json", dtype="float16")
    assert encoding_gap(TINY.load(bert, tmp_path).encode(TEXTS), rounded) == 0


def test_weights_that_are_not_finite_never_reach_a_score(bert, tmp_path):
    change_tensors(bert, lambda t: {**t, "pooler.dense.bias": torch.full((32,), torch.nan)})
    with pytest.raises(ScoreError, match="found others in the encoding of text 2"):
        TINY.load(bert, tmp_path).encode(TEXTS)


def test_shards_are_one_checkpoint(bert, tmp_path):
    whole = TINY.load(bert, tmp_path).encode(TEXTS)
    model = transformers.AutoModel.from_pretrained(bert)
    (bert / "model.safetensors").unlink()
    model.save_pretrained(bert, max_shard_size="20KB")
    shards = sorted(bert.glob("model-*.safetensors"))
    assert len(shards) > 1
    assert encoding_gap(whole, TINY.load(bert, tmp_path).encode(TEXTS)) == 0

    shards[-1].unlink()
    with pytest.raises(DataError, match=f"wanted {shards[-1].name} beside it"):
        TINY.identify(bert)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "weights.bin"])
def test_shards_lie_beside_their_index(name, bert):
    (bert / "weights.bin").write_bytes(b"")
    (bert / "model.safetensors").rename(bert.parent / "model.safetensors")
    (bert / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"x": name}}))
    with pytest.raises(DataError, match="beside it"):
        TINY.identify(bert)


# What a name stands for


def fingerprinted(folder):
    """The tiny BERT with its fingerprint, as an embedded encoder has one."""
    config, loaded = json.loads((folder / "config.json").read_text()), TINY.load(folder, folder)
    vocabulary = digest_of(loaded.tokenizer.tokenizer.get_vocab())
    own = TINY.identify(folder).max_length
    return replace(TINY, fingerprint=Fingerprint(vocabulary, config_digest(config), own))


def change_config(**changes):
    return lambda folder: change_json(folder / "config.json", **changes)


def change_tokenizer(change):
    def apply(folder):
        file = folder / "tokenizer.json"
        content = json.loads(file.read_text())
        change(content["model"]["vocab"])
        file.write_text(json.dumps(content))

    return apply


def swap_two_words(vocabulary):
    vocabulary["cat"], vocabulary["dog"] = vocabulary["dog"], vocabulary["cat"]


def state_a_length(folder):
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 8}')


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (change_config(layer_norm_eps=0.1), "settings with digest"),
        (change_config(hidden_act="relu"), "settings with digest"),
        (change_tokenizer(swap_two_words), "vocabulary with digest"),
        (state_a_length, "a maximum length of 8, wanted 40"),
    ],
)
def test_a_name_with_a_fingerprint_refuses_other_files(change, complaint, bert, tmp_path):
    config = fingerprinted(bert)
    true = config.load(bert, tmp_path).encode(TEXTS)
    change(bert)
    with pytest.raises(DataError, match=f"tiny: .*{complaint}.*a name of its own"):
        config.identify(bert)  # so that nothing cached is served either
    # Else the test tests nothing.
    assert encoding_gap(TINY.load(bert, tmp_path).encode(TEXTS), true) > 1e-4


def test_what_changes_no_vector_is_no_other_configuration(bert, tmp_path):
    config = fingerprinted(bert)
    change_config(transformers_version="9.9", architectures=["Other"], _name_or_path="x")(bert)
    assert config.load(bert, tmp_path).key
    assert config.with_max_length(8).load(bert, tmp_path).key


def test_heads_of_the_pre_training_are_left_out(bert, tmp_path):
    heads = ("cls.predictions.bias", "lm_head.weight", "mlp.dense.weight")
    with_weights(**{head: torch.zeros(3) for head in heads})(bert)
    assert TINY.load(bert, tmp_path).depth == 3


# Pickled weights


def test_a_pickled_checkpoint_is_converted_once_and_is_the_same(checkpoint, bert, tmp_path):
    to_pickle(bert)
    before = TINY.identify(bert)
    found = TINY.load(bert, tmp_path / "cache").encode(TEXTS)
    assert encoding_gap(TINY.load(checkpoint("bert"), tmp_path).encode(TEXTS), found) == 0

    converted, seal = sorted((tmp_path / "cache" / "converted").iterdir())
    assert converted.name == f"{before.digests['weights']}.safetensors"
    assert seal.read_text() == sha256_of(converted)
    written = converted.stat().st_mtime_ns
    assert TINY.load(bert, tmp_path / "cache").key == before.key
    assert converted.stat().st_mtime_ns == written


@pytest.mark.parametrize("part", [".safetensors", ".sha256"])
@pytest.mark.parametrize("change", [lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:9], None])
def test_a_damaged_conversion_is_made_again(part, change, bert, tmp_path):
    to_pickle(bert)
    true = TINY.load(bert, tmp_path).encode(TEXTS)
    [file] = (tmp_path / "converted").glob(f"*{part}")
    whole = file.read_bytes()
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(whole))
    assert encoding_gap(TINY.load(bert, tmp_path).encode(TEXTS), true) == 0
    assert file.read_bytes() == whole


def test_views_and_tied_tensors_are_converted(bert, tmp_path):
    tensors = load_file(bert / "model.safetensors")
    words = tensors["embeddings.word_embeddings.weight"]
    views = {"cls.predictions.decoder.weight": words, "cls.spare": words.T}
    to_pickle(bert, {**tensors, **views})
    assert TINY.load(bert, tmp_path).depth == 3


@pytest.mark.parametrize("hidden", [False, True])
def test_a_pickle_that_runs_code_is_refused_before_it_does(hidden, bert, tmp_path):
    target = tmp_path / "touched"
    tensors = load_file(bert / "model.safetensors")
    to_pickle(bert, {**tensors, "x": Vandal(target)} if hidden else Vandal(target))
    with pytest.raises(DataError, match="nothing but tensors"):
        TINY.load(bert, tmp_path / "cache")
    assert not target.exists()
    assert not list((tmp_path / "cache" / "converted").iterdir())
    torch.load(bert / "pytorch_model.bin", weights_only=False)
    assert target.exists()  # the trap works


def test_a_pickle_beside_safetensors_is_never_opened(bert, tmp_path):
    (bert / "pytorch_model.bin").write_bytes(b"not a pickle")
    assert TINY.load(bert, tmp_path / "cache").depth == 3
    assert not (tmp_path / "cache").exists()


# Identity


def test_the_key_is_the_content_and_not_the_place(bert, checkpoint, tmp_path):
    (bert / "README.md").write_text("A card.")
    identity = TINY.identify(bert)
    assert identity == replace(TINY, name="other", repo="other").identify(checkpoint("bert"))
    assert TINY.load(bert, tmp_path).key == identity.key


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: change_tensors(folder, lambda t: {**t, "spare": torch.zeros(1)}),
        lambda folder: change_json(folder / "tokenizer_config.json", do_lower_case=False),
        lambda folder: change_json(folder / "config.json", layer_norm_eps=1e-5),
        lambda folder: (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 7}'),
        lambda folder: (folder / "vocab.txt").write_text("a"),
    ],
    ids=["weights", "tokenizer", "config", "length", "vocabulary"],
)
def test_whatever_changes_the_output_changes_the_key(change, bert):
    before = TINY.identify(bert).key
    change(bert)
    assert TINY.identify(bert).key != before


def test_other_weights_than_the_pinned_are_refused(bert):
    found = TINY.identify(bert).digests["weights"]
    assert replace(TINY, weights_sha256=found).identify(bert).digests["weights"] == found
    with pytest.raises(DataError, match=f"sha256 {found}, wanted {'0' * 64}"):
        replace(TINY, weights_sha256="0" * 64).identify(bert)


# The maximum length


@pytest.mark.parametrize(
    ("kind", "sentence_bert", "tokenizer", "wanted"),
    [
        ("bert", 7, 9, 7),
        ("bert", None, 9, 9),
        ("bert", None, int(1e30), 40),
        ("bert", 99, 9, 40),
        ("roberta", None, None, 38),  # 40 positions, the first two never used
        ("mpnet", 40, None, 38),
        ("gpt2", None, None, 40),
        ("xlnet", None, 25, 25),
    ],
)
def test_the_checkpoints_own_length(kind, sentence_bert, tokenizer, wanted, checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint(kind), tmp_path / kind)
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": sentence_bert}))
    change_json(folder / "tokenizer_config.json", model_max_length=tokenizer)
    assert TINY.identify(folder).max_length == wanted


def test_a_length_that_nobody_states_must_be_given(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint("xlnet"), tmp_path / "xlnet")
    change_json(folder / "tokenizer_config.json", model_max_length=None)
    with pytest.raises(UsageError, match="states no maximum length; give one, as in tiny:512"):
        TINY.identify(folder)
    assert TINY.with_max_length(512).identify(folder).max_length == 512


# Folders that are no encoder


def without_weights(start):
    return lambda folder: change_tensors(
        folder, lambda t: {k: v for k, v in t.items() if not k.startswith(start)}
    )


def with_weights(**tensors):
    return lambda folder: change_tensors(folder, lambda t: {**t, **tensors})


def remove(pattern):
    return lambda folder: [file.unlink() for file in folder.glob(pattern)]


def forget_words(vocabulary):
    for word in [word for word in vocabulary if word[0] != "["]:
        vocabulary.pop(word)


def cut_weights(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])


def pickled(content):
    def apply(folder):
        to_pickle(folder)
        (folder / "pytorch_model.bin").write_bytes(content)

    return apply


def other_tokenizer(folder):
    for file in folder.glob("tokenizer*"):
        file.unlink()
    tiny_models.TOKENIZERS["roberta"]().save_pretrained(folder)


OPENS = "wanted an encoder that transformers opens"
NO_TOKENIZER = r"no tokenizer; wanted tokenizer\.json or a vocabulary"
WORDS = "embeddings.word_embeddings.weight"
BROKEN = [
    (without_weights(WORDS), f"lacks 1 of its encoder's weights, first {WORDS}"),
    (without_weights("encoder.layer.1.output"), "lacks 4 of its encoder's weights"),
    (with_weights(**{"pooler.dense.bias": torch.zeros(3)}), OPENS),
    (change_config(num_hidden_layers=2), r"16 weights .* no place for, first encoder\.layer\.2\."),
    (remove("model.safetensors"), "no weights; wanted model.safetensors"),
    (cut_weights, "wanted safetensors"),
    (remove("config.json"), "wanted a config.json in it"),
    (lambda folder: (folder / "config.json").write_text("{"), "config.json: wanted JSON"),
    (remove("tokenizer*"), NO_TOKENIZER),
    (remove("tokenizer.json"), NO_TOKENIZER),
    (change_tokenizer(forget_words), "the tokenizer makes each of man, .* it has no vocabulary"),
    (other_tokenizer, "261 tokens, the checkpoint vectors for 93"),
    (change_config(model_type="zork"), OPENS),
    (change_config(hidden_size="wide"), OPENS),
    (change_config(quantization_config={"quant_method": "awq"}), "quantised, wanted float32"),
    (pickled(b"not a pickle"), r"pytorch_model.bin: wanted"),
    (pickled(pickle.dumps([1, 2], 2)), r"pytorch_model.bin: wanted"),
    (
        lambda folder: to_pickle(folder, {"state_dict": {"x": torch.zeros(1)}}),
        "wanted tensors by name, found a dict",
    ),
]


@pytest.mark.parametrize(("spoil", "complaint"), BROKEN)
def test_a_broken_folder_is_refused_in_one_line(spoil, complaint, bert, tmp_path):
    spoil(bert)
    with pytest.raises(DataError, match=complaint) as refusal:
        TINY.load(bert, tmp_path / "cache")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("length", "message"),
    [
        (0, "1 or more"),
        (2, "2 tokens of which 2 are special"),
        (41, "wanted 41 tokens, the checkpoint takes 40 at most"),
    ],
)
def test_an_impossible_length_is_refused(length, message, checkpoint, tmp_path):
    with pytest.raises(UsageError, match=message):
        TINY.with_max_length(length).load(checkpoint("bert"), tmp_path)


def test_a_folder_that_is_not_there_is_a_missing_asset(tmp_path):
    with pytest.raises(AssetMissing, match="no checkpoint folder"):
        TINY.identify(tmp_path / "none")


# A real one


@pytest.mark.weights
def test_minilm_is_sentence_transformers_minilm(minilm, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    words = GOLDEN_SENTENCE.split()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(1, 40, 13)]
    texts += ["", GOLDEN_SENTENCE, "beyond the 256 tokens " * 80]
    encoder = MINILM.load(minilm, tmp_path)
    ours = encoder.encode(texts).mean[:, -1]

    peer = Transformer(str(minilm), max_seq_length=256)
    model = SentenceTransformer(modules=[peer, Pooling(384, "mean")], device="cpu")
    theirs = model.encode(texts, show_progress_bar=False)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (ours, theirs)]
    assert relative_gap(unit[0], unit[1]) <= ROUNDING
    small = tiny_models.in_batches(encoder, 300).encode(texts[::-1]).mean[::-1, -1]
    small = small / np.linalg.norm(small, axis=1, keepdims=True)
    assert relative_gap(small, unit[0]) <= ROUNDING
