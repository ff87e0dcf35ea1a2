"""One file over http arrives whole or not at all; switches of the environment are obeyed."""

import fcntl
import random
import time

import pytest
from fakes import snapshot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from standin import Fault, sha256, standin

from harness.assets.fetch.download import download_url
from harness.assets.fetch.http import offline_switch
from harness.core.errors import AssetMissing, DataError

CONTENT = random.Random(1).randbytes(3_000)
KNOWN = {"sha256": sha256(CONTENT), "size": len(CONTENT)}
sleep = time.sleep


@pytest.fixture(scope="module")
def server():
    with standin() as running:
        yield running


@pytest.fixture
def hub(server, monkeypatch):
    """The stand-in with one file, nothing asked yet and nothing wrong; retries do not wait."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda _: sleep(0))
    server.files, server.ranges = {"f": CONTENT}, True
    server.faults.clear()
    server.asked.clear()
    return server


def fetch(hub, target, **known):
    return download_url(f"{hub.url}/files/f", target, **known)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(1, 2_999), max_size=5), ranges=st.booleans())
def test_a_file_is_whole_however_often_it_is_cut(tmp_path, hub, cuts, ranges):
    (tmp_path / "f").unlink(missing_ok=True)
    hub.ranges = ranges
    hub.faults.clear()
    hub.fail("/files/f", *(Fault(cut_after=cut) for cut in cuts))
    assert fetch(hub, tmp_path / "f") == sha256(CONTENT)
    assert snapshot(tmp_path).keys() == {"f"}
    assert (tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize(("known", "asked"), [(KNOWN, "bytes=1000-"), ({}, None)])
def test_a_later_call_goes_on_where_a_digest_vouches_for_the_beginning(
    hub, tmp_path, known, asked
):
    hub.fail("/files/f", Fault(cut_after=1_000), Fault(status=503))
    with pytest.raises(AssetMissing, match="503"):
        fetch(hub, tmp_path / "f", **known)
    assert not (tmp_path / "f").exists()
    hub.asked.clear()
    assert fetch(hub, tmp_path / "f", **known) == sha256(CONTENT)
    assert [headers.get("Range") for headers in hub.got()] == [asked]
    assert snapshot(tmp_path).keys() == {"f"}


def test_a_range_of_another_place_is_not_taken_for_the_rest(hub, tmp_path):
    """A cache between here and the host may send the wrong range: the whole is asked for."""
    (tmp_path / "f.part").write_bytes(CONTENT[:1_000])
    hub.fail("/files/f", Fault(headers={"Content-Range": "bytes 900-2899/3000"}))
    assert fetch(hub, tmp_path / "f", **KNOWN) == sha256(CONTENT)
    assert [headers.get("Range") for headers in hub.got()] == ["bytes=1000-", None]


def test_a_transfer_that_breaks_off_far_in_goes_on_at_that_byte(hub, tmp_path):
    """Whatever the size of the blocks in which it arrives."""
    hub.files["f"] = content = random.Random(3).randbytes(12_000_000)
    hub.fail("/files/f", Fault(cut_after=9_000_001))
    assert fetch(hub, tmp_path / "f", size=len(content)) == sha256(content)
    assert [headers.get("Range") for headers in hub.got()] == [None, "bytes=9000001-"]


def test_a_beginning_longer_than_the_file_is_thrown_away(hub, tmp_path):
    (tmp_path / "f.part").write_bytes(bytes(4_000))
    assert fetch(hub, tmp_path / "f", **KNOWN) == sha256(CONTENT)


def test_two_processes_do_not_write_the_same_file(hub, tmp_path):
    with (tmp_path / "f.part").open("wb") as other:
        other.write(b"what the other has")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(AssetMissing, match="another process is downloading it"):
            fetch(hub, tmp_path / "f")
    assert (tmp_path / "f.part").read_bytes() == b"what the other has"
    assert fetch(hub, tmp_path / "f") == sha256(CONTENT)


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "hf auth login"),
        (403, "its conditions"),
        (404, "not there any more"),
        (503, "503"),
    ],
)
def test_a_refusal_is_taken_at_its_word(hub, tmp_path, status, hint):
    hub.fail("/files/f", Fault(status=status))
    with pytest.raises(AssetMissing, match=hint) as refused:
        fetch(hub, tmp_path / "f")
    assert f"{hub.url}/files/f" in str(refused.value)
    assert len(hub.got()) == 1
    assert not (tmp_path / "f").exists()


def test_another_digest_is_an_error_that_names_both(hub, tmp_path):
    wanted = sha256(b"")
    with pytest.raises(DataError) as wrong:
        fetch(hub, tmp_path / "f", sha256=wanted)
    assert f"has sha256 {sha256(CONTENT)}, wanted {wanted}" in str(wrong.value)
    assert snapshot(tmp_path) == {}


def test_another_size_is_an_error_that_names_both(hub, tmp_path):
    """Nothing of it is downloaded, this time or the next."""
    for _ in range(2):
        with pytest.raises(DataError, match=r"has 3,000 bytes, wanted 2,000"):
            fetch(hub, tmp_path / "f", size=2_000)
    assert snapshot(tmp_path) == {}


@pytest.mark.parametrize("value", ["1", "true", "YES", "on", "", "0", "no"])
@pytest.mark.parametrize("switch", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_the_switches_of_huggingface_hub_are_obeyed(switch, value):
    off = value not in ("", "0", "no")
    assert offline_switch({switch: value}) == (switch if off else None)
