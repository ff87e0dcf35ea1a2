"""The literature of a results folder: published tables, claims, references, questions of pages.

These are the files that people wrote, and not a run. A folder of runs has none of them,
and is compared with the literature of the committed results.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from harness.core.toml import read_rows, read_typed
from harness.registry import Registry
from harness.results import conformance, published_tables
from harness.results.causes import Causes, read_causes
from harness.results.claims import Claims, read_claims
from harness.results.layout import QUESTIONS, REHEARSAL
from harness.results.published import PublishedCell, Table
from harness.results.questions import Rehearsal, Search, Trap, read_searches
from harness.results.threads import Thread, read_threads


class Literature:
    """The published tables of a folder, and the questions and references next to that folder.

    Each file is read at most once, when it is first asked for. A file that is not there
    is empty.

    Args:
        papers: The folder of the published tables, `results/papers`.
        registry: The methods and tasks that the tables name.
    """

    def __init__(self, papers: Path, registry: Registry) -> None:
        self.papers = papers
        self.registry = registry
        self.results = papers.parent
        self.questions = self.results / QUESTIONS

    @cached_property
    def tables(self) -> tuple[Table, ...]:
        """The published tables."""
        return published_tables.load_tables(self.papers, self.registry)

    def table(self, name: str) -> Table:
        """The published table of that id. Raises UsageError, which offers the nearest ones."""
        return published_tables.published_table(name, self.tables)

    def cell(self, name: str) -> PublishedCell:
        """The published cell TABLE/ROW/COLUMN. Raises UsageError, which offers the nearest ones."""
        return published_tables.published_cell(name, self.tables)

    @cached_property
    def claims(self) -> Claims | None:
        """The claims of the papers; None where none are written."""
        path = self.questions / "claims.toml"
        return read_claims(path, self.tables) if path.exists() else None

    @cached_property
    def references(self) -> tuple[conformance.Reference, ...]:
        """The scores that other programs gave, by file name."""
        return conformance.read_references(self.results)

    @cached_property
    def trials(self) -> conformance.Trials:
        """The trainings that were measured here for references, by command."""
        return conformance.read_trials(self.results)

    @cached_property
    def causes(self) -> Causes:
        """The curated causes of different numbers."""
        return read_causes(self.questions / "causes.toml")

    @cached_property
    def threads(self) -> Sequence[Thread]:
        """Public threads of people who could not reproduce a number."""
        return read_threads(self.questions / "threads.toml")

    @cached_property
    def searches(self) -> tuple[Search, ...]:
        """The searches for hyper-parameters, by file name."""
        return read_searches(self.questions / "searches")

    @cached_property
    def traps(self) -> Sequence[Trap]:
        """What papers have confused."""
        path = self.questions / "traps.toml"
        return read_rows(Trap, path, "trap") if path.exists() else ()

    @cached_property
    def rehearsal(self) -> Rehearsal | None:
        """What the last rehearsal of the published cells could run; None where there was none."""
        path = self.results / REHEARSAL
        return read_typed(Rehearsal, path) if path.exists() else None
