"""mteb: a method as its model, its tasks on local files, and result files in its format.

SICK-R's test split, which the papers score, is a task that mteb lacks. Result files lie in folders
as in mteb's results repository, `<model>/<revision>/<task>.json`, and are written by mteb itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict
from mteb import ResultCache
from mteb.abstasks import AbsTaskSTS
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction
from mteb.results.task_result import TaskResult
from mteb.tasks import (
    STS12STS,
    STS13STS,
    STS14STS,
    STS15STS,
    STS16STS,
    SickrSTS,
    STSBenchmarkSTS,
)

from harness.assets.places import Places
from harness.core.arrays import Float32, Float64
from harness.core.files import file_name, text_digest
from harness.core.metrics import TIE_DECIMALS, cosine, directions
from harness.core.types import Method, MethodId, Record
from harness.evaluation.evaluate import Embedder, as_texts, fit_method, resolved
from harness.registry import load_registry, look_up
from harness.results.index import main_path, score_at

LOCAL = "local files of the harness"
OURS = "harness/"  # what the names of our methods begin with as mteb's models
# mteb's names of the scores that a record has.
NAMES: Mapping[str, str] = {
    "spearman.all": "cosine_spearman",
    "pearson.all": "cosine_pearson",
}


class SickRTest(AbsTaskSTS):
    """SICK-R as the papers score it: the 4,927 pairs of its test split; mteb's has all 9,927."""

    metadata = SickrSTS.metadata.model_copy(
        update={
            "name": "SICK-R-test",
            "description": "Relatedness of the 4,927 pairs of SICK's test split.",
            "dataset": {"path": LOCAL, "revision": "sick-r"},
        }
    )
    min_score, max_score = 1, 5


# Ours, in the text form of mteb's copy, and mteb's. Its SICK-R holds the pairs of all splits.
COUNTERPARTS: dict[str, type[AbsTaskSTS]] = {
    "sts-b": STSBenchmarkSTS,
    "sick-r.all": SickrSTS,
    "sick-r": SickRTest,
    "sts12.senteval": STS12STS,
    "sts13.senteval": STS13STS,
    "sts14.senteval": STS14STS,
    "sts15.senteval": STS15STS,
    "sts16.senteval": STS16STS,
}


@dataclass(frozen=True, eq=False)
class MtebEncoder:
    """A fitted method as mteb's EncoderProtocol."""

    embedder: Embedder
    mteb_model_meta: ModelMeta

    def encode(
        self, inputs: Iterable[Mapping[str, Sequence[str]]], **_: Any
    ) -> Float32[np.ndarray, "N K"]:
        """One row a text, in order; task, prompt and batch size change nothing.

        In float32, as mteb's models answer: its own cosine has no rule for ties, and in float64 it
        would rank the rounding noise of identical sentences (2.5e-5 on STS12).
        """
        texts = [text for batch in inputs for text in batch["text"]]
        return self.embedder(texts).astype(np.float32)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Float64[np.ndarray, " P"]:
        """Cosines of pairs of rows, as the harness ranks them."""
        cosines, _ = cosine(np.asarray(embeddings1), np.asarray(embeddings2))
        return np.round(cosines, TIE_DECIMALS)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Float64[np.ndarray, "..."]:
        """Cosines of every row with every row, or of two single vectors."""
        a, b = (directions(np.asarray(vectors)) for vectors in (embeddings1, embeddings2))
        cosines = a @ b.T
        return np.asarray(np.round(np.clip(cosines, -1.0, 1.0), TIE_DECIMALS))


def as_mteb(
    method: str | Path | Method,
    *,
    places: Places | None = None,
    texts: Iterable[str] | None = None,
    seed: int = 0,
) -> MtebEncoder:
    """Make a method a model for `mteb.evaluate`.

    Args:
        method: A `Method`, or what `harness run -m` takes: its id, an encoder's name, a hub
            repository or a folder.
        places: Where its encoder is looked for; by default where the command line looks, as
            HARNESS_CACHE_DIR and HARNESS_DATA_DIR say.
        texts: What its post-processors are fitted on; a method without any needs none.
        seed: Seeds the fits; of a family, it names the training.

    Returns:
        The fitted method with the members of `mteb.models.EncoderProtocol`.

    Raises:
        AssetMissing: The encoder is not on this machine.
        UsageError: There is no such method, or there are no texts to fit it on.

    Examples:
        >>> from harness import as_mteb
        >>> model = as_mteb("glove-mini.mean")
        >>> model.encode([{"text": ["A man is eating.", "Someone eats."]}]).shape
        (2, 100)
        >>> model.mteb_model_meta.name
        'harness/glove-mini.mean'
    """
    places = Places.from_environment(os.environ) if places is None else places
    texts = None if texts is None else as_texts(texts)
    method, places = resolved(method, places)
    encoder = method.encoder.member(seed)
    path = places.encoder(encoder)
    identity = encoder.identify(path)
    embedder = fit_method(method, encoder.load(path, places.cache), texts, seed)
    post = "+".join(post.name for post in method.post)
    fitted = {"post": post, "texts": text_digest(texts or ())[:16], "seed": seed} if post else None
    return MtebEncoder(embedder, meta_of(method.id, identity.key, identity.max_length, fitted))


def meta_of(
    method: str, key: str, max_length: int | None, fitted: Mapping[str, Any] | None
) -> ModelMeta:
    """The metadata that mteb stores; what was `fitted` on what makes another experiment."""
    return ModelMeta.create_empty(
        overwrites={
            "name": f"{OURS}{file_name(method)}",
            "revision": key,
            "languages": ["eng-Latn"],
            "max_tokens": max_length,
            "open_weights": True,
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": False,
            "experiment_kwargs": fitted,
        }
    )


def local_tasks(data_dir: Path | str) -> list[AbsTaskSTS]:
    """Make mteb's STS tasks of local files.

    mteb's `SICK-R` holds the pairs of all splits; `SICK-R-test` those that the papers score.

    Args:
        data_dir: The folder that holds the data sets, as HARNESS_DATA_DIR names it.

    Returns:
        Tasks for `mteb.evaluate`, their data loaded.

    Raises:
        AssetMissing: A data set is not there.
        DataError: A file is not what it should be.
    """
    return [local_task(name, Path(data_dir)) for name in COUNTERPARTS]


def local_task(name: str, data_dir: Path) -> AbsTaskSTS:
    """mteb's counterpart of one of our tasks, holding the scored pairs of ours.

    Its main score is that of the model's own similarity, which keeps our rules for ties and zero
    vectors; mteb's own, `cosine_spearman`, stands beside it (a zero vector has cosine 1/2 there).
    """
    theirs = look_up("task of mteb", name, COUNTERPARTS)()
    pairs = load_registry().tasks[name].pairs(data_dir)
    columns = {"sentence1": pairs.a, "sentence2": pairs.b, "score": pairs.gold}
    rows = Dataset.from_dict(columns)
    theirs.dataset = {"default": DatasetDict(dict.fromkeys(theirs.eval_splits, rows))}
    theirs.data_loaded = True
    about = {"dataset": {"path": LOCAL, "revision": name}, "main_score": "spearman"}
    theirs.metadata = theirs.metadata.model_copy(update=about)
    return theirs


def write_mteb_results(records: Iterable[Record], folder: Path) -> Iterator[Path]:
    """Write the records that mteb has a task for as its result files; the path of each.

    Scores are fractions there. They are those of this harness, whose rule for ties may move a
    correlation by 1e-5; `harness` in each file names its version.
    """
    cache = ResultCache(folder)
    for record in records:
        theirs = COUNTERPARTS.get(record.task)
        main_score = score_at(record.scores, main_path(record.scores))
        if theirs is None or main_score is None:
            continue
        made_by = (record.environment.get("harness"), record.environment.get("commit"))
        ours = {name: score_at(record.scores, path.split(".")) for path, name in NAMES.items()}
        scores = {
            **{name: score / 100 for name, score in ours.items() if score is not None},
            "main_score": main_score / 100,
            "harness": " ".join(filter(None, made_by)),
        }
        by_split = {split: {"default": scores} for split in theirs.metadata.eval_splits}
        result = TaskResult.from_task_results(theirs, by_split, sum(record.timings.values()))
        model = _model_of(record)
        cache.save_to_cache(result, model)
        yield cache.get_task_result_path(theirs.metadata.name, model)


def _model_of(record: Record) -> ModelMeta:
    """The model of a record: another seed or fit corpus is another experiment."""
    parts = MethodId.parse(record.method)
    post = "+".join(parts.post) if parts else ""
    fit = record.digests.get("fit", "")[:16]
    fitted = {"post": post, "fit": fit, "seed": record.seed} if post else None
    length = record.facts.get("max_length")
    return meta_of(record.method, record.digests["encoding"], length, fitted)
