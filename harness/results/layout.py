"""The folders of a results folder, and the order in which results folders are read.

A results folder has folders for what is published (`papers/`), measured (`records/`),
given by authors' code (`references/`), asked by a page (`questions/`) and generated
(`tables/`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

from harness.core.environment import HARNESS, IS_WHEEL
from harness.core.errors import UsageError

# The results that come with the harness. Those of an installed package are only read.
COMMITTED = HARNESS / "data" / "committed" if IS_WHEEL else HARNESS.parent / "results"

PAPERS = "papers"
RECORDS = "records"
QUESTIONS = "questions"
REFERENCES = "references"
REHEARSAL = f"{RECORDS}/rehearsal.json"
GOLDEN = "golden"  # in the records: vectors of a few sentences for each encoder
CONFORMANCE = "conformance"  # in the questions: trainings that references have as well
# The encoder of most rows of the papers' tables.
PAPERS_ENCODER = "bert-base"
GATE = "gate.toml"

# The folders of the current folder that a user's results and runs are in by default.
OWN = Path("results")
RUNS = Path("runs")


def is_results(folder: Path) -> bool:
    """Whether a folder is a results folder: it has published tables, records or a `gate.toml`."""
    return any((folder / name).exists() for name in (PAPERS, RECORDS, GATE))


def own_or_committed(folder: Path) -> Path:
    """A results folder, or a folder in it; the packaged one if the user has no such folder.

    `results/papers` means the packaged `papers` if the current folder has no folder
    `results/papers`, or if its `results` is no results folder. A path that does not
    begin with `results` is returned as it is.
    """
    if not folder.is_relative_to(OWN):
        return folder
    if folder.is_dir() and is_results(OWN):
        return folder
    return COMMITTED / folder.relative_to(OWN)


def is_packaged(folder: Path) -> bool:
    """Whether a folder holds the results that come with the harness."""
    return folder.is_dir() and COMMITTED.is_dir() and folder.samefile(COMMITTED)


def reading_order(
    folder: Path,
    *,
    with_runs: bool = False,
    with_packaged: bool = False,
    only_own: bool = False,
) -> tuple[Path, ...]:
    """The folders that are read when a results folder is opened.

    A cell is read from the first of them that has it. `results` of the current folder
    comes before the packaged results; any other folder is read alone. In a checkout of
    the harness, `results` are the packaged results.

    Args:
        folder: The folder that is opened; the packaged one, where there is no
            `results`.
        with_runs: `runs` of the current folder come after its `results`.
        with_packaged: The packaged results come last after any folder. Between `runs`
            and them comes `results` of the current folder.
        only_own: The packaged results are left out.
    """
    is_checkout = is_packaged(OWN)
    if is_checkout and is_packaged(folder):
        return (folder,)
    order: list[Path]
    if folder == OWN:
        order = [OWN, RUNS] if with_runs else [OWN]
    elif folder == COMMITTED:
        order = [RUNS] if with_runs else []
    elif folder == RUNS and with_packaged and not is_checkout:
        order = [RUNS, OWN]
    else:
        order = [folder]
    if not only_own and (with_packaged or folder in (OWN, COMMITTED)):
        order.append(COMMITTED)
    return tuple(order)


def require_own(option: str, folder: Path) -> None:
    """Raise UsageError, naming the option, for packaged results that are not in a checkout."""
    if folder == COMMITTED and (IS_WHEEL or not is_packaged(OWN)):
        raise UsageError(
            f"{option}: wanted a results folder of your own (with gate.toml, papers or records); "
            "make one, and name it"
        )


def readme_of(results: Path) -> Path | None:
    """The README that shows numbers of a results folder; None for other folders than `results`."""
    if results == OWN:
        return Path("README.md")
    return None


def papers_of(results: Path) -> Path:
    """The folder of a results folder's published tables; the packaged one if it has none."""
    papers = results / PAPERS
    if papers.is_dir():
        return papers
    return COMMITTED / PAPERS


def tables_naming(papers: Path, methods: Collection[str]) -> list[Path]:
    """The files of published tables in which one of these ids stands, also as part of another.

    A run reads no other tables: no number in them is of its methods.
    """
    paths = []
    for path in sorted(papers.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        if any(method in text for method in methods):
            paths.append(path)
    return paths


def measured_for(question: Path) -> Path:
    """The path, but for its suffix, of the measurements for a file of questions.

    It is `results/records/speed.toml` for `results/questions/speed.toml`. For a file
    that is in no folder of questions, it is the path of the file itself.
    """
    for folder in question.parents:
        if folder.name == QUESTIONS:
            return folder.with_name(RECORDS) / question.relative_to(folder)
    return question


def digest_of_measured(question: Path) -> str:
    """The sha256 over a file of questions and its measurements, from which a page is made.

    The measurements are in a JSON file of the same name, or in several in a folder of
    that name.
    """
    folder = measured_for(question).with_suffix("")
    file = folder.with_suffix(".json")
    measured_files = [file] if file.is_file() else sorted(folder.glob("*.json"))
    digest = hashlib.sha256()
    for path in (question, *measured_files):
        digest.update(path.read_bytes())
    return digest.hexdigest()
