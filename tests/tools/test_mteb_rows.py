"""Published rows out of a checkout of MTEB's results: gathered with all digits, refused by name."""

import json

import committed
import pytest
from mteb_rows import DECLARATION, Declaration, compare, make_tables
from processes import ROOT
from refusals import refused

from harness.core.errors import DataError
from harness.core.toml import read_typed
from harness.registry import load_registry
from harness.results.published_tables import load_table

REGISTRY = load_registry()
TABLES = {table.id: table for table in committed.TABLES}
DECLARED = read_typed(Declaration, ROOT / "results" / "questions" / DECLARATION).tables

BENCHMARK = 'task = "sts-b", file = "STSBenchmark.json", revision = "b0"'
HEAD = f"""\
paper = "A repository"
table = "its results"
title = "Results of two models"
cite = "muennighoff2023mteb"
source = "a fixture"
metric = "spearman"
aggregation = "all"
evidence = "code"
scale = 1
columns = [
  {{ id = "sts-b", label = "STS-B", {BENCHMARK} }},
  {{ id = "sts16", label = "S", task = "sts16.senteval", file = "STS16.json", revision = "4d" }},
  {{ id = "p", label = "STS-B", {BENCHMARK}, metric = "pearson" }},
]
"""
ROWS = """
[[table]]
id = "mteb.9"
rows = [
  { method = "multilingual-e5-base.native:sts" },
  { why_not = "remote-code", model = "someone/coded", revision = "r1", without = ["sts16"] },
]
"""
E5 = REGISTRY.encoders["multilingual-e5-base"].source
E5_FOLDER = f"results/{E5.repo.replace('/', '__')}/{E5.revision}"


def result(spearman, revision, version="1.12.75", **more):
    """A result file; numbers are written as they are given."""
    scores = {
        "cosine_spearman": spearman,
        "main_score": spearman,
        "hf_subset": "default",
        **more,
    }
    text = json.dumps({
        "dataset_revision": revision, "mteb_version": version, "scores": {"test": [scores]}
    })  # fmt: skip
    return text.replace('"<', "").replace('>"', "")


@pytest.fixture
def files(tmp_path):
    """A results folder with a table's head and declaration, and a checkout of two models."""
    coded = "results/someone__coded/r1"
    old = '{"mteb_version": "1.2.0", "dataset_revision": "b0", "test": {"cos_sim": '
    benchmark = result("<0.8563930748879539>", "b0", cosine_pearson="<0.10>")
    texts = {
        "own/papers/mteb.9.toml": HEAD,
        f"own/questions/{DECLARATION}": ROWS,
        f"checkout/{E5_FOLDER}/STSBenchmark.json": benchmark,
        f"checkout/{E5_FOLDER}/STS16.json": result("<8.4e-05>", "4d"),
        f"checkout/{coded}/STSBenchmark.json": old
        + '{"pearson": 0.5, "spearman": 0.123400}}}',
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def table_made_from(files):
    [table] = make_tables(files / "own", files / "checkout", REGISTRY)
    table.path.write_text(table.text)
    return table


def test_rows_have_every_digit_prompt_version_and_place(files, approved):
    table = table_made_from(files)
    assert (table.rows, table.numbers) == (2, 5)
    assert load_table(table.path).rows
    assert table_made_from(files).text == table.text
    assert table.text == approved("golden/mteb_rows.txt")


WRONG = {
    "NaN": (result(float("nan"), "4d"), "found NaN "),
    "points": (result(84.2, "4d"), "wanted cosine_spearman as a fraction"),
    "other data": (result(0.5, "another"), "wanted data of revision 4d, found another"),
    "other similarity": (
        result(0.5, "4d", main_score=0.6),
        "its similarity is another",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_score_is_refused_by_model_and_file(files, what):
    text, fault = WRONG[what]
    (files / "checkout" / E5_FOLDER / "STS16.json").write_text(text)
    with refused(DataError, rf"^{E5.repo}: .*STS16\.json.*{fault}"):
        table_made_from(files)


def test_a_result_is_there_where_the_declaration_says(files):
    (files / "checkout" / E5_FOLDER / "STS16.json").unlink()
    with refused(DataError, rf"{E5.repo}: .*wants a result, found none"):
        table_made_from(files)


def test_a_published_number_that_is_not_the_checkouts_is_refused(files):
    table_made_from(files)
    place = files / "own" / "papers" / "mteb.9.toml"
    assert compare((load_table(place),), files / "checkout") == 5
    place.write_text(
        place.read_text().replace("0.8563930748879539", "0.8563930748879538")
    )
    with refused(DataError, r"mteb\.9/multilingual-e5-base/sts-b: wanted 0\.85639"):
        compare((load_table(place),), files / "checkout")


def test_every_declared_row_stands_in_its_table_with_its_encoders_revision():
    for declared in DECLARED:
        table = TABLES[declared.id]
        assert len(declared.rows) == len(table.rows)
        by_method = {row.method: row for row in table.rows if row.method}
        columns = {column.id for column in table.columns if column.task}
        for wanted in (row for row in declared.rows if row.method):
            row = by_method[wanted.method]
            source = REGISTRY.parse(wanted.method).encoder.source
            assert row.backbone == f"{source.repo}@{source.revision}"
            assert set(wanted.without) == columns - row.values.keys()
