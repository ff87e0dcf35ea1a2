"""A method as a folder of sentence-transformers, with a model card.

`write_model` writes the encoder, its pooling and the fitted maps as modules. `write_card`
writes README.md. A score of a record is on the card if the record was measured with
exactly these weights and maps, as its digests say.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import ModelCardData
from safetensors.torch import save_file
from torch import nn

from harness.assets.places import Places
from harness.core.errors import UsageError
from harness.core.interfaces import EncoderConfig, Hub, Pooling, Transform
from harness.core.json_text import parse_json
from harness.core.metrics import metric_of
from harness.core.scores import score_at
from harness.core.types import Method, Record, Task
from harness.encoders.checkpoint import (
    MODULES_FILE,
    tokenizer_files,
    transformer_folder,
)
from harness.encoders.checkpoint_settings import sentence_settings_file
from harness.encoders.module_writer import (
    LinearLayer,
    append_dense,
    append_pooling,
    append_transformer,
    edit_json,
    write_settings,
)
from harness.encoders.modules import MODEL_FILE
from harness.encoders.native import NativeConfig
from harness.encoders.transformer import TransformerConfig, TransformerEncoder
from harness.encoders.weights import read_tensors
from harness.evaluation.run import FittedTransforms
from harness.evaluation.select import PlannedCell
from harness.results.index import Results
from harness.transforms.affine import Affine
from harness.transforms.pooling import Cls, Mean, Pooler

COSINE_SETTING = {"similarity_fn_name": "cosine"}
COPIED_SUFFIXES = (".json", ".txt", ".model", ".safetensors", ".bin")

CARD_TEMPLATE = Path(__file__).with_suffix(".md")
LICENCES_OF_HUB = ("apache-2.0", "mit", "bsd-3-clause")  # named there as they are here
SCORES_HEAD = """| task | metric x100 | this model | all seeds | protocol |
|:--|:--|--:|--:|:--|
"""
DIGEST_DIGITS_ON_CARD = 12


# The model


def write_model(
    planned: PlannedCell, fitted: FittedTransforms, places: Places, folder: Path
) -> None:
    """Write a fitted method as a folder, all of it or nothing.

    Args:
        planned: The method, with the seed and the task that it was fitted on.
        fitted: Its fitted maps, with the identity of its encoder.
        places: Where the encoder's files are.
        folder: A folder that does not exist, or an empty one.

    Raises:
        UsageError: The folder has files, or sentence-transformers lacks a module for a
            part of the method.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder}: wanted a new or an empty folder, found a file or files in it; name another"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        dir=folder.parent, prefix=f".{folder.name}-"
    ) as scratch_parent:
        scratch = Path(scratch_parent) / "new"
        scratch.mkdir()
        _write_modules(planned, fitted, places, scratch)
        if folder.exists():
            folder.rmdir()
        scratch.replace(folder)


def _write_modules(
    planned: PlannedCell, fitted: FittedTransforms, places: Places, folder: Path
) -> None:
    """Write the modules of a method into an empty folder: encoder, pooling, fitted maps."""
    config, cache = planned.encoder, places.cache
    path = places.encoder(config)
    max_length = fitted.identity.max_length
    match config:
        case NativeConfig():
            has_maps = bool(fitted.transforms)
            _copy_native(config, path, folder, max_length, has_maps=has_maps)
        case TransformerConfig():
            _copy_transformer(transformer_folder(path), cache, folder, max_length)
            encoder = config.load(path, cache)
            _append_pooling(folder, encoder, planned.method.pooling)
        case _:
            raise UsageError(
                f"{config.name}: wanted a transformer, or a folder under its own modules as "
                f"{config.name}.native, found a {type(config).__name__}; harness.encoder opens "
                "it in Python"
            )
    if fitted.transforms:
        layer = _linear_layer(planned.method, fitted.transforms)
        append_dense(folder, layer, tanh=False)


def _linear_layer(method: Method, transforms: Sequence[Transform]) -> LinearLayer:
    """A chain of affine maps as one linear layer.

    A map sends a row x to (x - shift) W. The chain so far sends x to x A + b; with one
    more map it sends x to x (A W) + (b - shift) W. It begins with A = 1 and b = 0.
    """
    weight: Any = 1.0
    bias: Any = 0.0
    for transform in transforms:
        if not isinstance(transform, Affine):
            raise UsageError(
                f"{method.id}: wanted affine maps, found a {type(transform).__name__}, which is "
                "no module of sentence-transformers; such a method is not exported"
            )
        bias = (bias - transform.shift) @ transform.weight
        weight = np.dot(weight, transform.weight)
    return LinearLayer(weight.T, bias)


def _copy_native(
    config: NativeConfig,
    path: Path,
    folder: Path,
    max_length: int | None,
    *,
    has_maps: bool,
) -> None:
    """Copy a sentence-transformers folder, to be read in float32.

    Args:
        config: The encoder. Its prompt becomes the default of the new folder.
        path: The folder that is copied.
        folder: The new folder.
        max_length: The maximum length of the new folder.
        has_maps: Whether fitted maps follow its modules. Mapped vectors are compared
            whole, by cosine.
    """
    module_list = parse_json((path / MODULES_FILE).read_bytes())
    for file in path.iterdir():
        if file.is_file() and file.suffix in COPIED_SUFFIXES:
            shutil.copy(file, folder / file.name)
    module_folders = {module["path"] for module in module_list} - {"", "."}
    for name in module_folders:
        if (path / name).is_dir():
            shutil.copytree(path / name, folder / name)
    transformer = folder / module_list[0]["path"]
    if (transformer / "config.json").is_file() and max_length is not None:
        edit_json(transformer / "config.json", dtype="float32")
        edit_json(sentence_settings_file(transformer), max_seq_length=max_length)
    modules = config.modules(path)
    if config.prompt:
        edit_json(
            folder / MODEL_FILE,
            prompts=dict(modules.prompts),
            default_prompt_name=config.prompt,
        )
    if has_maps:
        if modules.dimensions:
            raise UsageError(
                f"{config.name}.native: truncate_dim would cut what a map is given"
            )
        edit_json(folder / MODEL_FILE, **COSINE_SETTING)


def _copy_transformer(
    path: Path, cache: Path, folder: Path, max_length: int | None
) -> None:
    """Copy the checkpoint as the first module, its weights as safetensors."""
    for file in (path / "config.json", *tokenizer_files(path)):
        shutil.copy(file, folder / file.name)
    save_file(read_tensors(path, cache), folder / "model.safetensors", {"format": "pt"})
    edit_json(folder / "config.json", dtype="float32")  # as it is loaded
    write_settings(folder / MODEL_FILE, COSINE_SETTING)
    append_transformer(folder, max_length)


def _append_pooling(
    folder: Path, encoder: TransformerEncoder, pooling: Pooling
) -> None:
    """Append the modules of a pooling. Raises UsageError for a pooling without modules."""
    model = encoder.plain_kernel.model
    if model.config.is_encoder_decoder and not model.config.model_type.endswith("t5"):
        raise UsageError(
            f"{encoder.name}: wanted an encoder, found a {model.config.model_type}, whose "
            "decoder's states sentence-transformers would pool; it is not exported"
        )
    if not isinstance(pooling, Mean | Cls | Pooler):
        raise UsageError(
            f"{pooling.name}: wanted a pooling of hidden states, found another"
        )
    if not isinstance(pooling, Mean):
        pooling(encoder.sample)  # raises an error if the encoder lacks the pooling
    pooler = None
    if isinstance(pooling, Pooler):
        pooler = _pooler_layer(encoder)
    append_pooling(
        folder,
        pooling,
        depth=encoder.depth,
        width=encoder.dimensions,
        summary=encoder.plain_kernel.summary,
        pooler=pooler,
    )


def _pooler_layer(encoder: TransformerEncoder) -> LinearLayer:
    """The linear layer of an encoder's pooler."""
    layers = []
    for module in encoder.plain_kernel.model.pooler.modules():
        if isinstance(module, nn.Linear):
            layers.append(module)
    if len(layers) != 1:
        raise UsageError(
            f"{encoder.name}: wanted a pooler of one linear layer, found {len(layers)}"
        )
    return LinearLayer(layers[0].weight.detach(), layers[0].bias.detach())


# The card


def write_card(
    folder: Path,
    planned: PlannedCell,
    fitted: FittedTransforms,
    tasks: Mapping[str, Task],
    results: Results,
    citation: str,
) -> int:
    """Write README.md into an exported folder: use, scores with protocol, origin, citation.

    Args:
        folder: The folder.
        planned: The method that was exported.
        fitted: Its fitted maps, with the identity of its encoder.
        tasks: All tasks by their names.
        results: The records that may have scores of it.
        citation: BibTeX.

    Returns:
        The number of scores on the card.
    """
    method, encoder = planned.method, planned.encoder
    score_rows = []
    for record in records_of(planned, fitted, tasks, results):
        score_rows.append(_score_row(record, tasks[record.task], results))
    scores = "No record holds a score of these weights."
    if score_rows:
        scores = SCORES_HEAD + "\n".join(score_rows)
    fit_in_words = "Nothing is fitted after the encoder."
    if method.post:
        fit_in_words = (
            f"Fitted on `@{method.fit_on}`, seed {planned.seed}; sha256 of its sentences "
            f"`{fitted.fitted_on}`."
        )
    digests = [
        f"{name} `{digest[:DIGEST_DIGITS_ON_CARD]}`"
        for name, digest in fitted.identity.digests.items()
    ]
    card = CARD_TEMPLATE.read_text(encoding="utf-8").format(
        header=_card_header(encoder).to_yaml(),
        method=method.id,
        encoder=encoder.name,
        folder=folder.name,
        scores=scores,
        fitted=fit_in_words,
        source=encoder.source,
        digests=", ".join(digests),
        trained_on=encoder.trained_on or "not stated",
        licence=encoder.licence or "not stated",
        citation=citation,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    return len(score_rows)


def _card_header(encoder: EncoderConfig) -> ModelCardData:
    """The front matter of the card, by which the hub lists a model."""
    source = encoder.source
    base_model = None
    if isinstance(source, Hub) and source.repo:
        base_model = source.repo
    licence = encoder.licence.lower()
    return ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", "feature-extraction"],
        base_model=base_model,
        license=licence if licence in LICENCES_OF_HUB else None,
    )


def records_of(
    planned: PlannedCell,
    fitted: FittedTransforms,
    tasks: Mapping[str, Task],
    results: Results,
) -> list[Record]:
    """The records of exactly these weights, maps and seed that have a main score, by task."""
    exported = (fitted.identity.key, fitted.fitted_on, planned.seed)
    records = []
    for _, task in sorted(tasks.items()):
        for record in results.records(planned.method.id, task.name):
            digests = record.digests
            measured = (digests.get("encoding"), digests.get("fit"), record.seed)
            main_score = score_at(record.scores, metric_of(task).main_score)
            if measured == exported and main_score is not None:
                records.append(record)
    return records


def _score_row(record: Record, task: Task, results: Results) -> str:
    """The main score of a record as a row of the card, with its protocol."""
    metric = metric_of(task)
    path = metric.main_score
    metric_in_words = metric.words.get(path[0], path[0]).format(metric.compared)
    text = "SentEval's text" if task.text == "senteval" else "raw text"
    protocol = (
        f"{record.pairs:,} scored ({'+'.join(task.scored)}, {text}), {metric_in_words}"
    )
    score = f"{score_at(record.scores, path):.2f}"
    all_seeds = results.value(record.method, task.name, *path)
    cells = (task.name, ".".join(path), score, str(all_seeds), protocol)
    return f"| {' | '.join(cells)} |"
