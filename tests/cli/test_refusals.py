"""Every row of tests/refusals.toml: one mistake, one line with what is wrong and what to do."""

import re
import shlex

import pytest
from committed import RESULTS
from fakes import snapshot
from refusals import REFUSALS

from harness.conclusions.causes import read_causes
from harness.conclusions.conformance import read_reference
from harness.conclusions.searches import read_search
from harness.core.errors import DataError, UsageError
from harness.core.toml import read_typed
from harness.data.catalogue import CATALOGUE_FILE, Catalogue
from harness.registry import load_registry
from harness.results.differences import Difference
from harness.results.gate import read_rules
from harness.results.published_tables import load_tables

READERS = {
    "published": lambda path: load_tables(path.parent),
    "catalogue": lambda path: read_typed(Catalogue, path),
    "search": read_search,
    "gate": lambda path: read_rules(path.parent),
    "reference": read_reference,
    "differences": lambda path: read_typed(tuple[Difference, ...], path),
    "causes": read_causes,
}
WHOLE = {kind: content.get("whole") for kind, content in REFUSALS["files"].items()} | {
    "catalogue": CATALOGUE_FILE.read_text(encoding="utf-8")
}


def assert_refused(call, folder, command, words):
    """The command ends with status 2 and one line that holds these words, and writes nothing."""
    before = snapshot(folder)
    answer = call(*shlex.split(command))
    assert answer.status == 2
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert words in answer.complaint
    assert snapshot(folder) == before


@pytest.mark.parametrize(("command", "words"), REFUSALS["commands"]["fakes"])
def test_a_command_over_stand_ins_is_refused(toys, tmp_path, command, words):
    assert_refused(toys, tmp_path, command, words)


@pytest.mark.parametrize(("command", "words"), REFUSALS["commands"]["packaged"])
def test_a_command_is_refused(call, monkeypatch, tmp_path, command, words):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    (tmp_path / "results").symlink_to(RESULTS)
    assert_refused(call, tmp_path, command, words)


@pytest.mark.parametrize(("method", "words"), REFUSALS["ids"]["refused"])
def test_an_id_is_refused(method, words):
    with pytest.raises(
        UsageError, match=f"^[^\n]*{re.escape(words)}[^\n]*$"
    ) as refusal:
        load_registry().parse(method)
    assert refusal.value.exit_status == 2


@pytest.mark.parametrize("kind", READERS)
def test_a_file_without_a_mistake_is_read(tmp_path, kind):
    path = tmp_path / REFUSALS["files"][kind]["name"]
    path.write_text(WHOLE[kind], encoding="utf-8")
    assert READERS[kind](path)


@pytest.mark.parametrize(
    ("kind", "old", "new", "words"),
    [
        (kind, *row)
        for kind, content in REFUSALS["files"].items()
        for row in content["refused"]
    ],
)
def test_a_file_with_a_mistake_is_refused(tmp_path, kind, old, new, words):
    assert old in WHOLE[kind]
    path = tmp_path / REFUSALS["files"][kind]["name"]
    path.write_text(WHOLE[kind].replace(old, new, 1), encoding="utf-8")
    with pytest.raises(DataError) as refusal:
        READERS[kind](path)
    assert re.match(rf"{re.escape(path.name)}[:,] [^\n]+$", str(refusal.value))
    assert words in str(refusal.value)
