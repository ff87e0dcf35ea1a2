"""How the harness is installed: a checkout or a wheel, and which optional packages are present.

A wheel holds the folder `baselines` as the package `harness.baselines`, and the folder `results`
without its generated pages as `harness/assets/committed`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.core.errors import UsageError

HARNESS = Path(__file__).resolve().parents[1]
FROM_WHEEL = (HARNESS / "baselines").is_dir()
ROOT = HARNESS if FROM_WHEEL else HARNESS.parent
BASELINES = ROOT / "baselines"


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what an extra brings. Raises UsageError with its command for a package not here."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the package {error.name} is not installed; get it: "
            f"pip install 'sentence-embedding-harness[{name}]'"
        ) from None
