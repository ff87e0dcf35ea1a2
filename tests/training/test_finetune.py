"""Every command of `harness train` that fine-tunes, from a tiny checkpoint to a folder."""

import json
from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.encoders.transformer import TransformerConfig
from harness.training.objectives import EncoderTraining
from harness.transforms.pooling import CLS, MEAN, POOLER

WHO, WHERE = ("cat", "dog", "mat", "a7", "b2"), ("mat", "cat", "x9", "q")
TEXTS = tuple(f"the {who} sat on {where}" for who in WHO for where in WHERE)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    rows = zip(TEXTS[:6], TEXTS[6:12], TEXTS[12:18], strict=True)
    triplets = ["sent0,sent1,hard_neg", *(",".join(row) for row in rows)]
    (tmp_path / "triplets.csv").write_text("".join(f"{row}\n" for row in triplets))
    labelled = (
        f"{1 + n % 3}\t0\t{a}\t{b}\n" for n, (a, b) in enumerate(pairwise(TEXTS))
    )
    (tmp_path / "labelled.csv").write_text("".join(labelled))
    return tmp_path


COMMANDS = {
    "simcse-unsup": "--corpus text.txt --batch 5",
    "simcse-sup": "--file triplets.csv --batch 3 --epochs 2",
    "sbert-nli": "--file labelled.csv --batch 4 --max-length 30",
    "sbert-sts": "--task mini-sts.dev --batch 300 --epochs 1 --max-length 30",
}


@pytest.fixture
def trained(checkpoint, files, monkeypatch):
    """What a command ends with, which trains into a folder."""
    monkeypatch.chdir(files)

    def run(command, out, more=""):
        line = f"train {command} --from {checkpoint('bert')} --out {out} --dev none"
        settings = f"--learning-rate 0.01 {COMMANDS[command]} {more}"
        return CliRunner().invoke(app, f"{line} {settings}")

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_makes_a_checkpoint_that_the_harness_reads(
    command, checkpoint, files, trained
):
    start, done = checkpoint("bert"), trained(command, "out")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "steps" in done.output
    about = json.loads((files / "out" / "training.json").read_text())
    assert about["steps"] == len(about["curve"]) > 3
    assert about["start"].keys() == {start.name}
    assert str(files) not in json.dumps(about)

    before = TransformerConfig("a", "").load(start, files).encode(TEXTS)
    after = TransformerConfig("a", "").load(files / "out", files).encode(TEXTS)
    assert not np.allclose(MEAN(before), MEAN(after), atol=1e-3)
    assert np.isfinite(CLS(after)).all()
    if command == "simcse-sup":
        assert POOLER(after).shape == (len(TEXTS), 32)  # its head is kept
    else:
        assert after.pooler is None


def test_an_interrupted_training_writes_the_same_checkpoint(
    files, trained, monkeypatch
):
    monkeypatch.setattr("harness.training.loop.SAVE_SECONDS", 0.0)
    loss, steps = EncoderTraining.loss, []

    def loss_until_the_third(task, step):
        steps.append(step)
        if steps == [0, 1, 2]:
            raise KeyboardInterrupt
        return loss(task, step)

    trained("simcse-unsup", "whole")
    monkeypatch.setattr(EncoderTraining, "loss", loss_until_the_third)
    assert trained("simcse-unsup", "cut").exit_code != 0
    assert "(dev_every)" in str(
        trained("simcse-unsup", "cut", "--dev-every 9").exception
    )
    assert trained("simcse-unsup", "cut").exit_code == 0
    assert steps == [0, 1, 2, 2, 3]
    whole, cut = (
        (files / n / "model.safetensors").read_bytes() for n in ("whole", "cut")
    )
    assert whole == cut
