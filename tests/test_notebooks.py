"""The notebooks show what their cells give: they are run, and compared with what they store.

`make snapshots` stores what they give now.
"""

import json

import pytest
from documents import ROOT
from notebooks import as_text, executed
from tiny_models import rest_slow

NOTEBOOKS = {
    path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
}


@pytest.mark.parametrize("name", rest_slow(NOTEBOOKS, "check-my-table"))
def test_a_notebook_shows_what_it_gives(name, approved, tmp_path, monkeypatch):
    path = NOTEBOOKS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DATA_DIR", raising=False)
    found = executed(json.loads(path.read_text(encoding="utf-8")))
    assert as_text(found) == approved(path)


def test_a_cell_that_gives_something_else_is_noticed():
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    notebook = {"cells": [{**cell, "source": ["x = 1\n", "print('a')\n", "x + 1"]}]}
    printed, result = executed(notebook)["cells"][0]["outputs"]
    assert (printed["text"], result["data"]) == (["a\n"], {"text/plain": ["2"]})
