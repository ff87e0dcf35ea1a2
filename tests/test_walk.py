"""The walk of one pair that the documentation describes is short, and its functions are there."""

import ast
import re
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "walk.md"
STEP = re.compile(r"^\d+\. `([\w/]+\.py):([\w.]+)`", re.MULTILINE)
WALK = STEP.findall(PAGE.read_text(encoding="utf-8"))


def test_it_is_short_and_enters_no_module_a_third_time():
    assert 10 < len(WALK) <= 19
    entered = Counter(module for module, _ in groupby(module for module, _ in WALK))
    assert max(entered.values()) <= 2


@pytest.mark.parametrize(("module", "function"), WALK)
def test_each_step_is_a_function_of_its_module(module, function):
    found: ast.AST = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    for name in function.split("."):
        inside = {node.name: node for node in found.body if hasattr(node, "name")}
        assert name in inside
        found = inside[name]
