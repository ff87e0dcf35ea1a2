"""Whether there is a network is asked once, and the answer comes within five seconds."""

import socket
import threading
import time

import pytest
from standin import Fault, standin

from harness.assets.fetch.http import DEADLINE, silent, switched_off


@pytest.fixture
def hub(monkeypatch):
    """The stand-in, reached directly."""
    monkeypatch.setattr("urllib.request.getproxies", dict)
    with standin() as running:
        yield running


def closed():
    """An address of this machine at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/file"


def test_who_answers_is_not_silent(hub):
    assert silent([f"{hub.url}/files/a", f"{hub.url}/files/b"]) == {}


def test_who_does_not_answer_is_named_with_the_reason(hub):
    away = closed()
    found = silent([away, hub.url])
    assert list(found) == [away]
    assert "refused" in found[away]


@pytest.mark.parametrize("call", ["socket.create_connection", "socket.getaddrinfo"])
def test_silence_has_one_deadline_for_all(monkeypatch, call):
    """Looking up a name may hang as well as connecting; several hosts hang at the same time."""
    over = threading.Event()
    monkeypatch.setattr("urllib.request.getproxies", dict)

    def hang(*_, **__):
        over.wait(20)
        raise OSError("at last")

    monkeypatch.setattr(call, hang)
    start = time.perf_counter()
    found = silent([f"https://host-{n}.invalid/file" for n in range(30)], deadline=0.3)
    over.set()
    assert time.perf_counter() - start < 5
    assert set(found.values()) == {"no answer in 0.3 s"}
    assert DEADLINE < 5


def test_each_host_is_asked_once(hub, monkeypatch):
    asked = []
    connect = socket.create_connection

    def count(place, **options):
        asked.append(place)
        return connect(place, **options)

    monkeypatch.setattr("socket.create_connection", count)
    assert silent([f"{hub.url}/files/{n}" for n in range(5)]) == {}
    assert len(asked) == 1


def behind_proxy(monkeypatch, proxy):
    for name in ("no_proxy", "NO_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)


def test_behind_a_proxy_a_request_is_made_through_it(monkeypatch):
    with standin() as proxy:
        behind_proxy(monkeypatch, proxy.url)
        assert silent(["http://host.invalid/file"]) == {}  # a 404 is an answer
        assert [(method, path) for method, path, _ in proxy.asked] == [("HEAD", "/")]
        proxy.fail("HEAD", Fault(status=502))
        (reason,) = silent(["http://host.invalid/file"]).values()
        assert "502" in reason


def test_a_proxy_that_is_not_there_is_no_network(monkeypatch):
    behind_proxy(monkeypatch, closed())
    assert "refused" in silent(["http://host.invalid/file"])["http://host.invalid/file"]


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_the_switches_of_huggingface_hub_are_obeyed(value):
    assert switched_off({"HF_HUB_OFFLINE": value}) == "HF_HUB_OFFLINE"
    assert switched_off({"TRANSFORMERS_OFFLINE": value}) == "TRANSFORMERS_OFFLINE"


@pytest.mark.parametrize("value", ["", "0", "false", "no"])
def test_a_switch_that_is_off_forbids_nothing(value):
    assert switched_off({"HF_HUB_OFFLINE": value}) is None
