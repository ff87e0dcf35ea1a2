"""Text from data is shown as text on every page: read back by a parser, it is no markup."""

import re

import pytest
from fakes import FakeConfig, registry
from markdown_it import MarkdownIt

from harness.core.errors import HarnessError
from harness.report import markdown as md
from harness.report.paper_tables import paper_latex, paper_page
from harness.results.index import Results
from harness.results.published import Column, Row, Table
from harness.results.reproduction import reproductions

REGISTRY = registry(FakeConfig())
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
HOSTILE = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "[here](javascript:alert(1))",
    "![picture](http://example.org/x.png)",
    "<http://example.org>",
    "one\ntwo\n\n# three\n---\n- four",
    "a | b || c \\| d",
    "<!-- /leaderboard -->",
    "`<!-- /leaderboard -->`",
    "**bold** _slanted_ ~~gone~~ `unclosed",
    "``two `ticks`` and `code | pipe`",
    "&lt;b&gt; &#60;i&#62;",
    "\\input{/etc/passwd} $x^2$ 50% #1 {a} ~b~",
    "[1]: http://example.org",
    "\u2028 and \x00 and \x85",
    "1. first",
]
LATEX_COMMANDS = {
    "begin", "end", "toprule", "midrule", "bottomrule", "multicolumn", "textit", "texttt", "quad",
    "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater",
    "textasciigrave", "textbar", "textsuperscript", "dag", "circ",
}  # fmt: skip


def table_of(text: str) -> Table:
    """A table that holds a text wherever a table can hold one."""
    columns = (
        Column("a", text, task="sts-b", note=text),
        Column("b", f"{text} 2", task="sts-b", metric="pearson"),
    )
    rows = (
        Row("r", text, text, text, text, {"a": "58.40"}, why_not="spread", group=text),
        Row("s", text, text, text, text, {"a": "5.0", "b": "6.0"}, method="fake.mean", note=text,
            group=f"{text} 2", notes={"a": text}),
        Row("t", text, text, "none", text, {"a": "1.00"}, why_not="spread", trained_on=text,
            group=f"{text} 2"),
    )  # fmt: skip
    return Table("t", text, text, text, text, text, "spearman", columns, rows, evidence="paper",
                 notes=(text,))  # fmt: skip


def rendered(render, text: str) -> str:
    table = table_of(text)
    empty = Results({})
    made = render(table, reproductions(table, empty, REGISTRY), REGISTRY, empty)
    return made if isinstance(made, str) else made.text


def tokens(page: str):
    for token in PARSER.parse(page):
        yield token
        yield from token.children or ()


def without_marks(text: str) -> str:
    """A text without the marks and spaces in which its forms on a page differ."""
    return re.sub(r"[\s`\x00-\x1f\x7f\x85\ufffd]+", "", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_shows_it_and_nothing_of_it_is_markup(text):
    page = rendered(paper_page, text)
    found = list(tokens(page))
    raw = [t.content for t in found if t.type in ("html_block", "html_inline")]
    assert set(map(str.strip, raw)) <= {md.GENERATED_NOTE, "<wbr>"}
    kinds = {t.type for t in found}
    assert not kinds & {
        "link_open",
        "image",
        "strong_open",
        "s_open",
        "fence",
        "code_block",
        "hr",
    }
    headings = [n for n, t in enumerate(found) if t.type == "heading_open"]
    assert len(headings) == 2  # the title and Rows
    words = "".join(t.content for t in found if t.type in ("text", "code_inline"))
    assert without_marks(words).count(without_marks(text)) >= 12
    heads = [t for t in found if t.type == "tr_open"]
    cells = [t for t in found if t.type in ("th_open", "td_open")]
    assert (len(heads), len(cells)) == (6, 6 * 4)  # the head, two groups, three rows


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_no_command_of_latex(text):
    every = rendered(paper_latex, text).splitlines()
    lines = [line for line in every if not line.startswith("%")]
    assert all(line.isprintable() for line in every if line.startswith("%"))
    assert lines[0] == r"\begin{tabular}{llrr}"
    assert lines[-1] == r"\end{tabular}"
    for line in lines:
        assert set(re.findall(r"\\([a-zA-Z]+)", line)) <= LATEX_COMMANDS
        bare = re.sub(r"\\.", "", line)
        assert "%" not in bare
        assert "#" not in bare
        assert bare.count("{") == bare.count("}")
        if line.endswith("\\\\") and "multicolumn" not in line:
            assert bare.count("&") == 3


def test_a_part_that_would_end_itself_is_refused():
    with pytest.raises(HarnessError, match="is in the text of the part that it ends"):
        md.between_markers("<!-- x -->\n<!-- /x -->", "x", "a <!-- /x --> b")


def test_a_bar_in_a_cell_does_not_end_it():
    assert md.table(["x"], [["a | b"]]).splitlines()[-1] == "| a \\| b |"
