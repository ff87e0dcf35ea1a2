"""The share of a task's tokens for which word vectors have a vector, and when it is too low."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.core.types import Record
from harness.results.index import Results, by_encoder

# General files have a vector for 88 to 99 % of the tokens of the STS, transfer and embedded tasks
# (the smallest, of 15,000 words, for 88 % of SST-2); a subset made for another task for 46 to 79 %.
LOW = 0.85


def coverage(records: Iterable[Record]) -> float | None:
    """The lowest share among records; None where none was counted, as of other encoders."""
    shares = (record.facts.get("coverage") for record in records)
    return min((share for share in shares if share is not None), default=None)


def low_coverage(records: Iterable[Record]) -> float | None:
    """The lowest share among records that is too low; None where none is, or was counted."""
    share = coverage(records)
    return share if share is not None and share < LOW else None


def percentage(share: float) -> str:
    """A share as people read it; only the whole is 100 %."""
    return "over 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def coverage_note(shares: Mapping[str, float]) -> str:
    """What tables say of the shares of their tasks, by heading; nothing where all are whole."""
    least, most = (pick(shares, key=lambda name: shares[name], default="") for pick in (min, max))
    if not least or shares[least] == 1:
        return ""
    first, last = percentage(shares[least]), percentage(shares[most])
    span = first if first == last else f"{first} ({least}) to {last}"
    left = ": a score is of what is left of the sentences" if shares[least] < LOW else ""
    return f"{span} of the tokens have a vector{left}"


def coverage_notes(results: Results, methods: Sequence[str], tasks: Mapping[str, str]) -> str:
    """What a table of methods and tasks (by heading) says of each of its word vectors."""
    notes: dict[str, str] = {}
    for encoder, own in by_encoder(methods).items():
        every = {
            heading: coverage(r for method in own for r in results.by_cell.get((method, task), ()))
            for heading, task in tasks.items()
        }
        note = coverage_note({name: share for name, share in every.items() if share is not None})
        notes |= {encoder: note} if note else {}
    return "; ".join(f"`{encoder}`: {note}" for encoder, note in notes.items()) + "." * bool(notes)
