"""The table tests/refusals.toml, whose small whole files other tests begin with."""

import tomllib
from pathlib import Path

REFUSALS = tomllib.loads(
    (Path(__file__).resolve().parents[1] / "refusals.toml").read_text(encoding="utf-8")
)
