"""The models that the harness carries: small, whole, described, and what their cards say."""

import json

import pytest
from documents import ROOT

from baselines.miniature import ENCODERS as FROM_SCRATCH
from baselines.tuned import SIMCSE_SUP_MINI
from harness.data.catalogue import DATA_ASSETS, EMBEDDED_SHA256
from harness.data.places import packaged
from harness.registry import load_registry

ENCODERS = (*FROM_SCRATCH, SIMCSE_SUP_MINI)
NAMES = [encoder.name for encoder in ENCODERS]


@pytest.fixture(params=ENCODERS, ids=NAMES)
def embedded(request):
    return request.param


def folder(config):
    path = packaged(config)
    assert path is not None, f"{config.name} is not in the package"
    return path if path.is_dir() else path.parent


def test_its_card_and_training_name_the_same_command(embedded):
    about = json.loads((folder(embedded) / "training.json").read_text())
    card = (folder(embedded) / "README.md").read_text()
    assert f"\n{about['command']}\n" in card
    assert about["environment"]["dirty"] is False
    known = {*load_registry().corpora, *(asset.name for asset in DATA_ASSETS)}
    assert any(name in known for name in about["data"])


def test_the_page_names_each_included_file_with_its_digest_and_command():
    page = (ROOT / "docs" / "included.md").read_text()
    digests = {f"mini/{name}": digest for name, digest in EMBEDDED_SHA256.items()}
    for config in ENCODERS:
        weights = packaged(config)
        assert weights is not None
        file = weights / "model.safetensors" if weights.is_dir() else weights
        digests[f"{config.name}/{file.name}"] = config.weights_sha256
    for name, digest in digests.items():
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert row.endswith(f"| `{digest[:12]}` |")
