"""References: scores that other programs gave on weights that anybody can have.

Each is a JSON file of `results/references`: a program, its command, and what it gave for methods on
tasks or for trainings. Whatever is unknown, missing or contradictory is refused by file, cell and
key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.core.ids import is_method_id
from harness.core.scores import AGGREGATIONS
from harness.core.toml import read_json
from harness.results.layout import REFERENCES
from harness.results.published_files import TASK_ID

TOLERANCE = 1e-3  # points, between programs that compute one number in floats of 32 bits
SCORE = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)?")
TRIAL_SCORES = ("before", "best", "loss")  # those of a training, as a search keeps them


@dataclass(frozen=True)
class ReferenceCell:
    """The scores of a method on a task, or of a training.

    Attributes:
        scores: By their place in a record: `spearman.all`, `pearson.wmean`, `accuracy`; an
            aggregation alone is of Spearman's correlation. Of a training `before` and `best`, the
            development scores, and `loss`, that of the last step. In points, but for losses.
        method: The id of the method.
        task: The name of the task.
        training: In place of both, the arguments of `harness train`, without folders and seed.
        tolerance: The difference that still counts as equal, where it is not the file's.
    """

    scores: Mapping[str, float]
    method: str = ""
    task: str = ""
    training: str = ""
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if bool(self.training) == bool(self.method) or bool(self.method) != bool(self.task):
            raise ValueError("wanted method and task, or training")
        if self.method and not is_method_id(self.method):
            raise ValueError(f"method: {self.method!r} is no method id")
        if self.task and not TASK_ID.fullmatch(self.task):
            raise ValueError(f"task: {self.task!r} is no task id")
        if not self.scores:
            raise ValueError("scores: wanted at least one number, found none")
        for name, score in self.scores.items():
            if not SCORE.fullmatch(name) or (self.training and name not in TRIAL_SCORES):
                raise ValueError(f"scores: {name!r} is no score; wanted one like spearman.all")
            if not math.isfinite(score):
                raise ValueError(f"scores.{name}: wanted a finite number, found {score}")
        if self.tolerance is not None and not 0 < self.tolerance < math.inf:
            raise ValueError(f"tolerance: wanted points above 0, found {self.tolerance}")

    @property
    def what(self) -> tuple[str, str]:
        """Method and task; of a training its command, and nothing."""
        return (self.training, "") if self.training else (self.method, self.task)


@dataclass(frozen=True)
class Reference:
    """One file: what a program gave.

    Attributes:
        file: The name of the file.
        program: The program and its authors.
        what: What the scores are: metric, text, split, and what is special.
        command: How they were made.
        cells: The scores.
        version: The release or commit of the program.
        authors_of: The paper whose authors released the program; empty of a library.
        tolerance: The difference in points that still counts as equal.
        reason: Why it is not the usual one, in the file or in some cells.
    """

    file: str
    program: str
    what: str
    command: str
    cells: tuple[ReferenceCell, ...]
    version: str = ""
    authors_of: str = ""
    tolerance: float = TOLERANCE
    reason: str = ""

    def __post_init__(self) -> None:
        for name in ("program", "what", "command"):
            if not str(asdict(self)[name]).strip():
                raise ValueError(f"{name}: wanted a text, found none")
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"tolerance: wanted points above 0, found {self.tolerance}")
        tolerances = {self.tolerance, *(self.tolerance_of(cell) for cell in self.cells)}
        if tolerances != {TOLERANCE} and not self.reason.strip():
            raise ValueError(f"reason: a tolerance other than {TOLERANCE:g} needs one")
        places = [(cell.what, name) for cell in self.cells for name in cell.scores]
        if twice := [place for place in places if places.count(place) > 1]:
            raise ValueError(f"cells: {' '.join(twice[0][0])} {twice[0][1]} stands twice")

    def tolerance_of(self, cell: ReferenceCell) -> float:
        """The cell's tolerance, or the file's."""
        return self.tolerance if cell.tolerance is None else cell.tolerance

    def encoded(self) -> bytes:
        """The file: what has its default is left out."""
        cells = [
            {k: v for k, v in asdict(cell).items() if v and k != "scores"} | {"scores": cell.scores}
            for cell in self.cells
        ]
        head = {k: v for k, v in asdict(self).items() if v and k not in ("file", "cells")}
        if self.tolerance == TOLERANCE:
            del head["tolerance"]
        return f"{json.dumps({**head, 'cells': cells}, indent=1, ensure_ascii=False)}\n".encode()


def path_of(score: str) -> tuple[str, ...]:
    """The place of a score in a record: `pearson.all` -> (pearson, all)."""
    return ("spearman", score) if score in AGGREGATIONS else tuple(score.split("."))


def read_reference(path: Path) -> Reference:
    """One file, checked. Raises DataError that names file, cell and key."""
    return read_json(Reference, path, file=path.name)


def read_references(results: Path) -> tuple[Reference, ...]:
    """Every reference of a results folder, by file name; none where there is no folder."""
    return tuple(map(read_reference, sorted((results / REFERENCES).glob("*.json"))))
