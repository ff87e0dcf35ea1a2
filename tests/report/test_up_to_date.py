"""`report --check`: a generated file with one digit changed is stale, however it is compared."""

import random
import shutil
from pathlib import Path

import pytest
from fakes import snapshot

from harness.core.errors import DataError
from harness.report.build import (
    DIGESTS_FILE,
    EXAMPLE_RECORDS,
    GUIDE,
    stale_files,
    write_files,
)
from harness.results.folder import ResultsFolder

RESULTS = Path(__file__).resolve().parents[2] / "results"
WRITTEN = ("papers", "questions", "references", "gate.toml", "README.md")  # by people


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the committed results, of the README, and of the guide with its records."""
    folder = tmp_path_factory.mktemp("copied")
    shutil.copy(RESULTS.parent / "README.md", folder)
    (folder / GUIDE).parent.mkdir(parents=True)
    shutil.copy(RESULTS.parent / GUIDE, folder / GUIDE)
    shutil.copytree(RESULTS.parent / EXAMPLE_RECORDS, folder / EXAMPLE_RECORDS)
    shutil.copytree(RESULTS, folder / "results")
    return folder / "results"


def with_a_digit_changed(text, dice):
    places = [place for place, letter in enumerate(text) if letter in b"0123456789"]
    place = dice.choice(places)
    return text[:place] + str((text[place] - 48 + 1) % 10).encode() + text[place + 1 :]


def test_every_generated_file_with_a_digit_changed_is_stale(copied):
    readme, dice = copied.parent / "README.md", random.Random(0)
    assert stale_files(ResultsFolder(copied), readme) == []
    files = [path for path in copied.rglob("*") if path.is_file()]
    made = [
        path
        for path in files
        if path.relative_to(copied).parts[0] not in (*WRITTEN, "records")
        and path != copied / DIGESTS_FILE
        and path.name != "CONTENTS.txt"  # it holds no digit of a number
    ]
    parts = {
        readme: b"<!-- leaderboard -->",
        copied.parent / GUIDE: b"<!-- examples -->",
    }
    before = {path: path.read_bytes() for path in (*made, *parts)}
    for path, text in before.items():
        head, marker, part = text.rpartition(parts.get(path, b"no marker"))
        generated, end, tail = part.partition(b"<!-- /")
        changed = with_a_digit_changed(generated, dice)
        path.write_bytes(head + marker + changed + end + tail)
    stale = stale_files(ResultsFolder(copied), readme)
    assert {*before} - {*stale} == set()
    for path, text in before.items():
        path.write_bytes(text)


def test_a_file_and_the_digest_that_was_noted_of_it_belong_together(copied):
    """One page lacks its digest, one has another, and one is gone."""
    noted = copied / DIGESTS_FILE
    before = noted.read_text()
    lines = {line.split()[1]: line for line in before.splitlines(keepends=True)}
    unnoted, other, gone = list(lines)[:3]
    content = (copied / gone).read_bytes()
    del lines[unnoted]
    lines[other] = f"{'f' * 64}  {other}\n"
    noted.write_text("".join(lines.values()))
    (copied / gone).unlink()
    stale = stale_files(ResultsFolder(copied), None)
    assert {*stale} == {copied / unnoted, copied / other, copied / gone}
    noted.write_text(before)
    (copied / gone).write_bytes(content)


def test_the_page_of_speed_is_stale_when_its_questions_change(copied):
    path = copied / "questions" / "speed.toml"
    path.write_bytes(path.read_bytes() + b"\n")
    stale = stale_files(ResultsFolder(copied), None)
    assert [path.name for path in stale] == ["speed.md"]
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("name", ["claims.json", "golden/minilm.safetensors"])
def test_a_report_is_not_made_of_measurements_that_changed(copied, name):
    path = copied / "records" / name
    content = path.read_bytes()
    path.write_bytes(with_a_digit_changed(content, random.Random(0)))
    before = snapshot(copied)
    for use in (stale_files, write_files):
        with pytest.raises(DataError, match=f"{path.name}: wanted"):
            use(ResultsFolder(copied), None)
    assert snapshot(copied) == before
    path.write_bytes(content)
