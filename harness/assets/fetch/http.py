"""The network: whether it may be used, requests over http, and their errors.

The http client of huggingface_hub serves every host: it knows proxies, certificates and
the token of the hub. A host is asked for the file alone, and for nothing about itself.
A host that cannot be reached, that is silent, or that sends a few bytes a second is
given up after seconds. `download` receives files over these requests.
"""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from harness.core.errors import AssetMissing

# The remedy in a message if a host did not answer as it should.
RETRY = "; check the network and run the same command again"
# The variables by which huggingface_hub is told to download nothing.
OFFLINE_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

# Seconds until a host that cannot be reached is given up.
CONNECT_SECONDS = 5.0
# Seconds without an answer, or with fewer bytes than LEAST_RATE, until a host is given up.
STALL_SECONDS = 10.0
LEAST_RATE = 1024  # bytes a second
# Seconds for the list of a repository's files, which takes several requests.
LISTING_SECONDS = 30.0
# Seconds that a host may ask to wait (Retry-After) before another host is asked.
LONGEST_WAIT = 20.0

BUSY_STATUSES = (429, 503)  # a host asks to wait
DENIED_STATUSES = (401, 403)
GONE_STATUSES = (404, 410)
NO_HEAD_STATUSES = (400, 403, 405, 501)  # of hosts that know no HEAD request

# Names of errors of the http library. huggingface_hub has changed the library that it
# uses, so their classes are not imported.
NO_CONNECTION = ("ConnectError", "ConnectTimeout")
LOST_CONNECTION = ("ReadError", "WriteError", "CloseError", "RemoteProtocolError")

Returned = TypeVar("Returned")


def offline_switch(environment: Mapping[str, str]) -> str | None:
    """The name of the variable that forbids downloads, or None where they are allowed."""
    for name in OFFLINE_SWITCHES:
        if environment.get(name, "").lower() in ("1", "true", "yes", "on"):
            return name
    return None


# Errors


class Unreachable(AssetMissing):
    """A host did not answer; sources at other hosts should be asked first.

    Attributes:
        host: The host if no connection to it could be made at all; else None.
    """

    def __init__(self, message: str, host: str | None) -> None:
        super().__init__(message)
        self.host = host


class Stalled(OSError):
    """A connection over which nothing, or next to nothing, arrives."""


class BrokenOff(OSError):
    """A connection that ended before the file did."""


@contextmanager
def one_line_errors(name: str, page: str) -> Iterator[None]:
    """Turn errors of the http client and of huggingface_hub into AssetMissing.

    The message has one line, with `name`, the file that was asked for, and `page`, the
    address that a person would look at. The OSError of a full disk is raised as it is.
    """
    from huggingface_hub.errors import HFValidationError

    try:
        yield
    except (transport_error(), OSError, HFValidationError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise
        status = status_of(error)
        message = (
            f"{name} could not be downloaded: {page} {_explanation(error, status)}"
        )
        if status is not None or isinstance(error, BrokenOff):
            raise AssetMissing(message) from None
        if type(error).__name__ in NO_CONNECTION:
            raise Unreachable(message, _host_of_request(error)) from None
        raise Unreachable(message, host=None) from None


def _explanation(error: BaseException, status: int | None) -> str:
    """Why a download failed and what to do, to follow the address in the message."""
    if status in DENIED_STATUSES:
        return (
            "is not there or not for everybody: accept its conditions if it has any, then log "
            "in with `hf auth login` or set HF_TOKEN"
        )
    if status in GONE_STATUSES:
        return "is not there any more"
    # The text of a refusal is the host's own, so that only its status is repeated.
    reason = reason_of(error) if status is None else f"answered {status}"
    return f"({reason}){RETRY}"


def status_of(error: BaseException) -> int | None:
    """The http status of a refusal; None for an error without a response."""
    for source in (error, error.__cause__):
        response = getattr(source, "response", None)
        if response is not None:
            return int(response.status_code)
    return None


def _host_of_request(error: Any) -> str:
    """The host of the request that an error of the http library belongs to."""
    return host_of(str(error.request.url))


def transport_error() -> Any:
    """The base class of the http library's errors, whichever library it is."""
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__[0]


def reason_of(error: BaseException) -> str:
    """The first line of an error's message, or its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def host_of(url: str) -> str:
    """The host of an address, with its port."""
    return urlsplit(url).netloc


# Requests


def call_with_limit(
    seconds: float,
    call: Callable[[], Returned],
    discard: Callable[[Returned], object] = lambda _: None,
) -> Returned:
    """Return the result of a call that uses the network, or raise Stalled after `seconds`.

    The http client has no limit for resolving a name, nor for the beginning of an
    answer. So the call is made in a thread, which nobody waits for when the time is
    over. `discard` is given a result that comes later.
    """
    outcome: Future[Returned] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            outcome.set_exception(error)

    def discard_late_result(late: Future[Returned]) -> None:
        if late.exception() is None:
            discard(late.result())

    threading.Thread(target=run, daemon=True).start()
    wait([outcome], timeout=seconds)
    if outcome.done():
        return outcome.result()
    outcome.add_done_callback(discard_late_result)
    raise Stalled(f"silent for {seconds:g} s")


def open_response(method: str, url: str, headers: Mapping[str, str]) -> Any:
    """The response of a host, whose body is not read yet. The caller closes it.

    Where the host asks for a short wait (429 or 503 with Retry-After), it is asked
    again afterwards. Raises huggingface_hub's error for a refusal, by its status.
    """
    from huggingface_hub.utils import get_session, hf_raise_for_status  # type: ignore[attr-defined]

    send = partial(_send, get_session(), method, url, headers)
    waited_seconds = 0.0
    while True:
        response = call_with_limit(
            CONNECT_SECONDS + STALL_SECONDS,
            send,
            discard=lambda late_response: late_response.close(),
        )
        wait_seconds = _requested_wait(response)
        if wait_seconds is None or waited_seconds + wait_seconds > LONGEST_WAIT:
            break
        response.close()
        time.sleep(wait_seconds)
        # One more, so that a host that asks for 0 seconds is not asked for ever.
        waited_seconds += wait_seconds + 1
    try:
        hf_raise_for_status(response)
    except BaseException:
        response.close()
        raise
    return response


def _send(session: Any, method: str, url: str, headers: Mapping[str, str]) -> Any:
    """Send a request, and return when the headers of the response have arrived."""
    # In httpx's order: to connect, to read, to write, to get a connection of the pool.
    timeout = (CONNECT_SECONDS, STALL_SECONDS, STALL_SECONDS, CONNECT_SECONDS)
    request = session.build_request(method, url, headers=dict(headers), timeout=timeout)
    return session.send(request, stream=True, follow_redirects=True)


def _requested_wait(response: Any) -> float | None:
    """The seconds that a busy host asks to wait; None if it does not ask."""
    seconds = response.headers.get("Retry-After", "")
    if response.status_code in BUSY_STATUSES and seconds.isdecimal():
        return float(seconds)
    return None


# Files of hosts, without a download


@dataclass(frozen=True)
class FileInfo:
    """The answer of a host about a file: its address after redirects, size in bytes, type."""

    url: str
    size: int | None
    content_type: str


def file_info(url: str, headers: Mapping[str, str] | None = None) -> FileInfo:
    """Ask for a file by HEAD; where a host knows no HEAD, for its first byte.

    Raises AssetMissing for a file that is not there, and for a web page in its place.
    """
    sent_headers = {**(headers or {}), "Accept-Encoding": "identity"}
    with one_line_errors(url.rpartition("/")[2], url):
        try:
            response = open_response("HEAD", url, sent_headers)
        except transport_error() as error:
            if status_of(error) not in NO_HEAD_STATUSES:
                raise
            sent_headers["Range"] = "bytes=0-0"
            response = open_response("GET", url, sent_headers)
        response.close()
    info = FileInfo(
        url=str(response.url),
        size=full_size(response),
        content_type=response.headers.get("Content-Type", ""),
    )
    if info.content_type.startswith(("text/html", "application/xhtml")):
        raise AssetMissing(f"{url}: wanted a file, found a web page")
    return info


def full_size(response: Any) -> int | None:
    """The size of a complete file in bytes, also where the response sends a range of it."""
    content_range = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes \d+-\d+/(\d+)", content_range)
    if match is not None:
        return int(match[1])
    length = response.headers.get("Content-Length", "")
    if response.status_code == 200 and length.isdecimal():
        return int(length)
    return None
