"""Files of repositories on the hub, each compared with the digest that the hub lists.

The hub is whatever HF_ENDPOINT names. So the names, commits and digests that it sends
are checked before a path is made of them, and models are not downloaded by
huggingface_hub, which takes names of files from the headers of an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.assets.catalogue import Download
from harness.assets.fetch.http import (
    LISTING_SECONDS,
    STALL_SECONDS,
    call_with_limit,
    download,
    one_line_errors,
)
from harness.assets.snapshots import (
    COMMIT,
    SHA256,
    Snapshot,
    note_main,
    repository_folder,
)
from harness.core.digests import sha256_of
from harness.core.errors import AssetMissing, DataError
from harness.core.files import safe
from harness.core.interfaces import Hub

# The weights of the model, and those of its modules, in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULE_PATTERNS = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARY_PATTERNS = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
MODEL_FILES = ("*.json", *VOCABULARY_PATTERNS, *WEIGHTS, *MODULE_PATTERNS)
# The scores that a model claims for itself.
CLAIM_FILES = ("README.md", ".eval_results/*.yaml", ".eval_results/*.yml")

# The pattern of git's digest of a file, which is over a header and its bytes.
GIT_SHA1 = COMMIT


@dataclass(frozen=True)
class HubFile:
    """A file of a commit, as the hub lists it.

    Attributes:
        path: Its path in the repository.
        size: In bytes.
        sha256: The digest of a large file; None for a small one.
        git_sha1: Git's digest, which is of the content for a small file alone.

    Raises:
        ValueError: The path leaves its folder, or there is no digest of the content.
    """

    path: str
    size: int
    sha256: str | None
    git_sha1: str

    def __post_init__(self) -> None:
        if not _is_plain_path(self.path):
            raise ValueError("a file whose name leaves its folder")
        if self.sha256 is not None:
            has_digest = _is_sha256(self.sha256)
        else:
            has_digest = GIT_SHA1.fullmatch(self.git_sha1) is not None
        if not has_digest:
            raise ValueError("a file without a digest")

    def sha256_at(self, path: Path) -> str | None:
        """The sha256 of the local file, if it is this file by size and digest; else None."""
        if not path.is_file() or path.stat().st_size != self.size:
            return None
        found_sha256 = sha256_of(path)
        if self.sha256 is not None:
            return found_sha256 if found_sha256 == self.sha256 else None
        content = path.read_bytes()
        header = b"blob %d\0" % len(content)
        found_git = hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
        return found_sha256 if found_git == self.git_sha1 else None


def _is_plain_path(name: str) -> bool:
    """Whether a name is a relative path that means the same on every system."""
    try:
        return str(safe(name)) == name and name.isprintable()
    except ValueError:
        return False


def _is_sha256(digest: object) -> bool:
    return isinstance(digest, str) and SHA256.fullmatch(digest) is not None


def address_of(wanted: Download) -> str:
    """The address of a download; on the hub that HF_ENDPOINT names, if it is on a hub."""
    from huggingface_hub import hf_hub_url

    if wanted.repo is None:
        return wanted.at
    return hf_hub_url(
        wanted.repo,
        wanted.at,
        repo_type="model" if wanted.model else "dataset",
        revision=wanted.revision,
    )


def model_address(source: Hub) -> str:
    """The address at which the hub describes a model's repository and its commit."""
    from huggingface_hub import constants

    revision = f"/revision/{source.revision}" if source.revision else ""
    return f"{constants.ENDPOINT}/api/models/{source.repo}{revision}"


def is_of_hub(url: str) -> bool:
    """Whether an address is on the hub. No other host is sent the hub's token."""
    from huggingface_hub import constants

    return url.startswith(f"{constants.ENDPOINT}/")


def headers() -> dict[str, str]:
    """The headers of a request to the hub: the library's name, and the token if any."""
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    return build_hf_headers()


def download_file(
    wanted: Download, revision: str | None, target: Path
) -> tuple[str, str]:
    """Bring a file that the catalogue pins to no commit, and return its sha256 and commit.

    `revision` is the commit of an earlier download; without one the newest is taken.
    """
    from huggingface_hub import constants, get_hf_file_metadata

    folder = "" if wanted.model else "datasets/"
    page = f"{constants.ENDPOINT}/{folder}{wanted.repo}"
    with one_line_errors(wanted.at, page):
        url = address_of(replace(wanted, revision=revision))
        metadata = call_with_limit(LISTING_SECONDS, lambda: get_hf_file_metadata(url))
    commit = require_commit(wanted.at, page, metadata.commit_hash, revision)
    url = address_of(replace(wanted, revision=commit))
    sha256 = wanted.sha256
    if sha256 is None and _is_sha256(
        metadata.etag
    ):  # of a small file it is git's digest
        sha256 = metadata.etag
    return download(url, target, sha256, metadata.size, headers()), commit


def require_commit(name: str, page: str, found: object, wanted: str | None) -> str:
    """Return the commit that a hub answers with.

    Raises DataError for anything that is no commit, and for another commit than a
    wanted one. `name` and `page`, what was asked for and where, are for the message.
    """
    if not isinstance(found, str) or not COMMIT.fullmatch(found):
        raise DataError(
            f"{name}: wanted a commit of 40 hexadecimal digits from {page}, found another name; "
            "check HF_ENDPOINT"
        )
    if wanted is not None and COMMIT.fullmatch(wanted) and found != wanted:
        raise DataError(
            f"{name}: wanted commit {wanted} from {page}, found {found}; check HF_ENDPOINT"
        )
    return found


@dataclass(frozen=True)
class FetchedSnapshot:
    """A snapshot whose files have all come and been compared with their digests.

    Attributes:
        snapshot: Its folders.
        files: The sha256 of each file, by its path.
        is_newest: Whether its commit was the repository's newest.
    """

    snapshot: Snapshot
    files: Mapping[str, str]
    is_newest: bool

    @property
    def folder(self) -> Path:
        return self.snapshot.folder

    def seal(self) -> None:
        """Declare the snapshot complete, so that encoders are read from it."""
        self.snapshot.seal(self.files)
        if self.is_newest:
            note_main(self.snapshot.repository, self.snapshot.commit)


def fetch_model(name: str, repo: str, revision: str | None) -> FetchedSnapshot:
    """Bring a model's files into the hub's cache, each after a check of its digest.

    The caller seals the snapshot, which is incomplete until then.

    Args:
        name: The name of the encoder, for messages.
        repo: The repository, `owner/name`.
        revision: The commit; None for the newest.

    Raises:
        AssetMissing: A file cannot be had. The others stay for the next fetch.
        DataError: A file is not what the hub lists.
    """
    from huggingface_hub import constants, hf_hub_url

    commit, files = _listing(name, repo, revision, f"{constants.ENDPOINT}/{repo}")
    snapshot = Snapshot(repository_folder(repo), commit)
    snapshot.open()
    digests: dict[str, str] = {}
    for file in files:
        path = snapshot.folder / file.path
        digest = file.sha256_at(path)
        if digest is None:
            url = hf_hub_url(repo, file.path, revision=commit)
            digest = _fetch_file(name, url, file, path, snapshot.unfinished / file.path)
        digests[file.path] = digest
    return FetchedSnapshot(snapshot, digests, is_newest=revision is None)


def _fetch_file(
    name: str, url: str, file: HubFile, path: Path, unfinished: Path
) -> str:
    """Download a file to `unfinished`, compare it, move it to `path`; return its sha256."""
    digest = download(url, unfinished, file.sha256, file.size, headers())
    if file.sha256 is None and file.sha256_at(unfinished) is None:
        unfinished.unlink()
        raise DataError(
            f"{name}: {url} has another digest than the hub lists, {file.git_sha1}; it was "
            "thrown away: fetch it again"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished.replace(path)  # where it was a link, its target stays
    return digest


def _listing(
    name: str, repo: str, revision: str | None, page: str
) -> tuple[str, list[HubFile]]:
    """The commit of a revision, and the files of it that a model is read from."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    hub = HfApi()
    try:
        with one_line_errors(name, page):
            info = call_with_limit(
                LISTING_SECONDS,
                lambda: hub.model_info(repo, revision=revision, timeout=STALL_SECONDS),
            )
            commit = require_commit(name, page, info.sha, revision)
            # The list is made in the call, since each page of it is another request.
            entries = call_with_limit(
                LISTING_SECONDS,
                lambda: list(hub.list_repo_tree(repo, revision=commit, recursive=True)),
            )
        entries_by_path = {
            entry.path: entry for entry in entries if isinstance(entry, RepoFile)
        }
        files = []
        for path in model_files(entries_by_path):
            entry = entries_by_path[path]
            sha256 = entry.lfs.sha256 if entry.lfs else None
            files.append(HubFile(path, entry.size, sha256, git_sha1=entry.blob_id))
    except (LookupError, TypeError, ValueError) as error:
        # HubFile raises ValueError; an answer of another form raises the others.
        fault = str(error) if type(error) is ValueError else "no files"
        raise DataError(
            f"{name}: wanted the files of a model from {page}, found {fault}; nothing was "
            "downloaded: check HF_ENDPOINT"
        ) from None
    if not any(_matches(file.path, MODEL_FILES) for file in files):
        raise AssetMissing(f"{name}: {repo} on the hub holds no model")
    return commit, files


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
    return name.rpartition("/")[0]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
