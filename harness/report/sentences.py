"""The words of a citation: a cell's protocol, its published number, what was measured with what."""

from __future__ import annotations

from collections.abc import Mapping

from harness.core.metrics import metric_of, metrics
from harness.core.terminal import table, wrapped
from harness.core.types import AGGREGATIONS, Method, Record, Task
from harness.registry import Registry, look_up
from harness.report.bibtex import HARNESS
from harness.results.explain import Explanation, Neighbour
from harness.results.index import Results, value
from harness.results.published import PublishedCell, Row
from harness.results.reproduction import Reproduction, coverage_note

NOTHING = "nothing was measured here"
AGGREGATION_WORDS: Mapping[str, str] = {
    "all": "subsets concatenated (all)",
    "mean": "mean over the subsets (mean)",
    "wmean": "subsets weighted by their pairs (wmean)",
}
TEXTS = {"raw": "raw text", "senteval": "SentEval text"}
COMMITS = 3  # more are counted, not listed; the records name their own


def protocol(cell: PublishedCell, registry: Registry) -> str:
    """Row, column, task with split and text form, metric, aggregation."""
    tasks = tasks_of(cell, registry)
    what = "mean of " if cell.average_of else ""
    about = f" ({what}{'; '.join(map(on, tasks))})" if tasks else ""
    level = cell.column.aggregation or cell.row.aggregation or cell.table.aggregation
    of = "gold" if cell.row.model_free else "cosine"
    words = (metric(cell.metric, of), aggregation(level))
    return ", ".join(filter(None, (cell.row.name, f"{cell.column.label}{about}", *words)))


def published(cell: PublishedCell) -> str:
    """The number as printed, in points, and where it stands."""
    spread = "" if cell.sd is None else f", sd {cell.sd:g}"
    statistic = "mean" if cell.row.statistic == "score" else cell.row.statistic
    runs = "" if cell.row.n is None else f" ({statistic} of {cell.row.n} runs{spread})"
    return f"published {cell.in_points or cell.value}{runs} in {cell.place}"


def measured(reproduction: Reproduction, method: Method | None, results: Results) -> str:
    """Mean, spread, seeds, verdict, method, code and records; only where there is a score."""
    state = reproduction.state
    if not reproduction.scores:
        why = reproduction.cell.why_not
        return f"{NOTHING} ({state}{f': {why.explanation}' if why else ''})"
    score, difference = value(reproduction.scores), reproduction.verdict.difference
    by = "" if difference is None else f"{difference:+.2f}, "
    return (
        f"measured {score} {seeds(method, score.seeds)} ({by}{state}) "
        f"{f'by {method.id} ' if method else ''}{made(results)}"
    )


def on_task(name: str, method: Method | None, task: Task, results: Results) -> str:
    """The main score of a method on a task, under every aggregation."""
    records, scored_by = results.records(name, task.name), metric_of(task)
    key = scored_by.main_score[0]
    score = records[0].scores[key]
    if not isinstance(score, Mapping):
        scores = str(results.value(name, task.name, key))
    elif len(score["groups"]) <= 1:
        scores = str(results.value(name, task.name, key, "all"))
    else:
        values = {way: results.value(name, task.name, key, way) for way in AGGREGATIONS}
        scores = ", ".join(f"{way} {value}" for way, value in values.items())
    return (
        f"{name}, {on(task)}, {metric(key, scored_by.compared)}: measured {scores} "
        f"{seeds(method, len(records))} {made(results)}."
    )


def about(method: Method) -> str:
    """Training data, fit corpus and deviations of a method: they decide what it compares with."""
    fitted = f"; fitted on {method.fit_on}" if method.fit_on else ""
    scored = ", the sentences that are scored, no labels seen" if method.transductive else ""
    note = f"; {method.note}" if method.note else ""
    return f"{method.id}: encoder trained on {method.encoder.trained_on}{fitted}{scored}{note}."


def trained_on(row: Row, method: Method | None) -> str:
    """What a published row's encoder was trained on: its method says it, or else the row."""
    if method is not None:
        return method.encoder.trained_on
    if row.trained_on or row.supervision == "n/a":
        return row.trained_on or "texts that are not stated"
    if row.supervision == "none":
        return f"nothing beyond {row.backbone}"
    return f"{row.supervision}, labelled"


def fitted_on(row: Row, method: Method | None) -> str:
    """What a published row's post-processing was fitted on; empty without any."""
    if method is not None:
        return method.fit_on or ""
    return "" if row.fit == "none" else row.fit


def made(results: Results) -> str:
    """With which code, at which commit, and the digest of the records that were looked at."""
    records = [r for cell in sorted(results.used) for r in results.by_cell.get(cell, ())]
    known = (record.environment.get("harness") for record in records)
    versions = " and ".join(dict.fromkeys(version or "of unknown version" for version in known))
    commits = dict.fromkeys(map(_commit, records))
    named = ", ".join(commits) if len(commits) <= COMMITS else f"{len(commits)} commits"
    noun = "record" if len(records) == 1 else "records"
    return f"with {HARNESS} {versions}, {named}, {noun} sha256 {results.digest()}"


def tasks_of(cell: PublishedCell, registry: Registry) -> tuple[Task, ...]:
    """The cell's task, or those that it averages."""
    return tuple(look_up("task", name, registry.tasks) for name in cell.tasks)


def on(task: Task) -> str:
    """`sts-b, test, raw text`."""
    return f"{task.name}, {'+'.join(task.scored)}, {TEXTS[task.text]}"


def metric(name: str, of: str = "cosine") -> str:
    """A metric in words, `of` a similarity; one that no record has keeps its name."""
    words = {key: words for known in metrics().values() for key, words in known.words.items()}
    return words.get(name, name).format(of)


def aggregation(word: str | None) -> str:
    """An aggregation in words; empty for a single set."""
    return AGGREGATION_WORDS.get(word or "", word or "")


def signed(number: float) -> str:
    """With its sign and two decimals; no -0.00."""
    return f"{round(number, 2) + 0.0:+.2f}"


def tasks_counted(count: int) -> str:
    """`1 task`, `2 tasks`."""
    return "1 task" if count == 1 else f"{count} tasks"


def seeds(method: Method | None, count: int) -> str:
    """The number of seeds in words."""
    if count == 1 and not (method and method.seeded):
        return "in one run"
    return f"over {count} seed{'s' if count > 1 else ''}"


def _commit(record: Record) -> str:
    commit, dirty = record.environment.get("commit"), record.environment.get("dirty")
    name = f"commit {commit[:12]}" if commit else "an unknown commit"
    return f"{name} with uncommitted changes" if dirty else name


# How the protocol of a row is known, by its `evidence`.
EVIDENCE_WORDS: Mapping[str, str] = {
    "confirmed": "confirmed against the authors' code",
    "code": "read from code",
    "paper": "stated in the paper",
    "inferred": "inferred",
}


def render_explanation(found: Explanation, most: int = 25, width: int | None = None) -> str:
    """The published cell, what it needs and what was measured, then its nearest neighbours."""
    cell = found.cell
    lines = [
        f"{cell.id}: {cell.row.name}, {cell.column.label}, published {cell.value}",
        f"source: {cell.source}",
        *(f"note: {note}" for note in cell.notes),
    ]
    if cell.why_not:
        lines.append(f"no method here reproduces it: {cell.why_not.explanation}")
        return "\n".join(wrapped(line, width) for line in lines)
    lines.append(f"needs: {cell.method} on {cell.task or ', '.join(cell.average_of)}")
    if cell.evidence:
        words = [EVIDENCE_WORDS[cell.evidence]]
        if cell.evidence == "confirmed":
            words.append(found.confirmed_by or "by no reference that was measured here")
        lines.append(f"evidence: {', '.join(words)}")
    if found.wanted:
        lines.append(
            f"protocol: {found.wanted.text} text, split {found.wanted.split}, "
            f"{found.wanted.metric} {found.wanted.aggregation}".rstrip()
        )
    measured, difference = found.reproduction.measured, found.reproduction.verdict.difference
    if measured is None:
        lines += [f"measured: {found.reproduction.state}", f"run: {found.command}"]
    else:
        lines.append(f"measured: {measured:.4f} ({difference:+.4f}, {found.reproduction.state})")
        share = found.reproduction.coverage
        covered = "" if share is None else coverage_note({cell.column.label: share})
        lines += [f"word vectors: {covered}"] if covered else []
    if not found.neighbours:
        lines.append("no neighbouring protocol was run")
        return "\n".join(wrapped(line, width) for line in lines)
    if found.wanted and found.shown_on != found.wanted.encoder:
        lines.append(f"{found.wanted.encoder} was not run{_reference(found)}")
    rows = [[change(n), f"{n.value:.2f}", signed(n.difference)] for n in found.neighbours[:most]]
    head = ["but with", "measured", "difference"]
    lines = [*(wrapped(line, width) for line in lines), "", table(rows, head, width), ""]
    nearest = found.base or min(found.neighbours, key=lambda n: abs(n.difference))
    lines.append(
        f"{len(found.neighbours)} neighbouring protocols were tried; nearest is "
        f"{nearest.value:.2f} ({signed(nearest.difference)})"
    )
    lines.append(f"  with {change(nearest)}: {nearest.command}")
    return "\n".join(lines)


def _reference(found: Explanation) -> str:
    """What differences are taken against, where the encoder itself was not run."""
    if found.base is None:
        return (
            f"; on {found.shown_on}, the same protocol gives {found.reference:.2f}, and each "
            "choice moves that"
        )
    return (
        ", nor this protocol on any other encoder; differences are from the nearest row that was "
        f"run: {found.shown_on} with {change(found.base)}, {found.base.value:.2f}"
    )


def change(neighbour: Neighbour) -> str:
    """The fields that differ, with their values here."""
    return ", ".join(
        f"{name.replace('_', ' ')} {getattr(neighbour.protocol, name) or 'none'}"
        for name in neighbour.differs_in
    )
