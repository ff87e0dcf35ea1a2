"""What a run says at its end: what was shown without data, and what to get next."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.assets.places import Places
from harness.cli.printing import (
    BEST,
    CLAIMS,
    STEPS,
    claims_that_hold,
    embedded_best,
    encoding_seconds,
    sentences_of,
    step_lines,
    what_next,
)
from harness.evaluation.plan import FIRST_GUESS, FIRST_GUESS_BYTES
from harness.results.explain import NextStep
from harness.results.folder import ResultsFolder
from harness.results.index import Results
from harness.results.published import load_tables

RESULTS = Path(__file__).resolve().parents[2] / "results"
FOLDER = ResultsFolder(RESULTS)
COMMITTED, FOUND = FOLDER.records, FOLDER.registry


def test_the_next_steps_name_a_command_a_size_a_gain_and_a_time(tmp_path):
    first, *lines = what_next(FOLDER, Results({}), Places(tmp_path))
    assert first.startswith("next")
    assert len(lines) == 2 * STEPS
    assert "  harness fetch senteval (6 MB)" in lines
    gains = [line for line in lines if " published number" in line]
    assert len(gains) == STEPS
    assert any("s of encoding" in line or "min of encoding" in line for line in gains)
    assert all(len(line) <= 80 for line in lines)


def test_the_encoding_of_a_step_includes_its_passes_over_corpora():
    [cell, *_] = (
        cell
        for table in load_tables(RESULTS / "papers", FOUND)
        for cell in table.cells()
        if (cell.method or "").startswith(("bert-base.", "bert-base:"))
        and (cell.method or "").endswith("@nli")
    )
    step, nli = NextStep(("harness fetch all-nli",), 1, (cell,)), FOUND.corpora["nli"]
    size = FOUND.encoders["bert-base"].source.about
    least = nli.count * size / FIRST_GUESS_BYTES / FIRST_GUESS
    assert encoding_seconds(step, FOUND, {}) == pytest.approx(least)
    unknown = replace(FOUND, corpora={"nli": replace(nli, count=None)})
    assert encoding_seconds(step, unknown, {}) is None
    assert "how much encoding is not known" in " ".join(step_lines(step, unknown, {}))


def test_what_is_measured_needs_nothing_any_more(tmp_path):
    before = what_next(FOLDER, Results({}), Places(tmp_path))
    after = what_next(FOLDER, COMMITTED, Places(tmp_path))
    assert before != after


def test_where_nothing_lacks_there_is_no_next_step():
    class All:
        def has_encoder(self, config):
            return True

        def has_data(self, asset):
            return True

    assert what_next(FOLDER, Results({}), All()) == []


def test_the_sentences_of_a_task_are_those_of_its_records():
    assert sentences_of(COMMITTED)["sts14"] > sentences_of(COMMITTED)["sts-b"] > 1000


def test_the_embedded_leaderboard_fits_the_terminal():
    for width in (60, 80, 120):
        heading, *lines = embedded_best(COMMITTED, FOUND, width)
        assert "mini-STS" in heading
        assert len(lines) == BEST
        scores = [float(line.split()[1]) for line in lines]
        assert scores == sorted(scores, reverse=True)
        assert all(len(line) <= width for line in lines)
    assert embedded_best(Results({}), FOUND, 80) == []


def test_the_claims_that_hold_fit_the_terminal_by_own_records_first(tmp_path):
    empty = ResultsFolder(tmp_path)
    first, *lines = claims_that_hold(empty, FOLDER, 80)  # nothing was measured there
    words = first.split()
    assert first.endswith("/records:") or "/records:" in " ".join(lines)
    assert 0 < int(words[0]) <= int(words[2])
    shown = "\n".join(claims_that_hold(empty, FOLDER, None))
    assert len(shown.splitlines()) == 1 + CLAIMS + 1
    assert f"and {int(words[0]) - CLAIMS} more: {RESULTS}/tables/" in shown
    longest = max(map(len, (word for line in lines for word in line.split())))
    folded = "\n".join([first, *lines]).splitlines()
    assert all(len(line) <= max(80, longest + 4) for line in folded)
    own = claims_that_hold(FOLDER, FOLDER, None)
    assert own == shown.splitlines()
    assert claims_that_hold(empty, empty, 80) == []
