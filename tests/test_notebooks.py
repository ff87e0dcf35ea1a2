"""The notebooks show what their cells give: they are run, and compared with what they store.

`make snapshots` stores what they give now.
"""

import ast
import io
import json
from contextlib import redirect_stdout

import pytest
from documents import ROOT
from fixtures import rest_slow

NOTEBOOKS = {
    path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
}


def outputs_of(source, names, number):
    """What a cell prints, and the value of its last expression."""
    *statements, last = ast.parse(source).body
    value, printed, outputs = None, io.StringIO(), []
    if not isinstance(last, ast.Expr):
        statements.append(last)
    with redirect_stdout(printed):
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)  # noqa: S102
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": text})
    if value is not None:
        result = {
            "data": {"text/plain": repr(value).splitlines(keepends=True)},
            "execution_count": number,
            "metadata": {},
            "output_type": "execute_result",
        }  # in the order of keys that `ruff format` writes
        outputs.append(result)
    return outputs


@pytest.mark.parametrize("name", rest_slow(NOTEBOOKS, "check-my-table"))
def test_a_notebook_shows_what_it_gives(name, approved, tmp_path, monkeypatch):
    path = NOTEBOOKS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DATA_DIR", raising=False)
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, number = {}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell["execution_count"] = number
            cell["outputs"] = outputs_of("".join(cell["source"]), names, number)
    found = json.dumps(notebook, indent=1, ensure_ascii=False)
    assert f"{found}\n" == approved(path)
