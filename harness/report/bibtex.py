"""BibTeX: the entries of references.bib by their keys, and the harness's own, from CITATION.cff."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.core.errors import DataError
from harness.core.provenance import ROOT

HARNESS = "sentence-embedding-harness"  # the key of the entry that stands in no .bib file
REFERENCES = Path(__file__).with_name("references.bib")
CITATION = ROOT / "CITATION.cff"

# An entry begins with @ and ends with } at the margin.
ENTRY = re.compile(r"^@\w+\{([^\s,]+),\n.*?^\}$", re.MULTILINE | re.DOTALL)
# The two levels of YAML that the citation file has.
SCALAR = re.compile(r'^([a-z-]+): +"?(.+?)"?$', re.MULTILINE)
AUTHOR = re.compile(r'^ +- name: +"?(.+?)"?$', re.MULTILINE)


@dataclass(frozen=True)
class Software:
    """The harness itself, as the citation file describes it."""

    title: str
    authors: tuple[str, ...]
    version: str
    released: str
    licence: str

    def bibtex(self) -> str:
        """Its entry; the inner braces keep names and capitals as they are written."""
        return "\n".join(
            [
                f"@misc{{{HARNESS},",
                f"  author = {{{' and '.join(f'{{{name}}}' for name in self.authors)}}},",
                f"  title = {{{{{self.title}}}}},",
                f"  year = {{{self.released[:4]}}},",
                f"  note = {{Version {self.version}, {self.licence}}},",
                "}",
            ]
        )


def software(path: Path = CITATION) -> Software:
    """The harness as its citation file has it. Raises DataError for a file that says too little."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found, authors = dict(SCALAR.findall(text)), tuple(AUTHOR.findall(text))
    wanted = ("title", "version", "date-released", "license")
    missing = [key for key in wanted if key not in found] + ["authors"] * (not authors)
    if missing:
        raise DataError(
            f"{path.name}: wanted {', '.join(missing)}, found none; restore it beside the package"
        )
    title, version, released, licence = (found[key] for key in wanted)
    return Software(title, authors, version, released, licence)


def entries(path: Path = REFERENCES) -> dict[str, str]:
    """Every entry of a .bib file by its key. Raises DataError if a key stands twice."""
    found: dict[str, str] = {}
    for match in ENTRY.finditer(path.read_text(encoding="utf-8")):
        if match[1] in found:
            raise DataError(f"{path.name}: the key {match[1]!r} stands twice; remove one entry")
        found[match[1]] = match[0]
    return found


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, in order. Raises DataError for a key that has none."""
    known = {HARNESS: software().bibtex(), **entries()}
    chosen = tuple(dict.fromkeys(keys))
    if missing := [key for key in chosen if key not in known]:
        raise DataError(f"{REFERENCES.name}: wanted an entry {missing[0]!r}, found none; add it")
    return "\n\n".join(known[key] for key in chosen)
