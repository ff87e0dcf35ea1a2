"""The network: whether it may be used and hosts answer, and downloads that resume after a cut."""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from harness.core.errors import AssetMissing, DataError
from harness.core.types import Progress

DEADLINE = 3.0  # seconds until a silent network counts as none; starting takes one more
SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # those that huggingface_hub obeys
ON = {"1", "true", "yes", "on"}


def switched_off(environment: Mapping[str, str]) -> str | None:
    """The name of the switch by which the environment forbids downloads, or None."""
    return next((name for name in SWITCHES if environment.get(name, "").lower() in ON), None)


def hub_address() -> str:
    """The hub's address, as HF_ENDPOINT names it."""
    from huggingface_hub.constants import ENDPOINT

    return str(ENDPOINT)


def silent(addresses: Iterable[str], deadline: float = DEADLINE) -> dict[str, str]:
    """The addresses whose host does not answer, and why; all are asked at once.

    In threads, since looking up a name has no timeout of its own. huggingface_hub would try six
    times over 24 seconds.
    """
    hosts = {a: urlsplit(a)._replace(path="/", query="", fragment="") for a in addresses}
    answers: dict[SplitResult, str] = {}

    def ask(host: SplitResult) -> None:
        answers[host] = _reach(host, deadline)

    threads = [
        threading.Thread(target=ask, args=(host,), daemon=True) for host in set(hosts.values())
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + deadline
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    late = f"no answer in {deadline:g} s"
    reasons = {address: answers.get(host, late) for address, host in hosts.items()}
    return {address: reason for address, reason in reasons.items() if reason}


def _reach(host: SplitResult, deadline: float) -> str:
    """Why the host cannot be reached; empty if it can. Behind a proxy only a request can tell."""
    name = host.hostname or ""
    try:
        if host.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(name):
            ask = urllib.request.Request(host.geturl(), method="HEAD")  # noqa: S310 - catalogue
            with urllib.request.urlopen(ask, timeout=deadline):  # noqa: S310 - the same
                return ""
        port = host.port or (80 if host.scheme == "http" else 443)
        socket.create_connection((name, port), timeout=deadline).close()
    except urllib.error.HTTPError as error:
        error.close()
        # Any answer of the host will do; these are a proxy's that does not find the host.
        return reason_of(error) if error.code in (502, 503, 504) else ""
    except OSError as error:
        return reason_of(error)
    return ""


def reason_of(error: BaseException) -> str:
    """The first line of an error's message, or its type."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, OSError) else error).strip()
    return (text or type(error).__name__).splitlines()[0]


TRIES, PAUSE = 4, 0.5  # attempts that bring nothing; seconds before the second, then doubled
STALLED = 30.0  # seconds without a byte
CHUNK = 2**18
AGAIN = "run the same command again: it goes on from there"

Sleep = Callable[[float], None]


@dataclass(frozen=True)
class Remote:
    """A file elsewhere, whose address never stands for another content.

    `sha256` and `size` (bytes) are checked where known; `page` is where a person may be let in.
    Redirects are followed anew at each attempt, as signed addresses expire; no other host gets the
    `Authorization` among the headers.
    """

    name: str
    url: str
    sha256: str | None = None
    size: int | None = None
    page: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def download(remote: Remote, target: Path, progress: Progress, sleep: Sleep = time.sleep) -> str:
    """Bring a file to `target` and return its sha256.

    Raises AssetMissing if the server refuses, stays unable, or stops early; DataError for a file
    with another digest than the pinned one, which is thrown away.
    """
    part = _Part(target.with_name(f"{target.name}.part"), remote)
    target.parent.mkdir(parents=True, exist_ok=True)
    failures, before = 0, part.size
    while True:
        try:
            start, digest = part.go_on(progress)
            if remote.sha256 in (None, digest):
                part.path.replace(target)
                part.discard()
                return digest
            part.discard()
            if not start:
                raise DataError(
                    f"{remote.name}: {remote.url} has sha256 {digest}, wanted {remote.sha256};"
                    " it was thrown away: its publisher has changed it, or somebody on the way"
                )
        except BlockingIOError:
            raise AssetMissing(f"{remote.name}: another process is downloading it") from None
        except (OSError, http.client.HTTPException) as error:
            failures = 0 if part.size > before else failures + 1
            before, status = part.size, getattr(error, "code", None)
            if isinstance(status, int) and refuses(status):
                raise refusal(remote.name, status, remote.page or remote.url) from None
            if failures >= TRIES:
                here = f", {part.size:,} bytes are here; {AGAIN}" if part.size else ""
                raise AssetMissing(
                    f"{remote.name} could not be downloaded after {TRIES} attempts "
                    f"({reason_of(error)}){here}"
                ) from None
            sleep(PAUSE * 2 ** max(0, failures - 1))


def refuses(status: int) -> bool:
    """Whether an http status is final; the others may pass, or come of a beginning to discard."""
    return status < 500 and status not in (408, 416, 429)


def refusal(name: str, status: int, where: str) -> AssetMissing:
    """The error that a refusing http status means, with what to do."""
    if status in (401, 403):
        why = (
            "is not there or not for everybody: accept its conditions if it has any, then log in "
            "with `hf auth login` or set HF_TOKEN"
        )
    elif status in (404, 410):
        why = "is not there any more"
    else:
        why = f"answered {status}"
    return AssetMissing(f"{name} could not be downloaded: {where} {why}")


@dataclass
class _Part:
    """The beginning of a file, and beside it the address and the validator that it came with."""

    path: Path
    remote: Remote

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.exists() else 0

    @property
    def _note(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def go_on(self, progress: Progress) -> tuple[int, str]:
        """Ask for what is lacking: where it went on, and the digest of the whole.

        Raises OSError if it ends early.
        """
        start, validator = self._start()
        headers = {"Accept-Encoding": "identity", **self.remote.headers}
        if start:
            headers["Range"] = f"bytes={start}-"
            if validator:
                headers["If-Range"] = validator
        request = urllib.request.Request(self.remote.url, headers=headers)  # noqa: S310 - catalogue
        try:
            answer = urllib.request.build_opener(_Redirects).open(request, timeout=STALLED)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416:  # the file there ends before our beginning does
                self.discard()
            raise
        with answer:
            if answer.status != http.client.PARTIAL_CONTENT:  # the whole file
                start = 0
            sent = answer.headers.get("Content-Range", "")
            if start and not sent.startswith(f"bytes {start}-"):
                raise OSError(f"asked for bytes from {start} on, was sent {sent or 'others'}")
            return start, self._receive(answer, start, progress)

    def _start(self) -> tuple[int, str | None]:
        """The bytes here of the server's file, and the validator that it sent with them."""
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            same_url, validator = note["url"] == self.remote.url, note["validator"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0, None
        return (
            (self.size, validator) if same_url and (validator or self.remote.sha256) else (0, None)
        )

    def _receive(self, answer: Any, start: int, progress: Progress) -> str:
        length, wanted = answer.headers.get("Content-Length"), self.remote.size
        total = start + int(length) if length else wanted
        if wanted not in (None, total):
            raise DataError(
                f"{self.remote.name}: {self.remote.url} holds {total:,} bytes, wanted "
                f"{wanted:,}: its publisher has changed it, or somebody on the way"
            )
        progress.phase(f"{self.remote.name}: downloading", total)
        with os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: another has it
            if os.fstat(file.fileno()).st_size < start:
                raise OSError("another process took the beginning away")
            tag = answer.headers.get("ETag") or ""  # a weak one does not prove an unchanged file
            validator = tag if tag.startswith('"') else answer.headers.get("Last-Modified")
            note = {"url": self.remote.url, "validator": validator}
            self._note.write_text(json.dumps(note), encoding="utf-8")
            file.truncate(start)
            sha = hashlib.file_digest(file, "sha256")  # which leaves the file at its end
            progress.step(start)
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                sha.update(chunk)
                progress.step(len(chunk))
            file.flush()
            os.fsync(file.fileno())
        if total is not None and self.size != total:
            raise OSError(f"the body ended after {self.size:,} of {total:,} bytes")
        return sha.hexdigest()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, and tells no other host who we are."""

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str
    ) -> Any:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        if new is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            new.remove_header("Authorization")
        return new
