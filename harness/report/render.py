"""Pages: a template of the folder `templates`, filled with tables and sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.report.markdown import escape, link_to
from harness.report.table import ShownTable, markdown, table_of
from harness.results.verdict import TOLERANCES

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATE_FOLDER = Path(__file__).with_name("templates")
JSON_FORM = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
SEVERAL_EMPTY_LINES = re.compile(r"\n{3,}")


def rendered(template: str, **values: Any) -> str:
    """A template filled with values; at most one empty line is between two others."""
    text = templates().get_template(template).render(values)
    if template.endswith(".md"):
        text = SEVERAL_EMPTY_LINES.sub("\n\n", text)
    return text.strip() + "\n"


@cache
def templates() -> Environment:
    """The templates; in those of HTML every text is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    made = Environment(
        loader=FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"md": escape, "table": _in_markdown, "link": link_to}
    made.policies["json.dumps_kwargs"] = JSON_FORM
    made.globals["tolerances"] = TOLERANCES
    return made


def _in_markdown(
    rows: ShownTable | Iterable[Iterable[object]], *head: str, texts: int = 1
) -> str:
    """A table in Markdown, of rows with the headings that the template gives them."""
    return markdown(
        rows if isinstance(rows, ShownTable) else table_of(head, rows, texts)
    )
