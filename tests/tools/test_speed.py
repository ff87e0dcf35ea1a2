"""The page of speed: what is measured, and what is not."""

from harness.conclusions.folder import Conclusions
from harness.core.files import write_json
from harness.report.speed import result_file, speed_page

# What is wanted of each row, beside a median of 1.5; of one nothing was measured.
WANTED = {"reached": 1.3, "missed": 1.6, "missed now and then": 1.45, "not run": 2}
ROW = '[[row]]\nid = "{0}"\nwhat = "{0}"\nagainst = "slow"\ndevice = "cpu"\nwanted = "{1}"\n'
RESULT = {
    "ratios": [1.5, 1.4, 1.9, 1.45, 1.6],
    "facts": {"sentences": 4000},
    "environment": {
        "processor": "A processor",
        "harness": "0.5.0",
        "commit": "0123456789",
        "packages": {"torch": "2.0", "transformers": "5.0"},
    },
}


def test_ratios_have_their_median_and_range_on_an_approved_page(tmp_path, approved):
    rows = tmp_path / "questions" / "speed.toml"
    rows.parent.mkdir()
    rows.write_text("".join(ROW.format(*row) for row in WANTED.items()))
    for name in [*WANTED][:-1]:
        write_json(result_file(rows, name), RESULT | {"wanted": WANTED[name]})
    assert speed_page(Conclusions(tmp_path)) == approved("golden/speed.md")
