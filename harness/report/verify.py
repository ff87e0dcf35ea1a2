"""The digests in generated pages, against the records that lie beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from harness.core.errors import HarnessError
from harness.registry import Registry
from harness.report.build import generated
from harness.results.index import SHOWN

DIGEST = re.compile(r"Records: sha256 `?([0-9a-f]{64})\b")


def pages(folder: Path, papers: Path, registry: Registry | None = None) -> dict[Path, str | None]:
    """Every page that records make, and every other among the tables, with its fault or None."""
    due = {path: printed(text) for path, text in generated(folder, papers, None, registry).items()}
    others = (p for p in sorted((folder / "tables").rglob("*.*")) if p not in due)
    # A plot is no text and carries no digest; what is missing carries none either.
    texts = {
        path: path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for path in (*due, *others)
    }
    return {path: _fault(printed(text), due.get(path)) for path, text in texts.items()}


def printed(text: str) -> str | None:
    """The digest that a page carries; None unless it is exactly one."""
    digests = DIGEST.findall(text)
    return digests[0] if len(digests) == 1 else None


def verified(folder: Path, papers: Path, registry: Registry | None = None) -> Iterator[str]:
    """Each page that is wrong, in words, then an error; or how many are right."""
    if not (folder / "tables").is_dir():
        raise HarnessError(f"{folder} holds no generated pages; harness report writes them")
    every = pages(folder, papers, registry)
    wrong = {path: fault for path, fault in every.items() if fault}
    yield from (f"{path}: {fault}" for path, fault in wrong.items())
    if wrong:
        raise HarnessError(
            f"{len(wrong)} of {len(every)} pages do not carry the digest of their records: "
            "restore the records, or run harness report"
        )
    yield f"{len(every)} pages carry the digest of their records"


def _fault(carried: str | None, due: str | None) -> str | None:
    """The fault of a page that carries one digest where another is due; None if they agree."""
    if carried == due:
        return None
    if due is None:
        return "carries a digest, and no record calls for it"
    if carried is None:
        return f"wanted a page with one digest, {due[:SHOWN]}; found none"
    return f"made from records {carried[:SHOWN]}, those here are {due[:SHOWN]}"
