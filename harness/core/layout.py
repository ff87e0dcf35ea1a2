"""Where the harness is installed: in a checkout, or from a wheel.

A wheel holds the folder `baselines` as the package `harness.baselines`, the folder
`results` without its generated pages as `harness/data/committed`, and the templates
of plug-ins as `harness/templates`.
"""

from __future__ import annotations

from pathlib import Path

HARNESS = Path(__file__).resolve().parents[1]
IS_WHEEL = (HARNESS / "baselines").is_dir()

# INSTALLATION holds all code, TEMPLATE_FOLDER the plug-ins that `harness new` copies.
if IS_WHEEL:
    INSTALLATION = HARNESS
    TEMPLATE_FOLDER = HARNESS / "templates"
else:
    INSTALLATION = HARNESS.parent
    TEMPLATE_FOLDER = HARNESS.parent / "examples" / "plugins" / "templates"

BASELINES = INSTALLATION / "baselines"
