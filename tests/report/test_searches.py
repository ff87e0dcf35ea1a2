"""Searches: what is tried stands in one file, what came of it in another, and the page has both."""

import json
import re
from pathlib import Path

import pytest
import tiny_models
from search import main, trial_of, with_trial, write_trials

from harness.core.errors import DataError, UsageError
from harness.report.replication import search_parts
from harness.results.published import load_tables
from harness.results.questions import read_search, read_searches

PAPERS = Path(__file__).resolve().parents[2] / "results" / "papers"
SEARCH = """
title = "Temperature"
caption = "One row a temperature."
recipe = "it --from there"
[[row]]
label = "the paper's"
options = ""
[[row]]
label = "higher"
options = "--temperature 0.1"
"""
TOLD = {
    "seed": 0,
    "before": 40.0,
    "scores": [[125, 50.25], [250, 49.0]],
    "steps": 250,
    "curve": [[125, 2.0], [250, 1.5]],
    "seconds": 9.5,
    "start": {"there": "a1"},
    "data": {"text": "b2"},
    "environment": {"threads": 2},
}


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "questions" / "searches" / "one.toml"
    path.parent.mkdir(parents=True)
    path.write_text(SEARCH)
    return path


def measured(spec):
    """Where the trials of a search are kept."""
    return spec.parents[2] / "records" / "searches" / "one.json"


def test_a_row_that_was_not_trained_is_not_measured(spec):
    title, about, table = search_parts(read_search(spec), {})
    assert title == "### Temperature"
    assert about.startswith("One row a temperature.\n\nEach row is `harness train it --from there`")
    assert table.count("not measured") == 8
    assert read_searches(spec.parent / "lost") == ()


def test_a_trial_stands_in_the_row_of_its_command_and_nowhere_else(spec):
    found = read_search(spec)
    write_trials(with_trial(found, found.rows[1], trial_of(TOLD)))
    table = search_parts(read_search(spec), {})[2]
    line = r"\| higher +\| `--temperature 0.1` +\| +40.00 +\| +50.25 +\| +125 of 250 +\| +1.500"
    assert re.search(line, table)
    assert table.count("not measured") == 4
    assert read_searches(spec.parent) == (read_search(spec),)
    # Another recipe is another command: what came of the old one does not stand for it.
    spec.write_text(SEARCH.replace("--from there", "--from elsewhere"))
    assert search_parts(read_search(spec), {})[2].count("not measured") == 8


def test_seeds_have_a_mean_and_a_spread_and_one_of_them_is_replaced_by_its_like(spec):
    found = read_search(spec)
    row = found.rows[0]
    for seed, best in ((1, 52.0), (0, 1.0), (0, 50.0)):
        trial = trial_of({**TOLD, "seed": seed, "scores": [[125, best]]})
        found = with_trial(found, row, trial)
    assert [trial.seed for trial in found.trials[found.command(row)]] == [0, 1]
    assert "51.00 ± 1.41" in search_parts(found, {})[2]
    with pytest.raises(DataError, match="give --dev a task"):
        trial_of({**TOLD, "scores": []})


def test_published_numbers_stand_beside_the_rows_that_are_their_like(spec):
    tables = {t.id: t for t in load_tables(PAPERS)}
    told = SEARCH.replace("[[row]]", 'table = "simcse.d1"\n[[row]]', 1)
    spec.write_text(f'{told}published = "tau-0-1"\n')
    lines = search_parts(read_search(spec), tables)[2].splitlines()
    assert lines[0].split("|")[-2].strip() == "published"
    cell = next(r for r in tables["simcse.d1"].rows if r.id == "tau-0-1").values["sts-b-dev"]
    assert [line.split("|")[-2].strip() for line in lines[2:]] == ["", f"{float(cell):.1f}"]
    with pytest.raises(UsageError, match=r"unknown published table 'simcse\.d1'"):
        search_parts(read_search(spec), {})
    spec.write_text(spec.read_text().replace("tau-0-1", "tau-0-7"))
    with pytest.raises(UsageError, match=r"unknown row of simcse\.d1 'tau-0-7'"):
        search_parts(read_search(spec), tables)


def test_what_is_committed_reads_and_names_published_rows():
    tables = {t.id: t for t in load_tables(PAPERS)}
    found = read_searches(PAPERS.parent / "questions" / "searches")
    assert any(search.trials for search in found)
    assert all(search_parts(search, tables) for search in found)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('recipe = "it --from there"', ""),
        ('title = "Temperature"', "title = 2026-01-01"),
        ('label = "higher"', ""),
        ('label = "higher"', 'label = "higher"\nscore = 70.1'),
        ("title =", "title"),
        ("[[row]]", "[row]"),
    ],
)
def test_a_search_of_another_form_is_refused_in_one_line(spec, old, new):
    assert old in SEARCH
    spec.write_text(SEARCH.replace(old, new))
    with pytest.raises(DataError, match=r"^one\.toml[:,] [^\n]+$"):
        read_search(spec)


def test_the_command_trains_every_row_once_and_keeps_the_scores(spec, tmp_path, monkeypatch):
    tiny_models.make("bert", tmp_path / "tiny")
    (tmp_path / "text.txt").write_text("the cat\na dog sat\non the mat\nthe dog\na cat sat\n")
    recipe = "simcse-unsup --from tiny --corpus text.txt --batch 2 --dev mini-sts.dev"
    spec.write_text(SEARCH.replace("it --from there", recipe))
    monkeypatch.chdir(tmp_path)
    line = [str(spec), "--cache", "cache", "--threads", "1"]
    main(line)
    trained = json.loads(measured(spec).read_text())
    assert list(trained) == [recipe, f"{recipe} --temperature 0.1"]
    for [trial] in trained.values():
        assert -100 < trial["before"] < 100
        assert trial["steps"] == trial["step"] == 2
    assert trained[recipe][0]["best"] != trained[f"{recipe} --temperature 0.1"][0]["best"]
    before = measured(spec).stat().st_mtime_ns
    main(line)
    assert measured(spec).stat().st_mtime_ns == before
