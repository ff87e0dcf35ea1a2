"""One file over http: whatever happens on the way, it arrives whole or not at all."""

import fcntl
import random

import pytest
from fakes import Told, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from standin import Fault, sha256, standin

from harness.assets.fetch.http import PAUSE, TRIES, Remote, download
from harness.core.errors import AssetMissing, DataError

CONTENT = random.Random(1).randbytes(3_000)


@pytest.fixture(scope="module")
def server():
    with standin() as running:
        yield running


@pytest.fixture
def hub(server, monkeypatch):
    """The stand-in with one file, nothing asked yet and nothing wrong."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    server.files = {"f": CONTENT}
    server.faults.clear()
    server.asked.clear()
    server.redirects.clear()
    server.ranges = server.etags = True
    return server


class Slept(list):
    """Takes the place of time.sleep."""

    def __call__(self, seconds):
        self.append(seconds)


def fetch(hub, target, told=None, sleep=None, **about):
    remote = Remote("f", f"{hub.url}/files/f", **about)
    return download(remote, target, told or Told(), Slept() if sleep is None else sleep)


# Whole


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(1, 2_999), max_size=6), etags=st.booleans(), ranges=st.booleans())
def test_a_file_is_whole_however_often_it_is_cut(tmp_path_factory, server, cuts, etags, ranges):
    target = tmp_path_factory.mktemp("there") / "f"
    server.files, server.etags, server.ranges = {"f": CONTENT}, etags, ranges
    server.faults.clear()
    server.fail("/files/f", *(Fault(cut_after=cut) for cut in cuts[: TRIES - 1]))
    assert fetch(server, target) == sha256(CONTENT)
    assert snapshot(target.parent).keys() == {"f"}
    assert target.read_bytes() == CONTENT


def test_each_attempt_asks_for_what_is_lacking(hub, tmp_path):
    hub.fail("/files/f", Fault(cut_after=1_000), Fault(cut_after=500))
    fetch(hub, tmp_path / "f")
    assert [h.get("Range") for h in hub.got("/f")] == [None, "bytes=1000-", "bytes=1500-"]


def test_a_later_call_goes_on_where_an_earlier_one_stopped(hub, tmp_path):
    hub.fail("/files/f", Fault(cut_after=1_000), *[Fault(status=503)] * TRIES)
    with pytest.raises(AssetMissing, match=r"1,000 bytes are here; run the same command again"):
        fetch(hub, tmp_path / "f")
    assert not (tmp_path / "f").exists()
    hub.asked.clear()
    told = Told()
    assert fetch(hub, tmp_path / "f", told) == sha256(CONTENT)
    assert [h.get("Range") for h in hub.got()] == ["bytes=1000-"]
    assert told.phases == [("f: downloading", len(CONTENT))]
    assert told.steps == len(CONTENT)


def test_two_files_are_never_mixed(hub, tmp_path):
    """The file changed between two calls: it is fetched from its beginning."""
    hub.fail("/files/f", Fault(cut_after=1_000), *[Fault(status=503)] * TRIES)
    with pytest.raises(AssetMissing):
        fetch(hub, tmp_path / "f")
    hub.files["f"] = CONTENT[::-1]
    assert fetch(hub, tmp_path / "f") == sha256(CONTENT[::-1])
    assert (tmp_path / "f").read_bytes() == CONTENT[::-1]


def test_what_nothing_vouches_for_is_not_continued(hub, tmp_path):
    """No tag, no date, no digest: nobody knows whether the rest belongs to the beginning."""
    hub.etags = False
    hub.fail("/files/f", Fault(cut_after=1_000))
    fetch(hub, tmp_path / "f")
    assert [h.get("Range") for h in hub.got()] == [None, None]


def test_a_known_digest_vouches_for_it(hub, tmp_path):
    hub.etags = False
    hub.fail("/files/f", Fault(cut_after=1_000))
    fetch(hub, tmp_path / "f", sha256=sha256(CONTENT))
    assert [h.get("Range") for h in hub.got()] == [None, "bytes=1000-"]


def test_a_beginning_that_turns_out_wrong_is_thrown_away_once(hub, tmp_path):
    hub.etags = False
    hub.fail("/files/f", Fault(cut_after=1_000))
    other = {"f": CONTENT[::-1]}

    def change(_):
        hub.files = other

    wanted = sha256(other["f"])
    assert fetch(hub, tmp_path / "f", sleep=change, sha256=wanted) == wanted
    assert [h.get("Range") for h in hub.got()] == [None, "bytes=1000-", None]


def test_a_beginning_longer_than_the_file_is_thrown_away(hub, tmp_path):
    hub.etags, short = False, CONTENT[:1_500]
    hub.fail("/files/f", Fault(cut_after=2_000), *[Fault(status=503)] * TRIES)
    with pytest.raises(AssetMissing):
        fetch(hub, tmp_path / "f", sha256=sha256(short))
    hub.files["f"] = short
    assert fetch(hub, tmp_path / "f", sha256=sha256(short)) == sha256(short)
    assert [h.get("Range") for h in hub.got()][-2:] == ["bytes=2000-", None]


def test_two_processes_do_not_write_the_same_file(hub, tmp_path):
    with (tmp_path / "f.part").open("wb") as other:
        other.write(b"what the other has")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(AssetMissing, match="another process is downloading it"):
            fetch(hub, tmp_path / "f")
    assert (tmp_path / "f.part").read_bytes() == b"what the other has"
    assert fetch(hub, tmp_path / "f") == sha256(CONTENT)


# Refused


def test_a_server_that_is_unable_is_asked_again_after_a_while(hub, tmp_path):
    hub.fail("/files/f", Fault(status=500), Fault(status=503), Fault(status=429))
    slept = Slept()
    fetch(hub, tmp_path / "f", sleep=slept)
    assert slept == [PAUSE, 2 * PAUSE, 4 * PAUSE]


def test_one_that_stays_unable_is_given_up(hub, tmp_path):
    hub.fail("/files/f", Fault(status=503, for_ever=True))
    with pytest.raises(AssetMissing, match=f"after {TRIES} attempts .*503"):
        fetch(hub, tmp_path / "f")
    assert len(hub.got()) == TRIES
    assert snapshot(tmp_path) == {}


def test_one_that_always_ends_early_is_given_up(hub, tmp_path):
    hub.ranges = False
    hub.fail("/files/f", Fault(cut_after=700, for_ever=True))
    with pytest.raises(AssetMissing, match=r"the body ended after 700 of 3,000 bytes"):
        fetch(hub, tmp_path / "f")
    assert not (tmp_path / "f").exists()


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "hf auth login"),
        (403, "accept its conditions"),
        (404, "not there"),
        (410, "not there"),
    ],
)
def test_a_refusal_is_taken_at_its_word(hub, tmp_path, status, hint):
    hub.fail("/files/f", Fault(status=status))
    with pytest.raises(AssetMissing, match=hint) as refused:
        fetch(hub, tmp_path / "f")
    assert f"{hub.url}/files/f" in str(refused.value)
    assert len(hub.got()) == 1
    assert snapshot(tmp_path) == {}


# Not what it should be


def test_another_digest_is_an_error_that_names_both(hub, tmp_path):
    wanted = sha256(b"")
    with pytest.raises(DataError) as wrong:
        fetch(hub, tmp_path / "f", sha256=wanted)
    assert f"has sha256 {sha256(CONTENT)}, wanted {wanted}" in str(wrong.value)
    assert snapshot(tmp_path) == {}


def test_another_size_is_noticed_before_it_has_come(hub, tmp_path):
    with pytest.raises(DataError, match=r"holds 3,000 bytes, wanted 2,000"):
        fetch(hub, tmp_path / "f", size=2_000)
    assert len(hub.got()) == 1
    assert snapshot(tmp_path) == {}


def test_a_redirect_is_followed_and_another_host_is_not_told_who_we_are(hub, tmp_path):
    here, there = hub.url, hub.url.replace("127.0.0.1", "localhost")
    hub.redirects = {"/files/old": f"{here}/files/older", "/files/older": f"{there}/files/f"}
    remote = Remote("f", f"{here}/files/old", headers={"Authorization": "Bearer hf_me"})
    assert download(remote, tmp_path / "f", Told()) == sha256(CONTENT)
    told = [headers.get("Authorization") for headers in hub.got()]
    assert told == ["Bearer hf_me", "Bearer hf_me", None]
