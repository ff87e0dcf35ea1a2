"""The settings of a training are the options of its command, or the defaults of its class."""

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.training import loop
from harness.training.loop import Curve

COMMAND = "train simcse-unsup --from bert-mini --corpus mini-text --dev none --first 4 --out out"


@pytest.mark.parametrize(
    ("options", "batch", "precision"),
    [
        ("", 64, "float32"),
        ("--batch 4", 4, "float32"),
        ("--dtype bfloat16", 64, "bfloat16"),
    ],
)
def test_an_option_replaces_the_default_of_the_class(
    monkeypatch, options, batch, precision
):
    made = []
    monkeypatch.setattr(
        loop, "finetune", lambda task, *_, **__: made.append(task) or Curve([], [])
    )
    assert CliRunner().invoke(app, f"{COMMAND} {options}".split()).exit_code == 0
    [task] = made
    assert (task.batches.size, task.recipe.dtype) == (batch, precision)
