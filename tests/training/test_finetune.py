"""Every command of `harness train` that fine-tunes, from a tiny checkpoint to a folder."""

import json
from itertools import pairwise

import numpy as np
import pytest
from fakes import Told
from typer.testing import CliRunner

from harness.cli import app
from harness.encoders.transformer import TransformerConfig
from harness.training.contrastive import Contrastive, ContrastiveTraining
from harness.training.finetune import StartCheckpoint, finetune
from harness.transforms.pooling import CLS, MEAN, POOLER

WHO, WHERE = ("cat", "dog", "mat", "a7", "b2"), ("mat", "cat", "x9", "q")
TEXTS = tuple(f"the {who} sat on {where}" for who in WHO for where in WHERE)


@pytest.fixture
def start(checkpoint):
    return checkpoint("bert")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    rows = zip(TEXTS[:6], TEXTS[6:12], TEXTS[12:18], strict=True)
    triplets = ["sent0,sent1,hard_neg", *(",".join(row) for row in rows)]
    (tmp_path / "triplets.csv").write_text("".join(f"{row}\n" for row in triplets))
    labelled = (f"{1 + n % 3}\t0\t{a}\t{b}\n" for n, (a, b) in enumerate(pairwise(TEXTS)))
    (tmp_path / "labelled.csv").write_text("".join(labelled))
    return tmp_path


COMMANDS = {
    "simcse-unsup": "--corpus text.txt --batch 5",
    "simcse-sup": "--file triplets.csv --batch 3 --epochs 2",
    "sbert-nli": "--file labelled.csv --batch 4 --max-length 30",
    "sbert-sts": "--task mini-sts.dev --batch 300 --epochs 1 --max-length 30",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_makes_a_checkpoint_that_the_harness_reads(command, start, files, monkeypatch):
    monkeypatch.chdir(files)
    line = ["train", command, "--from", str(start), "--out", "out", "--dev", "none"]
    line += ["--learning-rate", "0.01", *COMMANDS[command].split()]
    done = CliRunner().invoke(app, line)
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


def test_an_interrupted_training_writes_the_same_checkpoint(start, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.training.loop.SAVE_SECONDS", 0.0)

    class Stops(Told):
        def step(self, steps: int) -> None:
            super().step(steps)
            if self.steps == 7:
                raise KeyboardInterrupt

    def run(out, watcher):
        settings = Contrastive(batch=5, epochs=3, learning_rate=0.01)
        begin = StartCheckpoint("tiny", start)
        encoder = begin.open(settings.setup, tmp_path, 0)
        task = ContrastiveTraining(settings, encoder, (TEXTS,), 0)
        words = {"seed": 0, "data": {}, "command": ""}
        finetune(task, begin, tmp_path / out, watcher, **words)

    run("whole", Told())
    with pytest.raises(KeyboardInterrupt):
        run("cut", Stops())
    run("cut", Told())
    one, two = ((tmp_path / n / "model.safetensors").read_bytes() for n in ("whole", "cut"))
    assert one == two


@pytest.mark.parametrize("wrong", ["--head two", "--objective triplet", "--similarity euclid"])
def test_an_unknown_word_is_refused(wrong, start, files, monkeypatch):
    monkeypatch.chdir(files)
    line = f"train simcse-unsup --from {start} --out o --corpus text.txt --dev none {wrong}"
    done = CliRunner().invoke(app, line.split())
    assert f"{wrong}: wanted one of" in str(done.exception)
    assert not (files / "o").exists()
