"""One file over http, by pooch: whether downloads are allowed, errors in one line.

A download that breaks off is thrown away; the caller asks the next source. Hosts are
given up after seconds of silence, and a file has a limit of bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.data.catalogue import Download

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


def address_of(download: Download) -> str:
    """The address of a download: its own, or one on the hub that HF_ENDPOINT names."""
    from huggingface_hub import hf_hub_url

    if download.repo is None:
        return download.at
    return hf_hub_url(
        download.repo,
        download.at,
        repo_type="model" if download.model else "dataset",
        revision=download.revision,
    )


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
    """An open file into which no more than a number of bytes is written.

    Attributes:
        file: The file.
        limit: The most bytes that it may have.
    """

    file: BinaryIO
    limit: int

    def write(self, data: bytes) -> int:
        """Write bytes. Raises DataError beyond the limit."""
        if self.file.tell() + len(data) > self.limit:
            raise DataError(f"found more than {self.limit:,} bytes")
        return self.file.write(data)

    def flush(self) -> None:
        """Flush the file."""
        self.file.flush()


def download_file(url: str, target: Path, limit: int) -> str:
    """Bring a file to its place, and return its sha256.

    Args:
        url: Where the file is.
        target: Where it goes; its folder is made.
        limit: The most bytes that it may have.

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
            ask(url, LimitedFile(file, limit), None)
    except DataError as error:
        raise DataError(f"{url}: {error}") from None
    with part.open("rb") as file:
        beginning = file.read(512).lstrip().lower()
    if not beginning or beginning.startswith(PAGE_STARTS):
        content = "a web page" if beginning else "0 bytes"
        raise DataError(f"{url}: wanted a file, found {content}")
    return sha256_of(part.replace(target))
