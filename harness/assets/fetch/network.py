"""Permission to use the network, and whether its hosts answer, asked once for all downloads."""

from __future__ import annotations

import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

DEADLINE = 3.0  # seconds until a silent network counts as none; starting takes one more
SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # those that huggingface_hub obeys
ON = {"1", "true", "yes", "on"}


def switched_off(environment: Mapping[str, str]) -> str | None:
    """The name of the switch by which the environment forbids downloads; None if it does not."""
    return next((name for name in SWITCHES if environment.get(name, "").lower() in ON), None)


def hub_address() -> str:
    """The hub's address, as HF_ENDPOINT names it."""
    from huggingface_hub.constants import ENDPOINT

    return str(ENDPOINT)


def silent(addresses: Iterable[str], deadline: float = DEADLINE) -> dict[str, str]:
    """Of these addresses those whose host does not answer, and why; all are asked at once.

    In threads, since looking up a name has no timeout of its own. huggingface_hub would try six
    times over 24 seconds.
    """
    hosts = {address: _host(address) for address in addresses}
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


def _host(address: str) -> SplitResult:
    parts = urlsplit(address)
    return parts._replace(path="/", query="", fragment="")


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
        # Any answer of the host will do; these are a proxy's, when it does not find the host.
        return reason_of(error) if error.code in (502, 503, 504) else ""
    except OSError as error:
        return reason_of(error)
    return ""


def reason_of(error: BaseException) -> str:
    """The first line of what an error says, or its kind."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, OSError) else error).strip()
    return (text or type(error).__name__).splitlines()[0]
