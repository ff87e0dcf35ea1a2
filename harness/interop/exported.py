"""A method as a folder of sentence-transformers, with a model card.

`write_model` saves the encoder, its pooling and the fitted maps as modules of the
library. `write_card` writes README.md. A score of a record is on the card if the record
was measured with exactly these weights and maps, as its digests say.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from huggingface_hub import (
    EvalResult,
    EvalResultEntry,
    ModelCardData,
    eval_result_entries_to_yaml,
)
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from torch import nn
from transformers.utils import logging as transformers_logging

from harness.conclusions.card_statements import EVAL_RESULTS_FOLDER
from harness.conclusions.cards import OWN_DATA_SETS, DataSet, data_sets
from harness.core.errors import UsageError
from harness.core.interfaces import Hub, Pooling, Transform
from harness.core.metrics import metric_of
from harness.core.metrics.correlation import COSINE
from harness.core.types import Method, Record, Task, score_at
from harness.data.places import Places
from harness.encoders.kernels.loading import opening
from harness.encoders.modules import (
    dense,
    pooling_modules,
    pools_decoder,
    transformer_folder,
)
from harness.encoders.native import NativeConfig
from harness.encoders.tensorflow_bert import readable_files
from harness.encoders.transformer import TransformerConfig, TransformerEncoder
from harness.encoders.weights import read_tensors
from harness.evaluation.fits import FittedTransforms
from harness.evaluation.select import PlannedCell
from harness.results.index import Results
from harness.transforms.affine import Affine, OfFirstSentence
from harness.transforms.pooling import Cls, LayerCls, Mean, Pooler

CARD_TEMPLATE = Path(__file__).with_suffix(".md")
REPORTED_SCORE = ("spearman", "all")
FRACTION_DECIMALS = 6  # in which two runs of a model agree
LICENCES_OF_HUB = ("apache-2.0", "mit", "bsd-3-clause")  # named there as they are here
SCORES_HEAD = "| task | metric x100 | this model | protocol |\n|:--|:--|--:|:--|\n"
DIGEST_DIGITS_ON_CARD = 12
EVAL_RESULTS_FILE = "sentence-embedding-harness.yaml"
HARNESS_URL = "https://pypi.org/project/sentence-embedding-harness/"


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
    config, method = planned.encoder, planned.method
    path = readable_files(config, places)
    with opening(config.name, path):
        match config:
            case NativeConfig():
                model = SentenceTransformer(
                    str(path),
                    device="cpu",
                    local_files_only=True,
                    model_kwargs={"dtype": torch.float32},
                )
                if config.prompt:  # as the default
                    model.prompts = dict(config.modules(path).prompts)
                    model.default_prompt_name = config.prompt
            case TransformerConfig():
                encoder = config.load(path, places.cache)
                model = SentenceTransformer(
                    modules=_modules(encoder, transformer_folder(path), method.pooling),
                    device="cpu",
                    similarity_fn_name="cosine",
                )
            case _:
                raise UsageError(
                    f"{config.name}: wanted a transformer, or a folder under its own modules as "
                    f"{config.name}.native, found a {type(config).__name__}; harness.encoder opens "
                    "it in Python"
                )
    if fitted.identity.max_length is not None:
        model.max_seq_length = fitted.identity.max_length
    if fitted.transforms:
        if model.truncate_dim is not None:
            raise UsageError(
                f"{config.name}: truncate_dim would cut what a map is given"
            )
        weight, bias = _linear_map(method, fitted.transforms)
        model.append(dense(weight, bias, nn.Identity()))
        model.similarity_fn_name = "cosine"  # of whole mapped vectors
    folder.parent.mkdir(parents=True, exist_ok=True)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        model.save(f"{scratch}/new", create_model_card=False)
        if isinstance(model[0], Transformer):
            # The library has made up the weights of heads that the checkpoint lacks, and
            # saved them, too.
            tensors = read_tensors(transformer_folder(path))
            save_file(tensors, f"{scratch}/new/model.safetensors", {"format": "pt"})
        if folder.exists():
            folder.rmdir()
        Path(scratch, "new").replace(folder)


def _modules(
    encoder: TransformerEncoder, checkpoint: Path, pooling: Pooling
) -> list[nn.Module]:
    """The modules of a checkpoint under a pooling of its hidden states.

    Raises UsageError for a pooling or an encoder that the library has no modules for.
    """
    own_model = encoder.plain_kernel.model
    if pools_decoder(own_model.config.to_dict()):
        raise UsageError(
            f"{encoder.name}: wanted an encoder, found a {own_model.config.model_type}, whose "
            "decoder's states sentence-transformers would pool; it is not exported"
        )
    if not isinstance(pooling, Mean | Cls | LayerCls | Pooler):
        raise UsageError(
            f"{pooling.name}: wanted a pooling of hidden states, found another"
        )
    pooling(encoder.sample)  # raises an error if the encoder lacks what it needs
    pooler = None
    if isinstance(pooling, Pooler):
        parts = own_model.pooler.modules()
        layers = [part for part in parts if isinstance(part, nn.Linear)]
        if len(layers) != 1:
            raise UsageError(
                f"{encoder.name}: wanted a pooler of one linear layer, found {len(layers)}"
            )
        [pooler] = layers
    depth = encoder.sample.depth
    over_layers = pooling.hidden_states(depth) not in ((), (depth,))
    transformer = Transformer(
        str(checkpoint),
        model_kwargs={"dtype": torch.float32},
        config_kwargs={"output_hidden_states": over_layers},
    )
    modules = pooling_modules(
        pooling,
        depth=depth,
        width=encoder.sample.mean.shape[2],
        summary=encoder.plain_kernel.summary,
        pooler=pooler,
    )
    return [transformer, *modules]


def _linear_map(method: Method, transforms: Sequence[Transform]) -> tuple[Any, Any]:
    """A chain of affine maps as one linear layer: its weight (K, D) and bias (K,).

    A map sends a row x to (x - shift) W. The chain so far sends x to x A + b; with one
    more map it sends x to x (A W) + (b - shift) W. It begins with A = 1 and b = 0.
    """
    weight: Any = 1.0
    bias: Any = 0.0
    for transform in transforms:
        if not isinstance(transform, Affine) or isinstance(transform, OfFirstSentence):
            raise UsageError(
                f"{method.id}: wanted affine maps, found a {type(transform).__name__}, which is "
                "no module of sentence-transformers; such a method is not exported"
            )
        bias = (bias - transform.shift) @ transform.weight
        weight = np.dot(weight, transform.weight)
    return weight.T, bias


# The card


def write_card(
    folder: Path,
    planned: PlannedCell,
    fitted: FittedTransforms,
    tasks: Mapping[str, Task],
    records: Sequence[Record],
    citation: str,
    *,
    model_index: bool = False,
) -> None:
    """Write README.md into an exported folder: use, scores with protocol, origin, citation.

    Args:
        folder: The folder.
        planned: The method that was exported.
        fitted: Its fitted maps, with the identity of its encoder.
        tasks: All tasks by their names.
        records: The records of exactly these weights and maps.
        citation: BibTeX.
        model_index: Whether the scores are in the front matter, too.
    """
    method, encoder = planned.method, planned.encoder
    scores = "No record holds a score of these weights."
    if records:
        rows = [_score_row(record, tasks[record.task]) for record in records]
        scores = SCORES_HEAD + "\n".join(rows)
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
    source = encoder.source
    licence = encoder.licence.lower()
    header = ModelCardData(
        library_name="sentence-transformers",
        pipeline_tag="sentence-similarity",
        tags=["sentence-transformers", "sentence-similarity", "feature-extraction"],
        base_model=source.repo if isinstance(source, Hub) and source.repo else None,
        license=licence if licence in LICENCES_OF_HUB else None,
    )
    if model_index:
        header.model_name = folder.name
        header.eval_results = eval_results(records, tasks)
    card = CARD_TEMPLATE.read_text(encoding="utf-8").format(
        header=header.to_yaml(),
        method=method.id,
        encoder=encoder.name,
        folder=folder.name,
        scores=scores,
        fitted=fit_in_words,
        source=source,
        digests=", ".join(digests),
        trained_on=encoder.trained_on or "not stated",
        licence=encoder.licence or "not stated",
        citation=citation,
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


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


def _score_row(record: Record, task: Task) -> str:
    """The main score of a record as a row of the card, with its protocol."""
    metric = metric_of(task)
    path = metric.main_score
    metric_in_words = metric.words.get(path[0], path[0]).format(metric.compared)
    splits = "+".join(task.scored)
    return (
        f"| {task.name} | {'.'.join(path)} | {score_at(record.scores, path):.2f} "
        f"| {record.pairs:,} scored ({splits}, {_text_form(task)}), {metric_in_words} |"
    )


def _text_form(task: Task) -> str:
    return "SentEval's text" if task.text == "senteval" else "raw text"


def eval_results(
    records: Iterable[Record], tasks: Mapping[str, Task]
) -> list[EvalResult]:
    """The main scores of graded pairs as the hub has them in the front matter of a card.

    Other programs know these scores by mteb's names of tasks and scores. Each states its
    protocol and the version of the harness.
    """
    version = version_of("sentence-embedding-harness")
    results = []
    for record in records:
        task = tasks[record.task]
        points = score_at(record.scores, REPORTED_SCORE)
        # A regression on the vectors has scores of the same names.
        if points is None or metric_of(task).compared != COSINE:
            continue
        data_set, split = _names_on_hub(task)
        notes = (
            f"Spearman of cosines, {_text_form(task)}, {'+'.join(task.scored)} ({record.pairs} "
            f"pairs, subsets concatenated), method {record.method}, max length "
            f"{record.facts.get('max_length')}; sentence-embedding-harness {version}"
        )
        result = EvalResult(
            task_type="sentence-similarity",
            task_name="STS",
            dataset_type=data_set.ids[0],
            dataset_name=data_set.name,
            dataset_config="default",
            dataset_split=split,
            dataset_revision=next(iter(data_set.revisions), None),
            metric_type="cosine_spearman",
            metric_name="cosine_spearman",
            metric_value=round(points / 100, FRACTION_DECIMALS),
            metric_args={"notes": notes},
        )
        results.append(result)
    return results


def write_eval_results(folder: Path, results: Iterable[EvalResult], date: str) -> None:
    """Write the scores of data sets that the hub has into `.eval_results` of a folder.

    Args:
        folder: The folder.
        results: The scores, as the front matter of its card has them.
        date: The day of the export, as 2026-01-31.
    """
    entries = [
        EvalResultEntry(
            dataset_id=result.dataset_type,
            task_id=f"{result.dataset_name}_default_{result.dataset_split}",
            value=round(100 * result.metric_value, FRACTION_DECIMALS - 2),  # in points
            dataset_revision=result.dataset_revision,
            date=date,
            source_url=HARNESS_URL,
            source_name="sentence-embedding-harness",
            notes=(result.metric_args or {}).get("notes"),
        )
        for result in results
        if result.dataset_revision is not None  # only the hub's data sets have one
    ]
    if entries:
        text = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False)
        (folder / EVAL_RESULTS_FOLDER).mkdir(exist_ok=True)
        path = folder / EVAL_RESULTS_FOLDER / EVAL_RESULTS_FILE
        path.write_text(text, encoding="utf-8")


def _names_on_hub(task: Task) -> tuple[DataSet, str]:
    """The data set and split of a task as the hub names them, or else by the task's name."""
    for data_set in data_sets():
        for split, name in data_set.tasks.items():
            if name == task.name and data_set.revisions:
                return data_set, split
    own_set = DataSet(name=task.name, tasks={}, ids=(f"{OWN_DATA_SETS}{task.name}",))
    return own_set, "+".join(task.scored)
