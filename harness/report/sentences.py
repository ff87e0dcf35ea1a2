"""Sentences that pages, citations and the terminal share: protocols, origins, numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.conclusions.noise import Lead, Spread
from harness.conclusions.standings import Standing, StandingKind
from harness.conclusions.training_data import Contact
from harness.core.hardware import base_name
from harness.core.metrics import metrics
from harness.core.types import Method
from harness.registry import Registry
from harness.results.index import LOW_COVERAGE, encoder_of_method
from harness.results.protocols import UNKNOWN, Protocol
from harness.results.published import EVIDENCE, PublishedNumber, Row
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

if TYPE_CHECKING:
    from harness.conclusions.conformance import Reference

AGGREGATION_WORDS: Mapping[str, str] = {
    "all": "subsets concatenated (all)",
    "mean": "mean over the subsets (mean)",
    "wmean": "subsets weighted by their pairs (wmean)",
}
TEXT_FORMS = {"raw": "raw text", "senteval": "SentEval text"}


# The protocol of a published number


def metric_in_words(name: str, similarity: str = "cosine") -> str:
    """A metric in words, of a similarity function; its name if no metric explains it."""
    # Plug-ins are registered last and may explain a name in another way.
    for metric in reversed([*metrics().values()]):
        if name in metric.words:
            return metric.words[name].format(similarity)
    return name


def aggregation_in_words(name: str | None) -> str:
    """An aggregation in words; empty for a single set."""
    if name is None:
        return ""
    return AGGREGATION_WORDS.get(name, name)


def protocol_in_words(
    number: PublishedNumber, registry: Registry
) -> tuple[str, str, str]:
    """A published number's tasks with split and text form, its metric and its aggregation."""
    tasks = []
    for name in number.tasks:
        task = registry.tasks[name]
        tasks.append(f"{name}, {'+'.join(task.scored)}, {TEXT_FORMS[task.text]}")
    similarity = "gold" if number.row.model_free else "cosine"
    aggregation = (
        number.column.aggregation or number.row.aggregation or number.table.aggregation
    )
    metric = metric_in_words(number.metric, similarity)
    return "; ".join(tasks), metric, aggregation_in_words(aggregation)


def training_data_in_words(row: Row, method: Method | None) -> str:
    """What the encoder of a published row was trained on; empty where there is none."""
    if row.model_free:
        return ""
    if method is not None:
        return method.encoder.trained_on
    if row.trained_on:
        return row.trained_on
    if row.supervision == "n/a":
        return "texts that are not stated"
    if row.supervision == "none":
        return f"nothing beyond {row.backbone}"
    return f"{row.supervision}, labelled"


def fit_corpus_in_words(row: Row, method: Method | None) -> str:
    """What the post-processors of a published row were fitted on; empty without any."""
    if method is None:
        return "" if row.fit == "none" else row.fit
    return "" if method.fit_on is None else method.fit_on


def evidence_in_words(number: PublishedNumber, confirmed_by: Reference | None) -> str:
    """How the protocol of a number is known; empty where nothing is.

    Args:
        number: The published number.
        confirmed_by: The program whose scores equal the scores measured here.
    """
    if not number.evidence:
        return ""
    if number.evidence != "confirmed":
        return EVIDENCE[number.evidence]
    if confirmed_by is None:
        return "confirmed by no reference that was measured here"
    is_theirs = confirmed_by.is_by_authors_of(number.table)
    whose = "the authors' code" if is_theirs else "another program"
    return f"confirmed against {whose}, {confirmed_by.program}"


# Numbers


def states_in_words(numbers: Iterable[Reproduction]) -> str:
    """`45 exact, 2 match, 1 close`: how many numbers have which state."""
    counts = Counter(reproduction.state for reproduction in numbers)
    return ", ".join(
        f"{counts[state]:,} {state}" for state in CellState if counts[state]
    )


def percentage(share: float) -> str:
    """A share in whole percent; only a share of 1 is 100 %."""
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"


def coverage_note(shares: Mapping[str, float]) -> str:
    """The lowest and the highest share of tokens that have a vector; empty if all have one.

    Args:
        shares: The share of each task, by its heading.
    """
    if not shares:
        return ""
    heading_of_lowest = min(shares, key=shares.__getitem__)
    lowest, highest = shares[heading_of_lowest], max(shares.values())
    if lowest == 1:
        return ""
    share_range = percentage(lowest)
    if percentage(lowest) != percentage(highest):
        share_range += f" ({heading_of_lowest}) to {percentage(highest)}"
    note = f"{share_range} of the tokens have a vector"
    if lowest < LOW_COVERAGE:
        note += ": a score is of what is left of the sentences"
    return note


# Other published numbers

STANDING_WORDS: Mapping[StandingKind, str] = {
    StandingKind.CONFIRMED: "confirmed by",
    StandingKind.SAME_RUN: "same run as",
    StandingKind.ROUNDING: "same to rounding as",
    StandingKind.CONTRADICTED: "contradicted by",
    StandingKind.OTHER_TRAINING: "another training in",
    StandingKind.QUOTED: "quoted from",
    StandingKind.SAME_FIGURES: "same figures as",
}
# The standings of a number with other digits, which a sentence has to name.
WITH_OTHER_DIGITS = (
    StandingKind.ROUNDING,
    StandingKind.CONTRADICTED,
    StandingKind.OTHER_TRAINING,
)
LONGEST_ROW_ID = 30  # characters of a row's id that a sentence shows


def standing_in_words(standing: Standing) -> str:
    """`contradicted by bert-flow.t8/bert-nli-large: 77.26 (-0.54)`."""
    kind, other = standing.kind, standing.other
    place = other.row_id
    if kind is StandingKind.SAME_FIGURES:
        place = f"{other.row.name}, {place}"
    elif kind in WITH_OTHER_DIGITS:
        place += f": {other.score:.2f} ({standing.difference:+.2f})"
    return f"{STANDING_WORDS[kind]} {place}"


def standings_in_short(standings: Sequence[Standing]) -> str:
    """`confirmed by 2, contradicted by 1`; empty without any."""
    counts = Counter(standing.kind for standing in standings)
    return ", ".join(
        f"{words} {counts[kind]}"
        for kind, words in STANDING_WORDS.items()
        if counts[kind]
    )


def changes_in_words(changes: Mapping[str, str], protocol: Protocol) -> str:
    """The changes of a protocol: `aggregation wmean instead of all`."""
    words = []
    for name, value in changes.items():
        own_value = getattr(protocol, name).removesuffix(UNKNOWN)
        new, old = (text.removeprefix("+") or "none" for text in (value, own_value))
        words.append(f"{name.replace('_', ' ')} {new} instead of {old}")
    return ", ".join(words)


def neighbours_in_words(
    number: PublishedNumber, neighbours: Iterable[PublishedNumber]
) -> Iterator[str]:
    """Published numbers of one encoder that differ in one choice, each with that choice."""
    for other in neighbours:
        changes = number.protocol.changes(other.protocol)
        words = changes_in_words(changes, number.protocol)
        yield f"{other.value} with {words} ({place_in_words(other)})"


def place_in_words(number: PublishedNumber) -> str:
    """The published table in which a number is printed, and its row where the id is short."""
    if len(number.row.id) > LONGEST_ROW_ID:
        return number.table.id
    return number.row_id


# Commands


def command_to_measure(number: PublishedNumber, registry: Registry) -> str:
    """The command that measures a number; PATH is written for the files of an encoder by hand."""
    encoder = base_name(encoder_of_method(number.method or ""))
    path = f" --encoder {encoder}=PATH" if encoder in registry.by_hand else ""
    return f"harness run{path} -m '{number.method}' -t {' '.join(number.tasks)}"


# The best of a column


def lead_in_words(lead: Lead) -> str:
    """By how much a number is above the runner-up, and how much would be beyond noise."""
    runner_up = f"{lead.runner_up.row.name}, {lead.runner_up.shown}"
    parts = [f"{lead.points:.2f} above the runner-up ({runner_up})"]
    if lead.items is None:
        reason = "the score is no correlation, or the number of its pairs is not known"
        return f"{parts[0]}: {lead.kind}, since {reason}"
    narrow, wide = (f"{points:.2f}" for points in lead.items)
    narrow_between, wide_between = (f"{between:.2f}" for between in lead.between)
    needed, agreement = narrow, f"measured here: {narrow_between}"
    if narrow != wide:
        needed = f"{narrow} to {wide}"
        agreement = f"assumed to be {narrow_between} to {wide_between}"
    parts.append(
        f"{needed} would be needed beyond the choice of pairs (the correlation of both systems' "
        f"similarities is {agreement})"
    )
    if lead.seeds is None:
        parts.append("no spread over seeds is published for both or their relatives")
    elif lead.seeds:
        spreads = dict.fromkeys(_spread_in_words(each) for each in lead.spreads if each)
        of_seeds = " and ".join(filter(None, spreads))
        parts.append(f"{lead.seeds:.2f} beyond seeds ({of_seeds})")
    return f"{'; '.join(parts)}: {lead.kind}"


def _spread_in_words(spread: Spread) -> str:
    """A spread over seeds with its source; empty for a number that depends on no seed."""
    source = spread.source
    if source is None:
        return ""
    of = "its own" if source is spread.number else f"of its relative {source.row_id}"
    return f"deviation {spread.deviation:.2f} over {source.row.n} runs, {of}"


# Training data


def contact_in_words(contact: Contact) -> str:
    """What a model saw of the tasks of its number, as mteb states it."""
    if not contact.is_stated:
        return f"mteb does not state what {contact.model} was trained on"
    facts = []
    if contact.tasks:
        facts.append(f"it lists {', '.join(contact.tasks)} among its training data")
    if contact.seen:
        shares = ", ".join(
            f"{seen.seen:,} of {seen.pairs:,} pairs of {seen.task}"
            for seen in contact.seen
        )
        facts.append(f"STS-B's training split, which it lists, has {shares}")
    if not facts:
        facts.append("it lists no task of this number among its training data")
    return f"By mteb's entry of {contact.model}, {'; '.join(facts)}"
