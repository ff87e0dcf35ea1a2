"""A method as a folder of sentence-transformers: its encoder, pooling and fitted maps as modules.

Word vectors become a StaticEmbedding with a tokenizer of Hugging Face's `tokenizers`. A word that
has no vector is left out of an average; a word-level model would put a token for unknown words in
its place. So words are stored with a mark before them, which no single letter has, in a byte-pair
model without merges: it knows whole words and drops everything else.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import ModelCardData
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers
from torch import nn

from harness.core.arrays import Float32
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Hub, Pooling, Transform
from harness.core.metrics import metric_of, metrics
from harness.core.types import Method, Record, Task
from harness.encoders.checkpoint import PICKLED, read_tensors, tokenizer_files, weights_files
from harness.encoders.modules import (
    DENSE,
    LAYERS,
    MODEL,
    MODULES,
    STATIC,
    append_module,
    append_pooling,
    append_transformer,
    edit_json,
    write_json,
)
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig, TransformerEncoder
from harness.encoders.word_tokenizer import STOP_WORDS
from harness.encoders.word_vectors import StaticConfig, StaticEncoder
from harness.evaluation.evaluate import FittedCell
from harness.results.index import Results, score_at
from harness.results.records import PlannedCell
from harness.transforms.affine import Affine
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
TANH, LINEAR = "torch.nn.modules.activation.Tanh", "torch.nn.modules.linear.Identity"
COSINE = {"similarity_fn_name": "cosine"}


def write_model(
    method: Method, cell: FittedCell, config: EncoderConfig, path: Path, cache: Path, folder: Path
) -> None:
    """Write a method as a folder, all of it or nothing.

    `config` is the encoder of the cell's seed, whose files lie at `path`. Raises UsageError for a
    folder that holds something, and for a method that the library's modules cannot express.
    """
    if folder.exists() and (folder.is_file() or any(folder.iterdir())):
        raise UsageError(f"{folder}: wanted a new or an empty folder, found files in it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as place:
        scratch = Path(place) / "new"
        scratch.mkdir()
        _write_encoder(method.pooling, cell, config, path, cache, scratch)
        if cell.transforms:
            _append_dense(scratch, *_affine(method, cell.transforms), LINEAR)
        if folder.exists():
            folder.rmdir()
        scratch.replace(folder)


def _affine(method: Method, transforms: Sequence[Transform]) -> tuple[Any, Any]:
    """The (K, D) weight and the bias of a chain of affine maps together."""
    weight: Any = None
    bias: Any = None
    for transform in transforms:
        if not isinstance(transform, Affine):
            raise UsageError(
                f"{method.id}: wanted affine maps, found a {type(transform).__name__}, which is "
                "no module of sentence-transformers; such a method is not exported"
            )
        shift = -transform.shift @ transform.weight
        bias = shift if bias is None else bias @ transform.weight + shift
        weight = transform.weight if weight is None else weight @ transform.weight
    return weight.T, bias


def _write_encoder(
    pooling: Pooling, cell: FittedCell, config: EncoderConfig, path: Path, cache: Path, folder: Path
) -> None:
    match config:
        case NativeConfig():
            _copy_native(config, path, folder, cell.identity.max_length)
        case StaticConfig():
            tokenizer, vectors = _as_tokenizer(config.name, config.load(path, cache))
            write_json(folder / MODEL, COSINE)
            append_module(folder, STATIC, {}, {"embedding.weight": vectors})
            tokenizer.save(str(folder / "tokenizer.json"))
        case TransformerConfig():
            _copy_transformer(path, cache, folder, cell.identity.max_length)
            _append_pooling(folder, config.load(path, cache), pooling)
        case _:
            raise UsageError(
                f"{config.name}: wanted a transformer, word vectors, or a folder under its own "
                f"modules, found a {type(config).__name__}; take {config.name}.native"
            )


def _as_tokenizer(
    name: str, encoder: StaticEncoder
) -> tuple[Tokenizer, Float32[np.ndarray, "V D"]]:
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


def _copy_native(config: NativeConfig, path: Path, folder: Path, max_length: int | None) -> None:
    """Copy the folder, with its prompt by default and in float32."""
    listed = json.loads((path / MODULES).read_bytes())
    for file in path.iterdir():
        if file.is_file() and file.suffix in (".json", ".txt", ".model", ".safetensors", ".bin"):
            shutil.copy(file, folder / file.name)
    for place in {entry["path"] for entry in listed} - {"", "."}:
        if (path / place).is_dir():
            shutil.copytree(path / place, folder / place)
    first = folder / listed[0]["path"]
    if (first / "config.json").is_file() and max_length is not None:
        edit_json(first / "config.json", dtype="float32")
        edit_json(first / "sentence_bert_config.json", max_seq_length=max_length)
    if config.prompt:
        edit_json(folder / MODEL, default_prompt_name=config.prompt)


def _copy_transformer(path: Path, cache: Path, folder: Path, max_length: int | None) -> None:
    """Copy the checkpoint as the first module, its weights as safetensors."""
    files = weights_files(path)
    pickled = files[0].name == PICKLED
    for file in (path / "config.json", *tokenizer_files(path), *(() if pickled else files)):
        shutil.copy(file, folder / file.name)
    if pickled:
        save_file(read_tensors(path, cache), folder / "model.safetensors", {"format": "pt"})
    edit_json(folder / "config.json", dtype="float32")  # in use, whatever is on disk
    write_json(folder / MODEL, COSINE)
    append_transformer(folder, max_length)


def _append_pooling(folder: Path, encoder: TransformerEncoder, pooling: Pooling) -> None:
    """Append the modules of a pooling of hidden states. Raises UsageError for one without any."""
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
            append_module(folder, LAYERS, stated, {"layer_weights": layers})
            edit_json(folder / "config.json", output_hidden_states=True)
        case Cls() | Pooler():
            mode = "cls" if encoder.plain.summary == 0 else "lasttoken"
            pooling(encoder.shape)  # raises where the encoder lacks it
        case _:
            raise UsageError(f"{pooling.name}: wanted a pooling of hidden states, found another")
    append_pooling(folder, size, mode)
    if isinstance(pooling, Pooler):
        linear = [part for part in model.pooler.modules() if isinstance(part, nn.Linear)]
        if len(linear) != 1:
            raise UsageError(
                f"{encoder.name}: wanted a pooler of one linear layer, found {len(linear)}"
            )
        weight, bias = linear[0].weight.detach().numpy(), linear[0].bias.detach().numpy()
        _append_dense(folder, weight, bias, TANH)


def _append_dense(folder: Path, weight: Any, bias: Any, activation: str) -> None:
    """Append a linear layer of a (K, D) weight and a bias of K."""
    outputs, inputs = weight.shape
    sizes = {"in_features": inputs, "out_features": outputs}
    settings = {**sizes, "bias": True, "activation_function": activation}
    append_module(folder, DENSE, settings, {"linear.weight": weight, "linear.bias": bias})


# The card: every number is of a record of these very weights and maps, compared by digests.

TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction"]
LICENCES = ("apache-2.0", "mit", "bsd-3-clause")  # as the hub writes those that it knows

USE = """```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{folder}")
vectors = model.encode(["A man is eating.", "Someone eats."])
```"""


@dataclass(frozen=True)
class CardScore:
    """A task's main score of an exported model, in points, its metric, and the mean over seeds."""

    task: Task
    metric: str
    points: float
    over_seeds: str
    record: Record


def scores_of(
    planned: PlannedCell, cell: FittedCell, tasks: Mapping[str, Task], results: Results
) -> list[CardScore]:
    """The scores that records hold of these weights and maps, by task."""
    scores = []
    method, exported = planned.method.id, (cell.identity.key, cell.fitted_on, planned.seed)
    for name, task in sorted(tasks.items()):
        path = metrics()[task.metric].main_score
        for record in results.records(method, name):
            measured = (record.digests.get("encoding"), record.digests.get("fit"), record.seed)
            points = score_at(record.scores, path)
            if measured == exported and points is not None:
                over_seeds = str(results.value(method, name, *path))
                scores.append(CardScore(task, ".".join(path), points, over_seeds, record))
    return scores


def write_card(
    folder: Path, planned: PlannedCell, cell: FittedCell, scores: Sequence[CardScore], citation: str
) -> None:
    """Write README.md into an exported folder: use, scores with their protocol, origin, citation.

    `citation` is BibTeX.
    """
    method, encoder = planned.method, planned.encoder
    source, licence = encoder.source, encoder.licence.lower()
    header = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=TAGS,
        base_model=source.repo if isinstance(source, Hub) and source.repo else None,
        license=licence if licence in LICENCES else None,
    )
    fitted = "Nothing is fitted behind the encoder."
    if method.post:
        fitted = (
            f"Fitted on `@{method.fit_on}`, seed {planned.seed}; sha256 of its sentences "
            f"`{cell.fitted_on}`."
        )
    digests = ", ".join(f"{name} `{digest[:12]}`" for name, digest in cell.identity.digests.items())
    parts = [
        f"---\n{header.to_yaml()}\n---",
        f"# {method.id}",
        f"Sentence embeddings of `{encoder.name}`, written by sentence-embedding-harness.",
        USE.format(folder=folder.name),
        "## Measured",
        _table(scores),
        "## Origin",
        f"{fitted} Encoder: {source}; sha256 of {digests}. Trained on: "
        f"{encoder.trained_on or 'not stated'}. Licence: {encoder.licence or 'not stated'}.",
        "## Citation",
        f"```bibtex\n{citation}\n```",
    ]
    (folder / "README.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _table(scores: Sequence[CardScore]) -> str:
    if not scores:
        return "No record holds a score of these weights and maps."
    rows = [
        f"| {s.task.name} | {s.metric} | {s.points:.2f} | {s.over_seeds} | {_protocol(s)} |"
        for s in scores
    ]
    head = "| task | metric x100 | this model | all seeds | protocol |\n|:--|:--|--:|--:|:--|"
    by_environment = Counter(map(_environment, scores)).most_common()
    environments = (f"* {count} of the scores: {words}." for words, count in by_environment)
    return "\n".join([head, *rows, "", *environments])


def _protocol(score: CardScore) -> str:
    """What was scored, and how."""
    task, metric = score.task, metric_of(score.task)
    text = "SentEval's text" if task.text == "senteval" else "raw text"
    name = score.metric.split(".")[0]
    compared = metric.words.get(name, name).format(metric.compared)
    return f"{score.record.pairs:,} scored ({'+'.join(task.scored)}, {text}), {compared}"


def _environment(score: CardScore) -> str:
    """The seed, the code and the libraries that a score was made with."""
    environment = score.record.environment
    packages = sorted((environment.get("packages") or {}).items())
    versions = ", ".join(f"{name} {version}" for name, version in packages)
    commit = str(environment.get("commit"))[:12]
    return f"seed {score.record.seed}; harness at commit {commit}, {versions}"
