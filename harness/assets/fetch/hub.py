"""Files of hub repositories, as huggingface_hub brings them, each compared with its digest there.

Rows of data sets come through `datasets`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from harness.assets.catalogue import Download, HubTable
from harness.assets.fetch.http import errors_in_a_line, reason_of
from harness.core.errors import AssetMissing, DataError
from harness.core.files import write_atomically
from harness.core.provenance import extra

# Of the model, and of its modules in folders such as `2_Dense`.
WEIGHTS = ("model*.safetensors", "pytorch_model.bin")
MODULES = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
MODEL_FILES = ("*.json", "*.txt", "*.model", *WEIGHTS, *MODULES)


def endpoint() -> str:
    """The hub's address, as HF_ENDPOINT names it."""
    from huggingface_hub.constants import ENDPOINT

    return str(ENDPOINT)


def headers() -> dict[str, str]:
    """What tells the hub who we are; for no other host."""
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    return dict(build_hf_headers())


def located(wanted: Download, revision: str | None) -> tuple[str, str | None, int | None, str]:
    """Of a file of a data set: its address, digest and size on the hub, and its commit."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    repo = str(wanted.repo)
    with errors_in_a_line(wanted.at, f"{endpoint()}/datasets/{repo}"):
        url = hf_hub_url(repo, wanted.at, repo_type="dataset", revision=revision)
        metadata = get_hf_file_metadata(url)
    commit = str(metadata.commit_hash)
    url = hf_hub_url(repo, wanted.at, repo_type="dataset", revision=commit)
    # A small file has the digest of git as its tag.
    sha256 = metadata.etag if len(metadata.etag or "") == 64 else None
    return url, wanted.sha256 or sha256, metadata.size, commit


def model_snapshot(name: str, repo: str, revision: str | None) -> Path:
    """A model's files in the hub cache.

    Raises AssetMissing if the hub refuses or is silent, DataError if a file is not what it names.
    """
    from huggingface_hub import HfApi

    hub = HfApi()
    with errors_in_a_line(name, f"{endpoint()}/{repo}"):
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


def bring_rows(name: str, table: HubTable, data_dir: Path) -> None:
    """Write the rows of a GLUE task, which `datasets` reads at their commit, as GLUE's own file.

    Raises AssetMissing if the hub refuses, is silent, or holds no such data set.
    """
    from huggingface_hub import HfApi

    page = f"{endpoint()}/datasets/{table.repo}"
    with errors_in_a_line(name, page):
        HfApi().dataset_info(table.repo, revision=table.revision)
    with extra("mteb"):
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError
    try:
        rows: Any = load_dataset(
            table.repo, table.config, revision=table.revision, split=table.split
        )
    except (DatasetsError, OSError, ValueError) as error:
        raise AssetMissing(f"{name} could not be read from {page}: {reason_of(error)}") from None
    labels = rows.features["label"].names
    lines = ["index\tquestion\tsentence\tlabel"]  # no quotes, labels in words
    for row in rows:
        label = labels[row["label"]]
        lines.append(f"{row['idx']}\t{row['question']}\t{row['sentence']}\t{label}")
    write_atomically(data_dir / table.into, "".join(f"{line}\n" for line in lines).encode())
