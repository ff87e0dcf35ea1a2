"""The page of speed: what is measured, and what is not."""

import pytest

from harness.core.files import write_json
from harness.report.speed import result_file, speed_page
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED

SPEED = "".join(
    f'[[row]]\nid = "{name}"\nwhat = "{what}"\nagainst = "slow"\ndevice = "cpu"\nwanted = "1.3"\n'
    for name, what in (("fast", "The fast way"), ("gpu", "On a GPU"))
)
RESULT = {
    "ratios": [1.5, 1.4, 1.9, 1.45, 1.6],
    "wanted": 1.3,
    "facts": {"sentences": 4000},
    "environment": {
        "processor": "A processor",
        "harness": "0.5.0",
        "commit": "0123456789",
    },
}


def cells(page, what):
    [line] = [line for line in page.splitlines() if line.startswith(f"| {what} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize(
    ("wanted", "remark"),
    [(1.3, ""), (1.6, " (missed)"), (1.45, " (not in every round)")],
)
def test_a_ratio_has_its_median_and_range_and_another_says_that_it_has_none(
    wanted, remark, tmp_path
):
    rows = tmp_path / "questions" / "speed.toml"
    rows.parent.mkdir()
    rows.write_text(SPEED)
    write_json(result_file(rows, "fast"), RESULT | {"wanted": wanted})
    page = speed_page(ResultsFolder(tmp_path))
    measured = [f"1.50{remark}", "1.40–1.90", "5", "0.5.0, 01234567"]
    assert cells(page, "The fast way")[3:] == [f"1.3 (here {wanted})", *measured]
    assert cells(page, "On a GPU")[3:] == ["1.3", NOT_MEASURED, "", "", ""]
