"""Whether the generated pages still carry the digest of the records that lie beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import HarnessError
from harness.report.build import generated
from harness.results.index import SHOWN

DIGEST = re.compile(r"Records: sha256 `?([0-9a-f]{64})\b")


@dataclass(frozen=True)
class Page:
    """A page, the digest printed in it, and the one that its records have now.

    None is no page, or not exactly one digest in it; and a page that nothing generates any more.
    """

    path: Path
    printed: str | None
    due: str | None

    @property
    def fault(self) -> str | None:
        """What is wrong with it, in words; None if nothing is."""
        if self.printed == self.due:
            return None
        if self.due is None:
            return "carries a digest, and no record calls for it"
        if self.printed is None:
            return f"wanted a page with one digest, {self.due[:SHOWN]}; found none"
        return f"made from records {self.printed[:SHOWN]}, those here are {self.due[:SHOWN]}"


def pages(folder: Path, papers: Path) -> tuple[Page, ...]:
    """Every page that the records make, and every other one that lies among the tables."""
    due = {path: printed(text) for path, text in generated(folder, papers, None).items()}
    others = (p for p in sorted((folder / "tables").rglob("*.*")) if p not in due)
    return tuple(Page(path, printed(read(path)), due.get(path)) for path in (*due, *others))


def read(path: Path) -> str:
    """The text of a page; nothing where there is none. A plot is no text and carries no digest."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def printed(text: str) -> str | None:
    """The digest that a page carries; None unless it is exactly one."""
    found = DIGEST.findall(text)
    return found[0] if len(found) == 1 else None


def verified(folder: Path, papers: Path) -> Iterator[str]:
    """Each page that is wrong, in words, then an error; or how many are right."""
    every = pages(folder, papers)
    wrong = [page for page in every if page.fault]
    for page in wrong:
        yield f"{page.path}: {page.fault}"
    if wrong:
        raise HarnessError(
            f"{len(wrong)} of {len(every)} pages do not carry the digest of their records: "
            "restore the records, or run harness report"
        )
    yield f"{len(every)} pages carry the digest of their records"
