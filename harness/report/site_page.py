"""The page of results: one file that needs no network and no server.

It begins with what was reproduced; claims, leaderboard and the papers' tables are folded
below. The script `site.js` filters the leaderboard and opens the dialog of a number,
from the data of `dialogs`.

`templates/vendor` holds the core of DataTables (MIT) as npm publishes it: `npm pack
datatables.net@3.1.5`, `package/js/dataTables.min.js` and `package/License.txt`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from harness.conclusions.conformance import confirmed_by
from harness.conclusions.folder import Conclusions
from harness.core.digests import digest_of_repr
from harness.core.terminal import signed
from harness.core.types import Record, score_at
from harness.report.bibtex import (
    HARNESS_KEY,
    bib_keys,
    bibtex,
    entries_with,
    keys_of,
    software,
)
from harness.report.boards import SECTIONS, boards
from harness.report.claims import (
    OUTCOME_WORDS,
    claims_by_size,
    encoders_of,
    outcomes_in_words,
)
from harness.report.next_steps import needs_of, sources_of_records
from harness.report.papers import VERDICT_MARKS, legend, published_table
from harness.report.pictures import PICTURE, Picture
from harness.report.sentences import (
    evidence_in_words,
    fit_corpus_in_words,
    neighbours_in_words,
    protocol_in_words,
    standing_in_words,
    training_data_in_words,
)
from harness.report.table import (
    HEADING,
    TEMPLATE_FOLDER,
    ShownCell,
    ShownTable,
    rendered,
    table_of,
)
from harness.results import published
from harness.results.differences import Outcome
from harness.results.index import DIGEST_DIGITS_SHOWN
from harness.results.published import PublishedNumber
from harness.results.reproduction import Reproduction, compose_method, count
from harness.results.scorings import SCORINGS
from harness.results.verdict import CellState

SITE_PAGE = "site/index.html"
FILES = ("site.html", "table.html", "site.css", "site.js", "vendor/dataTables.min.js")
CLAIMS_HEAD = ("Claim", "Here", "Tested on", "Source", "Tasks as claimed")
INEXACT_HEAD = (
    "Published number",
    "Known reasons",
    "Verdict",
    "Published",
    "Measured",
    "Difference",
)
# The characters that the address of a picture may hold as they are.
UNQUOTED = ' !"$()*+,-./:;<=>?@[]_{|}~'


def made_from(folder: Conclusions, picture: Picture | None) -> str:
    """The digests of the records, and of the other data and the templates of the page.

    A change of the code is not seen here, where the page would have to be made: a test
    makes it, and compares it with the committed one.
    """
    other = (
        picture and picture.made_from,
        folder.tables,
        folder.claims,
        folder.differences,
        folder.references,
        folder.trials,
        folder.rehearsal,
        folder.registry.by_hand,
        entries_with(folder.papers),
        [(TEMPLATE_FOLDER / name).read_bytes() for name in FILES],
    )
    digest = folder.records.digest
    records = f"sha256 {digest}" if digest else "none"
    return f"Records: {records}. Other files: sha256 {digest_of_repr(other)}"


def site_page(
    folder: Conclusions, picture: Picture | None, begins_with: Mapping[str, Any]
) -> str:
    """The page, with the picture of what was measured; it begins with what `front` says."""
    files = {
        name: (TEMPLATE_FOLDER / name).read_text(encoding="utf-8") for name in FILES
    }
    all_boards = boards(folder.records.methods, folder, SCORINGS, SECTIONS)
    shown_boards = [*map(_without_headings, all_boards)]
    return rendered(
        "site.html",
        made_from=made_from(folder, picture),
        software=software(),
        inexact=_inexact(folder),
        claims=[*_claims(folder)],
        picture=picture,
        picture_address="" if picture is None else address_of(picture),
        picture_file=PICTURE,
        boards=shown_boards,
        papers=_papers(folder),
        legend=legend(),
        marks=VERDICT_MARKS,
        files=files,
        data=dialog_data(folder, shown_boards),
        **begins_with,
    )


PaperTable = tuple[published.Table, Counter[str], ShownTable]


def _papers(folder: Conclusions) -> list[tuple[str, list[PaperTable]]]:
    """The tables of each paper with their counts; papers with most measured numbers first."""
    papers: dict[str, list[PaperTable]] = {}
    for table in folder.tables:
        counts = count(folder.reproductions(table).values())
        shown = published_table(table, folder)
        papers.setdefault(table.paper, []).append((table, counts, shown))

    def fewest(paper: tuple[str, list[PaperTable]]) -> int:
        return -sum(counts["run"] for _, counts, _ in paper[1])

    return sorted(papers.items(), key=fewest)


def _inexact(folder: Conclusions) -> ShownTable:
    """The measured numbers that are not exact, with the known reasons."""
    rows = []
    for reproduction in folder.all_reproductions:
        if not reproduction.scores or reproduction.state in (
            CellState.EXACT,
            CellState.CONSISTENT,
        ):
            continue
        number = reproduction.number
        name = f"{number.table.paper}, {number.row.name}, {number.column.label}"
        state = str(reproduction.state)
        rows.append(
            [
                ShownCell(name, link=f"#cell={number.id}"),
                " ".join(number.notes),
                ShownCell(f"{VERDICT_MARKS[reproduction.state]} {state}", state=state),
                number.in_points,
                f"{reproduction.measured:.2f}",
                signed(reproduction.verdict.difference or 0.0),
            ]
        )
    return table_of(INEXACT_HEAD, rows, texts=2)


def _claims(folder: Conclusions) -> Iterator[ShownTable]:
    """A table of claims for each size of the encoders that they were tested on."""
    groups = claims_by_size(folder.claim_results, folder.encoder_sizes)
    for title, group in groups.items():
        rows = []
        for result in group:
            outcomes = Counter(result.outcomes)
            table = result.claim.table
            rows.append(
                [
                    result.claim.entry.claim,
                    ShownCell(OUTCOME_WORDS[result.outcome], bold=True),
                    ", ".join(result.claim.encoders),
                    f"{table.paper}, {table.table}",
                    f"{outcomes[Outcome.HIGHER]} of {outcomes.total()}",
                ]
            )
        about = f"{encoders_of(group)}: {outcomes_in_words(result.outcome for result in group)}"
        yield table_of(CLAIMS_HEAD, rows, 4, title=title, about=about)


def _without_headings(board: ShownTable) -> ShownTable:
    """A board without headings among its rows, which the script filters and orders."""
    rows = [row for row in board.rows if row.kind != HEADING]
    return replace(board, title=board.title.replace("`", ""), rows=rows)


# What the dialog of a number shows: JSON for `site.js`. An empty field is left out. A text
# that many numbers share is held once, in `texts`, and a field has its number in that list.

SHOWN_PACKAGES = ("torch", "transformers", "numpy", "scipy")
UNSHARED = ("printed", "records")  # fields with a text that hardly two numbers share

JsonFields = dict[str, Any]


def dialog_data(folder: Conclusions, boards: Iterable[ShownTable]) -> JsonFields:
    """Everything that `site.js` reads: all published numbers, and the scores on the boards."""
    registry = folder.registry
    present = sources_of_records(folder.records, registry)
    cells = {
        reproduction.number.id: _published_number(reproduction, folder, present)
        for reproduction in folder.all_reproductions
    }
    methods: dict[str, JsonFields] = {}
    for name in folder.records.methods:
        method = compose_method(name, registry)
        methods[name] = {"cites": keys_of(method, registry)}
        if method is not None:
            methods[name] |= {"trained": method.encoder.trained_on, "note": method.note}
    keys = [HARNESS_KEY]
    for fields in (*cells.values(), *methods.values()):
        keys += fields["cites"]
    texts: dict[str, int] = {}
    return {
        "cells": _with_shared_texts(cells, texts),
        "methods": _with_shared_texts(methods, texts),
        "scores": _with_shared_texts(_measured_scores(folder, boards), texts),
        "sources": {name: str(one.source) for name, one in registry.encoders.items()},
        "by_hand": list(registry.by_hand),
        "harness": HARNESS_KEY,
        "bibtex": {key: bibtex([key], folder.papers) for key in dict.fromkeys(keys)},
        "texts": list(texts),
    }


def _with_shared_texts(fields: Any, texts: dict[str, int], name: str = "") -> Any:
    """Fields with the numbers of their texts, without the empty ones; adds to the texts."""
    if isinstance(fields, str) and name not in UNSHARED:
        return texts.setdefault(fields, len(texts))
    if isinstance(fields, list | tuple):
        return [_with_shared_texts(value, texts, name) for value in fields]
    if isinstance(fields, dict):
        return {
            key: _with_shared_texts(value, texts, key)
            for key, value in fields.items()
            if value not in (None, "", [], (), {})
        }
    return fields


def _published_number(
    reproduction: Reproduction, folder: Conclusions, present: Collection[str]
) -> JsonFields:
    """A published number: where it is printed, its protocol, and what was measured for it."""
    number, registry = reproduction.number, folder.registry
    method = compose_method(number.row.method, registry)
    origins = [f"{origin.name}: {origin}" for origin in reproduction.unpinned]
    notes = [*number.notes, *origins]
    if number.why_not:
        notes.insert(0, number.why_not.explanation)
    needs: Collection[str] = ()
    if reproduction.state is CellState.NOT_RUN:
        needs = sorted(needs_of(number, registry, present))
    neighbours: Collection[PublishedNumber] = ()
    if number.points is not None:
        neighbours = folder.neighbourhoods.of(number)
    reference = confirmed_by(number, folder.confirmations, folder.records)
    difference = reproduction.verdict.difference
    return {
        "printed": number.shown,
        "label": number.row.name,
        "column": number.column.label,
        "place": number.place,
        "source": number.source,
        "protocol": ", ".join(filter(None, protocol_in_words(number, registry))),
        "evidence": evidence_in_words(number, reference),
        "method": number.method,
        "trained": training_data_in_words(number.row, method),
        "fitted": fit_corpus_in_words(number.row, method),
        "state": str(reproduction.state),
        "tasks": number.tasks,
        "notes": notes,
        "needs": needs,
        "neighbours": [*neighbours_in_words(number, neighbours)],
        "standings": [*map(standing_in_words, folder.standings.get(number.id, ()))],
        "cites": bib_keys([number.table.cite, *keys_of(method, registry)]),
        "seeds": [round(score, 4) for score in reproduction.scores],
        "difference": None if difference is None else round(difference, 4),
        "half_width": reproduction.verdict.half_width,
    }


def _measured_scores(
    folder: Conclusions, boards: Iterable[ShownTable]
) -> dict[str, JsonFields]:
    """For each method and task: the scores of seeds by path, and what they were made from.

    The paths are those of the columns of boards. One on which a seed has no score is left
    out.
    """
    paths: dict[str, dict[str, None]] = {}  # of each task, each once
    for board in boards:
        for column in board.columns:
            task, _, path = column.key.partition("/")
            paths.setdefault(task, {})[path] = None
    by_method: dict[str, JsonFields] = {}
    for (method, task), records in folder.records.by_cell.items():
        scores = {}
        for path in paths.get(task, ()):
            names = tuple(path.split("."))
            points = [score_at(record.scores, names) for record in records]
            known = [round(score, 2) for score in points if score is not None]
            if len(known) == len(points):
                scores[path] = known
        digests = [
            f"{name} {digest[:DIGEST_DIGITS_SHOWN]}"
            for name, digest in sorted(records[0].digests.items())
        ]
        digest = folder.records.select([(method, task)]).digest
        by_method.setdefault(method, {})[task] = {
            "scores": scores,
            "environment": environment_in_words(records[0]),
            "digests": digests,
            "records": digest[:DIGEST_DIGITS_SHOWN],
        }
    return by_method


def environment_in_words(record: Record) -> str:
    """Commit, versions and machine of a record."""
    environment: Mapping[str, Any] = record.environment
    packages = environment.get("packages", {})
    versions = [f"Python {environment.get('python')}"]
    versions += [
        f"{name} {packages[name]}" for name in SHOWN_PACKAGES if name in packages
    ]
    commit = str(environment.get("commit") or "unknown")[:DIGEST_DIGITS_SHOWN]
    machine = f"{environment.get('processor')}, {environment.get('device')}"
    return f"commit {commit}; {', '.join(versions)}; {machine}"


def address_of(picture: Picture) -> str:
    """A picture as an address that holds it, for an attribute in single quotes."""
    text = re.sub(r"\s*\n\s*", " ", picture.svg)
    return f"data:image/svg+xml,{quote(text, safe=UNQUOTED)}"
