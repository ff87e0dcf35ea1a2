"""BibTeX: the entries of references.bib by their keys, and the harness's own, from CITATION.cff.

Which of them a method cites is decided here too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import files
from pathlib import Path

from harness.core.errors import DataError
from harness.core.provenance import FROM_WHEEL, ROOT
from harness.core.types import Method
from harness.registry import Registry, nearest
from harness.results.published import Table

HARNESS = "sentence-embedding-harness"  # the key of the entry that stands in no .bib file


def _citation_file() -> Path:
    """The citation file, of the checkout or among the metadata of the installed package."""
    carried = (files(HARNESS) or ()) if FROM_WHEEL else ()
    found = (Path(str(file.locate())) for file in carried if file.name == "CITATION.cff")
    return next(found, ROOT / "CITATION.cff")


REFERENCES = Path(__file__).with_name("references.bib")
CITATION = _citation_file()

# How an entry begins, up to the comma behind its key; it ends with the brace that closes it.
ENTRY = re.compile(r"^[ \t]*(@\w+\s*\{\s*([^\s,={}]+)\s*,)", re.MULTILINE)
BRACE = re.compile(r"[{}]")
# The two levels of YAML that the citation file has.
SCALAR = re.compile(r'^([a-z-]+): +"?(.+?)"?$', re.MULTILINE)
AUTHOR = re.compile(r'^ +- name: +"?(.+?)"?$', re.MULTILINE)


def software(path: Path = CITATION) -> dict[str, str]:
    """The citation file of the harness by its keys. Raises DataError where one is missing."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    # Braces within a value keep names and capitals as they are written.
    authors = " and ".join(f"{{{name}}}" for name in AUTHOR.findall(text))
    fields = {**dict(SCALAR.findall(text)), "authors": authors}
    wanted = ("title", "version", "date-released", "license", "authors")
    if missing := [key for key in wanted if not fields.get(key)]:
        raise DataError(
            f"{path.name}: wanted {', '.join(missing)}, found none; restore it beside the package"
        )
    return fields


def own_entry(path: Path = CITATION) -> str:
    """The entry of the harness itself."""
    fields = software(path)
    lines = (
        f"@misc{{{HARNESS},",
        f"  author = {{{fields['authors']}}},",
        f"  title = {{{{{fields['title']}}}}},",
        f"  year = {{{fields['date-released'][:4]}}},",
        f"  note = {{Version {fields['version']}, {fields['license']}}},",
        "}",
    )
    return "\n".join(lines)


def entries(path: Path = REFERENCES) -> dict[str, str]:
    """Every entry of a .bib file by its key.

    Raises DataError if a key stands twice, or an entry is not closed.
    """
    text, found, end = path.read_text(encoding="utf-8"), dict[str, str](), 0
    while match := ENTRY.search(text, end):
        key, end = match[2], _closing(text, match.start(1))
        if not end:
            raise DataError(f"{path.name}: the entry {key!r} has no closing brace; add it")
        if key in found:
            raise DataError(f"{path.name}: the key {key!r} stands twice; remove one entry")
        found[key] = text[match.start(1) : end]
    return found


def _closing(text: str, start: int) -> int:
    """Where the braces that open after the start are closed; 0 where they are not."""
    depth = 0
    for brace in BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.end()
    return 0


def entries_with(papers: Path | None) -> dict[str, str]:
    """The harness's entries, and those of `references.bib` in a folder of published tables.

    Raises DataError if a key stands in both.
    """
    own = papers / REFERENCES.name if papers is not None else REFERENCES
    added = entries(own) if own != REFERENCES and own.is_file() else {}
    known = entries()
    if twice := [key for key in added if key in known]:
        raise DataError(f"{own}: the harness has the key {twice[0]!r} too; remove this entry")
    return known | added


def bibtex(keys: Iterable[str], papers: Path | None = None) -> str:
    """The entries of these keys, in order. Raises DataError for a key that has none."""
    known = {HARNESS: own_entry(), **entries_with(papers)}
    chosen = tuple(dict.fromkeys(keys))
    if missing := [key for key in chosen if key not in known]:
        raise DataError(f"{REFERENCES.name}: wanted an entry {missing[0]!r}, found none; add it")
    return "\n\n".join(known[key] for key in chosen)


def require_entries(tables: Iterable[Table], papers: Path | None = None) -> None:
    """Refuse a table whose `cite` is no key of references.bib, with the nearest ones."""
    known = entries_with(papers)
    for table in tables:
        if table.cite not in known:
            near = nearest(table.cite, known)
            raise DataError(
                f"{table.id}.toml: cite: wanted a key of {REFERENCES.name} of the harness, or of "
                f"{papers or 'the tables'}/{REFERENCES.name}, found {table.cite!r}; "
                f"{near + ' Else ' if near else ''}add its entry to the latter"
            )


def keys_of(method: Method | None, registry: Registry) -> tuple[str, ...]:
    """The method's paper, its encoder's, and those that its post-processors come from.

    A post-processor comes from the paper of the registered method that brings it: the first that
    cites another than its encoder's.
    """
    if method is None:
        return ()
    brought = {
        type(post): other.cite
        for other in reversed(tuple(registry.methods.values()))
        for post in other.post
        if other.cite != other.encoder.cite
    }
    posts = (brought.get(type(post), "") for post in method.post)
    return (method.cite, method.encoder.cite, *posts)
