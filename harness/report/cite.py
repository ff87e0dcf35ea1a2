"""Citations: BibTeX, and the sentence that pins a number's protocol, seeds, code and records.

The digest in a sentence is sha256 over the records behind the number, each as JSON, one after the
other in the order of their paths. Of a single record it is the `sha256` that ends a run's file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.types import Method
from harness.registry import Registry
from harness.report.bibtex import HARNESS, bibtex, keys_of, software
from harness.report.sentences import (
    NOTHING,
    about,
    aggregation,
    made,
    measured,
    metric,
    on_task,
    protocol,
    published,
    tasks_of,
)
from harness.results.folder import ResultsFolder
from harness.results.index import SHOWN, Results
from harness.results.published import Table, published_cell, published_table
from harness.results.reproduction import is_stale, method_of, reproduce, reproductions
from harness.results.verdict import CellState


@dataclass(frozen=True)
class Citation:
    """BibTeX keys, sentences, and the digest of the records; None where nothing was measured."""

    keys: tuple[str, ...]
    sentences: tuple[str, ...]
    digest: str | None
    papers: Path | None = None  # whose folder may have entries of its own

    def texts(self) -> Iterator[str]:
        """BibTeX, then each sentence, an empty line before it."""
        yield bibtex(self.keys, self.papers)
        for sentence in self.sentences:
            yield from ("", sentence)

    def __str__(self) -> str:
        return "\n".join(self.texts())

    def compare(self, digest: str) -> str:
        """Say that the records have this digest, or its beginning; raise if they have another."""
        given = digest.lower()
        if not re.fullmatch(f"[0-9a-f]{{{SHOWN},64}}", given):
            raise UsageError(f"--digest {digest!r}: wanted {SHOWN} to 64 hexadecimal digits")
        if self.digest is None:
            raise HarnessError(f"--digest {digest}: {NOTHING}, so no record has a digest")
        if not self.digest.startswith(given):
            raise HarnessError(
                f"--digest {digest}: the records have sha256 {self.digest}; "
                "restore those that were cited, or cite these"
            )
        return f"the records have sha256 {self.digest}"


def answer(
    options: Mapping[str, str | None], verify: bool, digest: str | None, folder: ResultsFolder
) -> Iterator[str]:
    """The output of `harness cite`: BibTeX as one text, then sentences and lines.

    `options` may name one published `table`, `cell` or `method`; without any it is the harness.
    Raises HarnessError where a digest is wrong.
    """
    subject = {kind: name for kind, name in options.items() if name is not None}
    named = [f"--{kind}" for kind in subject]
    if len(named) > 1:
        raise UsageError(f"one thing is cited at a time, found {' and '.join(named)}")
    if not folder.path.is_dir():
        raise UsageError(f"--results {folder.path}: there is no such folder")
    if verify and digest is None:
        if named:
            raise UsageError(f"--verify looks at every page; {named[0]} needs a --digest")
        from harness.report.build import verified  # which makes every page

        yield from verified(folder)
        return
    if digest is not None and not named:
        raise UsageError("--digest needs the --cell, --table or --method whose records it is of")
    beside = folder.tables, folder.records
    cited = [CITE[kind](name, *beside, folder.registry) for kind, name in subject.items()]
    [citation] = cited or [cite_harness(*beside)]
    citation = replace(citation, papers=folder.papers)
    yield from citation.texts() if digest is None else [citation.compare(digest)]


def cite_harness(tables: Sequence[Table], results: Results) -> Citation:
    """The harness itself, with every record there is."""
    own = Results(results.by_cell, set(results.by_cell))
    count, tasks = len(own.by_cell), own.by_task
    numbers = sum(len(table.cells()) for table in tables)
    sentence = f"{numbers} numbers published in {len(tables)} tables; "
    if count:
        sentence += f"{count} measured cells ({len(own.methods)} methods, {len(tasks)} tasks) "
        sentence += f"{made(own)}."
    else:
        sentence += f"{NOTHING} with {HARNESS} {software()['version']}."
    return Citation((HARNESS,), (sentence,), own.digest() if count else None)


def cite_table(
    name: str, tables: Sequence[Table], results: Results, registry: Registry
) -> Citation:
    """A published table, by its id, with the records that its page was made from."""
    table = published_table(name, tables)
    own = results.unread()
    cells = reproductions(table, own, registry).values()
    run = [cell for cell in cells if cell.scores]
    words = filter(None, (metric(table.metric), aggregation(table.aggregation)))
    sentence = f"{table.paper}, {table.title}; {', '.join(words)}; {len(cells)} numbers published"
    if run:
        states = Counter(str(cell.state) for cell in run)
        verdicts = ", ".join(f"{n} {state}" for state, n in states.items())
        most = max(len(cell.scores) for cell in run)
        seeds = f", up to {most} seeds a number" if most > 1 else ""
        sentence += f", {len(run)} of them measured ({verdicts}{seeds}) {made(own)}."
    else:
        sentence += f"; {NOTHING}."
    methods = (method_of(cell.cell, registry) for cell in cells)
    keys = [HARNESS, table.cite, *(key for m in methods for key in keys_of(m, registry))]
    keys += [task.cite for cell in cells for task in tasks_of(cell.cell, registry)]
    return Citation(_unique(keys), (sentence,), own.digest() if run else None)


def cite_cell(name: str, tables: Sequence[Table], results: Results, registry: Registry) -> Citation:
    """A published cell, TABLE/ROW/COLUMN, with the records of its seeds."""
    cell = published_cell(name, tables)
    method, own = method_of(cell, registry), results.unread()
    reproduction = reproduce(cell, own, registry)
    ours = measured(reproduction, method, own)
    sentence = f"{protocol(cell, registry)}: {published(cell)}; {ours}."
    keys = [HARNESS, cell.table.cite, *keys_of(method, registry)]
    keys += [task.cite for task in tasks_of(cell, registry)]
    return Citation(_unique(keys), (sentence,), own.digest() if reproduction.scores else None)


def cite_method(
    name: str, tables: Sequence[Table], results: Results, registry: Registry
) -> Citation:
    """A method: what it is, and one sentence for each task that it was measured on."""
    method = _method(name, results, registry)
    here = [task for task in registry.tasks.values() if (name, task.name) in results.by_cell]
    stale = [task for task in here if is_stale(results.by_cell[name, task.name], method)]
    fresh = [task for task in here if task not in stale]
    sentences = [about(method)] if method else []
    sentences += [on_task(name, method, task, results.unread()) for task in fresh]
    sentences += [f"{name}, {task.name}: {NOTHING} ({CellState.STALE})." for task in stale]
    if not here:
        sentences.append(f"{name}: {NOTHING}.")
    own = Results(results.by_cell, {(name, task.name) for task in fresh})
    keys = [HARNESS, *keys_of(method, registry)]
    keys += [t.cite for t in tables if any(cell.method == name for cell in t.cells())]
    keys += [task.cite for task in fresh]
    return Citation(_unique(keys), tuple(sentences), own.digest() if fresh else None)


CITE = {"table": cite_table, "cell": cite_cell, "method": cite_method}


def _method(name: str, results: Results, registry: Registry) -> Method | None:
    """The method of an id; None for one of an encoder by hand, whose records are here."""
    try:
        return registry.parse(name)
    except UsageError:
        if name in results.methods:
            return None
        raise


def _unique(keys: Iterable[str]) -> tuple[str, ...]:
    """In order, once each; whatever names no paper is left out."""
    return tuple(dict.fromkeys(key for key in keys if key))
