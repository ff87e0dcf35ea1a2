"""The protocol of a score: the encoder, and every choice of the method and the task."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.core.metrics.similarity import (
    CORRELATION_SCORES,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.types import MethodId, Task
from harness.registry import Registry
from harness.results.published import PublishedCell


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The encoder of one score, and every choice of its method and its task.

    A choice that the method or task does not have is empty.

    Attributes:
        encoder: The encoder.
        max_length: Its maximum length, where the method's id names one.
        pooling: The pooling.
        post: The post-processors, each after a `+`.
        fit_on: The corpus that they are fitted on.
        task: The task, without its text form.
        text: The text form, `raw` or `senteval`.
        split: The scored splits, joined by `+`.
        scored_by: The similarity function, or `regression`.
        metric: The metric.
        aggregation: How the scores of a task's subsets become one.
    """

    encoder: str
    max_length: str
    pooling: str
    post: str
    fit_on: str
    task: str
    text: str
    split: str
    scored_by: str
    metric: str
    aggregation: str

    @classmethod
    def from_score(
        cls, method: str, task: Task, metric: str, aggregation: str = ""
    ) -> Protocol | None:
        """The protocol of a method's score on a task; None if `method` is no method id.

        A metric such as `euclidean_spearman` is split into the similarity function by
        which pairs are scored and the correlation.
        """
        parts = MethodId.parse(method)
        if parts is None:
            return None
        similarity, correlation = CORRELATION_SCORES.get(metric, (COSINE, metric))
        encoder, _, max_length = parts.encoder.partition(":")
        return cls(
            encoder=encoder,
            max_length=max_length,
            pooling=parts.pooling,
            post="".join(f"+{name}" for name in parts.post),
            fit_on=parts.fit_on or "",
            task=task.name.partition(".")[0],
            text=task.text,
            split="+".join(task.scored),
            scored_by="regression" if task.metric == "regression" else similarity,
            metric=correlation,
            aggregation=aggregation,
        )

    @property
    def score(self) -> str:
        """The name of the score in a record: `spearman`, or `euclidean_spearman`."""
        if not self.has_similarity:
            return self.metric
        return score_name(self.scored_by, self.metric)

    @property
    def has_similarity(self) -> bool:
        """Whether pairs are scored by a similarity function other than the cosine."""
        return self.scored_by in SIMILARITIES

    def differences(self, other: Protocol) -> tuple[str, ...]:
        """The names of the choices in which two protocols differ."""
        other_choices = vars(other)
        return tuple(
            name for name, choice in vars(self).items() if choice != other_choices[name]
        )

    def procedure(self, subsets: int) -> Protocol:
        """The choices in which two programs have to agree, whatever encoder and data they read.

        All other choices are empty. The argument of a post-processor is left out, so that
        whitening to any number of dimensions is one procedure.

        Args:
            subsets: The number of subsets of the task; with fewer than two, its
                aggregation is left out.
        """
        posts = [post.partition(":")[0] for post in self.post.split("+")]
        return replace(
            self,
            encoder="",
            max_length="",
            post="+".join(posts),
            fit_on="",
            task="",
            split="",
            scored_by=self.scored_by if self.has_similarity else "",
            aggregation=self.aggregation if subsets > 1 else "",
        )


def protocols_of(cell: PublishedCell, registry: Registry) -> tuple[Protocol, ...]:
    """The protocols of a published cell, one for each of `cell.tasks`, in their order.

    There are none if no method reproduces the cell, or if one of its tasks is not
    registered.
    """
    tasks = [registry.tasks[name] for name in cell.tasks if name in registry.tasks]
    if cell.method is None or len(tasks) < len(cell.tasks):
        return ()
    protocols = []
    for task in tasks:
        protocol = Protocol.from_score(
            cell.method, task, cell.metric, cell.aggregation or ""
        )
        if protocol is not None:
            protocols.append(protocol)
    return tuple(protocols)
