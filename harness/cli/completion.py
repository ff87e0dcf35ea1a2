"""Completion in the shell: what a word that is being typed may become.

`harness --install-completion` sets it up. Only a shell that asks pays for the imports.
"""

from __future__ import annotations

from collections.abc import Iterable


def methods(incomplete: str) -> list[str]:
    """Encoders, and once a dot is typed, their methods."""
    from harness.registry import load_registry

    found = load_registry()
    dotted = "." in incomplete.rpartition(",")[2]
    return beginning(incomplete, found.methods if dotted else found.encoders)


def tasks(incomplete: str) -> list[str]:
    """Tasks, by their own names and mteb's."""
    from harness.registry import load_registry

    return beginning(incomplete, load_registry().tasks_by_name)


def cells(incomplete: str) -> list[str]:
    """Published tables, and once a slash is typed, their cells."""
    from harness.results.layout import OWN, own_or_committed
    from harness.results.published import load_table

    folder = own_or_committed(OWN / "papers")
    table = folder / f"{incomplete.partition('/')[0]}.toml"
    if "/" in incomplete and table.is_file():
        return beginning(incomplete, (cell.id for cell in load_table(table).cells()))
    return beginning(incomplete, (f"{path.stem}/" for path in sorted(folder.glob("*.toml"))))


def published_tables(incomplete: str) -> list[str]:
    """Published tables."""
    return [name.removesuffix("/") for name in cells(incomplete.partition("/")[0])]


def beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    """What the word may become: each of the names that its part behind the last comma begins."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in names if name.startswith(last)]
