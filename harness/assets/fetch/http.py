"""The network: whether it may be used, and the download of one file over http.

The http client of huggingface_hub serves every host: it knows proxies, certificates and
the token of the hub. A host is asked for the file alone, and for nothing about itself.
A host that cannot be reached, that is silent, or that sends a few bytes a second is
given up after seconds. A transfer that breaks off continues at the byte where it broke.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar
from urllib.parse import urlsplit

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError

# What to do where a host did not answer as it should.
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
# Connections for one file that may break off before PROGRESS_BYTES have arrived.
TRIES = 6
PROGRESS_BYTES = 2**20
# Bytes that a packed transfer may unpack to where the size of the file is not known.
UNPACKED_LIMIT = 2**30

BUSY_STATUSES = (429, 503)  # a host asks to wait
DENIED_STATUSES = (401, 403)
GONE_STATUSES = (404, 410)
NO_HEAD_STATUSES = (400, 403, 405, 501)  # of hosts that know no HEAD request

GZIP_START = b"\x1f\x8b"
# The beginning of a web page, which hosts send in place of a file that is gone.
WEB_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script)\b",
    re.IGNORECASE | re.DOTALL,
)

# Errors of the http library, by name: the library that defines them has changed.
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
        host: The host, where no connection to it could be made at all; else None.
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

    The message has one line, with `name`, the file that was wanted, and `page`, the
    address that a person would look at. A full disk stays the OSError that it is.
    """
    from huggingface_hub.errors import HFValidationError

    try:
        yield
    except (_transport_error(), OSError, HFValidationError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise
        status = _status_of(error)
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


def _status_of(error: BaseException) -> int | None:
    """The http status of a refusal; None for an error without a response."""
    for source in (error, error.__cause__):
        response = getattr(source, "response", None)
        if response is not None:
            return int(response.status_code)
    return None


def _host_of_request(error: Any) -> str:
    """The host of the request that an error of the http library belongs to."""
    return host_of(str(error.request.url))


def _transport_error() -> Any:
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
    answer. So the call is made in a thread, which is left to itself when the time is
    over; `discard` is given a result that comes later.
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
            CONNECT_SECONDS + STALL_SECONDS, send, lambda late: late.close()
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


# What a host has, without a download


@dataclass(frozen=True)
class FileInfo:
    """What a host says of a file: its address after redirects, size in bytes and type."""

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
        except _transport_error() as error:
            if _status_of(error) not in NO_HEAD_STATUSES:
                raise
            sent_headers["Range"] = "bytes=0-0"
            response = open_response("GET", url, sent_headers)
        response.close()
    info = FileInfo(
        url=str(response.url),
        size=_whole_size(response),
        content_type=response.headers.get("Content-Type", ""),
    )
    if info.content_type.startswith(("text/html", "application/xhtml")):
        raise AssetMissing(f"{url}: wanted a file, found a web page")
    return info


# Downloads


def download(
    url: str,
    target: Path,
    sha256: str | None = None,
    size: int | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    must_match: bool = True,
) -> str:
    """Bring a file to its place, all of it or nothing, and return its sha256.

    What has arrived is kept in `target` with the suffix `.part` until it is complete.
    With a known digest a later call continues an earlier one that was interrupted.
    Without, nothing shows that the rest belongs to that beginning, so the download
    starts again.

    Args:
        url: Where the file is.
        target: Where it goes.
        sha256: Its digest, if it is known.
        size: Its size in bytes, if it is known.
        headers: Of the request, in addition to the client's own.
        must_match: Whether a file of another digest is an error. False for a file that
            the caller checks by its rows.

    Raises:
        AssetMissing: The file cannot be had from this address.
        DataError: It is a web page, or has another size or digest; it is removed.
    """
    name = target.name
    part = target.with_name(f"{name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssetMissing(f"{name}: another process is downloading it") from None
        transfer = Transfer(
            name=name, url=url, file=file, size=size, headers=headers or {}
        )
        try:
            digest = _complete(transfer, sha256)
            if digest != sha256:
                if is_web_page(part):
                    raise DataError(
                        f"{name}: wanted a file of {url}, found a web page; it was thrown away"
                    )
                if must_match and sha256 is not None:
                    raise DataError(
                        f"{name}: {url} has sha256 {digest}, wanted {sha256}; it was thrown "
                        "away: fetch it again, and if it is the same, its publisher has "
                        "changed it"
                    )
        except BaseException as error:
            can_continue = sha256 is not None and transfer.received_size > 0
            if isinstance(error, DataError) or not can_continue:
                part.unlink(missing_ok=True)
            raise
        part.replace(target)
    return digest


def _complete(transfer: Transfer, sha256: str | None) -> str:
    """Receive what an earlier call has not received, and return the digest of the file."""
    is_too_long = transfer.size is not None and transfer.received_size > transfer.size
    if sha256 is None or is_too_long:
        transfer.clear()
    continues_earlier_call = transfer.received_size > 0
    digest = transfer.receive()
    if continues_earlier_call and digest != sha256:  # the beginning was of another file
        transfer.clear()
        digest = transfer.receive()
    return digest


def is_web_page(path: Path) -> bool:
    """Whether a file begins as a web page does."""
    with path.open("rb") as file:
        return WEB_PAGE.match(file.read(4096)) is not None


@dataclass
class Transfer:
    """The transfer of one file over as many connections as it takes.

    Attributes:
        name: The name of the file, for messages.
        url: Its address.
        file: An open file that holds what has arrived; its length is the state.
        size: The size of the whole in bytes, if it is known.
        headers: Of each request.
        etag: What the host calls the version that the beginning was taken from.
        short_size: The bytes at which a connection ended, without an error, before
            `size`: where a second one ends there too, the file is another.
    """

    name: str
    url: str
    file: BinaryIO
    size: int | None
    headers: Mapping[str, str]
    etag: str | None = None
    short_size: int | None = None

    @property
    def received_size(self) -> int:
        """The bytes that have arrived."""
        return self.file.seek(0, os.SEEK_END)

    def clear(self) -> None:
        """Throw away what has arrived."""
        self.file.truncate(0)

    def receive(self) -> str:
        """Receive what is missing, and return the sha256 of the whole."""
        remaining_tries = TRIES
        with one_line_errors(self.name, self.url):
            while self.size is None or self.received_size != self.size:
                size_before = self.received_size
                try:
                    self._receive_over_one_connection()
                    break
                except (Stalled, BrokenOff) as error:
                    if self.received_size >= size_before + PROGRESS_BYTES:
                        remaining_tries = TRIES
                    else:
                        remaining_tries -= 1
                        if remaining_tries == 0 or isinstance(error, Stalled):
                            raise
                time.sleep(0.5)
        self.file.flush()
        return sha256_of(Path(self.file.name))

    def _receive_over_one_connection(self) -> None:
        """Ask for the rest of the file. Raises Stalled or BrokenOff before its end."""
        response = self._open_rest()
        try:
            if self.received_size > 0 and response.status_code == 200:
                self.clear()  # the host sends the whole file, not the rest
            elif not self._continues(response):
                self._start_again("another part of the file was sent")
            self._read_body(response)
        finally:
            response.close()

    def _open_rest(self) -> Any:
        """The response to a request for what has not arrived yet."""
        start = self.received_size
        sent_headers = {**self.headers, "Accept-Encoding": "identity"}
        if start > 0:
            sent_headers["Range"] = f"bytes={start}-"
            if self.etag is not None:
                sent_headers["If-Range"] = self.etag
        try:
            return open_response("GET", self.url, sent_headers)
        except _transport_error() as error:
            if type(error).__name__ in LOST_CONNECTION:
                raise BrokenOff(reason_of(error)) from None
            if start > 0 and _status_of(error) == 416:  # range not satisfiable
                self._start_again("what had arrived is longer than the file")
            raise

    def _continues(self, response: Any) -> bool:
        """Whether a response sends the file from the byte on that is missing first."""
        start = self.received_size
        if start == 0:
            return bool(response.status_code == 200)
        return response.status_code == 206 and _range_start(response) == start

    def _start_again(self, reason: str) -> NoReturn:
        """Throw away what has arrived, so that the next connection brings the whole."""
        self.clear()
        raise BrokenOff(reason)

    def _read_body(self, response: Any) -> None:
        """Receive the body of a response, and check that the file is complete."""
        encoding = response.headers.get("Content-Encoding", "identity")
        is_packed = encoding.lower() != "identity"
        sent_size = _whole_size(response)
        etag = response.headers.get("ETag", "")
        # A weak one, W/"...", does not promise the same bytes.
        self.etag = etag if etag.startswith('"') else None
        if not is_packed and sent_size is not None:
            self._require_sent_size(sent_size, response)
        try:
            self._write_body(
                response, sent_size, limit=None if is_packed else self.size
            )
        except (Stalled, BrokenOff):
            if is_packed:
                self.clear()  # the rest of packed bytes cannot be asked for
            raise
        if sent_size is not None and self.received_size < sent_size:
            raise BrokenOff(
                f"the connection ended after {self.received_size:,} of {sent_size:,} bytes"
            )
        if is_packed:
            self._unpack()
        self._require_received_size(is_packed)

    def _require_sent_size(self, sent_size: int, response: Any) -> None:
        """Raise DataError where a host announces another size than the known one."""
        if self.size is None or sent_size == self.size:
            return
        is_web_page = "html" in response.headers.get("Content-Type", "")
        remark = " (a web page)" if is_web_page else ""
        raise self._size_error(f"{sent_size:,} bytes{remark}")

    def _require_received_size(self, is_packed: bool) -> None:
        """Raise where another size has arrived: BrokenOff at first, DataError the second time."""
        size = self.received_size
        if self.size is None or size == self.size:
            return
        if is_packed or self.short_size == size:
            raise self._size_error(f"{size:,} bytes")
        self.short_size = size
        raise BrokenOff(f"found {size:,} bytes, wanted {self.size:,}")

    def _size_error(self, found: str) -> DataError:
        wanted = f", wanted {self.size:,}" if self.size else ""
        return DataError(
            f"{self.name}: {self.url} has {found}{wanted}: its publisher has changed it"
        )

    def _write_body(
        self, response: Any, sent_size: int | None, limit: int | None
    ) -> None:
        """Write the body as it arrives, with a progress bar.

        Raises Stalled, BrokenOff, and DataError for more than `limit` bytes in all.
        """
        from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

        bar: Any = tqdm(  # type: ignore[no-untyped-call]
            total=sent_size,
            initial=self.received_size,
            unit="B",
            unit_scale=True,
            desc=self.name[-40:],
            disable=None,
        )
        # The rate is measured anew every STALL_SECONDS, from `rate_start` on.
        rate_start, rate_bytes = time.monotonic(), 0
        with bar:
            try:
                for chunk in response.iter_raw():
                    self.file.write(chunk)
                    bar.update(len(chunk))
                    rate_bytes += len(chunk)
                    if limit is not None and self.received_size > limit:
                        raise self._size_error(f"more than {limit:,} bytes")
                    seconds = time.monotonic() - rate_start
                    if seconds < STALL_SECONDS:
                        continue
                    if rate_bytes < LEAST_RATE * seconds:
                        raise Stalled(f"sent {rate_bytes:,} bytes in {seconds:.0f} s")
                    rate_start, rate_bytes = time.monotonic(), 0
            except _transport_error() as error:
                self.file.flush()
                is_timeout = "Timeout" in type(error).__name__
                failure = Stalled if is_timeout else BrokenOff
                raise failure(reason_of(error)) from None

    def _unpack(self) -> None:
        """Replace a transfer that is packed by gzip by the file that was packed.

        Some hosts send a .gz file and declare its packing to be that of the transfer.
        Such a file stays as it is.
        """
        self.file.seek(0)
        packed = self.file.read()
        if not packed.startswith(GZIP_START):
            return
        limit = self.size or UNPACKED_LIMIT
        reader = zlib.decompressobj(wbits=31)
        try:
            content = reader.decompress(packed, limit)
        except zlib.error as error:
            self._start_again(f"a damaged transfer: {error}")
        is_gzip_file = self.url.partition("?")[0].endswith((".gz", ".tgz"))
        if is_gzip_file and not content.startswith(GZIP_START):
            return
        if reader.unconsumed_tail:
            raise self._size_error(f"more than {limit:,} bytes, packed")
        if not reader.eof:
            self._start_again("the packed transfer is not whole")
        self.clear()
        self.file.write(content)
        self.file.flush()


def _whole_size(response: Any) -> int | None:
    """The bytes of the whole file, also where the response sends a range of it."""
    content_range = response.headers.get("Content-Range", "")
    match = re.fullmatch(r"bytes \d+-\d+/(\d+)", content_range)
    if match is not None:
        return int(match[1])
    length = response.headers.get("Content-Length", "")
    if response.status_code == 200 and length.isdecimal():
        return int(length)
    return None


def _range_start(response: Any) -> int | None:
    """The byte that the range of a response begins at; None if it names no range."""
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return None if match is None else int(match[1])
