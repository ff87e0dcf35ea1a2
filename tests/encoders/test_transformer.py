"""Transformers: what is kept of a pass, that neighbours leave no trace, and what is refused."""

import json
import logging
import pickle
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from fakes import Told, ticks
from safetensors.torch import load_file, save_file
from tolerances import ROUNDING, encoding_gap, relative_gap

from harness.assets.places import Places
from harness.core.errors import AssetMissing, DataError, ScoreError, UsageError
from harness.core.files import digest_of, sha256_of
from harness.core.interfaces import EncoderConfig
from harness.encoders.checkpoint import (
    BERT_UNCASED_IDS,
    GOLDEN_SENTENCE,
    Fingerprint,
    config_digest,
    convert_once,
)
from harness.encoders.transformer import TransformerConfig
from harness.evaluation.embeddings import CachedEncoder

MINILM = TransformerConfig(
    "minilm",
    "sentence-transformers/all-MiniLM-L6-v2",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    golden_ids=BERT_UNCASED_IDS,
)
TINY = TransformerConfig("tiny", "none")
TEXTS = ("The cat sat on the mat.", "a", "dog cat " * 60, "Hello, world! 42", "the dog", "mat?")
NO_CLS = ("t5", "bart")
CLS_LAST = ("xlnet", "gpt2")
POOLER = ("bert", "roberta", "albert", "mpnet")
every_kind = pytest.mark.parametrize("kind", tiny_models.KINDS)


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


@every_kind
def test_layers_cls_and_pooler_are_the_models_own(kind, checkpoint, tmp_path):
    """Against the model run by hand, one text at a time, with whatever its tokenizer gives it."""
    folder = checkpoint(kind)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder)
    model = model.encoder if kind in NO_CLS else model
    encoding = TINY.load(folder, tmp_path).encode(TEXTS)

    assert encoding.layers == (0, 1, 2, 3)
    assert encoding.depth == 3
    for row, text in enumerate(TEXTS):
        length = TINY.identify(folder).max_length
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=length)
        with torch.inference_mode():
            out = model(**inputs, output_hidden_states=True)
        for layer, state in enumerate(out.hidden_states):
            assert relative_gap(encoding.mean[row, layer], state[0].mean(0)) <= ROUNDING
        if kind in NO_CLS:
            assert encoding.cls is None
        else:
            cls = out.last_hidden_state[0, -1 if kind in CLS_LAST else 0]
            assert relative_gap(encoding.cls[row], cls) <= ROUNDING
        if kind in POOLER:
            assert relative_gap(encoding.pooler[row], out.pooler_output[0]) <= ROUNDING
        else:
            assert encoding.pooler is None


@every_kind
def test_neighbours_order_and_batches_leave_no_trace(kind, checkpoint, tmp_path):
    encoder = TINY.load(checkpoint(kind), tmp_path)
    together = encoder.encode(TEXTS)
    alone = tiny_models.in_batches(encoder, 1).encode(TEXTS)
    backwards = encoder.encode(TEXTS[::-1])
    assert encoding_gap(alone, together) <= ROUNDING
    assert relative_gap(backwards.mean[::-1], together.mean) <= ROUNDING


@every_kind
def test_an_empty_text_has_its_special_tokens_or_is_refused(kind, checkpoint, tmp_path):
    encoder = TINY.load(checkpoint(kind), tmp_path)
    if kind == "gpt2":
        with pytest.raises(DataError, match=r"text 1 .* has no token"):
            encoder.encode(["a", ""])
    else:
        assert np.isfinite(encoder.encode(["a", ""]).mean).all()


def test_text_beyond_the_maximum_length_leaves_no_trace(checkpoint, tmp_path):
    encoder = TINY.with_max_length(6).load(checkpoint("bert"), tmp_path)
    assert len(encoder.tokenizer(["the cat sat on the mat"])[0]) == 6
    cut, whole = (encoder.encode([text]) for text in ("the cat sat on the mat", "the cat sat on"))
    assert encoding_gap(cut, whole) == 0


def test_no_text_is_no_row(checkpoint, tmp_path):
    encoder = TINY.load(checkpoint("bert"), tmp_path)
    assert encoder.encode([]).mean.shape == (0, encoder.depth + 1, encoder.dimensions)


# Weights


def test_a_missing_pooler_is_none_and_the_rest_as_before(checkpoint, tmp_path):
    whole, without = checkpoint("roberta"), tmp_path / "without"
    shutil.copytree(whole, without)
    change_tensors(without, lambda t: {k: v for k, v in t.items() if "pooler" not in k})
    found = TINY.load(without, tmp_path).encode(TEXTS)
    assert found.pooler is None
    assert encoding_gap(replace(TINY.load(whole, tmp_path).encode(TEXTS), pooler=None), found) == 0


def test_a_decoder_that_is_not_run_may_be_missing(checkpoint, tmp_path):
    half = tmp_path / "half"
    shutil.copytree(checkpoint("t5"), half)
    change_tensors(half, lambda t: {k: v for k, v in t.items() if not k.startswith("decoder")})
    whole = TINY.load(checkpoint("t5"), tmp_path).encode(TEXTS)
    assert encoding_gap(whole, TINY.load(half, tmp_path).encode(TEXTS)) == 0


def test_half_precision_on_disk_is_computed_in_float32(bert, tmp_path):
    change_tensors(bert, lambda t: {k: v.half() for k, v in t.items()})
    change_json(bert / "config.json", dtype="float16")
    encoder = TINY.load(bert, tmp_path)
    assert {weight.dtype for weight in encoder.kernel.model.parameters()} == {torch.float32}
    assert not encoder.kernel.model.training


def test_weights_that_are_not_finite_never_reach_a_score(bert, tmp_path):
    change_tensors(bert, lambda t: {**t, "pooler.dense.bias": torch.full((32,), torch.nan)})
    with pytest.raises(ScoreError, match="found others in the encoding of text 2"):
        TINY.load(bert, tmp_path).encode(TEXTS)


def test_shards_are_one_checkpoint(checkpoint, tmp_path):
    sharded = tmp_path / "sharded"
    shutil.copytree(checkpoint("bert"), sharded)
    (sharded / "model.safetensors").unlink()
    model = transformers.AutoModel.from_pretrained(checkpoint("bert"))
    model.save_pretrained(sharded, max_shard_size="20KB")
    shards = sorted(sharded.glob("model-*.safetensors"))
    assert len(shards) > 1
    whole = TINY.load(checkpoint("bert"), tmp_path).encode(TEXTS)
    assert encoding_gap(whole, TINY.load(sharded, tmp_path).encode(TEXTS)) == 0

    shards[-1].unlink()
    with pytest.raises(DataError, match=f"wanted {shards[-1].name} beside it"):
        TINY.identify(sharded)


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
    return replace(TINY, fingerprint=Fingerprint(config_digest(config), vocabulary, own))


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


OTHERS = {
    "another epsilon": (change_config(layer_norm_eps=0.1), "settings with digest"),
    "another activation": (change_config(hidden_act="relu"), "settings with digest"),
    "other heads": (change_config(num_attention_heads=1), "settings with digest"),
    "two words swapped": (change_tokenizer(swap_two_words), "vocabulary with digest"),
    "another length": (state_a_length, "states a maximum length of 8 tokens, wanted 40"),
}


@pytest.mark.parametrize(("change", "complaint"), OTHERS.values(), ids=OTHERS)
def test_a_name_with_a_fingerprint_refuses_other_files(change, complaint, bert, tmp_path):
    config = fingerprinted(bert)
    true = config.load(bert, tmp_path).encode(TEXTS)
    change(bert)
    with pytest.raises(DataError, match=f"tiny: .*{complaint}.*a name of its own"):
        config.load(bert, tmp_path)
    # Else the test tests nothing.
    assert encoding_gap(TINY.load(bert, tmp_path).encode(TEXTS), true) > 1e-4


def test_encodings_made_under_another_name_meet_the_demands_of_this_one(bert, tmp_path):
    """What a name checks of a loaded encoder is checked where nothing is left to encode, too."""
    true, told = fingerprinted(bert), Told()
    change_tokenizer(swap_two_words)(bert)
    other = replace(TINY, name="other")
    places = Places(tmp_path / "cache", encoders={"tiny": bert, "other": bert})
    CachedEncoder.open(other, places, ticks()).ensure(TEXTS, told)
    encoder = CachedEncoder.open(true, places, ticks())
    assert encoder.cache.missing(TEXTS) == []
    with pytest.raises(DataError, match=r"tiny: .*vocabulary with digest"):
        encoder.ensure([], told)


def test_demands_that_were_met_are_not_checked_again(bert, tmp_path):
    config, told = fingerprinted(bert), Told()
    places = Places(tmp_path / "cache", encoders={"tiny": bert})
    CachedEncoder.open(config, places, ticks()).ensure(TEXTS, told)
    again = CachedEncoder.open(config, places, ticks())
    again.ensure(TEXTS, told)
    assert again.encoder is None
    assert TINY.identify(bert).demands == ""


def test_a_pinned_tokenizer_keeps_the_beginning_of_a_text(bert, tmp_path):
    golden = TINY.load(bert, tmp_path).tokenizer([GOLDEN_SENTENCE], whole=True)[0]
    config = replace(TINY, golden_ids=tuple(golden))
    assert config.load(bert, tmp_path).key
    change_json(bert / "tokenizer_config.json", truncation_side="left")
    with pytest.raises(
        DataError,
        match="tiny: wanted the beginning of a long text, found a tokenizer that cuts on the left",
    ):
        config.load(bert, tmp_path)


def test_what_changes_no_vector_is_no_other_configuration(bert, tmp_path):
    config = fingerprinted(bert)
    change_config(transformers_version="9.9", architectures=["Other"], _name_or_path="x")(bert)
    assert config.load(bert, tmp_path).key
    assert config.with_max_length(8).load(bert, tmp_path).key


@pytest.mark.parametrize("head", ["cls.predictions.bias", "lm_head.weight", "mlp.dense.weight"])
def test_a_head_of_the_pre_training_is_left_out(head, bert, tmp_path):
    change_tensors(bert, lambda tensors: {**tensors, head: torch.zeros(3)})
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


def test_a_conversion_that_fails_leaves_nothing(tmp_path):
    def write(path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        convert_once(tmp_path, "digest", write)
    assert not list((tmp_path / "converted").iterdir())


def test_views_and_tied_tensors_are_converted(bert, tmp_path):
    tensors = load_file(bert / "model.safetensors")
    words = tensors["embeddings.word_embeddings.weight"]
    views = {"cls.predictions.decoder.weight": words, "cls.spare": words.T}
    to_pickle(bert, {**tensors, **views})
    assert TINY.load(bert, tmp_path).depth == 3


class Vandal:
    """Unpickled, it touches a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


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


def test_planning_imports_no_torch(checkpoint):
    program = (
        "import sys, pathlib; from harness.encoders import transformer as t;"
        "t.TransformerConfig('x', 'y').identify(pathlib.Path(sys.argv[1]));"
        "print([m for m in ('torch', 'transformers', 'safetensors') if m in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(checkpoint("bert"))]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


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


def test_a_config_is_what_the_grammar_says():
    config = TransformerConfig("bert-base", "google-bert/bert-base-uncased", trained_on="books")
    assert isinstance(config, EncoderConfig)
    assert config.with_max_length(64).name == "bert-base:64"
    assert config.with_max_length(64).with_max_length(32) == config.with_max_length(32)
    assert "books" not in repr(config)


# The maximum length


@pytest.mark.parametrize(
    ("kind", "sentence_bert", "tokenizer", "wanted"),
    [
        ("bert", 7, 9, 7),
        ("bert", None, 9, 9),
        ("bert", None, int(1e30), 40),
        ("bert", None, 99, 40),
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


OPENS = "wanted an encoder that transformers opens"
BROKEN = {
    "no embeddings": (
        without_weights("embeddings.word_embeddings.weight"),
        "lacks 1 of its encoder's weights, first embeddings.word_embeddings.weight",
    ),
    "no layer": (without_weights("encoder.layer.1.output"), "lacks 4 of its encoder's weights"),
    "another shape": (with_weights(**{"pooler.dense.bias": torch.zeros(3)}), OPENS),
    "fewer layers": (
        change_config(num_hidden_layers=2),
        r"16 weights .* no place for, first encoder\.layer\.2\.",
    ),
    "no weights": (remove("model.safetensors"), "no weights; wanted model.safetensors"),
    "cut weights": (cut_weights, "wanted safetensors"),
    "no configuration": (remove("config.json"), "wanted a config.json in it"),
    "no JSON": (
        lambda folder: (folder / "config.json").write_text("{"),
        "config.json: wanted JSON",
    ),
    "no tokenizer": (remove("tokenizer*"), r"no tokenizer; wanted tokenizer\.json or a vocabulary"),
    "no vocabulary": (
        remove("tokenizer.json"),
        r"no tokenizer; wanted tokenizer\.json or a vocabulary",
    ),
    "no word": (
        change_tokenizer(forget_words),
        "the tokenizer makes each of man, .* it has no vocabulary",
    ),
    "an unknown architecture": (change_config(model_type="zork"), OPENS),
    "no architecture": (change_config(model_type=None), OPENS),
    "a size in words": (change_config(hidden_size="wide"), OPENS),
    "an odd size": (change_config(hidden_size=33), OPENS),
    "quantised": (
        change_config(quantization_config={"quant_method": "awq"}),
        "quantised, wanted float32",
    ),
    "an empty pickle": (pickled(b""), r"pytorch_model.bin: wanted"),
    "no pickle": (pickled(b"not a pickle"), r"pytorch_model.bin: wanted"),
    "a pickle of numbers": (pickled(pickle.dumps([1, 2], 2)), r"pytorch_model.bin: wanted"),
    "a nested state": (
        lambda folder: to_pickle(folder, {"state_dict": {"x": torch.zeros(1)}}),
        "wanted tensors by name, found a dict",
    ),
    "a list": (
        lambda folder: to_pickle(folder, [torch.zeros(1)]),
        "wanted tensors by name, found a list",
    ),
}


@pytest.mark.parametrize(("spoil", "complaint"), BROKEN.values(), ids=BROKEN)
def test_a_broken_folder_is_refused_in_one_line(spoil, complaint, bert, tmp_path):
    spoil(bert)
    with pytest.raises(DataError, match=complaint) as refusal:
        TINY.load(bert, tmp_path / "cache")
    assert "\n" not in str(refusal.value)


def test_a_tokenizer_of_another_vocabulary_is_refused(bert, checkpoint, tmp_path):
    for file in checkpoint("roberta").glob("tokenizer*"):
        shutil.copy(file, bert)
    with pytest.raises(DataError, match="261 tokens, the checkpoint vectors for 93"):
        TINY.load(bert, tmp_path)


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


@pytest.fixture
def chatter():
    """What transformers logs during a test, with everything turned on."""
    hub, heard = transformers.utils.logging, []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    before = hub.get_verbosity(), hub.is_progress_bar_enabled()
    hub.set_verbosity_info()
    hub.enable_progress_bar()
    hub.add_handler(handler)
    yield heard
    hub.remove_handler(handler)
    hub.set_verbosity(before[0])
    if not before[1]:
        hub.disable_progress_bar()


def test_loading_is_quiet_and_leaves_the_chatter_as_it_was(bert, tmp_path, chatter, capfd):
    change_tensors(bert, lambda t: {k: v for k, v in t.items() if "pooler" not in k})
    change_json(bert / "tokenizer_config.json", model_max_length=9)
    TINY.load(bert, tmp_path)
    assert chatter == []
    assert capfd.readouterr() == ("", "")
    hub = transformers.utils.logging
    assert (hub.get_verbosity(), hub.is_progress_bar_enabled()) == (hub.INFO, True)


def test_other_golden_ids_are_refused(checkpoint, tmp_path):
    folder = checkpoint("bert")
    ids = tuple(TINY.load(folder, tmp_path).tokenizer([GOLDEN_SENTENCE], whole=True)[0])
    assert len(ids) > 40  # the check sees the whole sentence, however short the encoder cuts
    assert replace(TINY, golden_ids=ids).load(folder, tmp_path).depth == 3
    last = len(ids) - 1
    for wrong, at in (((*ids[:-1], 0), last), (ids[:-1], last), ((*ids, 0), last + 1)):
        with pytest.raises(DataError, match=f"from token {at} on"):
            replace(TINY, golden_ids=wrong).load(folder, tmp_path)


# A real one


@pytest.mark.weights
def test_minilm_is_sentence_transformers_minilm(minilm, tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    words = GOLDEN_SENTENCE.split()
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(words, size)) for size in rng.integers(1, 40, 61)]
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
