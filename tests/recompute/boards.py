"""The tables of methods: on the leaderboard, on the encoders' pages, on the page of results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean

import papers
from pages import Column, Report, Table, content, misfits, paragraphs, tables
from scores import SEVEN, Inputs, Records, Side, number, side

Protocol = tuple[str, str, str]  # metric, aggregation, what is added to a task's name
PROTOCOLS: Sequence[Protocol] = [
    *product(("spearman", "pearson"), ("all", "wmean", "mean"), (".senteval", ""))
]
TIED, FITTED, SHARED = "≈", "†", "‡"


def leaderboard(inputs: Inputs, report: Report) -> None:
    path = inputs.results / "LEADERBOARD.md"
    papers.counts(path, inputs, report)
    methods = inputs.records.methods
    boards(path, methods, inputs.records, report)
    words = " ".join(word for table in tables(path) for word in table.head)
    for task, own in gold(inputs.records).items():
        if re.search(rf"(?<![\w-]){task}\b", words, re.IGNORECASE):
            report.sentence(f"{path.name}: gold of {task}", paragraphs(path), own)
    for table in tables(path):
        if (keys := known(table, methods)) and not any(
            len(line) == 1 for line in table.lines
        ):
            _ties(path, table, keys, inputs.records, report)


def encoders(inputs: Inputs, report: Report) -> None:
    by_encoder: dict[str, list[str]] = {}
    for method in inputs.records.methods:
        by_encoder.setdefault(method.partition(".")[0], []).append(method)
    for encoder, methods in by_encoder.items():
        name = f"{encoder.replace(':', '%3A')}.md"
        boards(inputs.results / "tables" / name, methods, inputs.records, report)


def gold(records: Records) -> dict[str, list[str]]:
    """The scores of gold itself, which pages say in a sentence, by task."""
    first = {task: rows[0]["scores"] for (_, task), rows in records.items()}
    names = ("gold_edit_distance", "gold_edit_distance_near")
    return {
        task: [f"{scores[name]:.2f}" for name in names]
        for task, scores in first.items()
        if names[0] in scores
    }


def known(table: Table, methods: Sequence[str]) -> list[str]:
    """The method of each line of a table of methods; none of another table."""
    keys = [line[0].replace("`", "").split(" ")[0] for line in table.lines]
    return keys if len({*keys} & {*methods}) * 2 > len(keys) else []


def boards(
    path: Path, methods: Sequence[str], records: Records, report: Report
) -> None:
    """Every table of methods on a page, each with all the methods that it is about."""
    shown: dict[Protocol, set[str]] = {}
    for table in tables(path):
        lines = [
            line for line in table.lines if len(line) == len(table.head)
        ]  # no group's heading
        table = replace(table, lines=lines)
        keys = known(table, methods)
        if not keys:
            continue
        where = f"{path.name}: {' / '.join(table.headings[1:]) or table.head[1]}"
        report.equal(
            f"{where}: methods of no record", [k for k in keys if k not in methods], []
        )
        report.equal(f"{where}: methods twice", len(keys), len({*keys}))
        marked = [
            key
            for key, line in zip(keys, table.lines, strict=True)
            if FITTED in line[0]
        ]
        fitted = [key for key in keys if key.endswith(("@target", "@target-splits"))]
        report.equal(f"{where}: marks of {FITTED}", marked, fitted)
        if not _has_seven(table):
            found = report.columns(where, keys, table, _columns(table, keys, records))
            scores = {column.subject for column in found}
            due = [
                m
                for m in methods
                if any(_means(side(records, m, *one) for one in scores))
            ]
            report.equal(f"{where}: rows", sorted(keys), sorted(due))
            continue
        protocol = _protocol(table, keys, records)
        report.columns(where, keys, table, _seven_columns(keys, protocol, records))
        sizes = [size(key) for key in keys]
        report.equal(f"{where}: sizes of encoders", sizes, sorted(sizes))
        for group in {*sizes}:
            own = [key for key in keys if size(key) == group]
            order = [
                mean
                for key in own
                if (mean := average(records, key, protocol)) is not None
            ]
            report.equal(
                f"{where}: order of averages", order, sorted(order, reverse=True)
            )
        shown.setdefault(protocol, set()).update(keys)
    for protocol, keys in shown.items():
        due = {*_due(methods, protocol, keys, records)}
        report.equal(f"{path.name}: {protocol}: methods", sorted(keys), sorted(due))


def size(method: str) -> int:
    """0 of an encoder of the papers' size, 1 of a small one, 2 of one that was made here."""
    encoder = re.split(r"[.:]", method)[0]
    if encoder.endswith("-mini"):
        return 2
    return int(not encoder.startswith(("mpnet-base", "glove-840b")))


def _has_seven(table: Table) -> bool:
    return {*SEVEN} <= {head.lower() for head in table.head}


def _due(
    methods: Sequence[str], protocol: Protocol, shown: Iterable[str], records: Records
) -> Iterator[str]:
    """Of an encoder that is shown, and of each with an average, all methods with a score."""
    encoders = {method.partition(".")[0] for method in shown}
    for method in methods:
        if average(records, method, protocol) is not None:
            encoders.add(method.partition(".")[0])
    for method in methods:
        if method.partition(".")[0] in encoders and any(
            _means(seven(records, method, protocol))
        ):
            yield method


def _protocol(table: Table, keys: Sequence[str], records: Records) -> Protocol:
    """The protocol whose scores of the seven tasks fit a table best."""
    places = [[head.lower() for head in table.head].index(task) for task in SEVEN]
    printed = [line[place] for line in table.lines for place in places]

    def faults(protocol: Protocol) -> int:
        due = [one.text for key in keys for one in seven(records, key, protocol)]
        return len(misfits(printed, due))

    return min(PROTOCOLS, key=faults)


def seven(records: Records, method: str, protocol: Protocol) -> list[Side]:
    metric, way, suffix = protocol
    return [side(records, method, f"{task}{suffix}", (metric, way)) for task in SEVEN]


def _means(sides: Iterable[Side]) -> list[float]:
    return [one.mean for one in sides if one.mean is not None]


def average(records: Records, method: str, protocol: Protocol) -> float | None:
    """The mean over the seven tasks, if all of them have a score."""
    means = _means(seven(records, method, protocol))
    return fmean(means) if len(means) == len(SEVEN) else None


def _seven_columns(
    keys: Sequence[str], protocol: Protocol, records: Records
) -> list[Column]:
    """The tasks of a protocol, and what may stand beside them: average, cost and sizes."""
    rows = [seven(records, key, protocol) for key in keys]
    columns = [
        Column([task], [row[place].text for row in rows])
        for place, task in enumerate(SEVEN)
    ]
    means = [average(records, key, protocol) for key in keys]
    columns.append(Column([], ["" if mean is None else number(mean) for mean in means]))
    columns.append(Column([], [cost(records, key, protocol[2]) for key in keys]))
    facts = [records.facts.get(key, {}) for key in keys]
    columns += [
        Column([], [str(f.get(name, "")) for f in facts])
        for name in ("dimensions", "rank")
    ]
    parameters = [own.get("parameters") for own in facts]
    millions = ["" if count is None else f"{count / 1e6:.3g}M" for count in parameters]
    return [*columns, Column([], millions)]


def cost(records: Records, method: str, suffix: str) -> str:
    """Milliseconds a sentence in two digits, with a mark where processes ran beside each other."""
    rows = [
        row for task in SEVEN for row in records.get((method, f"{task}{suffix}"), ())
    ]
    clocks = [row["timings"].get(name) for row in rows for name in ("encode", "apply")]
    sentences = [row["facts"].get("distinct_sentences", 0) for row in rows]
    if not rows or None in clocks or not all(sentences) or not sum(clocks):
        return ""
    milliseconds = 1000 * sum(clocks) / sum(sentences)
    digits = max(0, 1 - math.floor(math.log10(milliseconds)))
    shared = any(row["facts"].get("workers", 1) > 1 for row in rows)
    return f"{milliseconds:.{digits}f}" + (f" {SHARED}" if shared else "")


def _columns(table: Table, keys: Sequence[str], records: Records) -> list[Column]:
    """Every score that a heading names by task or score as a column; every score if none does."""
    words = {
        word for head in table.head for word in re.findall(r"[\w-]+", head.lower())
    }
    names = {
        score: {score[0].partition(".")[0], score[1][-1]} for score in records.scores
    }
    wanted = {score: own for score, own in names.items() if own & words} or names
    return [
        Column(own, [side(records, key, *score).text for key in keys], score)
        for score, own in wanted.items()
    ]


def _ties(
    path: Path, table: Table, keys: Sequence[str], records: Records, report: Report
) -> None:
    """The rows that the stored comparisons cannot tell from the row above them."""
    printed = {
        key for key, line in zip(keys, table.lines, strict=True) if TIED in line[0]
    }
    due = set()
    if _has_seven(table):
        protocol = _protocol(table, keys, records)
        for encoder in dict.fromkeys(key.partition(".")[0] for key in keys):
            own = [key for key in keys if key.partition(".")[0] == encoder]
            due |= _tied(path.parent, encoder, own, protocol, records)
    report.equal(
        f"{path.name}: {table.headings[-1]}: marks of {TIED}",
        sorted(printed),
        sorted(due),
    )


def _tied(
    results: Path,
    encoder: str,
    methods: Sequence[str],
    protocol: Protocol,
    records: Records,
) -> set[str]:
    """Of an encoder, if the averages are those that were compared."""
    metric, way, suffix = protocol
    name = f"{encoder}.{suffix[1:] or 'raw'}-{metric}-{way}.json".replace(":", "%3A")
    path = results / "records" / "comparisons" / name
    means = {method: average(records, method, protocol) for method in methods}
    rounded = {
        method: round(mean, 2) for method, mean in means.items() if mean is not None
    }
    stored = content(path) if path.exists() else {"averages": None}
    if stored["averages"] != rounded:
        return set()
    return {row["below"] for row in stored["rows"] if row["p_holm"] > 0.05}
