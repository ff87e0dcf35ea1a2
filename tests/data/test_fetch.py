"""`harness fetch` from a stand-in of the hub: what comes, what is refused, what is remembered."""

import random
import time
from dataclasses import replace

import pytest
from fakes import snapshot
from hub_server import Fault, hub_server, sha256, use_hub_server
from refusals import refused

from harness.cli import main
from harness.core.errors import AssetMissing
from harness.data.catalogue import HUB, Asset, AssetPart, Download, Source
from harness.data.download import model_files
from harness.data.fetch import ALREADY_HERE
from harness.data.places import Places
from harness.encoders.transformer import TransformerConfig
from harness.registry import load_registry

FIRST, SECOND = "1" * 40, "2" * 40
WEIGHTS = random.Random(2).randbytes(20_000)
MODEL = {
    "config.json": b'{"max_position_embeddings": 16}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"not wanted beside the better one",
    "README.md": b"what it claims",
    ".eval_results/made.yaml": b"[]",
    "onnx/README.md": b"not wanted at all",
}
BROUGHT = [  # with what the model claims
    *("config.json", "tokenizer.json", "model.safetensors"),
    *("README.md", ".eval_results/made.yaml"),
]
PINNED = TransformerConfig(
    "pinned", "me/pinned", revision=FIRST, weights_sha256=sha256(WEIGHTS)
)
LOOSE = TransformerConfig("loose", "me/loose")
CSV = b"one,two\n" * 400
sleep = time.sleep


def test_the_files_of_a_model_are_those_it_is_read_from_and_its_claims():
    wanted = [
        *("README.md", ".eval_results/STS12.yaml", "results/STS12.json"),
        *("model.safetensors", "2_Dense/pytorch_model.bin", "bpe.codes", "source.spm"),
        *("3_Dense/model.safetensors", "model-00001-of-00002.safetensors"),
    ]
    not_wanted = [
        *("pytorch_model.bin", "3_Dense/pytorch_model.bin", "onnx/README.md"),
        *("openvino/model.safetensors", "model_quantized.safetensors", "eval.yaml"),
    ]
    assert model_files(wanted + not_wanted) == wanted


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The stand-in, with a model and a data set, in the place of the hub; retries do not wait."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.sleep", lambda _: sleep(0))
    with hub_server() as running:
        use_hub_server(running, monkeypatch, tmp_path)
        running.model("me/pinned", MODEL, FIRST)
        running.model("me/loose", MODEL, FIRST)
        running.dataset("me/data", {"plain.csv": CSV})
        running.files = {"far.csv": CSV}
        registry = replace(load_registry(), encoders={"pinned": PINNED, "loose": LOOSE})
        monkeypatch.setattr("harness.cli.fetch.load_registry", lambda: registry)
        monkeypatch.setattr("harness.registry.load_registry", lambda: registry)
        at_hub = f"{HUB}/datasets/me/data/resolve/main"
        assets = (
            asset("plain", Download("plain.csv", "plain/plain.csv"), at_hub),
            asset("far", Download("far.csv", "far.csv"), f"{running.url}/files"),
        )
        monkeypatch.setattr("harness.data.places.DATA_ASSETS", assets)
        yield running
    from huggingface_hub.utils import close_session

    close_session()


def asset(name, download, base):
    """An asset of one file from one source."""
    files = (download.into,)
    part = AssetPart(name, files, (Source("me", (download,), base),))
    return Asset(
        name, name, files, "me", "none", f"harness fetch {name}", parts=(part,)
    )


@pytest.fixture
def fetch(hub, tmp_path, capfd):
    """The command, over folders of its own: its status, its lines, its complaints."""

    def answer(*arguments):
        folders = ("--data-dir", tmp_path / "data", "--cache", tmp_path / "cache")
        with pytest.raises(SystemExit) as ended:
            main(["fetch", *map(str, (*arguments, *folders))])
        out, err = capfd.readouterr()
        complaints = [line for line in err.splitlines() if line.startswith("harness: ")]
        return ended.value.code or 0, out, "\n".join(complaints)

    return answer


def stored(tmp_path, repo, commit=FIRST):
    place = f"huggingface/hub/models--{repo.replace('/', '--')}/snapshots/{commit}"
    folder = tmp_path / place
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# Models
def test_a_model_comes_at_its_commit_with_what_it_is_read_from(fetch, hub, tmp_path):
    hub.model("me/pinned", {"config.json": b"another"}, SECOND)
    status, out, err = fetch("pinned")
    assert (status, err) == (0, "")
    assert out.startswith("pinned: ")
    assert stored(tmp_path, "me/pinned") == {name: MODEL[name] for name in BROUGHT}
    assert len(hub.got("/store/")) == 1  # the weights, once


@pytest.mark.parametrize("path", ["GET /store/", "config.json", "tokenizer.json"])
def test_a_model_of_which_one_file_does_not_come_is_not_here(
    fetch, hub, tmp_path, path
):
    hub.fail(path, Fault(status=500))
    status, out, err = fetch("loose")
    assert (status, out, len(err.splitlines())) == (3, "", 1)
    places = Places(tmp_path / "cache")
    unfinished = "is no finished `harness fetch`.* get it: harness fetch loose"
    with refused(AssetMissing, unfinished):
        places.encoder(LOOSE)
    hub.faults.clear()
    assert fetch("loose")[0] == 0
    assert places.encoder(LOOSE).name == FIRST
    assert stored(tmp_path, "me/loose") == {name: MODEL[name] for name in BROUGHT}


@pytest.mark.parametrize("gone", [True, False])
def test_weights_that_are_gone_or_damaged_are_fetched_again(fetch, tmp_path, gone):
    fetch("pinned")
    file = Places(tmp_path / "cache").encoder(PINNED) / "model.safetensors"
    if gone:
        file.unlink()
    else:
        file.resolve().write_bytes(WEIGHTS[::-1])
        status, _, err = fetch("pinned", "--offline")
        assert (status, "fetch it again" in err) == (1, True)
    assert fetch("pinned")[0] == 0
    assert file.read_bytes() == WEIGHTS


# Refused
def test_a_gated_model_says_how_to_be_let_in(fetch, hub, monkeypatch):
    hub.repositories["models", "me/pinned"].gated = True
    status, _, err = fetch("pinned")
    assert status == 3
    assert "me/pinned on the hub: its host answered 401" in err
    assert "hf auth login" in err
    monkeypatch.setenv("HF_TOKEN", "hf_me")
    assert fetch("pinned")[0] == 0
    (elsewhere,) = hub.got("/store/")
    assert "Authorization" not in elsewhere


GONE = {
    "no weights": lambda hub: hub.model("me/pinned", {"a.md": b""}, FIRST),
    "no repository": lambda hub: hub.repositories.clear(),
    "no commit": lambda hub: hub.repositories["models", "me/pinned"].commits.clear(),
}


@pytest.mark.parametrize("what", GONE)
def test_what_the_hub_has_not_is_one_line_with_its_name(fetch, hub, what):
    GONE[what](hub)
    status, _, err = fetch("pinned")
    assert (status, len(err.splitlines())) == (3, 1)
    assert "me/pinned" in err


# Data
def test_data_come_into_their_place_and_are_not_asked_for_again(fetch, hub, tmp_path):
    assert fetch("plain", "plein")[0] == 2  # names are looked at first
    assert (hub.asked, (tmp_path / "data").exists()) == ([], False)
    names = ("plain", "far", "pinned")
    status, out, _ = fetch(*names)
    assert status == 0
    assert out.splitlines()[0].startswith(f"plain: {tmp_path / 'data/plain/plain.csv'}")
    hub.asked.clear()
    status, out, _ = fetch(*names)
    assert (status, out.count(ALREADY_HERE), hub.asked) == (0, 3, [])
    assert (tmp_path / "data/plain/plain.csv").read_bytes() == CSV
    assert (tmp_path / "data/far.csv").read_bytes() == CSV


# Without a network
@pytest.mark.parametrize(
    ("how", "value"),
    [("--offline", ""), ("HF_HUB_OFFLINE", "ON"), ("TRANSFORMERS_OFFLINE", "yes")],
)
def test_offline_what_is_here_is_checked_and_the_rest_refused(
    fetch, hub, monkeypatch, how, value, tmp_path
):
    fetch("plain", "loose")
    hub.asked.clear()
    monkeypatch.setattr("socket.create_connection", None)  # nobody may ask for it
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    option = [] if value else [how]
    if value:
        monkeypatch.setenv(how, value)
    before = snapshot(tmp_path)
    status, out, err = fetch("plain", "loose", "far", "pinned", *option)
    assert status == 3
    assert [line.split(":")[0] for line in out.splitlines()] == ["plain", "loose"]
    refusal = f"{how} is set, so nothing is downloaded"
    assert err.splitlines() == [f"harness: {n}: {refusal}" for n in ("far", "pinned")]
    assert (hub.asked, snapshot(tmp_path)) == ([], before)


# Addresses
def test_a_dry_run_lists_addresses_and_asks_nothing(fetch, hub, tmp_path):
    status, out, err = fetch("plain", "far", "pinned", "--dry-run")
    assert (status, err, hub.asked) == (0, "", [])
    for address in ("/datasets/me/data/resolve/", "/files/far.csv", "/me/pinned/tree/"):
        assert f"{hub.url}{address}" in out
    assert not (tmp_path / "data" / "plain").exists()
