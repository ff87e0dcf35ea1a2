"""What people paste is read in every form, and its misprints and sources are named."""

import json
from itertools import cycle
from random import Random

import pytest
from committed import FOLDER

from harness.conclusions.owners import column_of
from harness.conclusions.pasted import read_pasted
from harness.core.errors import DataError, UsageError
from harness.report.owners import origins_in_words

SIMCSE = "simcse.t5/simcse-bert-base-sup"
COLUMNS = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg.")
PRINTED = ("75.30", "84.67", "80.19", "85.40", "80.82", "84.25", "80.39", "81.57")
HEADINGS = (
    "STS12",
    "STS13",
    "STS14",
    "STS15",
    "STS16",
    "STSBenchmark",
    "SICKRelatedness",
)
EVALUATION = (  # as SimCSE's evaluation.py prints it
    " ------ test ------\n+-------+\n| {} |\n+-------+\n| {} |\n+-------+\n"
    "+------+\n|  MR  |  CR  | SUBJ | Avg. |\n+------+\n| 0.00 | 0.00 | 0.00 | 0.00 |\n+------+\n"
)
ROW = f"SimCSE & {' & '.join(PRINTED)}"
LATEX = (
    "\\begin{tabular}{lc}\n\\toprule\n\\textbf{Model} & \\textbf{"
    + "} & \\textbf{".join(COLUMNS)
    + "}"
    " \\\\ \\midrule\nSimCSE-BERT$_{base}$ & \\underline{75.30} & "
    + " & ".join(PRINTED[1:])
    + "$^\\dagger$ \\\\\n\\bottomrule\n\\end{tabular}"
)
HTML = (
    f"<table><tr><th>Model</th><th>{'</th><th>'.join(COLUMNS)}</th></tr>"
    f"<tr><td>SimCSE</td><td><b>{'</b><sup>1</sup></td><td><b>'.join(PRINTED)}</b></td></tr></table>"
)
FORMS = {
    "assignments": ",".join(
        f"{c}={v}" for c, v in zip(COLUMNS, PRINTED, strict=True)
    ).replace("Avg.", "avg"),
    "words": ", ".join(f"{c} {v}" for c, v in zip(COLUMNS, PRINTED, strict=True)),
    "Markdown": (
        f"| Model | {' | '.join(COLUMNS)} |\n|---|\n| SimCSE | **{'** | **'.join(PRINTED)}** |"
    ),
    "evaluation.py": EVALUATION.format(
        " | ".join((*HEADINGS, "Avg.")), " | ".join(PRINTED)
    ),
    "LaTeX": LATEX,
    "a row of LaTeX": f"{ROW} \\\\",
    "HTML": HTML,
    "CSV": f"model,{','.join(COLUMNS)}\nSimCSE,{','.join(PRINTED)}\n",
    "columns between blanks": f"SimCSE-BERT  {'  '.join(PRINTED)}",
    "a task a line": "".join(
        f"| {c} | {v} |\n" for c, v in zip(COLUMNS, PRINTED, strict=True)
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_row_is_read_in_every_form(form, tmp_path):
    (tmp_path / "pasted").write_text(FORMS[form])
    for text in (FORMS[form], str(tmp_path / "pasted")):
        [row] = read_pasted(text, FOLDER.published_columns)
        assert tuple(row.values.values()) == PRINTED
        [origin] = FOLDER.origins(text)
        assert SIMCSE in [owner.first.row_id for owner in origin.owners]
        assert not origin.owners[0].wrong


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "STS12.json",
            json.dumps(
                {
                    "task_name": "STS12",
                    "scores": {"test": [{"cosine_spearman": 0.7236899999}]},
                }
            ),
        ),
        ("mine.csv", "STS12,STS13,STSBenchmark\n72.37,80.60,82.03\n"),
    ],
)
def test_figures_are_read_from_files(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    [origin] = FOLDER.origins(str(tmp_path / name))
    assert "minilm.mean" in [owner.first.method for owner in origin.owners]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("name\nsomething\n", "found none"), ("STS12\n\n", "found none")],
)
def test_a_file_without_figures_is_refused(tmp_path, text, complaint):
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(DataError, match=complaint):
        FOLDER.origins(str(tmp_path / "mine.csv"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("sts12=1.0,STS12=2.0", "one number a column"),
        ("sts12=45.09,64.3", "wanted COLUMN=NUMBER"),
        ("no number", "found no named number"),
    ],
)
def test_a_text_without_named_figures_is_refused(text, complaint):
    with pytest.raises(UsageError, match=complaint):
        FOLDER.origins(text)


# Whose row, and which figure is a misprint

ROWS = [
    [number for number in row.numbers.values() if number.decimals == 2]
    for row in FOLDER.published_rows
    if row.first.is_of_one_run
]
LONG_ROWS = [row for row in ROWS if len(row) >= 6][::12]


def origin(columns, values):
    text = f"Model,{','.join(columns)}\nsome,{','.join(values)}\n"
    [found] = FOLDER.origins(text)
    return found


def prints_the_same(owner, row):
    printed = FOLDER.numbers_by_row[owner.first.row_id].values()
    scores = [number.score for number in printed]
    return all(any(abs(each - n.score) < 0.02 for each in scores) for n in row)


def test_an_exchanged_figure_is_named_with_its_row():
    random = Random(0)
    for row in LONG_ROWS:
        values = [number.shown for number in row]
        place = random.randrange(len(row))
        digits = list(values[place])
        digits[0], digits[-1] = digits[-1], digits[0]
        if digits[0] == digits[-1] or row[place].is_average:
            continue
        values[place] = "".join(digits)
        owner = origin([n.column.id for n in row], values).owners[0]
        assert prints_the_same(owner, row)
        [wrong] = owner.wrong
        assert wrong.how == "two digits are exchanged"
        assert wrong.printed.column.id == row[place].column.id


def test_exchanged_columns_are_named_with_their_row():
    for row in LONG_ROWS:
        values = [number.shown for number in row]
        if values[0] == values[1]:
            continue
        values[:2] = reversed(values[:2])
        owner = origin([n.column.id for n in row], values).owners[0]
        assert prints_the_same(owner, row)
        assert [each.is_exchange for each in owner.wrong] == [True, True]


def test_rows_that_are_moved_have_no_false_owner():
    for moved, row in zip(cycle((0.1, 0.2, 0.3)), ROWS[::3], strict=False):
        if len(row) >= 4:
            values = [
                f"{n.score + moved * (-1) ** place:.2f}" for place, n in enumerate(row)
            ]
            assert origin([n.column.id for n in row], values).owners == []


def test_one_figure_is_a_hint_and_no_owner():
    for number in [row[0] for row in ROWS if row][::20]:
        [line] = origins_in_words(FOLDER.origins(f"{column_of(number)}={number.shown}"))
        assert line.startswith("One figure is a hint")


def test_an_average_that_is_not_the_mean_of_its_columns_is_told():
    values = [*PRINTED[:-1], "60.00"]
    found = origin(COLUMNS, values)
    assert round(found.average.mean, 2) == 81.57
    assert origin(COLUMNS, PRINTED).average is None


def test_rows_that_mix_protocols_are_told():
    rows = [
        FOLDER.numbers_by_row[name]
        for name in ("simcse.b2/sbert-all", "simcse.b2/sbert-wmean")
    ]
    names = ("sts12", "sts13", "sts14", "sts15", "sts16", "stsb", "sickr")
    values = [rows[name in ("sts12", "sts13")][name].shown for name in names]
    mixed = origin(names, values)
    assert mixed.rest.equal == ("sts12", "sts13")
    assert mixed.rest.first.aggregation == "wmean"
