"""Files of hub repositories, each compared with its digest there.

What a hub says of names, commits and digests is checked before any path is made of it:
a hub is whatever HF_ENDPOINT names. Models therefore do not come through
huggingface_hub's own cache, which takes the headers of an answer as names of files.
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
    download,
    errors_in_a_line,
    in_time,
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

# Of the model, and of its modules in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULE_PATTERNS = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARY_PATTERNS = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
MODEL_FILES = ("*.json", *VOCABULARY_PATTERNS, *WEIGHTS, *MODULE_PATTERNS)
CLAIM_FILES = (
    "README.md",
    ".eval_results/*.yaml",
    ".eval_results/*.yml",
)  # numbers it claims

GIT_SHA1 = COMMIT  # of a small file, over a header and its bytes


@dataclass(frozen=True)
class HubFile:
    """A file of a commit as the hub lists it: its path, its size in bytes, and its digest.

    A large file has a sha256, a small one git's digest.
    """

    path: str
    size: int
    sha256: str | None
    git: str

    def __post_init__(self) -> None:
        if not _stays_inside(self.path):
            raise ValueError("a file whose name leaves its folder")
        if not (
            GIT_SHA1.fullmatch(self.git)
            if self.sha256 is None
            else _is_sha256(self.sha256)
        ):
            raise ValueError("a file without a digest")

    def sha256_at(self, place: Path) -> str | None:
        """The sha256 of a file that is this one, by its size and digest; None for another."""
        if not place.is_file() or place.stat().st_size != self.size:
            return None
        digest = sha256_of(place)
        if self.sha256 is not None:
            return digest if digest == self.sha256 else None
        content = place.read_bytes()
        header = b"blob %d\0" % len(content)
        git = hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
        return digest if git == self.git else None


def _stays_inside(name: str) -> bool:
    """Whether a name is a plain relative path, the same on every system."""
    try:
        return str(safe(name)) == name and name.isprintable()
    except ValueError:
        return False


def _is_sha256(digest: object) -> bool:
    return isinstance(digest, str) and SHA256.fullmatch(digest) is not None


def address_of(wanted: Download) -> str:
    """The address of a download, at the hub that HF_ENDPOINT names if it is a hub's."""
    from huggingface_hub import hf_hub_url

    if wanted.repo is None:
        return wanted.at
    kind = None if wanted.model else "dataset"
    return hf_hub_url(wanted.repo, wanted.at, repo_type=kind, revision=wanted.revision)


def model_address(source: Hub) -> str:
    """Where the hub describes the commit of a model's repository."""
    from huggingface_hub import constants

    revision = f"/revision/{source.revision}" if source.revision else ""
    return f"{constants.ENDPOINT}/api/models/{source.repo}{revision}"


def is_of_hub(url: str) -> bool:
    """Whether an address is of the hub, which alone gets its token."""
    from huggingface_hub import constants

    return url.startswith(f"{constants.ENDPOINT}/")


def headers() -> dict[str, str]:
    """What a hub is told of who asks: the library, and the token if there is one."""
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    return build_hf_headers()


def download_file(
    wanted: Download, revision: str | None, target: Path
) -> tuple[str, str]:
    """Bring a file that no commit fixes to its place, and return its sha256 and its commit."""
    from huggingface_hub import constants, get_hf_file_metadata

    page = f"{constants.ENDPOINT}/{'' if wanted.model else 'datasets/'}{wanted.repo}"
    with errors_in_a_line(wanted.at, page):
        url = address_of(replace(wanted, revision=revision))
        metadata = in_time(
            LISTING_SECONDS, lambda: get_hf_file_metadata(url), lambda _: None
        )
    commit = commit_answered(wanted.at, page, metadata.commit_hash, revision)
    url = address_of(replace(wanted, revision=commit))
    # A small file has the digest of git as its tag.
    sha256 = wanted.sha256 or (metadata.etag if _is_sha256(metadata.etag) else None)
    return download(url, target, sha256, metadata.size, headers()), commit


def commit_answered(name: str, page: str, found: object, wanted: str | None) -> str:
    """The commit that a hub answers with. Raises DataError for none, or another than is wanted."""
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
class Fetched:
    """A snapshot whose files have all come and been compared; `seal` declares it complete.

    `files` holds the sha256 of each; `head` says that its commit is the repository's
    newest.
    """

    snapshot: Snapshot
    files: Mapping[str, str]
    head: bool

    @property
    def folder(self) -> Path:
        return self.snapshot.folder

    def seal(self) -> None:
        """Declare the snapshot complete: from here on encoders are read from it."""
        self.snapshot.seal(self.files)
        if self.head:
            note_main(self.snapshot.repository, self.snapshot.commit)


def model_snapshot(name: str, repo: str, revision: str | None) -> Fetched:
    """Bring a model's files into the hub's cache, each once it has its digest.

    The snapshot is not complete before it is sealed. Raises AssetMissing where a file
    does not come, DataError for one that is not what the hub lists; those that came
    before serve the next fetch.
    """
    from huggingface_hub import constants, hf_hub_url

    commit, files = _listing(name, repo, revision, f"{constants.ENDPOINT}/{repo}")
    snapshot = Snapshot(repository_folder(repo), commit)
    snapshot.open()
    digests: dict[str, str] = {}
    for file in files:
        place, arrived = snapshot.folder / file.path, snapshot.unfinished / file.path
        digest = file.sha256_at(place)
        if digest is None:
            url = hf_hub_url(repo, file.path, revision=commit)
            digest = download(url, arrived, file.sha256, file.size, headers())
            if file.sha256 is None and file.sha256_at(arrived) is None:
                arrived.unlink()
                raise DataError(
                    f"{name}: {url} has another digest than the hub lists, {file.git}; it was "
                    "thrown away: fetch it again"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            arrived.replace(place)  # where it was a link, its target stays
        digests[file.path] = digest
    return Fetched(snapshot, digests, head=revision is None)


def _listing(
    name: str, repo: str, revision: str | None, page: str
) -> tuple[str, tuple[HubFile, ...]]:
    """The commit of a revision and its files that a model is read from."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    hub = HfApi()
    try:
        with errors_in_a_line(name, page):
            about = in_time(
                LISTING_SECONDS,
                lambda: hub.model_info(repo, revision=revision, timeout=STALL_SECONDS),
                lambda _: None,
            )
            commit = commit_answered(name, page, about.sha, revision)
            tree = in_time(
                LISTING_SECONDS,
                lambda: [*hub.list_repo_tree(repo, revision=commit, recursive=True)],
                lambda _: None,
            )
            listed = {
                entry.path: entry for entry in tree if isinstance(entry, RepoFile)
            }
        files = []
        for path in model_files(listed):
            entry = listed[path]
            sha256 = entry.lfs.sha256 if entry.lfs else None
            files.append(HubFile(path, entry.size, sha256, entry.blob_id))
    except (LookupError, TypeError, ValueError) as error:
        what = str(error) if type(error) is ValueError else "no files"
        raise DataError(
            f"{name}: wanted the files of a model from {page}, found {what}; nothing was "
            "downloaded: check HF_ENDPOINT"
        ) from None
    if not any(_matches(file.path, MODEL_FILES) for file in files):
        raise AssetMissing(f"{name}: {repo} on the hub holds no model")
    return commit, tuple(files)


def model_files(names: Iterable[str]) -> list[str]:
    """A model's files in a repository, and its claims; no pickle where there is better."""
    matching = [name for name in names if _matches(name, (*MODEL_FILES, *CLAIM_FILES))]
    better = {
        name.rpartition("/")[0] for name in matching if name.endswith(".safetensors")
    }
    return [
        n
        for n in matching
        if not (n.endswith(".bin") and n.rpartition("/")[0] in better)
    ]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
