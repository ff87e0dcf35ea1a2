"""The list of mutants is of code and tests that are there; `make mutants` tries them."""

import ast
import re
import subprocess
import sys
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source

import pytest
from mutants import LIST, ROOT, mutant_of, read_mutants, write
from mutations import OPERATORS, WITH_TO, Mutation, find_scope, local_names, mutated

MUTANTS = read_mutants()
QUICK = "the boundary of exact"


def test_every_mutant_is_of_a_place_that_is_there():
    for mutant in MUTANTS:
        mutant.place()


def test_every_mutant_is_of_tests_that_are_there():
    for mutant in MUTANTS:
        for test in mutant.tests:
            file, _, function = test.partition("::")
            assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_no_mutant_is_there_twice():
    assert len({mutant.rule for mutant in MUTANTS}) == len(MUTANTS)
    changes = {(mutant.module, mutant.mutation) for mutant in MUTANTS}
    assert len(changes) == len(MUTANTS)


def test_no_mutant_holds_a_local_variable():
    for mutant in MUTANTS:
        module = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
        local = local_names(find_scope(module, mutant.mutation.function)) - {
            "_",
            "self",
        }
        named = ast.walk(ast.parse(f"_({mutant.mutation.to})"))
        assert not {node.id for node in named if isinstance(node, ast.Name)} & local, (
            mutant.rule
        )


def test_only_what_becomes_something_says_what():
    for mutant in MUTANTS:
        change, to = mutant.mutation.change, mutant.mutation.to
        assert change in OPERATORS
        assert bool(to) == (change in WITH_TO), mutant.rule


def test_every_room_has_mutants():
    rooms = {
        path.stem
        for path in (ROOT / "harness").iterdir()
        if path.stem[:2] not in ("__", "py")
    }
    rooms -= {"resolve"}  # of the registry's room
    assert {mutant.room for mutant in MUTANTS} == {*rooms, "baselines"}


def test_a_place_that_is_gone_is_told_in_one_line():
    entry = {
        "rule": "a rule",
        "of": "harness.results.verdict:verdict",
        "change": "condition true",
    }
    gone = mutant_of({**entry, "at": "GONE", "tests": []})
    said = (
        "a rule: harness.results.verdict:verdict: wanted one place at 'GONE' "
        f"for {gone.mutation.change!r}"
    )
    with pytest.raises(
        LookupError, match=f"^{re.escape(said)}, found none; correct {LIST}$"
    ):
        gone.place()
    gone = mutant_of({**entry, "of": "harness.results.verdict:judge", "tests": []})
    with pytest.raises(
        LookupError, match="verdict:judge: found no function or class judge; correct"
    ):
        gone.place()


CODE = '''
LIMITS = {"low": 1, "high": 5}
class Scores:
    """Scores."""
    def mean(self, scores, weights=None):
        """The mean: a text."""
        if not scores or min(scores) < LIMITS["low"]:
            raise ValueError(f"no scores: {scores}")
        total = np.sum(np.round(scores, 2), axis=0)
        self.check(total)
        return total / len(scores) if weights is None else np.average(scores, weights=weights)
'''
OTHER = (
    CODE.replace("scores", "numbers")
    .replace("total", "all_of_them")
    .replace("a text", "words")
    + "\n\n# The end."
)


@pytest.mark.parametrize(
    ("mutation", "before", "after"),
    [
        (("condition true", "is", 2), "weights is None else", "True else"),
        (
            ("condition false", "low", 0),
            "if not scores or min(scores) < LIMITS['low']",
            "if False",
        ),
        (("boundary moved", "low", 0), "< LIMITS", "<= LIMITS"),
        (("comparison negated", "low", 0), "< LIMITS", ">= LIMITS"),
        (("operator inverted", "len", 0), "total / len", "total * len"),
        (("operand removed", "len", 0), "total / len(scores)", "total"),
        (
            ("operand removed", "min", 0),
            "not scores or min(scores) < LIMITS['low']",
            "not scores",
        ),
        (("argument removed", "weights", 0), ", weights=weights)", ")"),
        (("argument removed", "2", 0), "scores, 2)", "scores)"),
        (
            ("argument added", "np.average", 0, "axis=0"),
            "=weights)",
            "=weights, axis=0)",
        ),
        (
            ("call replaced by its argument", "np.round", 0),
            "np.round(scores, 2)",
            "scores",
        ),
        (("statement removed", "check", 0), "self.check(total)", "pass"),
        (("constant changed", "2", 0, "3"), ", 2)", ", 3)"),
        (("argument changed", "axis", 0, "1"), "axis=0", "axis=1"),
        (("value changed", "np.round", 0, "2 * _"), "= np.sum(", "= 2 * np.sum("),
        (("expression changed", "np.average", 0, "np.mean"), "np.average", "np.mean"),
    ],
)
def test_a_mutation_is_of_a_place_whatever_its_layout_and_local_names(
    mutation, before, after
):
    change, at, nth, *to = mutation
    at = "" if at == "is" else at
    one = Mutation("Scores.mean", change, at=at, nth=nth, to="".join(to))
    assert mutated(CODE, one) == ast.unparse(ast.parse(CODE)).replace(before, after)
    renamed = before.replace("scores", "numbers").replace("total", "all_of_them")
    becomes = after.replace("scores", "numbers").replace("total", "all_of_them")
    assert mutated(OTHER, one) == ast.unparse(ast.parse(OTHER)).replace(
        renamed, becomes
    )
    assert before in ast.unparse(ast.parse(CODE))


def test_a_mutation_of_a_module_is_of_what_is_in_no_function():
    changed = mutated(CODE, Mutation("", "element changed", at="high", to="6"))
    assert changed == ast.unparse(ast.parse(CODE)).replace("'high': 5", "'high': 6")
    dropped = mutated(CODE, Mutation("", "element removed", at="low"))
    assert "LIMITS = {'high': 5}" in dropped


@pytest.mark.slow
def test_code_of_the_same_size_and_second_is_read_anew(tmp_path, monkeypatch):
    """Import hooks, as that of jaxtyping, have compiled files under names of their own."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    hooked = partial(cache_from_source, optimization="hook")
    monkeypatch.setattr("importlib._bootstrap_external.cache_from_source", hooked)
    path = tmp_path / "rule.py"
    for text in ("layer = 0", "layer = 1", "layer = 0"):
        write(path, text)
        compiled = SourceFileLoader("rule", str(path)).get_code("rule")
        assert text == f"layer = {compiled.co_consts[0]}"
    assert [*tmp_path.rglob("*.opt-hook.pyc")]


def test_a_mutant_is_killed_survives_or_is_refused():
    tried = f"""
import tempfile
from dataclasses import replace
from pathlib import Path
from mutants import copy_to, outcomes, read_mutants
[known] = [mutant for mutant in read_mutants() if mutant.rule == {QUICK!r}]
unnoticed = replace(known, tests=("tests/core/test_ids.py",))
absent = replace(known, mutation=replace(known.mutation, at="GONE"))
with tempfile.TemporaryDirectory() as scratch:
    found = outcomes([known, unnoticed, absent], [copy_to(Path(scratch, "copy"))])
    for _, said in sorted(found, key=lambda one: one[1]):
        print(said)
"""
    done = subprocess.run(
        [sys.executable, "-c", tried],
        cwd=ROOT / "tools",
        capture_output=True,
        text=True,
        check=True,
    )
    killed, survived, refused = sorted(done.stdout.splitlines(), key=len)
    assert (killed, survived) == ("killed", "survived")
    assert refused.startswith(
        f"{QUICK}: harness.results.verdict:_deterministic: wanted one place"
    )
