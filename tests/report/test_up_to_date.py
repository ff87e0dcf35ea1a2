"""`report --check`: a generated file with one digit changed is stale."""

import random
import shutil

import pytest
from committed import RESULTS

from harness.conclusions.folder import Conclusions
from harness.report.build import (
    EXAMPLE_RECORDS,
    EXAMPLES_PAGE,
    SlowFile,
    generated,
    stale_files,
)


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the committed results, of the README, and of the examples' page and records."""
    folder = tmp_path_factory.mktemp("copied")
    shutil.copy(RESULTS.parent / "README.md", folder)
    (folder / EXAMPLES_PAGE).parent.mkdir(parents=True)
    shutil.copy(RESULTS.parent / EXAMPLES_PAGE, folder / EXAMPLES_PAGE)
    shutil.copytree(RESULTS.parent / EXAMPLE_RECORDS, folder / EXAMPLE_RECORDS)
    shutil.copytree(RESULTS, folder / "results")
    return folder / "results"


def test_every_generated_page_with_a_digit_changed_is_stale(copied):
    readme, dice = copied.parent / "README.md", random.Random(0)
    pages = generated(Conclusions(copied), readme)
    assert stale_files(Conclusions(copied), readme) == []
    for path, content in pages.items():
        text = path.read_text()
        part = content.made_from if isinstance(content, SlowFile) else content
        start, end = text.find(part), text.find(part) + len(part)
        if path in (readme, copied.parent / EXAMPLES_PAGE):
            start, end = text.index("<!-- /"), len(text)
            start, end = text[:start].rindex("-->"), start
        places = [n for n in range(start, end) if text[n].isdecimal()]
        place = dice.choice(places)
        path.write_text(
            text[:place] + str((int(text[place]) + 1) % 10) + text[place + 1 :]
        )
    stray = copied / "tables" / "encoders" / "gone.md"
    shutil.copy(stray.with_name("minilm.md"), stray)
    (copied / "tables" / "of-the-user.md").write_text("My notes.\n")
    stale = stale_files(Conclusions(copied), readme)
    assert {*stale} == {*pages, stray}
