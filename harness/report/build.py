"""All generated files of a results folder: writing them, and saying which are stale."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.core.files import file_name, write_atomically
from harness.report.bibtex import require_entries
from harness.report.claims import CLAIMS_PAGE, claims_page
from harness.report.front import Front
from harness.report.leaderboard import encoder_page, leaderboard
from harness.report.markdown import between_markers
from harness.report.pages import (
    CONFORMANCE_PAGE,
    THREADS_PAGE,
    TRAPS_PAGE,
    conformance_page,
    examples_part,
    threads_page,
    traps_page,
)
from harness.report.papers import CONTENTS_FILE, contents, paper_page
from harness.report.pictures import pictures
from harness.report.render import rendered
from harness.report.site_page import SITE_PAGE, made_from, site_page
from harness.report.speed import SPEED_PAGE, speed_page
from harness.results.folder import ResultsFolder
from harness.results.index import methods_by_encoder
from harness.results.layout import QUESTIONS
from harness.results.store import Store

# In a checkout of the harness: records of the example plug-ins, and the page with their
# table.
EXAMPLE_RECORDS = Path("examples", "plugins", "results")
GUIDE = Path("docs", "how-to", "plugin.md")
# The digests of generated files that a check does not make anew, as `sha256sum --check`
# reads them.
DIGESTS_FILE = "tables/sha256.txt"


@dataclass(frozen=True)
class SlowFile:
    """A file that takes long to make.

    Attributes:
        made_from: The line in it that says what it is made from.
        make: Makes its text.
    """

    made_from: str
    make: Callable[[], str]


Pages = Mapping[Path, "str | SlowFile"]


def generated(folder: ResultsFolder, readme: Path | None) -> Pages:
    """Every generated file of a results folder and of the README, by its path.

    With the README of the harness goes the guide to plug-ins.
    """
    require_entries(folder.tables, folder.papers)
    return _pages(folder) | _slow_pages(folder) | _parts_of_documents(folder, readme)


def _pages(folder: ResultsFolder) -> dict[Path, str]:
    """The pages of Markdown, and the counts of published numbers.

    A page without its file of questions, or without references, is not made.
    """
    tables = folder.path / "tables"
    records, registry = folder.records, folder.registry
    pages = {
        folder.path / "LEADERBOARD.md": leaderboard(
            records, registry, folder.comparisons, Front(folder)
        )
    }
    for table in folder.tables:
        pages[tables / "papers" / f"{table.id}.md"] = paper_page(table, folder)
    for encoder, methods in methods_by_encoder(records.methods).items():
        pages[tables / f"{file_name(encoder)}.md"] = encoder_page(
            records, registry, encoder, methods, folder.encoder_sizes
        )
    if folder.traps:
        pages[tables / TRAPS_PAGE] = traps_page(folder)
    if folder.claims:
        pages[tables / CLAIMS_PAGE] = claims_page(folder)
    if folder.compared_references:
        pages[tables / CONFORMANCE_PAGE] = conformance_page(folder)
    if folder.threads:
        pages[tables / THREADS_PAGE] = threads_page(folder)
    texts = {path: page.text for path, page in pages.items()}
    texts[tables / "papers" / CONTENTS_FILE] = contents(folder.tables)
    speed = folder.path / QUESTIONS / "speed.toml"
    if speed.exists():
        texts[tables / SPEED_PAGE] = speed_page(speed)
    return texts


def _slow_pages(folder: ResultsFolder) -> dict[Path, SlowFile]:
    """The files that take long to make: pictures, and the page of results."""
    slow_files = {}
    pictures_by_name = pictures(folder)
    for name, picture in pictures_by_name.items():
        slow_files[folder.path / name] = SlowFile(
            made_from=picture.made_from, make=partial(getattr, picture, "svg")
        )
    slow_files[folder.path / SITE_PAGE] = SlowFile(
        made_from=made_from(folder, pictures_by_name),
        make=partial(site_page, folder, pictures_by_name),
    )
    return slow_files


def _parts_of_documents(folder: ResultsFolder, readme: Path | None) -> dict[Path, str]:
    """The README and the guide to plug-ins, with their parts made anew."""
    if readme is None or not readme.exists():
        return {}
    text = readme.read_text(encoding="utf-8")
    screen = rendered("readme.md", front=Front(folder)).rstrip()
    documents = {readme: between_markers(text, "leaderboard", screen)}
    guide = readme.parent / GUIDE
    examples = readme.parent / EXAMPLE_RECORDS
    if guide.exists() and examples.is_dir():
        part = examples_part(Store(examples), folder.registry)
        documents[guide] = between_markers(
            guide.read_text(encoding="utf-8"), "examples", part
        )
    return documents


def _strays(folder: ResultsFolder, pages: Pages) -> list[Path]:
    """The files among the tables that would no longer be made."""
    tables = folder.path / "tables"
    expected = {*pages, folder.path / DIGESTS_FILE}
    return [path for path in sorted(tables.rglob("*.*")) if path not in expected]


def stale_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Files that writing would change, and files among the tables that it would remove."""
    pages = generated(folder, readme)
    digests = read_digests(folder.path)
    changed = [
        path
        for path, content in pages.items()
        if not _is_written(path, content, digests)
    ]
    return changed + _strays(folder, pages)


def _is_written(
    path: Path, content: str | SlowFile, digests: Mapping[Path, str]
) -> bool:
    """Whether a file is as writing would make it.

    A slow file is not made anew for this. It is right if nothing has changed it since it
    was written, as its digest says, and if it says that it is made from what would be
    used now.

    Args:
        path: The file.
        content: Its text, or how to make it.
        digests: The digests of the slow files when they were written.
    """
    if not path.exists():
        return False
    data = path.read_bytes()
    if isinstance(content, str):
        return data == content.encode()
    is_as_written = digests.get(path) == hashlib.sha256(data).hexdigest()
    return is_as_written and content.made_from.encode() in data


def write_files(folder: ResultsFolder, readme: Path | None) -> list[Path]:
    """Bring every generated file up to date, slow ones too; returns those that changed."""
    pages = generated(folder, readme)
    texts: dict[Path, str] = {}
    slow_files: list[Path] = []
    for path, content in pages.items():
        if isinstance(content, str):
            texts[path] = content
        else:
            texts[path] = content.make()
            slow_files.append(path)
    changed = [path for path, text in texts.items() if not _is_written(path, text, {})]
    for path in changed:
        write_atomically(path, texts[path].encode())
    strays = _strays(folder, pages)
    for path in strays:
        path.unlink()
    if note_digests(folder.path, slow_files):
        changed.append(folder.path / DIGESTS_FILE)
    return changed + strays


def read_digests(results: Path) -> Mapping[Path, str]:
    """The digests of slow files when they were written; none without the file that notes them."""
    path = results / DIGESTS_FILE
    if not path.exists():
        return {}
    digests = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        digests[results / name] = digest
    return digests


def note_digests(results: Path, slow_files: Iterable[Path]) -> bool:
    """Note the digests of slow files, in place of all that are noted; whether any is new.

    Args:
        results: The results folder.
        slow_files: The slow files, which were written just now.
    """
    digests = {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in slow_files
    }
    if digests == read_digests(results):
        return False
    lines = []
    for path in sorted(digests):
        lines.append(f"{digests[path]}  {path.relative_to(results).as_posix()}\n")
    write_atomically(results / DIGESTS_FILE, "".join(lines).encode())
    return True
