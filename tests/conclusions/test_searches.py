"""Searches: what is tried stands in one file, what came of it in another."""

import pytest
import tiny_models
from refusals import REFUSALS
from search import main

from harness.conclusions.searches import read_search, read_searches
from harness.core.files import parse_json
from harness.results.layout import COMMITTED, QUESTIONS

SEARCH = REFUSALS["files"]["search"]["whole"]


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "questions" / "searches" / "one.toml"
    path.parent.mkdir(parents=True)
    path.write_text(SEARCH)
    return path


def measured(spec):
    """Where the trials of a search are kept."""
    return spec.parents[2] / "records" / "searches" / "one.json"


def seeds_of_rows(search):
    """The seeds that each row was trained with."""
    for row in search.rows:
        yield [trial.seed for trial in search.trials.get(search.command(row), ())]


def test_the_command_trains_every_row_once_and_keeps_the_scores(
    spec, tmp_path, monkeypatch
):
    tiny_models.make("bert", tmp_path / "tiny")
    (tmp_path / "text.txt").write_text(
        "the cat\na dog sat\non the mat\nthe dog\na cat sat\n"
    )
    recipe = "simcse-unsup --from tiny --corpus text.txt --batch 2 --dev mini-sts.dev"
    spec.write_text(SEARCH.replace("it --from there", recipe))
    monkeypatch.chdir(tmp_path)
    line = [str(spec), "--cache", "cache", "--threads", "1"]
    main(line)
    trained = parse_json(measured(spec).read_text())
    assert list(trained) == [recipe, f"{recipe} --temperature 0.1"]
    for [trial] in trained.values():
        assert -100 < trial["before"] < 100
        assert trial["steps"] == trial["step"] == 2
    assert (
        trained[recipe][0]["best"] != trained[f"{recipe} --temperature 0.1"][0]["best"]
    )
    assert list(seeds_of_rows(read_search(spec))) == [[0], [0]]
    before = measured(spec).stat().st_mtime_ns
    main(line)
    assert measured(spec).stat().st_mtime_ns == before
    # Another recipe is another command: what came of the old one does not stand for it.
    spec.write_text(spec.read_text().replace("--batch 2", "--batch 3"))
    assert list(seeds_of_rows(read_search(spec))) == [[], []]


def test_every_committed_trial_is_of_a_row_of_its_search():
    searches = read_searches(COMMITTED / QUESTIONS / "searches")
    assert searches
    for search in searches:
        commands = {search.command(row) for row in search.rows}
        assert search.trials, search.path
        assert set(search.trials) <= commands, search.path
