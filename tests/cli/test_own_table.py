"""A published table of one's own, of an encoder that only `--encoder NAME=PATH` names."""

import shutil

import pytest
from own_tables import ENTRY, TABLE

import harness
from harness.core.errors import DataError
from harness.interop.frames import read_results

CELL = "mine.t1/averaged/mini-sts"
GIVEN = ("--encoder", "mine=model")
MISSING = (
    "harness: mine.t1.toml, row averaged, column mini-sts: unknown encoder 'mine': did you mean "
    "mini-gte or minilm or komninos? If it is your own, give --encoder mine=PATH\n"
)


@pytest.fixture
def call_with_own_table(call, tmp_path, checkpoint, one_packaged_table):
    """The command line in a folder with a table and a model of one's own."""
    papers = tmp_path / "results" / "papers"
    papers.mkdir(parents=True)
    (papers / "mine.t1.toml").write_text(TABLE)
    (papers / "references.bib").write_text(ENTRY)
    shutil.copytree(checkpoint("bert"), tmp_path / "model")
    return call


@pytest.mark.parametrize(
    "command",
    [
        "list papers",
        f"explain {CELL}",
        "report",
        "table",
        "cite mine.t1",
        "reproduce -q -m glove-mini.mean -t mini-sts",
    ],
)
def test_without_the_encoder_file_row_key_and_what_to_give_are_told(
    call_with_own_table, command, tmp_path
):
    answer = call_with_own_table(command)
    assert (answer.status, answer.out) == (1, "")
    assert answer.err.endswith(MISSING)
    assert not (tmp_path / "runs").exists()


def test_with_the_encoder_every_command_reads_the_table(call_with_own_table, tmp_path):
    """The only cell of the table is measured into its results folder."""
    for command, words in (
        ("run -m mine.mean -t mini-sts -o results", "58.40        differs    mine.t1"),
        ("list cells mine.t1", CELL),
        (f"explain {CELL}", "differs)"),
        ("table -m mine --results results", "differs"),
        ("cite mine.t1", "1 of them measured (1 differs)"),
        (f"cite {CELL}", "@misc{mine2026"),
        ("report", "results"),
        ("report --check", "up to date"),
        ("check --results results -m mine -t mini-sts", "agrees: 1 cell"),
        ("run --dry-run -m mine -t mini-sts", "1 of 1 cell"),
    ):
        answer = call_with_own_table(command, *GIVEN)
        assert answer.status == 0, (command, answer.err)
        assert words in answer.out, command
    page = (tmp_path / "results/tables/papers/mine.t1.md").read_text()
    assert "| Mine, averaged" in page
    assert "58.40 |" in page
    with pytest.raises(DataError, match="--encoder mine=PATH"):
        read_results("results")
    frame = read_results(tmp_path / "results", encoders=["mine=model"])
    assert list(frame.verdict) == ["differs"]
    places = harness.Places(tmp_path / "cache", encoders={"mine": tmp_path / "model"})
    frame = harness.evaluate("mine.mean", "mini-sts", places=places)
    assert list(frame.verdict) == ["differs"]


def test_tables_and_bibliography_may_lie_elsewhere(call_with_own_table, tmp_path):
    (tmp_path / "results/papers").rename(tmp_path / "my-tables")
    (tmp_path / "out").mkdir()
    where = ("--results", "out", "--papers", "my-tables", *GIVEN)
    answer = call_with_own_table("report", *where)
    assert (answer.status, answer.err) == (0, "")
    assert "author = {Me}" in (tmp_path / "out/site/index.html").read_text()
    other = ENTRY.replace("{Me}", "{Me Two}")
    (tmp_path / "my-tables/references.bib").write_text(other)
    answer = call_with_own_table("report --check", *where)
    assert answer.status == 1
    assert answer.out.split()[-1] == "out/site/index.html"
    (tmp_path / "my-tables/references.bib").unlink()
    answer = call_with_own_table("report", *where)
    assert answer.status == 1
    assert answer.complaint.endswith("add its entry to the latter")
