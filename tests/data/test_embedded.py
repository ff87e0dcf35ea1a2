"""What the harness carries: tasks that are frozen and kept apart, and models with their cards."""

import json
from pathlib import Path

import pytest
from committed import committed_records
from documents import ROOT
from refusals import refused

from baselines.miniature import ENCODERS as FROM_SCRATCH
from baselines.tuned import SIMCSE_SUP_MINI
from harness.core.errors import DataError
from harness.core.pairs import pairs_digest
from harness.data.catalogue import DATA_ASSETS, EMBEDDED_SHA256
from harness.data.places import packaged
from harness.data.tasks import mini as miniature
from harness.registry import load_registry

ENCODERS = (*FROM_SCRATCH, SIMCSE_SUP_MINI)
NOWHERE = Path("no-such-folder")


# Tasks


@pytest.mark.parametrize(
    ("line", "found"), [("a\tb\tc\td\n", "50f9dff0"), ("", "e3b0c442")]
)
def test_a_changed_file_is_refused(tmp_path, monkeypatch, line, found):
    monkeypatch.setattr(miniature, "EMBEDDED_DATA", tmp_path)
    for name in ("qnli-dev.tsv", "text.txt"):
        (tmp_path / name).write_text(line)
    wanted = r"qnli-dev\.tsv: wanted lines with sha256 b9ed786d\w+…, found"
    with refused(DataError, rf"{wanted} {found}\w+…: the file was"):
        miniature.embedded_pairs("mini-qnli", "dev")
    with refused(DataError, r"text\.txt: wanted lines with sha256 dbea"):
        list(miniature.CORPORA[0].sentences(NOWHERE))


def test_committed_records_hold_the_digests_of_these_rows():
    digests = {t.name: pairs_digest(t.pairs(NOWHERE)) for t in miniature.TASKS}
    records = [record for record in committed_records() if record.task in digests]
    assert {record.task for record in records} >= {"mini-sts", "mini-sick", "mini-qnli"}
    assert all(record.digests["data"] == digests[record.task] for record in records)


def test_no_sentence_stands_in_two_splits_and_nothing_to_train_or_fit_on_is_ever_scored():
    seen = set()
    for corpus in miniature.CORPORA:
        seen.update(corpus.sentences(NOWHERE))
    for name in miniature.SCALES:
        train, dev, test = (
            set(miniature.embedded_pairs(name, split).sentences)
            for split in ("train", "dev", "test")
        )
        assert train.isdisjoint(dev | test)
        assert dev.isdisjoint(test)
        assert seen.isdisjoint(dev | test)


# Models


@pytest.mark.parametrize("config", ENCODERS, ids=lambda config: config.name)
def test_its_card_and_training_name_the_same_command(config):
    path = packaged(config)
    folder = path if path.is_dir() else path.parent
    about = json.loads((folder / "training.json").read_text())
    assert f"\n{about['command']}\n" in (folder / "README.md").read_text()
    assert about["environment"]["dirty"] is False
    known = {*load_registry().corpora, *(asset.name for asset in DATA_ASSETS)}
    assert any(name in known for name in about["data"])


def test_the_page_names_each_included_file_with_its_digest():
    page = (ROOT / "docs" / "included.md").read_text()
    digests = {f"mini/{name}": digest for name, digest in EMBEDDED_SHA256.items()}
    for config in ENCODERS:
        weights = packaged(config)
        file = weights / "model.safetensors" if weights.is_dir() else weights
        digests[f"{config.name}/{file.name}"] = config.weights_sha256
    for name, digest in digests.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert row.endswith(f"| `{digest[:12]}` |")
