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
REFERENCES = Path(__file__).with_name("references.bib")

BEGINNING = re.compile(r"^[ \t]*(?=@)", re.MULTILINE)
KEY = re.compile(r"@\w+\s*\{\s*([^\s,={}]+)\s*,")
# The two levels of YAML that the citation file has.
SCALAR = re.compile(r'^([a-z-]+): +"?(.+?)"?$', re.MULTILINE)
AUTHOR = re.compile(r'^ +- name: +"?(.+?)"?$', re.MULTILINE)


def _citation_file() -> Path:
    """The citation file, of the checkout or among the metadata of the installed package."""
    carried = (files(HARNESS) or ()) if FROM_WHEEL else ()
    citation_files = (Path(str(f.locate())) for f in carried if f.name == "CITATION.cff")
    return next(citation_files, ROOT / "CITATION.cff")


CITATION = _citation_file()


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


def harness_entry(path: Path = CITATION) -> str:
    """The entry of the harness itself."""
    fields = software(path)
    return (
        f"@misc{{{HARNESS},\n"
        f"  author = {{{fields['authors']}}},\n"
        f"  title = {{{{{fields['title']}}}}},\n"
        f"  year = {{{fields['date-released'][:4]}}},\n"
        f"  note = {{Version {fields['version']}, {fields['license']}}},\n"
        "}"
    )


def entries(path: Path = REFERENCES) -> dict[str, str]:
    """Every entry of a .bib file by its key; each begins on a line of its own.

    Raises DataError if a key stands twice, or an entry is not closed.
    """
    by_key: dict[str, str] = {}
    for text in BEGINNING.split(path.read_text(encoding="utf-8")):
        if match := KEY.match(text):
            key, entry = match[1], text[: text.rfind("}") + 1]
            if not entry or entry.count("{") != entry.count("}"):
                raise DataError(f"{path.name}: the entry {key!r} has no closing brace; add it")
            if key in by_key:
                raise DataError(f"{path.name}: the key {key!r} stands twice; remove one entry")
            by_key[key] = entry
    return by_key


def entries_with(papers: Path | None) -> dict[str, str]:
    """The harness's entries, and those of `references.bib` in a folder of published tables.

    Raises DataError if a key stands in both.
    """
    ours, path = entries(), (papers or Path()) / REFERENCES.name
    theirs = entries(path) if papers and path != REFERENCES and path.is_file() else {}
    if twice := sorted(theirs.keys() & ours):
        raise DataError(f"{path}: the harness has the key {twice[0]!r} too; remove this entry")
    return ours | theirs


def bibtex(keys: Iterable[str], papers: Path | None = None) -> str:
    """The entries of these keys, in order. Raises DataError for a key that has none."""
    every, wanted = {HARNESS: harness_entry(), **entries_with(papers)}, dict.fromkeys(keys)
    if missing := [key for key in wanted if key not in every]:
        raise DataError(f"{REFERENCES.name}: wanted an entry {missing[0]!r}, found none; add it")
    return "\n\n".join(every[key] for key in wanted)


def require_entries(tables: Iterable[Table], papers: Path | None = None) -> None:
    """Refuse a table whose `cite` is no key of references.bib, with the nearest ones."""
    every = entries_with(papers)
    for table in tables:
        if table.cite not in every:
            near = nearest(table.cite, every)
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
    brought_by = {
        type(post): other.cite
        for other in reversed(tuple(registry.methods.values()))
        for post in other.post
        if other.cite != other.encoder.cite
    }
    posts = (brought_by.get(type(post), "") for post in method.post)
    return (method.cite, method.encoder.cite, *posts)
