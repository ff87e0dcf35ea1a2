"""Archives, pins and texts of tables that mean harm: refused, or shown as they are."""

import io
import random
import re
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from fakes import snapshot
from markdown_it import MarkdownIt

from harness.assets.catalogue import Download
from harness.assets.fetch.archives import unpack_archive
from harness.assets.places import PINS_SCHEMA, PinFile
from harness.core.errors import DataError
from harness.report import markdown
from harness.report.latex import character_commands, latex_escape

ATTACK = "hostile"
COMMIT = "1" * 40
PARTS = (
    *(
        "..",
        ".",
        "",
        "/",
        "~",
        "C:",
        "\\",
        "..\\..",
        "\0",
        "\n",
        "%2e%2e",
        "a" * 300,
        "\u202e",
    ),
    *(
        "data",
        "texts",
        "models",
        "me",
        "pinned",
        COMMIT,
        "refs",
        "main",
        ".harness",
        "pins.json",
    ),
    *("datasets", "a.txt", "b.txt", "con", "index.json", "-rf", "$HOME"),
)
ANY = Download("https://host/any", r"texts/\1", keep=r"(.*)", unpacked=500)


def names(dice):
    return dice.choice(["/", "\\", ""]).join(dice.choices(PARTS, k=dice.randint(1, 5)))


def packed(dice, path):
    """An archive of some members, each of them a file, a link, a device or a folder."""
    members = [
        (names(dice), dice.randbytes(dice.choice([0, 9, 300]))) for _ in range(3)
    ]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members:
                info = zipfile.ZipInfo(name or "x")
                info.external_attr = dice.choice([0, stat.S_IFLNK << 16])
                archive.writestr(info, content)
        return
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.type = dice.choice(
                [
                    *[tarfile.REGTYPE] * 6,
                    tarfile.SYMTYPE,
                    tarfile.LNKTYPE,
                    tarfile.FIFOTYPE,
                ]
            )
            info.linkname, info.size = (
                "/etc/passwd",
                len(content) if info.isreg() else 0,
            )
            archive.addfile(info, io.BytesIO(content))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_an_archive_stays_in_its_folder_or_leaves_nothing(attacked, suffix, tmp_path):
    dice = random.Random(suffix)
    for number in range(attacked.times(100, 5000)):
        here = tmp_path / str(number)
        (here / "into").mkdir(parents=True)
        archive = here / f"a{suffix}"
        packed(dice, archive)
        content = bytearray(archive.read_bytes())
        if dice.random() < 0.2:
            content[dice.randrange(len(content))] = dice.randrange(256)
            archive.write_bytes(content)
        complaint = None
        try:
            placed = unpack_archive(archive, ANY, here / "into")
        except (
            DataError,
            OSError,
        ) as error:  # also a name that this file system does not take
            complaint, placed = error, {}
        assert {*snapshot(here)} == {
            archive.name,
            *(f"into/{name}" for name in placed),
        }, complaint
        assert not any(path.is_symlink() for path in here.rglob("*"))
        shutil.rmtree(here)
        attacked.count("refused" if complaint else "right")


def test_a_pin_names_files_below_the_folder_and_digests_alone(attacked):
    dice = random.Random(0)
    for _ in range(attacked.times(2000, 200_000)):
        what, digest = names(dice), dice.choice([names(dice), "00", COMMIT])
        try:
            PinFile(PINS_SCHEMA, {"a": {what: digest}})
        except ValueError:
            attacked.count("refused")
            continue
        assert re.fullmatch("[0-9A-Za-z]+", digest)
        assert not Path(what).is_absolute()
        assert ".." not in Path(what.replace("\\", "/")).parts
        attacked.count("right")


PIECES = (
    *(
        "<script>",
        "</td>",
        "<img src=x onerror=alert(1)>",
        "<!--",
        "-->",
        "<!-- /leaderboard -->",
    ),
    *(
        "[a](javascript:b)",
        "![",
        "](",
        "`",
        "``",
        "|",
        "\n",
        "\n\n# ",
        "\n---\n",
        "\n- ",
        "1. ",
    ),
    *(
        "\\",
        "\\input{x}",
        "{",
        "}",
        "$",
        "%",
        "&",
        "#",
        "_",
        "^",
        "~",
        "*",
        "**",
        "&lt;",
        "&#60;",
    ),
    *(
        "\x00",
        "\x85",
        "\u2028",
        "=1+1",
        "word",
        " ",
        "http://example.org",
        "<http://a.b>",
    ),
)
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
TAGS = ("paragraph", "table", "thead", "tbody", "tr", "th", "td")
ALLOWED = {"inline", "text", "code_inline", "text_special"}
ALLOWED |= {f"{tag}_{side}" for tag in TAGS for side in ("open", "close")}
COMMANDS = {
    command
    for shown in character_commands().values()
    for command in re.findall(r"\\([a-z]+)", shown)
}


def test_a_text_of_a_table_is_no_markup_and_no_command(attacked):
    dice = random.Random(0)
    for _ in range(attacked.times(500, 50_000)):
        text = "".join(dice.choices(PIECES, k=dice.randint(1, 8)))
        cell = markdown.table(["a", "b"], [[markdown.escape(text), "c"]])
        tokens = [
            t for token in PARSER.parse(cell) for t in (token, *(token.children or ()))
        ]
        assert {token.type for token in tokens} <= ALLOWED, repr(text)
        assert len([token for token in tokens if token.type == "td_open"]) == 2
        line = latex_escape(text)
        assert "\n" not in line
        assert set(re.findall(r"\\([a-zA-Z]+)", line)) <= COMMANDS | {"texttt"}, repr(
            text
        )
        assert not re.search(r"(?<!\\)[%#&_]", line.replace("\\\\", ""))
        attacked.count("right")
