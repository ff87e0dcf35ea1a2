"""All generated files of a results folder: writing them, and saying which are stale."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.report.bibtex import require_entries
from harness.report.claims import CLAIMS_PAGE, claims_page
from harness.report.front import readme_part
from harness.report.leaderboard import (
    encoder_file,
    encoder_page,
    examples_part,
    leaderboard,
)
from harness.report.pages import (
    CONFORMANCE_PAGE,
    THREADS_PAGE,
    TRAPS_PAGE,
    conformance_page,
    threads_page,
    traps_page,
)
from harness.report.papers import paper_page
from harness.report.pictures import PICTURE, picture_of
from harness.report.site_page import SITE_PAGE, made_from, site_page
from harness.report.speed import SPEED_PAGE, speed_page
from harness.results.folder import ResultsFolder
from harness.results.index import methods_by_encoder
from harness.results.layout import QUESTIONS

# In a checkout of the harness: records of the example plug-ins, and the page with their
# table.
EXAMPLE_RECORDS = Path("examples", "plugins", "results")
EXAMPLES_PAGE = Path("examples", "plugins", "README.md")


class SlowFile(NamedTuple):
    """A file that takes long to make, and the line in it that says what it is made from."""

    made_from: str
    make: Callable[[], str]


def generated(
    folder: ResultsFolder, readme: Path | None
) -> Mapping[Path, str | SlowFile]:
    """Every generated file of a results folder and of the README, by its path.

    With the README of the harness goes the page of the example plug-ins. A page without its file of
    questions, or without references, is not made.
    """
    require_entries(folder.tables, folder.papers)
    tables = folder.path / "tables"
    pages: dict[Path, str | SlowFile] = {
        folder.path / "LEADERBOARD.md": leaderboard(folder)
    }
    for table in folder.tables:
        pages[tables / "papers" / f"{table.id}.md"] = paper_page(table, folder)
    for encoder in methods_by_encoder(folder.records.methods):
        pages[tables / encoder_file(encoder)] = encoder_page(encoder, folder)
    if folder.traps:
        pages[tables / TRAPS_PAGE] = traps_page(folder)
    if folder.claims:
        pages[tables / CLAIMS_PAGE] = claims_page(folder)
    if folder.compared_references:
        pages[tables / CONFORMANCE_PAGE] = conformance_page(folder)
    if folder.threads:
        pages[tables / THREADS_PAGE] = threads_page(folder)
    speed = folder.path / QUESTIONS / "speed.toml"
    if speed.exists():
        pages[tables / SPEED_PAGE] = speed_page(speed)
    picture = picture_of(folder)
    if picture is not None:
        draw = partial(getattr, picture, "svg")
        pages[folder.path / PICTURE] = SlowFile(picture.made_from, draw)
    make_site = partial(site_page, folder, picture)
    pages[folder.path / SITE_PAGE] = SlowFile(made_from(folder, picture), make_site)
    if readme is not None and readme.exists():
        pages[readme] = between_markers(readme, "leaderboard", readme_part(folder))
        page, examples = readme.parent / EXAMPLES_PAGE, readme.parent / EXAMPLE_RECORDS
        if page.exists() and examples.is_dir():
            part = examples_part(examples, folder.registry)
            pages[page] = between_markers(page, "examples", part)
    return pages


def stale_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Files that writing would change, and files among the tables that it would remove.

    A slow file is not made anew for this: it is right if it says that it is made from
    what would be used now.
    """
    pages = generated(folder, readme)
    stale = []
    for path, content in pages.items():
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if isinstance(content, SlowFile) and content.made_from in text:
            continue
        if content != text:
            stale.append(path)
    return stale + _strays(folder, pages)


def write_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Bring every generated file up to date, slow ones too; returns those that changed."""
    pages = generated(folder, readme)
    changed = []
    for path, content in pages.items():
        text = content.make() if isinstance(content, SlowFile) else content
        if not path.exists() or path.read_bytes() != text.encode():
            write_atomically(path, text.encode())
            changed.append(path)
    strays = _strays(folder, pages)
    for path in strays:
        path.unlink()
    return changed + strays


def _strays(folder: ResultsFolder, pages: Mapping[Path, object]) -> list[Path]:
    """The files among the tables that would no longer be made."""
    tables = folder.path / "tables"
    return [path for path in sorted(tables.rglob("*.*")) if path not in pages]


def between_markers(document: Path, name: str, generated: str) -> str:
    """A document with its part between `<!-- name -->` and `<!-- /name -->` replaced."""
    text = document.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not pattern.search(text):
        raise HarnessError(
            f"{document}: wanted a part between <!-- {name} --> and <!-- /{name} -->, found "
            "none; add both lines"
        )
    if f"<!-- /{name} -->" in generated:
        raise HarnessError(
            f"<!-- /{name} --> is in the text of the part that it ends; rename what holds it"
        )
    return pattern.sub(
        lambda match: f"{match[1]}{generated.rstrip()}\n{match[2]}", text
    )
