"""Tokenisers of word vectors in the form of Hugging Face's `tokenizers`.

A word that has no vector is left out of an average. There, a word-level model would put a token for
unknown words in its place; so words are stored with a mark before them, which no single letter has,
in a byte-pair model without merges: it knows whole words and drops whatever is none.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from torch import nn

from harness.core.arrays import Float32, Float64
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Pooling, Transform
from harness.core.types import Method
from harness.encoders.checkpoint import (
    PICKLED,
    read_json,
    read_tensors,
    tokenizer_files,
    weights_files,
)
from harness.encoders.modules import (
    DENSE,
    LAYERS,
    MODEL,
    MODES,
    MODULES,
    POOLING,
    STATIC,
    TRANSFORMER,
)
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig, TransformerEncoder
from harness.encoders.word_tokenizer import STOP_WORDS
from harness.encoders.word_vectors import StaticConfig, StaticEncoder
from harness.evaluation.evaluate import FittedCell
from harness.transforms.affine import Affine
from harness.transforms.flows import Fitted
from harness.transforms.pooling import Cls, Mean, Pooler

MARK = "▁"  # before each word
# What Python's \w matches; that of `tokenizers` knows combining marks, too, and other digits not.
WORD = r"[\p{L}\p{N}_]"
OTHER = r"[^\p{L}\p{N}_\s]"
END = rf"(?!{WORD})"
SPLITS = {
    "whitespace": r"\S+",
    "words": f"{WORD}+|{OTHER}",
    "treebank": (rf"(?i){WORD}+(?=n't{END})|n't{END}|'(?:s|m|d|re|ve|ll){END}|{WORD}+|{OTHER}"),
}


def as_tokenizer(name: str, encoder: StaticEncoder) -> tuple[Tokenizer, Float32[np.ndarray, "V D"]]:
    """A tokenizer that finds the words of an encoder, and the vector of each of its ids.

    Raises UsageError for a rule that looks a word up in several forms.
    """
    rule, words = encoder.tokeniser, encoder.vocabulary
    cased = rule.case == "fallback" and any(word != word.lower() for word in words)
    if rule.strip or rule.split not in SPLITS or cased:
        raise UsageError(
            f"{name}: wanted words that are looked up in one form, found {rule}; its words are "
            "looked up in several, which no tokenizer of a StaticEmbedding does"
        )
    kept = [word for word in words if word not in STOP_WORDS[rule.stop_words]]
    vocabulary = {MARK + word: number for number, word in enumerate(kept)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    if rule.case != "keep":
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLITS[rule.split]), "removed", invert=True),
            pre_tokenizers.Metaspace(MARK, prepend_scheme="always", split=False),
        ]
    )
    return tokenizer, encoder.vectors[[words[word] for word in kept]]


LIBRARY = "sentence_transformers.models"  # where every version of it finds its modules
TANH, LINEAR = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
ENCODER, FLOW, LOADER = "encoder", "flow.safetensors", "load.py"

LOAD = '''"""Opens this model, whose last step, a normalising flow, is no module of the library.

    from load import encode
    vectors = encode(["A man is eating."])

It needs the packages sentence-transformers and sentence-embedding-harness.
"""

from pathlib import Path

from sentence_transformers import SentenceTransformer

from harness.transforms.flows import Fitted

HERE = Path(__file__).parent
ENCODER = SentenceTransformer(str(HERE / "encoder"), device="cpu")
FLOW = Fitted.load(HERE / "flow.safetensors")


def encode(texts):
    """One vector a text, in float64."""
    return FLOW(ENCODER.encode(list(texts)))
'''


@dataclass(frozen=True, eq=False)
class Written:
    """A module to write: its kind, what its file says, and its weights."""

    kind: str
    settings: Mapping[str, Any]
    tensors: Mapping[str, np.ndarray] = field(default_factory=dict)


def write_model(
    method: Method, cell: FittedCell, config: EncoderConfig, path: Path, cache: Path, folder: Path
) -> None:
    """Write a method as a folder, all of it or nothing.

    `config` is the encoder of the cell's seed, whose files lie at `path`. Raises UsageError for a
    folder that holds something, and for a method that the library's modules cannot express.
    """
    affine, flow = _split(method, cell.transforms)
    with _new(folder) as whole:
        place = whole if flow is None else whole / ENCODER
        place.mkdir(exist_ok=True)
        _write_encoder(method.pooling, cell, config, path, cache, place)
        if affine is not None:
            weight, bias = affine
            tensors = {"linear.weight": weight.T, "linear.bias": bias}
            _append(place, Written(DENSE, _dense(len(weight), len(bias), LINEAR), tensors))
        if flow is not None:
            flow.save(whole / FLOW)
            (whole / LOADER).write_text(LOAD, encoding="utf-8")


def _split(
    method: Method, transforms: Sequence[Transform]
) -> tuple[tuple[Float64[np.ndarray, "D K"], Float64[np.ndarray, " K"]] | None, Fitted | None]:
    """The weight and bias of the affine maps together, and the flow behind them, if one is."""
    affine: Any = None
    flow: Fitted | None = None
    for transform in transforms:
        if isinstance(transform, Fitted) and flow is None:
            flow = transform
        elif isinstance(transform, Affine) and flow is None:
            weight, bias = transform.weight, -transform.shift @ transform.weight
            affine = (affine[0] @ weight, affine[1] @ weight + bias) if affine else (weight, bias)
        else:
            raise UsageError(
                f"{method.id}: wanted affine maps and at most a flow behind them, found a "
                f"{type(transform).__name__}; such a method is not exported"
            )
    return affine, flow


@contextmanager
def _new(folder: Path) -> Iterator[Path]:
    """A scratch folder that becomes this one when all is written."""
    if folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise UsageError(f"{folder}: wanted a new or an empty folder, found files in it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
        scratch = Path(place) / "new"
        scratch.mkdir()
        yield scratch
        if folder.exists():
            folder.rmdir()
        scratch.replace(folder)


def _write_encoder(
    pooling: Pooling, cell: FittedCell, config: EncoderConfig, path: Path, cache: Path, folder: Path
) -> None:
    match config:
        case NativeConfig():
            _copy_native(config, path, folder, cell.identity.max_length)
        case StaticConfig():
            loaded = config.load(path, cache)
            tokenizer, vectors = as_tokenizer(config.name, loaded)
            _write_json(folder / MODEL, {"similarity_fn_name": "cosine"})
            _append(folder, Written(STATIC, {}, {"embedding.weight": vectors}))
            tokenizer.save(str(folder / "tokenizer.json"))
        case TransformerConfig():
            encoder = config.load(path, cache)
            _copy_transformer(config, path, cache, folder, cell.identity.max_length)
            for module in _pooled(encoder, pooling):
                _append(folder, module)
        case _:
            raise UsageError(
                f"{config.name}: wanted a transformer, word vectors, or a folder under its own "
                f"modules, found a {type(config).__name__}; take {config.name}.native"
            )


def _copy_transformer(
    config: TransformerConfig, path: Path, cache: Path, folder: Path, max_length: int | None
) -> None:
    """The checkpoint as the library's first module, its weights as safetensors."""
    for file in (path / "config.json", *tokenizer_files(path)):
        shutil.copy(file, folder / file.name)
    files = weights_files(path)
    if files[0].name == PICKLED:
        from safetensors.torch import save_file as save_tensors

        tensors = read_tensors(files, config.identify(path).digests["weights"], cache)
        save_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
    else:
        for file in files:
            shutil.copy(file, folder / file.name)
    _edit(folder / "config.json", dtype="float32")  # in use, whatever is on disk
    stated = {"max_seq_length": max_length, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", stated)
    _write_json(folder / MODEL, {"similarity_fn_name": "cosine"})
    _append(folder, Written(TRANSFORMER, {}))


def _copy_native(config: NativeConfig, path: Path, folder: Path, max_length: int | None) -> None:
    """The folder as it is, its prompt by default, in float32."""
    listed = json.loads((path / MODULES).read_bytes())
    for file in path.iterdir():
        if file.is_file() and file.suffix in (".json", ".txt", ".model", ".safetensors", ".bin"):
            shutil.copy(file, folder / file.name)
    for place in {entry["path"] for entry in listed} - {"", "."}:
        if (path / place).is_dir():
            shutil.copytree(path / place, folder / place)
    first = folder / listed[0]["path"]
    if (first / "config.json").is_file() and max_length is not None:
        _edit(first / "config.json", dtype="float32")
        _edit(first / "sentence_bert_config.json", max_seq_length=max_length)
    if config.prompt:
        _edit(folder / MODEL, default_prompt_name=config.prompt)


def _pooled(encoder: TransformerEncoder, pooling: Pooling) -> Iterator[Written]:
    """The modules of a pooling of hidden states. Raises UsageError for one that has none."""
    model, size = encoder.plain.model, encoder.dimensions
    if model.config.is_encoder_decoder and not model.config.model_type.endswith("t5"):
        raise UsageError(
            f"{encoder.name}: wanted an encoder, found a {model.config.model_type}, of which "
            "sentence-transformers pools the decoder's states; it is not exported"
        )
    mode = "mean"
    match pooling:
        case Mean(layers=(-1,)):
            pass
        case Mean():
            layers = np.zeros(encoder.depth + 1, np.float32)
            layers[list(pooling.hidden_states(encoder.depth))] = 1
            stated = {"layer_start": 0, "num_hidden_layers": encoder.depth}
            stated |= {"word_embedding_dimension": size}
            yield Written(LAYERS, stated, {"layer_weights": layers})
        case Cls() | Pooler():
            mode = "cls" if encoder.plain.summary == 0 else "lasttoken"
            pooling(encoder.shape)  # raises where the encoder lacks it
        case _:
            raise UsageError(f"{pooling.name}: wanted a pooling of hidden states, found another")
    modes = {word: name == mode for name, word in MODES.items()}
    yield Written(POOLING, {"word_embedding_dimension": size, **modes})
    if isinstance(pooling, Pooler):
        yield _pooler(encoder.name, model.pooler)


def _pooler(name: str, pooler: nn.Module) -> Written:
    """A trained head over [CLS], one linear layer and tanh."""
    linear = [part for part in pooler.modules() if isinstance(part, nn.Linear)]
    if len(linear) != 1:
        raise UsageError(f"{name}: wanted a pooler of one linear layer, found {len(linear)}")
    weights = {f"linear.{key}": value.numpy() for key, value in linear[0].state_dict().items()}
    return Written(DENSE, _dense(linear[0].in_features, linear[0].out_features, TANH), weights)


def _dense(inputs: int, outputs: int, activation: str) -> dict[str, Any]:
    return {
        "in_features": inputs,
        "out_features": outputs,
        "bias": True,
        "activation_function": activation,
    }


def _append(folder: Path, module: Written) -> None:
    """Write a module, the first in the folder itself, and list it in modules.json."""
    file = folder / MODULES
    listed = json.loads(file.read_bytes()) if file.is_file() else []
    number = len(listed)
    place = f"{number}_{module.kind}" if number else ""
    (folder / place).mkdir(exist_ok=True)
    if module.settings:
        _write_json(folder / place / "config.json", module.settings)
    if module.kind == LAYERS:
        _edit(folder / "config.json", output_hidden_states=True)
    if module.tensors:
        tensors = {n: np.ascontiguousarray(t, np.float32) for n, t in module.tensors.items()}
        save_file(tensors, folder / place / "model.safetensors", {"format": "pt"})
    entry = {"idx": number, "name": str(number), "path": place}
    _write_json(file, [*listed, {**entry, "type": f"{LIBRARY}.{module.kind}"}])


def _edit(file: Path, **settings: Any) -> None:
    """Change settings of a JSON file."""
    kept = {key: value for key, value in read_json(file).items() if key != "torch_dtype"}
    _write_json(file, kept | settings)


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
