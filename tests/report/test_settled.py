"""Pages that were up to date are not made again until something that they depend on is touched."""

import shutil

import pytest

from harness.report.settled import Settled

CONTENT = {"results/records/r.json": "{}", "results/tables/t.md": "t", "papers/p.toml": "x = 1"}


@pytest.fixture
def site(tmp_path):
    """A results folder, papers and a README, up to date."""
    for name, text in {**CONTENT, "README.md": "# Readme"}.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settled = settled_at(tmp_path)
    settled.remember(settled.state())
    return tmp_path


def settled_at(folder, cache="cache"):
    return Settled.of(folder / cache, folder / "results", folder / "papers", folder / "README.md")


def holds(folder):
    settled = settled_at(folder)
    return settled.holds(settled.state())


def test_what_was_up_to_date_is_so_while_nothing_is_touched(site):
    assert holds(site)


@pytest.mark.parametrize("name", [*CONTENT, "README.md"])
def test_a_file_that_is_written_again_is_looked_at(site, name):
    path = site / name
    path.write_text(path.read_text())  # the same text: only its times differ
    assert not holds(site)


@pytest.mark.parametrize(
    "touch",
    [
        lambda folder: (folder / "results/tables/t.md").unlink(),
        lambda folder: (folder / "results/records/other.json").touch(),
        lambda folder: (folder / "README.md").unlink(),
        lambda folder: (folder / "papers/p.toml").rename(folder / "papers/q.toml"),
        lambda folder: shutil.rmtree(folder / "cache"),
    ],
)
def test_what_comes_goes_or_is_renamed_is_looked_at(site, touch):
    touch(site)
    assert not holds(site)


def test_other_code_makes_other_pages(site, monkeypatch):
    monkeypatch.setattr("harness.report.settled.SOURCES", (site / "papers",))
    assert not holds(site)


def test_another_version_of_what_makes_tables_makes_other_pages(site, monkeypatch):
    monkeypatch.setattr("harness.report.settled.metadata.version", lambda name: f"other {name}")
    assert not holds(site)


def test_a_folder_that_is_too_large_is_looked_at_each_time(site, monkeypatch):
    monkeypatch.setattr("harness.report.settled.MOST", 1)
    settled = settled_at(site)
    settled.remember(settled.state())
    assert settled.state() is None
    assert not holds(site)


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(site):
    (site / "file").touch()
    settled = settled_at(site, "file")
    settled.remember(settled.state())
    assert not settled.holds(settled.state())
