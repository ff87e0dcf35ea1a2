"""A hook of MkDocs: the pictures of results/tables, which pages show from where they lie."""

from pathlib import Path

from mkdocs.structure.files import File

TABLES = Path(__file__).parents[1] / "results" / "tables"


def on_files(files, config):
    """Copy them beside the pages."""
    for path in sorted(TABLES.glob("*.svg")):
        files.append(
            File.generated(config, f"pictures/{path.name}", abs_src_path=str(path))
        )
    return files


def on_page_markdown(markdown, **_):
    """Show the copies."""
    return markdown.replace("(../results/tables/", "(pictures/")
