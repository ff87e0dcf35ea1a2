"""Claims of a model's card, what was measured for each, and what explains a difference."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.errors import AssetMissing
from harness.results.cards import CardClaim
from harness.results.verdict import CellState, Verdict

HOLDING_STATES = (CellState.EXACT, CellState.MATCH)


@dataclass(frozen=True)
class FoundChoices:
    """The choices under which a claim's digits come out.

    Attributes:
        words: What was chosen other than the claim says, a phrase each; none where nothing that
            was tried gives the digits.
        measured: The score under them, in points.
        tried: How many scores were looked at.
        reason: Why nothing was tried, or nothing found.
    """

    words: tuple[str, ...] = ()
    measured: float | None = None
    tried: int = 0
    reason: str = ""


@dataclass(frozen=True)
class CheckedClaim:
    """A claim, and what was measured for it.

    Attributes:
        claim: The claim.
        measured: The score under the model's own modules, in points.
        verdict: The verdict on the difference; None where none was judged.
        reading: The claimed number in points, as it is compared.
        why_not: Why it was not checked; empty where it was.
        is_missing: Whether it could be checked with files that are not on this machine.
        explanation: What gives the claimed digits, where it differs and was followed up.
    """

    claim: CardClaim
    measured: float | None = None
    verdict: Verdict | None = None
    reading: str = ""
    why_not: str = ""
    is_missing: bool = False
    explanation: FoundChoices | None = None

    @property
    def holds(self) -> bool:
        """Whether it was checked and is reproduced."""
        return self.verdict is not None and self.verdict.state in HOLDING_STATES

    @property
    def differs(self) -> bool:
        """Whether it was checked and is not reproduced."""
        return self.verdict is not None and not self.holds


@dataclass(frozen=True)
class Verification:
    """A model's claims, checked.

    Attributes:
        model: The model as it was named.
        method: The id under which it was measured.
        claims: Every claim.
        faults: What could not be read, a line each.
        weights: The digest of its weights.
    """

    model: str
    method: str
    claims: tuple[CheckedClaim, ...] = ()
    faults: tuple[str, ...] = ()
    weights: str = ""

    @property
    def checked(self) -> tuple[CheckedClaim, ...]:
        """The claims that were measured and judged."""
        return tuple(checked for checked in self.claims if checked.verdict is not None)

    @property
    def exit_status(self) -> int:
        """1 if a claim differs, 3 if something is missing or nothing was checked, else 0."""
        if any(checked.differs for checked in self.claims):
            return 1
        missing = any(checked.is_missing for checked in self.claims)
        return AssetMissing.exit_status if missing or self.faults or not self.checked else 0
