"""mteb: a method as its model, its tasks on local files, and result files in its format.

SICK-R's test split, QNLI and the edit distance of BERT-flow's Table 6 are tasks that mteb lacks;
their metadata say all that it asks of a task. Result files lie in folders as in mteb's results
repository, `<model>/<revision>/<task>.json`, and are written and read by mteb itself.
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
from mteb.abstasks import AbsTask, AbsTaskSTS
from mteb.abstasks.pair_classification import AbsTaskPairClassification
from mteb.abstasks.task_metadata import TaskMetadata
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
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]  # it has no types

from harness.assets.places import Places
from harness.core.arrays import Float32, Float64
from harness.core.files import file_name, text_digest
from harness.core.metrics import TIE_DECIMALS, cosine, directions
from harness.core.metrics.edit_distance import token_distances
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
    "auc": "cosine_roc_auc",
}
GLUE = r"""
@inproceedings{wang2018glue,
  author = {Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and
Bowman, Samuel},
  booktitle = {Proceedings of the 2018 EMNLP Workshop BlackboxNLP},
  pages = {353--355},
  title = {{GLUE}: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  year = {2018},
}
"""


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


class Lexical(AbsTaskSTS):
    """Does similarity follow edit distance? STS-B's development pairs, as in BERT-flow's Table 6.

    The gold score is the number of token edits between two sentences, so that a correlation below
    0 means that similar sentences share words; that of the graded gold is -0.2454.
    """

    metadata = STSBenchmarkSTS.metadata.model_copy(
        update={
            "name": "STSBenchmarkEditDistance",
            "description": "Similarity against token edit distance on STS-B's development set.",
            "dataset": {"path": LOCAL, "revision": "lexical"},
            "eval_splits": ["validation"],
            "superseded_by": None,
        }
    )
    min_score, max_score = 0, 50


class QnliByAuc(AbsTaskPairClassification):
    """QNLI by ROC-AUC, as BERT-flow reports it; mteb has neither."""

    metadata = TaskMetadata(
        name="QNLI",
        dataset={"path": LOCAL, "revision": "qnli"},
        description="Does the sentence answer the question? GLUE's QNLI (v2), development set.",
        reference="https://gluebenchmark.com",
        type="PairClassification",
        category="t2t",
        modalities=["text"],
        eval_splits=["validation"],
        eval_langs=["eng-Latn"],
        main_score="similarity_roc_auc",
        date=("2016-01-01", "2018-12-31"),
        domains=["Encyclopaedic", "Written"],
        task_subtypes=["Question answering"],
        license="cc-by-sa-4.0",
        annotations_creators="human-annotated",
        dialect=[],
        sample_creation="found",
        bibtex_citation=GLUE,
    )

    def _compute_metrics_values(
        self, scores: Any, labels: Any, high_score_more_similar: bool
    ) -> dict[str, float]:
        values = super()._compute_metrics_values(scores, labels, high_score_more_similar)
        rising = np.asarray(scores) * (1 if high_score_more_similar else -1)
        return {**values, "roc_auc": float(roc_auc_score(labels, rising))}


# By the tasks of the harness whose pairs they hold.
OWN_TASKS: dict[str, type[AbsTask]] = {"qnli": QnliByAuc, "sick-r": SickRTest, "lexical": Lexical}


# Ours, in the text form of mteb's copy, and mteb's. Its SICK-R holds the pairs of all splits.
COUNTERPARTS: dict[str, type[AbsTask]] = {
    "sts-b": STSBenchmarkSTS,
    "sick-r.all": SickrSTS,
    "sts12.senteval": STS12STS,
    "sts13.senteval": STS13STS,
    "sts14.senteval": STS14STS,
    "sts15.senteval": STS15STS,
    "sts16.senteval": STS16STS,
    **OWN_TASKS,
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


def local_tasks(data_dir: Path | str) -> list[AbsTask]:
    """Make mteb's STS tasks, and the papers' that it lacks, of local files.

    mteb's `SICK-R` holds the pairs of all splits; `SICK-R-test`, `QNLI` and
    `STSBenchmarkEditDistance` are scored as in the papers.

    Args:
        data_dir: The folder that holds the data sets, as HARNESS_DATA_DIR names it.

    Returns:
        Tasks for `mteb.evaluate`, their data loaded.

    Raises:
        AssetMissing: A data set is not there.
        DataError: A file is not what it should be.
    """
    return [local_task(name, Path(data_dir)) for name in COUNTERPARTS]


def local_task(name: str, data_dir: Path) -> AbsTask:
    """mteb's counterpart of one of our tasks, holding the scored pairs of ours.

    Its main score is that of the model's own similarity, which keeps our rules for ties and zero
    vectors; mteb's own, `cosine_spearman`, stands beside it (a zero vector has cosine 1/2 there).
    """
    theirs = look_up("task of mteb", name, COUNTERPARTS)()
    task = load_registry().tasks[name]
    pairs = task.pairs(data_dir)
    gold = {"score": pairs.gold} if task.graded else {"labels": pairs.gold.astype(int)}
    if task.metric == "edit-distance":
        gold = {"score": token_distances(pairs)}
    rows = Dataset.from_dict({"sentence1": pairs.a, "sentence2": pairs.b, **gold})
    theirs.dataset = {"default": DatasetDict(dict.fromkeys(theirs.eval_splits, rows))}
    theirs.data_loaded = True
    own = {
        "dataset": {"path": LOCAL, "revision": name},
        "main_score": "spearman" if task.graded else theirs.metadata.main_score,
    }
    theirs.metadata = theirs.metadata.model_copy(update=own)
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
        scores = {
            **_mteb_scores(record),
            "main_score": main_score / 100,
            "harness": " ".join(filter(None, made_by)),
        }
        by_split = {split: {"default": scores} for split in theirs.metadata.eval_splits}
        result = TaskResult.from_task_results(theirs, by_split, sum(record.timings.values()))
        model = _model_of(record)
        cache.save_to_cache(result, model)
        yield cache.get_task_result_path(theirs.metadata.name, model)


def _mteb_scores(record: Record) -> dict[str, float]:
    """A record's scores under mteb's names."""
    if record.task == "lexical":
        return {"cosine_spearman": record.scores["edit_distance"] / 100}
    scores = {name: score_at(record.scores, path.split(".")) for path, name in NAMES.items()}
    return {name: score / 100 for name, score in scores.items() if score is not None}


def _model_of(record: Record) -> ModelMeta:
    """The model of a record: another seed or fit corpus is another experiment."""
    parts = MethodId.parse(record.method)
    post = "+".join(parts.post) if parts else ""
    fit = record.digests.get("fit", "")[:16]
    fitted = {"post": post, "fit": fit, "seed": record.seed} if post else None
    length = record.facts.get("max_length")
    return meta_of(record.method, record.digests["encoding"], length, fitted)
