"""The verification of a model's card in words, as a table, as Markdown and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from harness.core.terminal import text_table
from harness.report.markdown import escape, table
from harness.report.sentences import number_of
from harness.results.cards import CARD_FILE, MTEB_RESULTS
from harness.results.checked_claims import CheckedClaim, FoundChoices, Verification

VERIFICATION_HEAD = ("task", "metric", "claimed", "measured", "difference", "verdict")


def verification_text(found: Verification, width: int | None = None) -> str:
    """A verification for people: its table, what follows up a difference, and what is unchecked."""
    parts = [f"{found.model}: {claims_summary(found)}"]
    if found.checked:
        parts.append(
            text_table(
                [claim_row(item) for item in found.checked],
                list(VERIFICATION_HEAD),
                width,
            )
        )
    parts += (
        ["\n".join(_followed_up(found))]
        if any(c.explanation for c in found.claims)
        else []
    )
    parts += (
        ["\n".join(_unchecked(found))] if len(found.checked) < len(found.claims) else []
    )
    parts += ["\n".join(found.faults)] if found.faults else []
    if not found.claims:
        parts.append(offer(found))
    return "\n\n".join(parts)


def claims_summary(found: Verification) -> str:
    """How many of the claims hold: `7 of 8 checked claims hold, 92 are not checked`."""
    if not found.claims:
        return "its files claim no number"
    holding = sum(item.holds for item in found.checked)
    rest = len(found.claims) - len(found.checked)
    others = f", {rest} {'is' if rest == 1 else 'are'} not checked" if rest else ""
    return f"{holding} of {number_of(len(found.checked), 'checked claim')} hold{others}"


def offer(found: Verification) -> str:
    """Where the numbers of a model without a `model-index` may be found."""
    card = f"The card of {found.model} has no model-index"
    if not found.has_card:
        card = f"{found.model} has no card ({CARD_FILE})"
    return (
        f"{card}, and there is no result file beside it. mteb's results may have its numbers: "
        f"clone {MTEB_RESULTS} and give --claims FOLDER."
    )


def claim_row(item: CheckedClaim) -> list[str]:
    """A checked claim as a row of its table; numbers in points."""
    difference = item.verdict.difference if item.verdict else None
    return [
        _task(item),
        item.claim.statement.metric,
        _shortened(item.reading),
        "" if item.measured is None else f"{item.measured:.4f}",
        "" if difference is None else f"{difference:+.4f}",
        str(item.verdict.state) if item.verdict else "",
    ]


def _shortened(reading: str) -> str:
    """A claimed number with four decimals at most; its digits are compared in full."""
    return f"{float(reading):.4f}" if len(reading.partition(".")[2]) > 4 else reading


def _task(item: CheckedClaim) -> str:
    stated = item.claim.statement
    return f"{stated.data_set or stated.data_set_id} {stated.split}".strip()


def _followed_up(found: Verification) -> Iterator[str]:
    """A sentence for each difference that was followed up."""
    for item in found.claims:
        if item.explanation is not None:
            what = f"{_task(item)} {item.claim.statement.metric} {_shortened(item.reading)}"
            sentence = explanation_in_words(what, item.explanation)
            yield (
                f"{sentence} The card does not say so."
                if item.explanation.words
                else sentence
            )


def explanation_in_words(what: str, explanation: FoundChoices) -> str:
    """`STS12 75.46 is reproduced with the prompt 'query: ' and max length 512 (75.4601).`"""
    if not explanation.words:
        return f"{what}: {explanation.reason} ({number_of(explanation.tried, 'score')} tried)."
    how = " and ".join(explanation.words)
    score = "" if explanation.measured is None else f" ({explanation.measured:.4f})"
    chance = ""
    if explanation.is_chance:
        tried = number_of(explanation.tried, "score")
        chance = f" That may be chance: {tried} were looked at."
    return f"{what} is reproduced with {how}{score}.{chance}"


def _unchecked(found: Verification) -> Iterator[str]:
    """Why claims were not checked, each reason once with its number of claims and first names."""
    reasons: dict[str, list[str]] = {}
    for item in found.claims:
        if item.verdict is None:
            name = _task(item) or item.claim.statement.source
            reasons.setdefault(item.why_not, []).append(name)
    yield "Not checked:"
    for reason, names in reasons.items():
        distinct = [*dict.fromkeys(names)]
        shown = ", ".join(distinct[:3]) + (", ..." if len(distinct) > 3 else "")
        yield f"  {number_of(len(names), 'claim')} ({shown}): {reason}"


def verification_markdown(found: Verification, version: str) -> str:
    """A verification for a pull request or a discussion on the hub."""
    parts = [
        f"### {escape(found.model)}",
        f"{claims_summary(found)[0].upper()}{claims_summary(found)[1:]}.",
    ]
    if found.checked:
        rows = [[escape(cell) for cell in claim_row(item)] for item in found.checked]
        parts.append(table([name.capitalize() for name in VERIFICATION_HEAD], rows, 2))
    parts += [escape(line) for line in _followed_up(found)]
    if len(found.checked) < len(found.claims):
        lines = [f"* {escape(line.strip())}" for line in [*_unchecked(found)][1:]]
        parts.append("\n".join(["Not checked:", "", *lines]))
    parts.append(
        f"Measured with `harness verify`, sentence-embedding-harness {version}, under the model's "
        "own modules and prompts. `exact` means equal to the printed digits or within 0.005 "
        "points, `match` within 0.05, `close` within 0.5."
    )
    return "\n\n".join(parts) + "\n"


def verification_facts(found: Verification) -> dict[str, Any]:
    """A verification as JSON."""
    return {
        "model": found.model,
        "method": found.method,
        "weights": found.weights,
        "checked": len(found.checked),
        "hold": sum(item.holds for item in found.checked),
        "exit_status": found.exit_status,
        "faults": list(found.faults),
        "claims": [claim_facts(item) for item in found.claims],
    }


def claim_facts(item: CheckedClaim) -> dict[str, Any]:
    """A claim as JSON: what is stated, what was measured, and the verdict or why there is none."""
    stated, explanation = item.claim.statement, item.explanation
    value = stated.value
    return {
        "data_set": stated.data_set,
        "data_set_id": stated.data_set_id,
        "config": stated.config,
        "split": stated.split,
        "revision": stated.revision,
        "metric": stated.metric,
        "value": getattr(value, "text", None)
        or (None if value is None else str(value)),
        "source": stated.source,
        "task": item.claim.task,
        "score": item.claim.score if item.claim.task else "",
        "claimed": float(item.reading) if item.reading else None,
        "measured": item.measured,
        "difference": item.verdict.difference if item.verdict else None,
        "verdict": str(item.verdict.state) if item.verdict else None,
        "why_not": item.why_not,
        "explanation": None
        if explanation is None
        else {
            "choices": list(explanation.words),
            "measured": explanation.measured,
            "tried": explanation.tried,
            "chance": explanation.is_chance,
            "reason": explanation.reason,
        },
    }


def models_page(found: Sequence[dict[str, Any]]) -> str:
    """The page of many models: by the share of their checked claims that hold, the best first."""

    def order(facts: dict[str, Any]) -> tuple[float, int, str]:
        checked = facts["checked"]
        share = facts["hold"] / checked if checked else -1.0
        return (-share, -checked, facts["model"])

    rows = []
    for facts in sorted(found, key=order):
        differ = facts["checked"] - facts["hold"]
        reasons = Counter(
            claim["why_not"] for claim in facts["claims"] if claim["why_not"]
        )
        why = max(reasons, key=reasons.__getitem__, default="")
        rows.append(
            [
                escape(facts["model"]),
                str(len(facts["claims"])),
                str(facts["checked"]),
                str(facts["hold"]),
                str(differ),
                escape(why),
            ]
        )
    head = [
        "Model",
        "Claims",
        "Checked",
        "Hold",
        "Differ",
        "Why most others are not checked",
    ]
    return f"# Models by how many of their claims hold\n\n{table(head, rows)}\n"
