"""References: scores that other programs gave on weights that anybody can have.

Each is a JSON file of `results/references`: a program, its command, and its scores for
methods on tasks or for trainings. They are compared with ours. A reference confirms a
procedure (`Protocol.procedure`) if all of its scores under this procedure equal ours.
Then it also confirms the protocols of published numbers that have this procedure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.conclusions.searches import Trial, read_searches
from harness.core.toml import read_typed
from harness.core.types import AGGREGATIONS, ScorePath
from harness.registry import Registry
from harness.results.index import Results, SeedScores
from harness.results.layout import CONFORMANCE, QUESTIONS, REFERENCES
from harness.results.protocols import Protocol
from harness.results.published import PublishedNumber
from harness.results.published import Table as PublishedTable
from harness.results.reproduction import compose_method, seed_scores
from harness.results.verdict import CellState, Measured, Published, verdict

# Points by which two programs may differ that compute the same number in float32.
REFERENCE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class ReferenceCell:
    """The scores that another program gave for a method on a task, or for a training.

    Attributes:
        scores: The scores by name. A score of a task is named by its path in a record,
            `pearson.all`; `all` alone means `spearman.all`. The scores of a training
            are `before` and `best`, which are development scores, and `loss`.
        method: The method's id; empty for a training.
        task: The task's name; empty for a training.
        training: The arguments of `harness train`; empty for a task.
        tolerance: The difference in points that counts as equal; None means the
            tolerance of the file.
        sd: The sample standard deviation of the program's runs, where its scores are
            means of several.
        n: The number of these runs.
    """

    scores: Mapping[str, float]
    method: str = ""
    task: str = ""
    training: str = ""
    tolerance: float | None = None
    sd: float | None = None
    n: int | None = None

    @property
    def subject(self) -> tuple[str, str]:
        """Method and task; for a training, its arguments and an empty text."""
        return self.training or self.method, self.task


@dataclass(frozen=True)
class Reference:
    """One file: the scores that another program gave.

    Attributes:
        file: The name of the file.
        program: The program.
        what: A description of the scores.
        command: The command that gave them.
        cells: The scores.
        version: The version of the program.
        authors_of: The paper whose authors released the program; empty for a library.
        tolerance: The difference in points that counts as equal, where a cell has none
            of its own.
        reason: Why a tolerance is not the usual one.
    """

    file: str
    program: str
    what: str
    command: str
    cells: tuple[ReferenceCell, ...]
    version: str = ""
    authors_of: str = ""
    tolerance: float = REFERENCE_TOLERANCE
    reason: str = ""

    def __post_init__(self) -> None:
        tolerances = {self.tolerance_of(cell) for cell in self.cells}
        if tolerances != {REFERENCE_TOLERANCE} and not self.reason:
            raise ValueError(
                f"reason: a tolerance other than {REFERENCE_TOLERANCE:g} needs one"
            )

    def tolerance_of(self, cell: ReferenceCell) -> float:
        """The cell's tolerance, or the file's."""
        return self.tolerance if cell.tolerance is None else cell.tolerance

    def is_by_authors_of(self, table: PublishedTable) -> bool:
        """Whether the authors of a published table wrote the program.

        They did if the name of their paper contains `authors_of`, or else the name of
        the program.
        """
        name = self.authors_of or self.program.partition(",")[0]
        return name.casefold() in table.paper.casefold()


def score_path_of(score: str) -> ScorePath:
    """The path of a score in a record: `pearson.all` is (pearson, all), `all` (spearman, all)."""
    if score in AGGREGATIONS:
        return ("spearman", score)
    return tuple(score.split("."))


def read_reference(path: Path) -> Reference:
    """The reference of a file. Raises DataError that names file, cell and key."""
    return read_typed(Reference, path, file=path.name)


def read_references(results: Path) -> tuple[Reference, ...]:
    """Every reference of a results folder, by file name; none where there is no folder."""
    return tuple(map(read_reference, sorted((results / REFERENCES).glob("*.json"))))


# Their scores and ours

NO_TASK = "task not in the matrix"
NO_SCORE = "no such score"

Trials = Mapping[str, Sequence[Trial]]  # the trials of each training, by its arguments
# The references that confirm each procedure, in the order of their files.
Confirmations = Mapping[Protocol, Sequence[Reference]]


def read_trials(results: Path) -> Trials:
    """The trainings that were measured here for references. Raises DataError."""
    trials: dict[str, Sequence[Trial]] = {}
    for search in read_searches(results / QUESTIONS / CONFORMANCE):
        trials |= search.trials
    return trials


@dataclass(frozen=True)
class ReferenceScore:
    """A score of another program, and ours.

    Attributes:
        reference: The reference that has the score.
        cell: The cell of the reference that has it.
        score: The name of the score.
        theirs: The score of the other program, in points.
        ours: Our score, in points; None where there is none.
        state: The verdict on the difference, or why there is none.
    """

    reference: Reference
    cell: ReferenceCell
    score: str
    theirs: float
    ours: float | None
    state: str

    @property
    def difference(self) -> float | None:
        """Ours minus theirs, in points, rounded as in verdicts; None where ours is missing."""
        return None if self.ours is None else round(self.ours - self.theirs, 9)

    @property
    def agrees(self) -> bool | None:
        """Whether the difference is within the tolerance, and no verdict says otherwise.

        None where ours is missing.
        """
        if self.difference is None:
            return None
        is_within = abs(self.difference) <= self.reference.tolerance_of(self.cell)
        return is_within and self.state != CellState.INCONCLUSIVE


def compare_reference(
    reference: Reference, results: Results, trials: Trials, registry: Registry
) -> tuple[ReferenceScore, ...]:
    """Every score of a reference with our score, in the order of the file."""
    compared = []
    for cell in reference.cells:
        for name, theirs in cell.scores.items():
            by_seed = _scores_by_seed(cell, name, results, trials, registry)
            ours, state = by_seed.value.mean, by_seed.state
            if ours is not None:
                published = Published(f"{theirs:.6f}", cell.sd, cell.n)
                scores = tuple(by_seed.scores.values())
                state = verdict(published, Measured(scores, by_seed.seeded)).state
            elif by_seed.scores:
                state = NO_SCORE
            score = ReferenceScore(reference, cell, name, theirs, ours, state)
            compared.append(score)
    return tuple(compared)


def _scores_by_seed(
    cell: ReferenceCell, name: str, results: Results, trials: Trials, registry: Registry
) -> SeedScores:
    """Our scores for a score of a reference, one a seed, or the state if there are none."""
    if cell.training:
        of_seeds = trials.get(cell.training, ())
        scores = {trial.seed: getattr(trial, name, None) for trial in of_seeds}
        return SeedScores(scores, seeded=len(scores) > 1)
    if cell.task not in registry.tasks:
        return SeedScores({}, state=NO_TASK)
    if compose_method(cell.method, registry) is None:
        return SeedScores({}, state=CellState.NO_METHOD)
    path = score_path_of(name)
    return seed_scores(cell.method, cell.task, path, results, registry)


# What is confirmed


def find_confirmations(
    scores: Iterable[ReferenceScore], results: Results, registry: Registry
) -> Confirmations:
    """The procedures under which every score of other programs equals ours."""
    references: dict[Protocol, list[Reference]] = {}
    refuted_procedures: set[Protocol] = set()
    for score in scores:
        method, task = score.cell.subject
        if task not in registry.tasks or score.ours is None:
            continue
        protocol = Protocol.from_score(
            method, registry.tasks[task], *score_path_of(score.score)
        )
        if protocol is None:
            continue
        procedure = protocol.procedure(len(results.subsets(task)))
        confirming_references = references.setdefault(procedure, [])
        if score.reference not in confirming_references:
            confirming_references.append(score.reference)
        if not score.agrees:
            refuted_procedures.add(procedure)
    for procedure in refuted_procedures:
        del references[procedure]
    return references


def confirmed_by(
    number: PublishedNumber, confirmations: Confirmations, results: Results
) -> Reference | None:
    """The reference that confirms the protocol of a published number; None if there is none.

    An average is confirmed if its protocol is confirmed on each of its tasks. If several
    references confirm a number, one by the authors of the cell's table is preferred.
    """
    confirming: list[Reference] = []
    # There is no protocol where no method and task here give the number.
    for task, protocol in zip(number.tasks, number.protocols, strict=False):
        procedure = protocol.procedure(len(results.subsets(task)))
        if not confirmations.get(procedure):
            return None
        confirming += confirmations[procedure]
    for reference in confirming:
        if reference.is_by_authors_of(number.table):
            return reference
    return confirming[0] if confirming else None
