"""A server in the place of the hub and of publishers' hosts, on loopback, with faults to order.

It speaks as much of the hub's protocol as downloads use: resolve with redirects to a
store, the listing of a repository, and its errors. Large files (over `LARGE`
bytes) are stored as the hub stores them, apart from the repository and named by their
sha256.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

LARGE = 1000
sleep = time.sleep  # tests replace the other
PAGE = b"<!DOCTYPE html>\n<html><head><title>Moved</title></head><body>Not here.</body></html>\n"
API = re.compile(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?")
RESOLVE = re.compile(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_sha1(content: bytes) -> str:
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Fault:
    """A fault of a server, which each of its answers for a path has.

    It answers with an error status, ends the body early, sends another body of the same
    size or a web page in place of the file, waits, states no length or too large a one,
    or redirects to another address.
    """

    status: int | None = None
    cut_after: int | None = None
    other: bool = False
    page: bool = False
    silent: float = 0.0  # seconds before an answer
    unmeasured: bool = False
    more: int = 0  # bytes that the stated length has and the body has not
    location: str = ""


@dataclass
class Repository:
    """A repository's commits, oldest first, each with its files; the last one is `main`."""

    commits: dict[str, dict[str, bytes]]
    gated: bool = False

    @property
    def main(self) -> str:
        return list(self.commits)[-1]


@dataclass
class HubServer:
    """What there is, what will go wrong, and what was asked for: (method, path, headers)."""

    url: str = ""
    repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)

    def model(self, name: str, files: Mapping[str, bytes], commit: str) -> None:
        """Add a commit of a model, its newest."""
        known = self.repositories.setdefault(("models", name), Repository({}))
        known.commits[commit] = dict(files)

    def dataset(
        self, name: str, files: Mapping[str, bytes], commit: str = "b" * 40
    ) -> None:
        """A data set with one commit."""
        self.repositories["datasets", name] = Repository({commit: dict(files)})

    def fail(self, path: str, fault: Fault) -> None:
        """Answer so for paths that hold this text."""
        self.faults[path] = fault

    def got(self, part: str) -> list[dict[str, str]]:
        """The headers of what was asked for under paths that hold this text."""
        return [h for how, path, h in self.asked if how == "GET" and part in path]

    def fault(self, path: str) -> Fault:
        return next((f for part, f in self.faults.items() if part in path), Fault())

    def content(self, path: str) -> bytes | None:
        """A publisher's file, or a large file in the store of the hub."""
        contents = {f"/files/{name}": file for name, file in self.files.items()}
        for repository in self.repositories.values():
            for files in repository.commits.values():
                contents |= {f"/store/{sha256(file)}": file for file in files.values()}
        return contents.get(path)


Answer = tuple[int, bytes, dict[str, str]]  # status, content, headers


class Refusal(Exception):
    """A status instead of an answer, and what the hub calls it."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: HubServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append((self.command, path, dict(self.headers)))
        fault = self.hub.fault(f"{self.command} {path}")
        sleep(fault.silent)
        try:
            answer = self.answer(path, fault)
        except Refusal as refusal:
            status, code = refusal.args
            answer = status, b"", {"X-Error-Code": code}
        with suppress(BrokenPipeError, ConnectionResetError):  # nobody waited for it
            self.send(answer, fault)

    def do_HEAD(self) -> None:
        self.do_GET()

    def answer(self, path: str, fault: Fault) -> Answer:
        if fault.status:
            raise Refusal(fault.status, "")
        if fault.location:
            return 302, b"", {"Location": fault.location}
        if fault.page:
            return 200, PAGE, {"Content-Type": "text/html; charset=utf-8"}
        content = self.hub.content(path)
        if content is not None:
            return 200, content, {"ETag": f'"{sha256(content)}"'}
        if match := API.fullmatch(path):
            return self.listing(*match.groups())
        if match := RESOLVE.fullmatch(path):
            return self.resolve(*match.groups())
        raise Refusal(404, "")

    def commit(self, kind: str, name: str, revision: str | None) -> tuple[str, Mapping]:
        """A commit and its files, or the hub's refusal."""
        repository = self.hub.repositories.get((kind, name))
        if repository is None:
            raise Refusal(401, "RepoNotFound")
        if repository.gated and self.headers.get("Authorization") != "Bearer hf_me":
            raise Refusal(401, "GatedRepo")
        commit = repository.main if revision in (None, "main") else revision
        if commit not in repository.commits:
            raise Refusal(404, "RevisionNotFound")
        return commit, repository.commits[commit]

    def listing(self, name: str, what: str | None, revision: str | None) -> Answer:
        commit, files = self.commit("models", name, revision)
        siblings = [{"rfilename": path} for path in files]
        listing: Any = {"id": name, "sha": commit, "siblings": siblings}
        if what == "tree":
            listing = []
            for path, content in files.items():
                entry = {"type": "file", "path": path, "size": len(content)}
                entry["oid"] = git_sha1(content)
                if len(content) > LARGE:
                    pointer = {"oid": sha256(content), "size": len(content)}
                    entry["lfs"] = {**pointer, "pointerSize": 130}
                listing.append(entry)
        headers = {"Content-Type": "application/json"}
        return 200, json.dumps(listing).encode(), headers

    def resolve(self, kind: str | None, name: str, revision: str, path: str) -> Answer:
        commit, files = self.commit("datasets" if kind else "models", name, revision)
        if path not in files:
            raise Refusal(404, "EntryNotFound")
        content, headers = files[path], {"X-Repo-Commit": commit}
        if len(content) <= LARGE:
            return 200, content, {**headers, "ETag": f'"{git_sha1(content)}"'}
        digest = sha256(content)
        store = self.hub.url.replace("127.0.0.1", "localhost")
        headers["X-Linked-Etag"] = f'"{digest}"'
        headers["X-Linked-Size"] = str(len(content))
        return 302, b"", {**headers, "Location": f"{store}/store/{digest}"}

    def send(self, answer: Answer, fault: Fault) -> None:
        status, content, headers = answer
        if fault.other:
            content = bytes(byte ^ 1 for byte in content)
        length = len(content) + fault.more
        if fault.unmeasured:
            headers["Connection"] = "close"
        else:
            headers["Content-Length"] = str(length)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: fault.cut_after])
        if fault.unmeasured or fault.more or fault.cut_after is not None:
            self.close_connection = True


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """One that runs until the block ends."""
    hub = HubServer()
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub})
    )
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}
    )
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def use_hub_server(hub: HubServer, monkeypatch: Any, folder: Path) -> None:
    """Have huggingface_hub, in this process, talk to the server and keep all under a folder."""
    for name in (
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    home = folder / "huggingface"
    for name, value in {
        "ENDPOINT": hub.url,
        "HUGGINGFACE_CO_URL_TEMPLATE": template,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_TELEMETRY": True,
    }.items():
        monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
