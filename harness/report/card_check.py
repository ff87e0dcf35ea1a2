"""The verification of a model's card: as text for a terminal, as Markdown and as JSON.

Each of the three lists the numbers that were checked, what a followed-up difference comes
from, and why other numbers were not checked. `models_page` compares many models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.conclusions.card_statements import MTEB_RESULTS
from harness.conclusions.cards import CardNumber, FoundChoices
from harness.conclusions.mteb_files import RUN_SETTINGS
from harness.conclusions.verification import Verification
from harness.core.terminal import INDENT, counted, signed, text_table, wrapped
from harness.report.card_readings import card_reading_facts, card_readings_in_words
from harness.report.table import markdown, rendered, table_of

VERIFICATION_HEAD = ("task", "metric", "stated", "measured", "difference", "verdict")
MODELS_HEAD = (
    "Model",
    "Numbers",
    "Checked",
    "Hold",
    "Differ",
    "Why most others are not checked",
)
SHOWN_DECIMALS = 4  # shown of a stated number
MOST_NAMES = 3  # of unchecked numbers listed with a reason
TEXT_WIDTH = 80  # columns of sentences on a terminal

Facts = dict[str, Any]  # as JSON has them


# A verification for people


def verification_text(verification: Verification, width: int | None = None) -> str:
    """A verification for a terminal, whose first lines are the answer.

    What arithmetic says comes first, then the table, the followed-up differences and the
    unchecked numbers.

    Args:
        verification: The checked numbers of a model.
        width: The width of the terminal, in characters; None: unlimited.
    """
    table = unchecked = where = ""
    if verification.checked:
        rows = [_number_row(number) for number in verification.checked]
        table = text_table(rows, VERIFICATION_HEAD, width)
    reasons = _reasons_unchecked(verification)
    if reasons:
        unchecked = _lines(["Not checked:", *(f"{INDENT}{each}" for each in reasons)])
    if not verification.numbers and not verification.faults:
        where = (
            f"{verification.model} has no card with a model-index, and no result file in its "
            "folder. mteb's results may have its numbers: clone "
            f"{MTEB_RESULTS} and give --card FOLDER."
        )
    parts = (
        _lines(
            [
                f"{verification.model}: {_numbers_summary(verification)}",
                *card_readings_in_words(verification.faults_of_copying),
            ]
        ),
        table,
        _lines(_followed_up(verification)),
        _lines(versions_in_words(verification)),
        _lines(_batch_in_words(verification)),
        unchecked,
        _lines(verification.faults),
        _lines([where]),
    )
    return "\n\n".join(filter(None, parts))


def _lines(sentences: Sequence[str]) -> str:
    """Sentences in lines of 80 columns, each from a new line."""
    return "\n".join(wrapped(sentence, TEXT_WIDTH) for sentence in sentences)


def verification_markdown(
    verification: Verification, versions: Mapping[str, str], date: str
) -> str:
    """A verification for a pull request or a discussion on the hub.

    Args:
        verification: The checked numbers of a model.
        versions: The versions of the programs that measured, by name.
        date: The day, as in 2026-11-28.
    """
    judged = {number.task for number in verification.checked}
    data = {name: text for name, text in verification.data.items() if name in judged}
    revisions = {}  # of data sets, as checked numbers state them
    for number in verification.checked:
        statement = number.statement
        if statement.revision:
            name = statement.data_set or statement.data_set_id
            revisions[name] = statement.revision
    return rendered(
        "verification.md",
        verification=replace(verification, data=data),
        summary=_numbers_summary(verification),
        head=[name.capitalize() for name in VERIFICATION_HEAD],
        rows=[_number_row(number) for number in verification.checked],
        followed_up=[
            *card_readings_in_words(verification.faults_of_copying),
            *_followed_up(verification),
            *versions_in_words(verification),
            *_batch_in_words(verification),
        ],
        reasons=_reasons_unchecked(verification),
        versions=versions,
        date=date,
        revisions=revisions,
        holds=any(number.holds for number in verification.checked),
    )


def _numbers_summary(verification: Verification) -> str:
    """How many of the numbers hold: `7 of 8 checked numbers hold, 92 are not checked`."""
    if not verification.numbers:
        return "its files state no number"
    holding = sum(number.holds for number in verification.checked)
    checked = len(verification.checked)
    others = sum(number.is_of_other_model for number in verification.numbers)
    numbers = counted(len(verification.numbers), "number")
    if others == len(verification.numbers):
        return f"all its {numbers} are another model's"
    of_others = f"{others} of its {numbers} are another model's, " if others else ""
    if not checked:
        return f"{of_others}none of its {numbers} could be checked"
    summary = f"{of_others}{holding} of {counted(checked, 'checked number')} hold"
    unchecked = len(verification.numbers) - checked - others
    if unchecked:
        verb = "is" if unchecked == 1 else "are"
        summary += f", {unchecked} {verb} not checked"
    return summary


def _number_row(number: CardNumber) -> list[str]:
    """A checked number as a row of the table whose head is `VERIFICATION_HEAD`, in points."""
    facts = _number_facts(number)
    return [
        _task_in_words(number),
        number.statement.metric,
        _stated_number(number),
        f"{facts['measured']:.4f}",
        signed(facts["difference"], 4),
        facts["verdict"],
    ]


def _stated_number(number: CardNumber) -> str:
    """The stated number with four decimals at most; its digits are compared in full."""
    stated = number.reading
    if stated.decimals > SHOWN_DECIMALS:
        return f"{stated.points:.{SHOWN_DECIMALS}f}"
    return stated.value


def _task_in_words(number: CardNumber) -> str:
    """The data set and the split as the number states them; the task, if there are two of them."""
    statement = number.statement
    words = [statement.data_set or statement.data_set_id, statement.split]
    if number.or_task:
        words.append(f"({number.task})")
    return " ".join(word for word in words if word)


def _followed_up(verification: Verification) -> list[str]:
    """A sentence for each difference that was followed up."""
    sentences = []
    for number in verification.numbers:
        if number.explanation is None:
            continue
        metric = number.statement.metric
        subject = f"{_task_in_words(number)} {metric} {_stated_number(number)}"
        sentence = explanation_in_words(subject, number.explanation)
        if number.explanation.words:
            sentence += " The card does not say so."
        sentences.append(sentence)
    return sentences


def versions_in_words(verification: Verification) -> list[str]:
    """With which versions the numbers were made, and the known faults of these, a sentence each."""
    sentences = []
    for versions in verification.made_with:
        packages = ", ".join(f"{name} {version}" for name, version in versions.items())
        sentences.append(
            f"Numbers were made with {packages}, as {RUN_SETTINGS} states."
        )
    for cause in verification.causes_of_versions:
        sentences.append(
            f"These versions have a known cause of other numbers ({cause.source}): {cause.title}. "
            f"To find out: {cause.check}. To change: {cause.change}."
        )
    return sentences


def _batch_in_words(verification: Verification) -> list[str]:
    """A sentence on vectors that depend on the batch; none if they do not."""
    effect = verification.batch_effect
    if effect is None:
        return []
    return [
        f"Vectors depend on the batch, and so may scores: those of {effect.texts} texts of "
        f"{effect.task}, encoded alone and in one batch, differ by up to "
        f"{100 * effect.largest:.2g} % of their largest number."
    ]


def explanation_in_words(subject: str, explanation: FoundChoices) -> str:
    """`STS12 75.46 is reproduced with the prompt 'query: ' and max length 512 (75.4601).`"""
    scores = counted(explanation.tried, "score")
    if explanation.measured is None:
        return f"{subject}: {explanation.reason} ({scores} tried)."
    choices = " and ".join(explanation.words) or "the model's own settings"
    if explanation.is_chance:
        return (
            f"{subject}: {choices} gives {explanation.measured:.4f}, which may be chance: "
            f"{scores} were looked at, and a single number cannot decide."
        )
    return f"{subject} is reproduced with {choices} ({explanation.measured:.4f})."


def _reasons_unchecked(verification: Verification) -> list[str]:
    """Why numbers were not checked: a line a reason, with the first of its numbers."""
    names_by_reason: dict[str, list[str]] = {}
    for number in verification.numbers:
        if number.verdict is None:
            name = _task_in_words(number) or number.statement.source
            names_by_reason.setdefault(number.why_not, []).append(name)
    lines = []
    for reason, names in names_by_reason.items():
        distinct_names = list(dict.fromkeys(names))
        shown_names = ", ".join(distinct_names[:MOST_NAMES])
        if len(distinct_names) > MOST_NAMES:
            shown_names += ", ..."
        lines.append(f"{counted(len(names), 'number')} ({shown_names}): {reason}")
    return lines


# A verification as JSON


def verification_facts(verification: Verification) -> Facts:
    """A verification as JSON."""
    effect = verification.batch_effect
    return {
        "model": verification.model,
        "method": verification.method,
        "weights": verification.weights,
        "checked": len(verification.checked),
        "hold": sum(number.holds for number in verification.checked),
        "exit_status": verification.exit_status,
        "faults": list(verification.faults),
        "made_with": verification.made_with,
        "causes_of_versions": [cause.id for cause in verification.causes_of_versions],
        "batch_effect": effect and vars(effect),
        "readings": [card_reading_facts(reading) for reading in verification.readings],
        "numbers": [_number_facts(number) for number in verification.numbers],
    }


def _number_facts(number: CardNumber) -> Facts:
    """A number as JSON: what is stated and measured, the verdict or why there is none."""
    verdict, found = number.verdict, number.explanation
    return {
        **vars(number.statement),
        "task": number.task,
        "score": number.score if number.task else "",
        "stated": None if number.measured is None else number.reading.points,
        "measured": number.measured,
        "difference": verdict and verdict.difference,
        "verdict": verdict and str(verdict.state),
        "why_not": number.why_not,
        "explanation": found and explanation_facts(found),
    }


def explanation_facts(explanation: FoundChoices) -> Facts:
    """What a search found, as JSON."""
    return {
        "choices": list(explanation.words),
        "measured": explanation.measured,
        "tried": explanation.tried,
        "chance": explanation.is_chance,
        "reason": explanation.reason,
    }


# Many models


def models_page(models: Sequence[Facts]) -> str:
    """The page of many models: by the share of their checked numbers that hold, the best first.

    Of models with the same share, those with most checked numbers come first; a model
    without a checked number comes last.

    Args:
        models: The facts of each verification, as `verification_facts` makes them.
    """
    rows = []
    for facts in models:
        checked, hold = facts["checked"], facts["hold"]
        reasons = Counter(
            number["why_not"] for number in facts["numbers"] if number["why_not"]
        )
        [(reason, _)] = reasons.most_common(1) or [("", 0)]
        share = hold / checked if checked else -1.0
        numbers = [len(facts["numbers"]), checked, hold, checked - hold]
        order = (-share, -checked, facts["model"])
        rows.append((order, [facts["model"], *numbers, reason]))
    table = markdown(table_of(MODELS_HEAD, [row for _, row in sorted(rows)]))
    return f"# Models by how many of their numbers hold\n\n{table}\n"
