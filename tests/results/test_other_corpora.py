"""What differs from a paper's row in a corpus alone stands below it, and is no verdict."""

from statistics import fmean
from types import SimpleNamespace

import pytest
from committed import FOLDER
from fakes import made_record, results_folder, results_of

from harness.registry import load_registry
from harness.report.papers import paper_page
from harness.results.reproduction import count, reproduce
from harness.results.verdict import CellState

REGISTRY = load_registry()
TRAINED = "simcse.t5/simcse-bert-base-unsup"
FITTED = "bert-flow.t2/bert-base-flow-nli"


def measured(method, tasks, *scores):
    """The records of a method with these scores on each task, a seed each."""
    identity = REGISTRY.parse(method).identity
    return [
        made_record(method, task, {"spearman": {"all": score}}, seed, identity=identity)
        for task in tasks
        for seed, score in enumerate(scores)
    ]


def number(row, column):
    table = FOLDER.table(row.partition("/")[0])
    [found] = [each for each in table.numbers if each.id == f"{row}/{column}"]
    return found


def test_an_encoder_trained_on_less_stands_below_the_row_of_the_paper(tmp_path):
    average = number(TRAINED, "avg")
    found = measured("simcse-unsup-bert-base-32k.cls", average.tasks, 60.0, 61.0, 62.0)
    results = results_of(*found, found=REGISTRY)
    for column in ("sts12", "avg"):
        reproduction = reproduce(number(TRAINED, column), results, REGISTRY)
        assert reproduction.state is CellState.OTHER_CORPUS
        assert reproduction.scores == ()
        assert count([reproduction])["run"] == 0
        [scores] = reproduction.on_other_corpora.values()
        assert fmean(scores) == pytest.approx(61.0)
    table = average.table
    page = paper_page(table, results_folder(tmp_path, REGISTRY, results, table))
    assert "61.00 ± 1.00 (3)" in page
    assert (
        "`simcse-unsup-bert-base-32k.cls`: trained on 32,000 sentences of English "
        "Wikipedia, unlabelled; checkpoint chosen on STS-B dev, the row's on 1 M Wikipedia"
    ) in page


@pytest.mark.parametrize(
    ("method", "state"),
    [
        ("{parts}@snli-18k", CellState.OTHER_CORPUS),
        ("{parts}@target", CellState.NOT_RUN),  # the sentences of the task
        ("{parts}+sn@snli-18k", CellState.NOT_RUN),
    ],
)
def test_a_fit_on_another_corpus_has_the_same_other_parts(method, state):
    published = number(FITTED, "sts-b")
    parts = published.method.partition("@")[0]
    found = measured(method.format(parts=parts), published.tasks, 60.0)
    results = results_of(*found, found=REGISTRY)
    assert reproduce(published, results, REGISTRY).state is state


def test_a_part_of_the_tasks_is_no_average():
    average = number(TRAINED, "avg")
    found = measured("simcse-unsup-bert-base-32k.cls", average.tasks[:-1], 60.0)
    results = results_of(*found, found=REGISTRY)
    assert reproduce(average, results, REGISTRY).state is CellState.NOT_RUN


def test_numbers_are_counted_by_what_became_of_them():
    def number(state, *scores, why_not=None):
        described = SimpleNamespace(why_not=why_not)
        return SimpleNamespace(number=described, state=state, scores=scores)

    counts = count(
        [
            number(CellState.NO_METHOD),
            number(CellState.NO_METHOD),
            number(CellState.NOT_RUN),
            number(CellState.NOT_RUN, why_not="another metric"),
            number(CellState.EXACT, 60.0),
            number(CellState.EXACT, 60.0, 61.0),
            number(CellState.DIFFERS, 50.0),
        ]
    )
    assert counts == {"published": 7, "runnable": 4, "run": 3, "exact": 2, "differs": 1}
