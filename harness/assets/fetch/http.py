"""The network: whether it may be used, and one file over http.

The session of huggingface_hub is the client for every host: it knows proxies,
certificates and the token of the hub. A file's own address is asked and nothing else of
its host. A host that cannot be reached, that is silent, or that sends a few bytes a
second is given up after seconds; a transfer that breaks off goes on at the byte where
it broke.
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
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any, BinaryIO, NoReturn, TypeVar
from urllib.parse import urlsplit

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError

SWITCHES = (
    "HF_HUB_OFFLINE",
    "TRANSFORMERS_OFFLINE",
)  # those that huggingface_hub obeys

CONNECT_SECONDS = 5.0  # seconds until a host that cannot be reached is given up
# Seconds without an answer, or without LEAST_RATE bytes a second, until a stall.
STALL_SECONDS = 10.0
LEAST_RATE = 1024  # bytes a second
LISTING_SECONDS = (
    30.0  # seconds for the list of a repository's files, of several requests
)
# Connections that may break off for one file; one that brings PROGRESS_BYTES does not
# count.
TRIES = 6
PROGRESS_BYTES = 2**20  # bytes
LARGEST_UNPACKED = 2**30  # bytes of a packed transfer whose size is not known
LONGEST_WAIT = (
    20.0  # seconds that a host may ask to wait (Retry-After) before another is asked
)

RECEIVED_BYTES = 2**16
BUSY_STATUSES = (429, 503)  # the statuses that ask to wait
GZIP = b"\x1f\x8b"
# The beginning of a web page, which hosts send in place of a file that is gone.
WEB_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script)\b",
    re.IGNORECASE | re.DOTALL,
)

# By name, since the library that defines them has had several.
NO_CONNECTION = ("ConnectError", "ConnectTimeout")
LOST_CONNECTION = ("ReadError", "WriteError", "CloseError", "RemoteProtocolError")

Returned = TypeVar("Returned")


class Unreachable(AssetMissing):
    """A host that was silent: others are asked first. `dead` names one that cannot be reached."""

    dead: str | None = None


class Stalled(OSError):
    """A connection over which nothing, or next to nothing, arrives."""


class BrokenOff(OSError):
    """A connection that ended before the file did."""


def switched_off(environment: Mapping[str, str]) -> str | None:
    """The name of the switch by which the environment forbids downloads, or None."""
    on = {"1", "true", "yes", "on"}
    return next(
        (name for name in SWITCHES if environment.get(name, "").lower() in on), None
    )


def reason_of(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _transport_error() -> Any:
    """The base of what the session raises, of whatever http library it was built on."""
    from huggingface_hub.errors import HfHubHTTPError

    return HfHubHTTPError.__bases__[0]


@contextmanager
def errors_in_a_line(name: str, page: str) -> Iterator[None]:
    """What the session and huggingface_hub raise, as an AssetMissing of one line.

    `page` is the address that a person would look at.
    """
    from huggingface_hub.errors import HFValidationError

    try:
        yield
    except (_transport_error(), OSError, HFValidationError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise  # a full disk, which says so itself
        causes = [
            getattr(cause, "response", None) for cause in (error, error.__cause__)
        ]
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
        message = f"{name} could not be downloaded: {page} {why}"
        if statuses or isinstance(error, BrokenOff):
            raise AssetMissing(message) from None
        unreachable = Unreachable(message)
        if type(error).__name__ in NO_CONNECTION:
            unreachable.dead = host_of(str(getattr(error, "request").url))  # noqa: B009 - of httpx
        raise unreachable from None


def host_of(url: str) -> str:
    """The host of an address, with its port."""
    return urlsplit(url).netloc


def in_time(
    seconds: float, work: Callable[[], Returned], close: Callable[[Returned], None]
) -> Returned:
    """The result of some work of the network, or Stalled where it takes longer.

    Names are resolved and answers begin without a limit of their own, so the work has a
    thread, which is left behind. `close` gets what it brings too late.
    """
    results: Queue[tuple[Returned | None, BaseException | None]] = Queue()
    given_up = threading.Event()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            results.put((None, error))
            return
        results.put((result, None))
        if given_up.is_set():
            close(result)

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except Empty:
        given_up.set()
        raise Stalled(f"silent for {seconds:g} s") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def answer_to(method: str, url: str, headers: Mapping[str, str]) -> Any:
    """The answer of a host, its body unread and open. Raises for a refusal, by its status.

    An answer that asks for a short wait (429 or 503 with Retry-After) is waited for.
    """
    from huggingface_hub.utils import get_session, hf_raise_for_status  # type: ignore[attr-defined]

    session = get_session()

    def ask() -> Any:
        request = session.build_request(
            method,
            url,
            headers=dict(headers),
            timeout=(CONNECT_SECONDS, STALL_SECONDS, STALL_SECONDS, CONNECT_SECONDS),
        )
        return session.send(request, stream=True, follow_redirects=True)

    waited = 0.0
    while True:
        answer = in_time(
            CONNECT_SECONDS + STALL_SECONDS, ask, lambda late: late.close()
        )
        wait = _seconds_to_wait(answer)
        if wait is None or waited + wait > LONGEST_WAIT:
            break
        answer.close()
        time.sleep(wait)
        waited += wait + 1  # so that an answer of no seconds is not waited for for ever
    try:
        hf_raise_for_status(answer)
    except BaseException:
        answer.close()
        raise
    return answer


def _seconds_to_wait(answer: Any) -> float | None:
    """What a busy host asks to wait, in seconds; None where it does not say."""
    asked = answer.headers.get("Retry-After", "")
    return (
        float(asked)
        if answer.status_code in BUSY_STATUSES and asked.isdecimal()
        else None
    )


@dataclass(frozen=True)
class Seen:
    """What a host says of a file without sending it: the last address, its size, its type."""

    address: str
    size: int | None
    kind: str


def look_at(url: str, headers: Mapping[str, str] | None = None) -> Seen:
    """Ask for a file by HEAD; where a host knows no HEAD, for its first byte.

    Raises AssetMissing for a file that is not there, and for a web page in its place.
    """
    asked = {**(headers or {}), "Accept-Encoding": "identity"}
    with errors_in_a_line(url.rpartition("/")[2], url):
        try:
            answer = answer_to("HEAD", url, asked)
        except _transport_error() as error:
            response = getattr(error, "response", None)
            if response is None or response.status_code not in (400, 403, 405, 501):
                raise
            answer = answer_to("GET", url, {**asked, "Range": "bytes=0-0"})
        answer.close()
    seen = Seen(str(answer.url), _total(answer), answer.headers.get("Content-Type", ""))
    if seen.kind.startswith(("text/html", "application/xhtml")):
        raise AssetMissing(f"{url}: wanted a file, found a web page")
    return seen


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

    With a known digest a later call goes on where an earlier one stopped; else nothing
    vouches that the rest belongs to the beginning, so that it starts again. Without
    `must_match` a file of another digest is kept, for somebody who knows it by its
    rows.

    Raises AssetMissing where the file does not come, and DataError for a web page,
    another size or another digest than the known ones; of these nothing is kept.
    """
    name = target.name
    part = target.with_name(f"{name}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AssetMissing(f"{name}: another process is downloading it") from None
        transfer = Transfer(url, file, size, headers or {})
        try:
            if sha256 is None or (size is not None and transfer.held > size):
                file.truncate(0)
            begun_earlier = transfer.held > 0
            digest = transfer.bring(name)
            if begun_earlier and sha256 != digest:  # the beginning was of another file
                file.truncate(0)
                digest = transfer.bring(name)
            if sha256 != digest:
                _refuse(name, url, part, digest, sha256 if must_match else None)
        except BaseException as error:
            if isinstance(error, DataError) or sha256 is None or transfer.held == 0:
                part.unlink(missing_ok=True)
            raise
        part.replace(target)
    return digest


def _refuse(name: str, url: str, part: Path, digest: str, wanted: str | None) -> None:
    """Raise DataError for a web page, and for another digest than the wanted, if any."""
    if is_page(part):
        raise DataError(
            f"{name}: wanted a file of {url}, found a web page; it was thrown away"
        )
    if wanted is not None:
        raise DataError(
            f"{name}: {url} has sha256 {digest}, wanted {wanted}; it was thrown away: fetch it "
            "again, and if it is the same, its publisher has changed it"
        )


def is_page(path: Path) -> bool:
    """Whether a file begins as a web page does."""
    with path.open("rb") as file:
        return WEB_PAGE.match(file.read(4096)) is not None


@dataclass
class Transfer:
    """One file on its way: an address, and the open file that holds what has arrived."""

    url: str
    file: BinaryIO
    size: int | None
    headers: Mapping[str, str]
    tag: str | None = None  # of the content that the beginning was taken from
    ended_at: int | None = (
        None  # bytes after which a connection ended that named no length
    )

    @property
    def held(self) -> int:
        """The bytes that have arrived."""
        return self.file.seek(0, os.SEEK_END)

    def bring(self, name: str) -> str:
        """Receive what is missing, and return the sha256 of the whole."""
        tries = TRIES
        with errors_in_a_line(name, self.url):
            while self.size is None or self.held != self.size:
                before = self.held
                try:
                    self._receive(name)
                    break
                except (Stalled, BrokenOff) as error:
                    much = self.held >= before + PROGRESS_BYTES
                    tries = TRIES if much else tries - 1
                    if tries == 0 or (isinstance(error, Stalled) and not much):
                        raise
                time.sleep(0.5)
        self.file.flush()
        return sha256_of(Path(self.file.name))

    def _receive(self, name: str) -> None:
        """Receive from one connection. Raises Stalled or BrokenOff before the end."""
        held = self.held
        asked = {**self.headers, "Accept-Encoding": "identity"}
        if held:
            asked["Range"] = f"bytes={held}-"
            if self.tag:
                asked["If-Range"] = self.tag
        try:
            answer = answer_to("GET", self.url, asked)
        except _transport_error() as error:
            if type(error).__name__ in LOST_CONNECTION:
                raise BrokenOff(reason_of(error)) from None
            response = getattr(error, "response", None)
            if not held or response is None or response.status_code != 416:
                raise
            self._begin_again("what had arrived is longer than the file")
        try:
            if held and answer.status_code == 200:
                self.file.truncate(0)  # it sends the whole
            elif answer.status_code != (206 if held else 200) or not _goes_on_at(
                held, answer
            ):
                self._begin_again("another part of the file was sent")
            self._read(name, answer)
        finally:
            answer.close()

    def _begin_again(self, why: str) -> NoReturn:
        """Throw away what is held, so that the next connection brings the whole."""
        self.file.truncate(0)
        raise BrokenOff(why)

    def _read(self, name: str, answer: Any) -> None:
        """Receive the body of an answer, and check that it is whole."""
        packed = (
            answer.headers.get("Content-Encoding", "identity").lower() != "identity"
        )
        total, begun = _total(answer), self.held
        tag = answer.headers.get("ETag", "")
        self.tag = (
            tag if tag.startswith('"') else None
        )  # a weak one vouches for no bytes
        if not packed and self.size is not None and total not in (None, self.size):
            page = (
                " (a web page)"
                if "html" in answer.headers.get("Content-Type", "")
                else ""
            )
            raise self._other_size(name, f"{total:,} bytes{page}")
        try:
            self._write(answer, name, begun, total, None if packed else self.size)
        except (Stalled, BrokenOff):
            if packed:
                self.file.truncate(0)  # a range would be one of packed bytes
            raise
        if total is not None and self.held < total:
            raise BrokenOff(
                f"the connection ended after {self.held:,} of {total:,} bytes"
            )
        if packed:
            self._unpack(name)
        if self.size is not None and self.held != self.size:
            if packed or self.ended_at == self.held:  # it ends there each time
                raise self._other_size(name, f"{self.held:,} bytes")
            self.ended_at = self.held
            raise BrokenOff(f"found {self.held:,} bytes, wanted {self.size:,}")

    def _other_size(self, name: str, found: str) -> DataError:
        wanted = f", wanted {self.size:,}" if self.size else ""
        return DataError(
            f"{name}: {self.url} has {found}{wanted}: its publisher has changed it"
        )

    def _write(
        self, answer: Any, name: str, begun: int, total: int | None, limit: int | None
    ) -> None:
        """Write what arrives, as it arrives. Raises Stalled, BrokenOff, or DataError past limit."""
        from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

        bar: Any = tqdm(  # type: ignore[no-untyped-call]
            total=total,
            initial=begun,
            unit="B",
            unit_scale=True,
            desc=name[-40:],
            disable=None,
        )
        since, received = time.monotonic(), 0
        with bar:
            try:
                for chunk in answer.iter_raw():
                    self.file.write(chunk)
                    bar.update(len(chunk))
                    received += len(chunk)
                    if limit is not None and self.held > limit:
                        raise self._other_size(name, f"more than {limit:,} bytes")
                    if (seconds := time.monotonic() - since) >= STALL_SECONDS:
                        if received < LEAST_RATE * seconds:
                            raise Stalled(f"sent {received:,} bytes in {seconds:.0f} s")
                        since, received = time.monotonic(), 0
            except _transport_error() as error:
                self.file.flush()
                late = "Timeout" in type(error).__name__
                raise (Stalled if late else BrokenOff)(reason_of(error)) from None

    def _unpack(self, name: str) -> None:
        """Undo the encoding of the transfer, gzip, unless the file itself is a .gz.

        Hosts that serve a .gz under this encoding mean the file, not the transfer.
        """
        self.file.seek(0)
        content, reader = self.file.read(), zlib.decompressobj(wbits=31)
        if not content.startswith(GZIP):
            return
        try:
            unpacked = reader.decompress(content, self.size or LARGEST_UNPACKED)
        except zlib.error as error:
            self._begin_again(f"a damaged transfer: {error}")
        if self.url.partition("?")[0].endswith(
            (".gz", ".tgz")
        ) and not unpacked.startswith(GZIP):
            return
        if reader.unconsumed_tail:
            limit = self.size or LARGEST_UNPACKED
            raise self._other_size(name, f"more than {limit:,} bytes, packed")
        if not reader.eof:
            self._begin_again("the packed transfer is not whole")
        self.file.truncate(0)
        self.file.write(unpacked)
        self.file.flush()


def _total(answer: Any) -> int | None:
    """The bytes of the whole file, of which a range may have been answered."""
    sizes = re.fullmatch(
        r"bytes \d+-\d+/(\d+)", answer.headers.get("Content-Range", "")
    )
    if sizes:
        return int(sizes[1])
    length = answer.headers.get("Content-Length", "")
    return int(length) if answer.status_code == 200 and length.isdecimal() else None


def _goes_on_at(held: int, answer: Any) -> bool:
    """Whether an answer is the rest of the file from this byte on."""
    place = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range", ""))
    return held == 0 or (place is not None and int(place[1]) == held)
