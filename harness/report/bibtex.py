"""BibTeX: the entries of references.bib by their keys, and those that a method cites."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.core.errors import DataError
from harness.core.types import Method
from harness.registry import Registry, nearest
from harness.results.published import Table

HARNESS = "sentence-embedding-harness"  # the key of the harness's own entry
REFERENCES = Path(__file__).with_name("references.bib")

BEGINNING = re.compile(r"^[ \t]*(?=@)", re.MULTILINE)
KEY = re.compile(r"@\w+\s*\{\s*([^\s,={}]+)\s*,")


def entries(path: Path = REFERENCES) -> dict[str, str]:
    """Every entry of a .bib file, by key. DataError: a key stands twice, or one is not closed."""
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
    """The harness's entries, and those of `references.bib` in a folder of published tables."""
    ours, path = entries(), (papers or Path()) / REFERENCES.name
    theirs = entries(path) if papers and path.is_file() else {}
    if twice := sorted(theirs.keys() & ours):
        raise DataError(f"{path}: the harness has the key {twice[0]!r} too; remove this entry")
    return ours | theirs


def bib_keys(cites: Iterable[str]) -> tuple[str, ...]:
    r"""The keys of several `cite` texts, each once: "a, b" names two, as LaTeX's \cite does."""
    every = (key.strip() for cite in cites for key in cite.split(","))
    return tuple(dict.fromkeys(filter(None, every)))


def bibtex(cites: Iterable[str], papers: Path | None = None) -> str:
    """The entries of these keys, in order. Raises DataError for a key that has none."""
    every, wanted = entries_with(papers), bib_keys(cites)
    if missing := [key for key in wanted if key not in every]:
        raise DataError(f"{REFERENCES.name}: wanted an entry {missing[0]!r}, found none; add it")
    return "\n\n".join(every[key] for key in wanted)


def software() -> str:
    """Title, version and licence of the harness, as its entry has them."""
    fields = dict(re.findall(r"(\w+) = \{+(.+?)\}+,\n", entries()[HARNESS]))
    return f"{fields['title']} {fields['note'].removeprefix('Version ')}"


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

    A post-processor comes from the paper of the registered method that brings it, the first that
    cites another than its encoder's, and from that of its own `cite`.
    """
    if method is None:
        return ()
    brought_by = {
        type(post): other.cite
        for other in reversed(tuple(registry.methods.values()))
        for post in other.post
        if other.cite != other.encoder.cite
    }
    cites = [method.cite, method.encoder.cite]
    for post in method.post:
        cites += [brought_by.get(type(post), ""), getattr(post, "cite", "")]
    return bib_keys(cites)
