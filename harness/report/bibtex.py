"""BibTeX: the entries of references.bib by their keys, and the keys that a method cites."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.core.errors import DataError
from harness.core.types import Method
from harness.registry import Registry, nearest
from harness.results.published import Table

HARNESS_KEY = "sentence-embedding-harness"  # the key of the harness's own entry
BIB_FILE = Path(__file__).with_name("references.bib")

ENTRY_START = re.compile(r"^[ \t]*(?=@)", re.MULTILINE)
ENTRY_KEY = re.compile(r"@\w+\s*\{\s*([^\s,={}]+)\s*,")


def entries(path: Path = BIB_FILE) -> dict[str, str]:
    """Every entry of a .bib file, by key.

    Raises:
        DataError: Two entries have one key, or an entry is not closed.
    """
    by_key: dict[str, str] = {}
    for text in ENTRY_START.split(path.read_text(encoding="utf-8")):
        match = ENTRY_KEY.match(text)
        if match is None:
            continue
        key = match[1]
        entry = text[: text.rfind("}") + 1]
        if not entry or entry.count("{") != entry.count("}"):
            raise DataError(
                f"{path.name}: the entry {key!r} has no closing brace; add it"
            )
        if key in by_key:
            raise DataError(
                f"{path.name}: two entries have the key {key!r}; remove one"
            )
        by_key[key] = entry
    return by_key


def entries_with(papers: Path | None) -> dict[str, str]:
    """The harness's entries, and those of `references.bib` in a folder of published tables."""
    path = None if papers is None else papers / BIB_FILE.name
    if path is None or not path.is_file():
        return entries()
    return entries() | entries(path)


def bib_keys(cites: Iterable[str]) -> tuple[str, ...]:
    r"""The keys of several `cite` texts, each once: "a, b" names two, as LaTeX's \cite does.

    A plug-in may cite by a whole BibTeX entry, which stays as it is.
    """
    keys: dict[str, None] = {}
    for cite in cites:
        parts = [cite] if cite.lstrip().startswith("@") else cite.split(",")
        keys |= dict.fromkeys(part.strip() for part in parts)
    return tuple(filter(None, keys))


def bibtex(cites: Iterable[str], papers: Path | None = None) -> str:
    """The entries of these keys, in order. Raises DataError for a key that has none."""
    entry_by_key = entries_with(papers)
    found = []
    for key in bib_keys(cites):
        entry = key if key.startswith("@") else entry_by_key.get(key)
        if entry is None:
            raise DataError(
                f"{BIB_FILE.name}: wanted an entry {key!r}, found none; add it"
            )
        found.append(entry)
    return "\n\n".join(found)


def software() -> str:
    """Title, version and licence of the harness, as its entry has them."""
    fields = dict(re.findall(r"(\w+) = \{+(.+?)\}+,\n", entries()[HARNESS_KEY]))
    return f"{fields['title']} {fields['note'].removeprefix('Version ')}"


def require_entries(tables: Iterable[Table], papers: Path) -> None:
    """Refuse a table whose `cite` is no key of references.bib, with the nearest ones."""
    entry_by_key = entries_with(papers)
    for table in tables:
        if table.cite not in entry_by_key:
            suggestion = nearest(table.cite, entry_by_key)
            remedy = f"{suggestion} Else add" if suggestion else "add"
            raise DataError(
                f"{table.id}.toml: cite: wanted a key of {BIB_FILE.name} of the harness, or of "
                f"{papers}/{BIB_FILE.name}, found {table.cite!r}; "
                f"{remedy} its entry to the latter"
            )


def keys_of(method: Method | None, registry: Registry) -> tuple[str, ...]:
    """The keys of the papers of a method, of its encoder and of its post-processors.

    The paper of a post-processor is cited by the first registered method that has it and
    cites another paper than its encoder does. A post-processor may name a further one by
    `cite`.
    """
    if method is None:
        return ()
    cite_by_post: dict[type, str] = {}
    for registered in registry.methods.values():
        if registered.cite != registered.encoder.cite:
            for post in registered.post:
                cite_by_post.setdefault(type(post), registered.cite)
    cites = [method.cite, method.encoder.cite]
    for post in method.post:
        cites += [cite_by_post.get(type(post), ""), getattr(post, "cite", "")]
    return bib_keys(cites)
