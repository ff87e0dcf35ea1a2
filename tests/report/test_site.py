"""The page of results: all that is published is on it, text is text, and it is made when due."""

import hashlib
import json
import re

import pytest
from committed import RESULTS, TABLES, committed_results
from fakes import FakeConfig, made_record, registry, results_folder, results_of
from test_hostile_text import table_of

from harness.conclusions.folder import Conclusions
from harness.report.build import SlowFile, generated
from harness.report.pictures import picture_of
from harness.report.site_page import SITE_PAGE, made_from
from harness.report.table import TEMPLATE_FOLDER
from harness.results.index import Results

DATA_TABLES = TEMPLATE_FOLDER / "vendor" / "dataTables.min.js"
LARGEST = 4_000_000  # bytes


@pytest.fixture(scope="module")
def committed():
    return (RESULTS / SITE_PAGE).read_text(encoding="utf-8")


def test_committed_pictures_and_page_are_what_the_records_make():
    """`report --check` compares their digests and what they are made from; this draws them."""
    due = generated(Conclusions(RESULTS), None).items()
    slow = {path: made.make() for path, made in due if isinstance(made, SlowFile)}
    assert len(slow) > 2
    # Names alone: a page is a megabyte, and so would its difference be.
    assert [p.name for p, text in slow.items() if text.encode() != p.read_bytes()] == []


def test_it_is_one_whole_file_that_asks_for_no_other_and_names_its_cells(committed):
    assert 500_000 < len(committed.encode()) < LARGEST
    assert committed.rstrip().endswith("</html>")
    # The last prefix is that of a drawing, within an address of data.
    own = ("#", "data:", "../tables/", "../../docs/", "%23")
    addresses = re.findall(r'\b(?:src|href)=["\']([^"\']+)', committed)
    assert [address for address in addresses if not address.startswith(own)] == []
    assert not re.search(r"@import|url\(\s*['\"]?http", committed)
    headings = re.findall(r"<th\b[^>]*>", committed)
    assert len(headings) > 1000
    assert [heading for heading in headings if "scope=" not in heading] == []


def test_every_published_and_every_measured_cell_is_on_it(committed):
    data = json.loads(re.search(r'id="data">(.*?)</script>', committed, re.DOTALL)[1])
    published = {cell.id for table in TABLES for cell in table.numbers}
    assert {*data["cells"]} == published
    measured = committed_results().by_cell
    assert {(m, t) for m, of in data["scores"].items() for t in of} == set(measured)


def test_the_tables_script_is_npm_s(committed):
    # datatables.net@3.1.5, package/js/dataTables.min.js
    published = "38017a5586acd9c6eb6bbfe8b6938e1a25bdc717c5acfcb07e0c9d663282c59d"
    assert hashlib.sha256(DATA_TABLES.read_bytes()).hexdigest() == published
    assert DATA_TABLES.read_text(encoding="utf-8") in committed
    assert "MIT" in (DATA_TABLES.parent / "LICENSE.txt").read_text(encoding="utf-8")


# When it is made


def test_what_it_is_made_from_changes_with_records_pictures_and_tables(tmp_path):
    fakes = registry(FakeConfig())
    record = made_record("fake.mean", "sts-b", {"spearman": {"all": 60.0}})
    empty = results_folder(tmp_path, fakes, Results({}))
    full = results_folder(tmp_path, fakes, results_of(record))
    with_table = results_folder(tmp_path, fakes, Results({}), table_of("a table"))
    drawn = picture_of(Conclusions(RESULTS))
    made_of = [(empty, None), (full, None), (full, drawn), (with_table, None)]
    assert len({made_from(*parts) for parts in made_of}) == len(made_of)
