"""The download of one file over http: all of it arrives, or nothing does.

A transfer that breaks off continues at the byte where it broke, in the same call or in
a later one (`Transfer`). A file of another size or digest, or a web page in its place,
is refused and removed.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from harness.assets.fetch import http
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError

# Connections for one file that may break off before PROGRESS_BYTES have arrived.
TRIES = 6
PROGRESS_BYTES = 2**20
# Bytes that a packed transfer may unpack to where the size of the file is not known.
UNPACKED_LIMIT = 2**30

GZIP_START = b"\x1f\x8b"
# The beginning of a web page, which hosts send in place of a file that is gone.
WEB_PAGE = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*"
    rb"<(?:!doctype\s+html|html|head|body|title|meta|script)\b",
    re.IGNORECASE | re.DOTALL,
)


def download_url(
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
            digest = _receive_all(transfer, sha256)
            is_known_file = digest == sha256
            if not is_known_file and is_web_page(part):
                raise DataError(
                    f"{name}: wanted a file of {url}, found a web page; it was thrown away"
                )
            if not is_known_file and sha256 is not None and must_match:
                raise DataError(
                    f"{name}: {url} has sha256 {digest}, wanted {sha256}; it was thrown "
                    "away: fetch it again, and if it is the same, its publisher has "
                    "changed it"
                )
        except BaseException as error:
            # Without a digest, nothing shows in a later call that the beginning is of the
            # same file.
            can_continue = sha256 is not None and transfer.received_size > 0
            if isinstance(error, DataError) or not can_continue:
                part.unlink(missing_ok=True)
            raise
        part.replace(target)
    return digest


def _receive_all(transfer: Transfer, sha256: str | None) -> str:
    """Receive what an earlier call has not received, and return the digest of the file.

    `sha256` is the digest that the file should have, if it is known.
    """
    is_too_long = transfer.size is not None and transfer.received_size > transfer.size
    if sha256 is None or is_too_long:
        transfer.clear()
    continues_earlier_call = transfer.received_size > 0
    digest = transfer.receive_rest()
    if continues_earlier_call and digest != sha256:
        # What the earlier call received was of another file.
        transfer.clear()
        digest = transfer.receive_rest()
    return digest


def is_web_page(path: Path) -> bool:
    """Whether a file begins as a web page does."""
    with path.open("rb") as file:
        return WEB_PAGE.match(file.read(4096)) is not None


@dataclass
class Transfer:
    """The transfer of one file over as many connections as it takes.

    Each connection goes on at the end of what has arrived.

    Attributes:
        name: The name of the file, for messages.
        url: Its address.
        file: An open file that holds the bytes that have arrived.
        size: The size of the complete file in bytes, if it is known.
        headers: The headers of each request, in addition to the client's own.
        etag: The host's name for the version of the file that has arrived in part; None
            if it gave none. Another version is sent from its first byte.
        short_size: The size at which a transfer ended without an error and before
            `size`. If the next one ends there too, the host has another file.
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

    def receive_rest(self) -> str:
        """Receive what has not arrived yet, and return the sha256 of the complete file.

        A connection that breaks off is followed by another, TRIES in all if little
        arrives. One over which nothing arrives is the last.
        """
        remaining_tries = TRIES
        with http.one_line_errors(self.name, self.url):
            while self.size is None or self.received_size != self.size:
                size_before = self.received_size
                try:
                    self._receive_over_one_connection()
                    break
                except (http.Stalled, http.BrokenOff) as error:
                    made_progress = self.received_size >= size_before + PROGRESS_BYTES
                    if made_progress:
                        remaining_tries = TRIES
                    else:
                        remaining_tries -= 1
                        if remaining_tries == 0 or isinstance(error, http.Stalled):
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
            return http.open_response("GET", self.url, sent_headers)
        except http.transport_error() as error:
            if type(error).__name__ in http.LOST_CONNECTION:
                raise http.BrokenOff(http.reason_of(error)) from None
            if start > 0 and http.status_of(error) == 416:  # range not satisfiable
                self._start_again("what had arrived is longer than the file")
            raise

    def _continues(self, response: Any) -> bool:
        """Whether a response sends the file from the first missing byte on."""
        start = self.received_size
        if start == 0:
            return bool(response.status_code == 200)
        return response.status_code == 206 and _range_start(response) == start

    def _start_again(self, reason: str) -> NoReturn:
        """Throw away what has arrived, so that the next connection brings the complete file."""
        self.clear()
        raise http.BrokenOff(reason)

    def _read_body(self, response: Any) -> None:
        """Receive the body of a response, and check that the file is complete.

        A host may pack the bytes that it sends, though it was asked not to. Then its
        sizes are of the packed bytes, and the size of the file is known at the end.
        """
        encoding = response.headers.get("Content-Encoding", "identity")
        is_packed = encoding.lower() != "identity"
        sent_size = http.full_size(response)
        self.etag = _strong_etag(response)
        if not is_packed and sent_size is not None:
            self._require_sent_size(sent_size, response)
        limit = None if is_packed else self.size
        try:
            self._write_body(response, sent_size, limit)
        except (http.Stalled, http.BrokenOff):
            if is_packed:
                self.clear()  # the rest of packed bytes cannot be asked for
            raise
        if sent_size is not None and self.received_size < sent_size:
            raise http.BrokenOff(
                f"the connection ended after {self.received_size:,} of {sent_size:,} bytes"
            )
        if is_packed:
            self._unpack()
        self._require_received_size(is_packed)

    def _require_sent_size(self, sent_size: int, response: Any) -> None:
        """Raise DataError where a host announces another size than the known one."""
        if self.size is None or sent_size == self.size:
            return
        is_page = "html" in response.headers.get("Content-Type", "")
        remark = " (a web page)" if is_page else ""
        raise self._size_error(f"{sent_size:,} bytes{remark}")

    def _require_received_size(self, is_packed: bool) -> None:
        """Raise where another size has arrived: BrokenOff at first, DataError the second time."""
        size = self.received_size
        if self.size is None or size == self.size:
            return
        if is_packed or self.short_size == size:
            raise self._size_error(f"{size:,} bytes")
        self.short_size = size
        raise http.BrokenOff(f"found {size:,} bytes, wanted {self.size:,}")

    def _size_error(self, found_size: str) -> DataError:
        """The error for a file of another size, which `found_size` states in words."""
        wanted_size = f", wanted {self.size:,}" if self.size else ""
        return DataError(
            f"{self.name}: {self.url} has {found_size}{wanted_size}: "
            "its publisher has changed it"
        )

    def _write_body(
        self, response: Any, sent_size: int | None, limit: int | None
    ) -> None:
        """Write the body as it arrives, with a progress bar.

        Args:
            response: The response.
            sent_size: The size of the complete file that the host announces, in bytes.
            limit: The bytes that the complete file may have; None for no limit.

        Raises:
            Stalled: Nothing, or next to nothing, arrives.
            BrokenOff: The connection ended.
            DataError: More than `limit` bytes arrived.
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
        # A host that sends a few bytes a second is silent, too. So bytes are counted
        # anew every STALL_SECONDS, from `rate_start` on.
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
                    if seconds < http.STALL_SECONDS:
                        continue
                    if rate_bytes < http.LEAST_RATE * seconds:
                        raise http.Stalled(
                            f"sent {rate_bytes:,} bytes in {seconds:.0f} s"
                        )
                    rate_start, rate_bytes = time.monotonic(), 0
            except http.transport_error() as error:
                self.file.flush()
                is_timeout = "Timeout" in type(error).__name__
                failure = http.Stalled if is_timeout else http.BrokenOff
                raise failure(http.reason_of(error)) from None

    def _unpack(self) -> None:
        """Replace bytes that the host packed by gzip by the file that it packed.

        Some hosts send a .gz file, and declare that they packed it for the transfer.
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
            return  # it was packed once, by its publisher
        if reader.unconsumed_tail:
            raise self._size_error(f"more than {limit:,} bytes, packed")
        if not reader.eof:
            self._start_again("the packed transfer is not complete")
        self.clear()
        self.file.write(content)
        self.file.flush()


def _strong_etag(response: Any) -> str | None:
    """The host's name for a version of a file; None for a weak one, W/"...".

    A weak one does not promise the same bytes.
    """
    etag: str = response.headers.get("ETag", "")
    return etag if etag.startswith('"') else None


def _range_start(response: Any) -> int | None:
    """The byte that the range of a response begins at; None if it names no range."""
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return None if match is None else int(match[1])
