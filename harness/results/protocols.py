"""The protocol of a number: the encoder, and every choice of the method and the task.

Measured scores and published numbers have protocols of one type, so that they are joined
and compared by it. A paper may leave a choice unsaid; then the choice is `UNKNOWN`, and
it differs from no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from harness.core.metrics.correlation import (
    CORRELATION_SCORES,
    COSINE,
    SIMILARITIES,
    score_name,
)
from harness.core.types import MethodId, Task

UNKNOWN = "?"  # a choice that is stated nowhere


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The encoder of one number, and every choice of its method and its task.

    A choice that the method or task does not have is empty; one that is stated nowhere is
    `UNKNOWN`. Where only the kinds of post-processors are known, as `flow`, `post` is
    `+flow?`.

    Attributes:
        encoder: The encoder.
        max_length: Its maximum length, where the method's id names one.
        pooling: The pooling.
        post: The post-processors, each after a `+`.
        fit_on: The corpus that they are fitted on.
        task: The task, without its text form; the tasks of an average are joined by `+`.
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
    def method(self) -> str:
        """The id of its method."""
        encoder = self.encoder
        if self.max_length:
            encoder = f"{encoder}:{self.max_length}"
        posts = tuple(self.post.split("+")[1:])
        return str(MethodId(encoder, self.pooling, posts, self.fit_on or None))

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

    def changes(self, other: Protocol) -> Mapping[str, str]:
        """The other protocol's choices that differ, by name, where both are known.

        The encoder and the task are no choices of a protocol.
        """
        changes = {}
        own = vars(self)
        for name, choice in vars(other).items():
            own_choice = own[name]
            if choice == own_choice or name in ("encoder", "task"):
                continue
            if name == "post":
                if _is_other_post(own_choice, choice):
                    changes[name] = choice.removesuffix(UNKNOWN)
            elif UNKNOWN not in (choice, own_choice):
                changes[name] = choice
        return changes

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


def _is_other_post(first: str, second: str) -> bool:
    """Whether two texts of post-processors differ, in their kinds where one has only kinds."""
    if not first.endswith(UNKNOWN) and not second.endswith(UNKNOWN):
        return first != second
    return kinds_of_post(first) != kinds_of_post(second)


def kinds_of_post(post: str) -> frozenset[str]:
    """The kinds of post-processors: `sn` and `natsv` of `+sn+natsv:6`."""
    names = post.removesuffix(UNKNOWN).split("+")
    return frozenset(name.partition(":")[0] for name in names if name)


def common_choice(choices: Iterable[str]) -> str:
    """The only one of several choices; `UNKNOWN` where they are different."""
    different = set(choices)
    return different.pop() if len(different) == 1 else UNKNOWN
