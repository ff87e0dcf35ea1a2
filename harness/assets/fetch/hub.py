"""Files of repositories on the hub, each compared with the digest that the hub lists.

The hub is any host that HF_ENDPOINT names. So the names, commits and digests that it
sends are checked before a path is made of them, and models are not downloaded by
huggingface_hub, which takes names of files from the headers of an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from harness.assets.catalogue import Download
from harness.assets.fetch.download import download_url
from harness.assets.fetch.http import (
    LISTING_SECONDS,
    STALL_SECONDS,
    call_with_limit,
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
from harness.core.files import safe_path
from harness.core.interfaces import Hub

# The weights of the model, and of its modules, which are in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULE_PATTERNS = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARY_PATTERNS = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
MODEL_FILES = ("*.json", *VOCABULARY_PATTERNS, *WEIGHTS, *MODULE_PATTERNS)
# The scores that a model claims for itself.
CLAIM_FILES = ("README.md", ".eval_results/*.yaml", ".eval_results/*.yml")

GIT_SHA1 = COMMIT  # git's digest of a file has the form of a commit


@dataclass(frozen=True)
class HubFile:
    """A file of a commit, as the hub lists it.

    Attributes:
        path: Its path in the repository.
        size: In bytes.
        sha256: The digest of a large file; None for a small one.
        git_sha1: Git's digest. Of a large file it is not the digest of its content.

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
        local_sha256 = sha256_of(path)
        if self.sha256 is not None:
            return local_sha256 if local_sha256 == self.sha256 else None
        return local_sha256 if _git_sha1(path) == self.git_sha1 else None


def _git_sha1(path: Path) -> str:
    """Git's digest of a file, which is over a header and the content."""
    content = path.read_bytes()
    header = b"blob %d\0" % len(content)
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()


def _is_plain_path(name: str) -> bool:
    """Whether a name is a relative path that means the same on every system."""
    try:
        return str(safe_path(name)) == name and name.isprintable()
    except ValueError:
        return False


def _is_sha256(digest: object) -> bool:
    """Whether an object is the text of a sha256."""
    return isinstance(digest, str) and SHA256.fullmatch(digest) is not None


def address_of(download: Download) -> str:
    """The address of a download: its own, or one on the hub that HF_ENDPOINT names."""
    from huggingface_hub import hf_hub_url

    if download.repo is None:
        return download.at
    return hf_hub_url(
        download.repo,
        download.at,
        repo_type="model" if download.model else "dataset",
        revision=download.revision,
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
    download: Download, revision: str | None, target: Path
) -> tuple[str, str]:
    """Bring a file that the catalogue pins to no commit, and return its sha256 and commit.

    `revision` is the commit of an earlier download; without one the newest is taken.
    """
    from huggingface_hub import constants, get_hf_file_metadata

    folder = "" if download.model else "datasets/"
    page = f"{constants.ENDPOINT}/{folder}{download.repo}"
    with one_line_errors(download.at, page):
        url = address_of(replace(download, revision=revision))
        metadata = call_with_limit(LISTING_SECONDS, lambda: get_hf_file_metadata(url))
    commit = require_commit(download.at, page, metadata.commit_hash, revision)
    url = address_of(replace(download, revision=commit))
    sha256 = download.sha256
    # The ETag is the sha256 of a large file, and git's digest of a small one.
    if sha256 is None and _is_sha256(metadata.etag):
        sha256 = metadata.etag
    return download_url(url, target, sha256, metadata.size, headers()), commit


def require_commit(name: str, page: str, answer: object, revision: str | None) -> str:
    """Return the commit that a hub answers with.

    Args:
        name: What was asked for, for the message.
        page: The address that was asked, for the message.
        answer: The commit in the answer; any object, since the hub may be any host.
        revision: The commit or branch that was asked for; None for the newest commit.

    Raises:
        DataError: The answer is no commit, or not the commit that was asked for.
    """
    if not isinstance(answer, str) or not COMMIT.fullmatch(answer):
        raise DataError(
            f"{name}: wanted a commit of 40 hexadecimal digits from {page}, found another name; "
            "check HF_ENDPOINT"
        )
    is_commit = revision is not None and COMMIT.fullmatch(revision) is not None
    if is_commit and answer != revision:
        raise DataError(
            f"{name}: wanted commit {revision} from {page}, found {answer}; check HF_ENDPOINT"
        )
    return answer


@dataclass(frozen=True)
class FetchedSnapshot:
    """A snapshot all of whose files were downloaded and compared with their digests.

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
        """The folder of its files."""
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
        AssetMissing: A file cannot be downloaded. The next fetch uses the others.
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
    """Download a file, compare its digest, and return its sha256.

    Args:
        name: The name of the encoder, for messages.
        url: The address of the file.
        file: The file as the hub lists it.
        path: Where it goes.
        unfinished: Where it is until its digest was compared.
    """
    digest = download_url(url, unfinished, file.sha256, file.size, headers())
    if file.sha256 is None and file.sha256_at(unfinished) is None:
        unfinished.unlink()
        raise DataError(
            f"{name}: {url} has another digest than the hub lists, {file.git_sha1}; it was "
            "thrown away: fetch it again"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished.replace(path)  # replaces a link, and not the file that it points to
    return digest


def _listing(
    name: str, repo: str, revision: str | None, page: str
) -> tuple[str, list[HubFile]]:
    """The commit of a revision, and its files that a model is read from.

    Args:
        name: The name of the encoder, for messages.
        repo: The repository, `owner/name`.
        revision: The revision; None for the newest commit.
        page: The address of the repository, for messages.
    """
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
        # HubFile raises ValueError itself. An answer of another form than huggingface_hub
        # expects raises the other errors, or a subclass of ValueError.
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
    """The folder in the path of a file; empty at the top."""
    return name.rpartition("/")[0]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
