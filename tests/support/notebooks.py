"""Notebooks run cell by cell in this process: what is printed, and the last expression of each."""

import ast
import io
import json
from contextlib import redirect_stdout


def executed(notebook):
    """The notebook with the outputs that its cells have now."""
    names, number, cells = {}, 0, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            outputs = _outputs("".join(cell["source"]), names, number)
            cell = {**cell, "execution_count": number, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source, names, number):
    tree = ast.parse(source)
    last = (
        tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - our own text
        expression = (
            compile(ast.Expression(last.value), "cell", "eval") if last else None
        )
        value = expression and eval(expression, names)  # noqa: S307 - our own text
    outputs = []
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


def as_text(notebook):
    """A notebook as it is stored."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
