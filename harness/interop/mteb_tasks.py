"""The papers' tasks that mteb lacks, as its own kind of task: SICK-R's test split, QNLI, lexical.

Their metadata say all that mteb asks of a task. Their pairs are those of local files
(`harness.interop.mteb.local_task`), named by the task of the harness in place of a revision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mteb.abstasks import AbsTask, AbsTaskSTS
from mteb.abstasks.pair_classification import AbsTaskPairClassification
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.tasks import SickrSTS, STSBenchmarkSTS
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]  # it has no types

LOCAL = "local files of the harness"
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


class Qnli(AbsTaskPairClassification):
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
OWN_TASKS: dict[str, type[AbsTask]] = {"qnli": Qnli, "sick-r": SickRTest, "lexical": Lexical}
