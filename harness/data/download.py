"""One download: a file over http, by pooch, and the files of a data folder that it becomes.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, BinaryIO

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError, first_line
from harness.core.files import safe_path
from harness.data.catalogue import Download, RowFormat

# Over http

# The variables by which huggingface_hub is told to download nothing.
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
# Seconds until a host is given up that cannot be reached, and one that is silent.
TIMEOUT = (5.0, 10.0)
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
        responses = (getattr(e, "response", None) for e in (error, error.__cause__))
        response = next((r for r in responses if r is not None), None)
        if response is not None:
            reason = f"answered {response.status_code}"
            if response.status_code in DENIED_STATUSES:
                reason += f": it is not there or not for everybody; {LOG_IN}"
            raise AssetMissing(f"{name}: its host {reason}") from None
        if isinstance(error, requests.ConnectionError | requests.Timeout):
            raise Unreachable(f"{name}: its host cannot be reached") from None
        raise AssetMissing(f"{name}: no answer, or the transfer broke off") from None


@dataclass
class LimitedFile:
    """An open file into which no more than a number of bytes is written."""

    file: BinaryIO
    most_bytes: int

    def write(self, data: bytes) -> int:
        """Write bytes. Raises DataError beyond the limit."""
        if self.file.tell() + len(data) > self.most_bytes:
            raise DataError(f"found more than {self.most_bytes:,} bytes")
        return self.file.write(data)

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()


def download_file(url: str, target: Path, most_bytes: int) -> str:
    """Bring a file to its place, and return its sha256.

    Args:
        url: Where the file is.
        target: Where it goes; its folder is made.
        most_bytes: The limit of its bytes.

    Raises:
        AssetMissing: The file cannot be had from this address.
        DataError: It is empty, a web page or too large.
    """
    import pooch  # type: ignore[import-untyped]
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, tqdm  # type: ignore[attr-defined]

    headers = {"Accept-Encoding": "identity"}
    if url.startswith(f"{constants.ENDPOINT}/"):  # its token is sent to the hub alone
        headers.update(build_hf_headers())
    # The bar's total is set when the host has answered.
    bar: Any = tqdm(  # type: ignore[no-untyped-call]
        total=1, unit="B", unit_scale=True, desc=target.name, leave=False, disable=None
    )
    ask = pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT, headers=headers)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    try:
        with bar, part.open("wb") as file, one_line_errors(url):
            ask(url, LimitedFile(file, most_bytes), None)
    except DataError as error:
        raise DataError(f"{url}: {error}") from None
    with part.open("rb") as file:
        beginning = file.read(512).lstrip().lower()
    if not beginning or beginning.startswith(PAGE_STARTS):
        content = "a web page" if beginning else "0 bytes"
        raise DataError(f"{url}: wanted a file, found {content}")
    return sha256_of(part.replace(target))


# Into a data folder

# Errors of the readers of archives and tables for a damaged file.
UNPACKING_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # an encrypted archive
    NotImplementedError,  # an unknown compression
    LookupError,  # a member without a name
)
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
        except KeyError as error:
            raise ValueError(f"row {number} has no {error}") from None
    return lines
