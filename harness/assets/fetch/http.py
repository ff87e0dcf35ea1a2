"""The network: whether it may be used, and one file over http.

huggingface_hub is the library here for every host: it retries, resumes, and shows its own bars.
"""

from __future__ import annotations

import errno
import fcntl
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.core.errors import AssetMissing, DataError
from harness.core.files import sha256_of

SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # those that huggingface_hub obeys
DEADLINE = 3.0  # seconds until a host that is silent counts as unreachable


def switched_off(environment: Mapping[str, str]) -> str | None:
    """The name of the switch by which the environment forbids downloads, or None."""
    on = {"1", "true", "yes", "on"}
    return next((name for name in SWITCHES if environment.get(name, "").lower() in on), None)


def reason_of(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def errors_in_a_line(name: str, page: str) -> Iterator[None]:
    """What huggingface_hub raises as an AssetMissing of one line; `page` is for people.

    The host of `page` is asked first, since huggingface_hub tries a silent one for minutes.
    """
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    transport: Any = HfHubHTTPError.__bases__[0]  # of whatever http library it was built on
    try:
        _require_answer(urlsplit(page)._replace(path="/", query="", fragment="").geturl())
        yield
    except (transport, OSError, HFValidationError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise  # a full disk, which says so itself
        causes = [getattr(cause, "response", None) for cause in (error, error.__cause__)]
        statuses = [response.status_code for response in causes if response is not None]
        # A hub words its refusals itself: of an answer the status alone is told.
        reason = f"answered {statuses[0]}" if statuses else reason_of(error)
        why = f"({reason}); check the network and run the same command again"
        if {401, 403} & {*statuses}:
            why = (
                "is not there or not for everybody: accept its conditions if it has any, then log "
                "in with `hf auth login` or set HF_TOKEN"
            )
        elif {404, 410} & {*statuses}:
            why = "is not there any more"
        raise AssetMissing(f"{name} could not be downloaded: {page} {why}") from None


def _require_answer(host: str) -> None:
    try:
        request = urllib.request.Request(host, method="HEAD")  # noqa: S310 - of the catalogue
        urllib.request.urlopen(request, timeout=DEADLINE).close()  # noqa: S310
    except (urllib.error.HTTPError, http.client.HTTPException):
        pass  # any answer will do
    except urllib.error.URLError as error:
        raise OSError(str(error.reason)) from None


def download(
    url: str,
    target: Path,
    sha256: str | None = None,
    size: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> str:
    """Bring a file to its place, all of it or nothing, and return its sha256.

    With a known digest and size, a later call goes on where an earlier one stopped; else nothing
    vouches that the rest belongs to the beginning, so that it starts again.
    """
    from huggingface_hub.file_download import http_get

    part = target.with_name(f"{target.name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssetMissing(f"{target.name}: another process is downloading it") from None
        held = file.tell()
        if not sha256 or not size or held > size:
            held = file.truncate(0)
        with errors_in_a_line(target.name, url):
            http_get(
                url,
                file,
                resume_size=held,
                headers=dict(headers or {}),
                expected_size=size,
                displayed_filename=target.name,
            )
        file.flush()
        digest = sha256_of(part)
        if sha256 not in (None, digest):
            part.unlink()
            raise DataError(
                f"{target.name}: {url} has sha256 {digest}, wanted {sha256}; it was thrown away: "
                "fetch it again, and if it is the same, its publisher has changed it"
            )
        part.replace(target)
    return digest
