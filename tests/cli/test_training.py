"""What a training refuses at once, and what it says when it is stopped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.core import hardware
from harness.core.errors import UsageError
from harness.training import finetune
from harness.training.loop import Curve

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}

# A command that must not have got as far as importing torch.
COMMAND = """
import sys
from harness.cli import main
try:
    main(sys.argv[1:])
finally:
    print("torch" in sys.modules)
"""


def at_once(folder, *words):
    command = [sys.executable, "-c", COMMAND, "train", *words, "--out", "out"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, env=ENVIRONMENT
    )
    assert done.stdout.split() == ["False"]
    assert not (folder / "out").exists()
    [line] = done.stderr.splitlines()
    return done.returncode, line


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("simcse-sup --from bert-mini --file no.csv", "--file no.csv: wanted a file or one of nli"),
        ("sbert-nli --from bert-mini --file no.csv", "--file no.csv: wanted a file or one of all"),
        ("simcse-unsup --from bert-mini --corpus no", "--corpus no: wanted a file or a corpus"),
        ("simcse-unsup --from bert-mimi --corpus mini-text", "unknown encoder 'bert-mimi'"),
    ],
)
def test_what_is_not_here_is_refused_before_anything_is_imported(tmp_path, words, line):
    status, said = at_once(tmp_path, *words.split())
    assert (status, said.startswith(f"harness: {line}")) == (2, True)


def test_a_device_that_is_not_here_is_refused_likewise(monkeypatch):
    words = ["train", "simcse-unsup", "--from", "bert-mini", "--out", "out", "--device", "cuda:1"]
    monkeypatch.setattr(hardware, "cuda_is_possible", lambda: False)
    found = CliRunner().invoke(app, words).exception
    assert isinstance(found, UsageError)
    assert "--device cuda:1: found no CUDA device here" in str(found)


@pytest.mark.parametrize("tokens", [None, 512])
def test_the_tokens_of_a_pass_are_the_option_and_the_default_of_the_class(monkeypatch, tokens):
    made = []
    monkeypatch.setattr(finetune, "finetune", lambda task, *_, **__: made.append(task) or Curve())
    words = ["train", "simcse-unsup", "--from", "bert-mini", "--corpus", "mini-text", "--dev"]
    words += ["none", "--first", "4", "--out", "out"]
    words += ["--batch-tokens", str(tokens)] if tokens else []
    assert CliRunner().invoke(app, words).exit_code == 0
    assert made[0].settings.tokens_at_once == (tokens or 8192)


@pytest.mark.parametrize(
    ("option", "value", "precision"), [("--dtype", "bfloat16", "bf16"), (None, None, "float32")]
)
def test_a_training_takes_its_precision_as_a_run_does(monkeypatch, option, value, precision):
    made = []
    monkeypatch.setattr(finetune, "finetune", lambda task, *_, **__: made.append(task) or Curve())
    words = ["train", "simcse-unsup", "--from", "bert-mini", "--corpus", "mini-text", "--dev"]
    words += ["none", "--first", "4", "--out", "out", *([option, value] if option else [])]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert made[0].settings.setup.precision == precision
