"""Files of hub repositories, each compared with its digest there."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from harness.assets.catalogue import Download
from harness.assets.fetch.http import download, errors_in_a_line
from harness.core.errors import AssetMissing, DataError

# Of the model, and of its modules in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULES = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARIES = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
MODEL_FILES = ("*.json", *VOCABULARIES, *WEIGHTS, *MODULES)


def download_file(wanted: Download, revision: str | None, target: Path) -> tuple[str, str]:
    """Bring a file of a data set to its place, and return its sha256 and its commit."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    repo = str(wanted.repo)
    with errors_in_a_line(wanted.at, f"{constants.ENDPOINT}/datasets/{repo}"):
        url = hf_hub_url(repo, wanted.at, repo_type="dataset", revision=revision)
        metadata = get_hf_file_metadata(url)
    commit = str(metadata.commit_hash)
    url = hf_hub_url(repo, wanted.at, repo_type="dataset", revision=commit)
    # A small file has the digest of git as its tag.
    sha256 = wanted.sha256 or (metadata.etag if len(metadata.etag or "") == 64 else None)
    return download(url, target, sha256, metadata.size, build_hf_headers()), commit


def model_snapshot(name: str, repo: str, revision: str | None) -> Path:
    """A model's files in the hub cache."""
    from huggingface_hub import HfApi, constants

    hub = HfApi()
    with errors_in_a_line(name, f"{constants.ENDPOINT}/{repo}"):
        info = hub.model_info(repo, revision=revision)
        files = model_files(file.rfilename for file in info.siblings or ())
        if not files:
            raise AssetMissing(f"{name}: {repo} on the hub holds no model")
        folder = Path(hub.snapshot_download(repo, revision=revision, allow_patterns=files))
        # The download compares sizes alone.
        verified = hub.verify_repo_checksums(repo, revision=folder.name)
    for wrong in verified.mismatches:
        path = folder / wrong["path"]
        raise DataError(
            f"{path}: wanted digest {wrong['expected']}, found {wrong['actual']}; "
            f"remove {path.resolve()} and fetch again"
        )
    return folder


def model_files(names: Iterable[str]) -> list[str]:
    """Those of a repository's files that a model is read from; no pickle where there is better."""
    matching = [name for name in names if any(fnmatchcase(name, p) for p in MODEL_FILES)]
    better = {name.rpartition("/")[0] for name in matching if name.endswith(".safetensors")}
    return [n for n in matching if not (n.endswith(".bin") and n.rpartition("/")[0] in better)]
