"""Files of hub repositories: huggingface_hub finds them, `download` brings the large ones.

huggingface_hub starts a file again that another process left half-way, and compares its size alone.
Here large files are resumed, laid where its cache expects them, and every file of a snapshot is
compared with the digest that the hub names it by. Rows of data sets come through `datasets`, which
keeps them where mteb looks for them, too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from harness.assets.catalogue import Download, HubTable
from harness.assets.fetch.http import (
    PAUSE,
    TRIES,
    Remote,
    download,
    hub_address,
    reason_of,
    refusal,
    refuses,
)
from harness.assets.places import model_folder
from harness.core.errors import AssetMissing, DataError
from harness.core.files import write_atomically
from harness.core.provenance import extra
from harness.core.types import Progress

TIMEOUT = 10.0  # seconds for an answer about a file
# Of the model, and of its modules in folders such as `2_Dense`.
WEIGHTS = ("model*.safetensors", "pytorch_model.bin")
MODULES = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
MODEL_FILES = ("*.json", "*.txt", "*.model", *WEIGHTS, *MODULES)
LARGE = 2**20  # bytes; below it, resuming is not worth a request of its own

Answer = TypeVar("Answer")


def file_of(wanted: Download, revision: str | None) -> tuple[Remote, dict[str, str]]:
    """A file of a hub data set, with the hub's digest and size, and the commit it is at."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    page = f"{hub_address()}/datasets/{wanted.repo}"

    def address(at: str | None) -> str:
        return hf_hub_url(str(wanted.repo), wanted.at, repo_type="dataset", revision=at)

    url = address(wanted.revision or revision)
    metadata = asked(wanted.at, page, lambda: get_hf_file_metadata(url, timeout=TIMEOUT))
    commit = str(metadata.commit_hash)
    sha256 = wanted.sha256 or (metadata.etag if len(metadata.etag or "") == 64 else None)
    remote = Remote(wanted.at, address(commit), sha256, metadata.size, page, build_hf_headers())
    return remote, {"revision": commit}


def snapshot(name: str, repo: str, revision: str | None, progress: Progress) -> Path:
    """A model's files in the hub cache, each compared with its digest there.

    Raises AssetMissing if the hub refuses or is silent, DataError if a file is not what it names.
    """
    from huggingface_hub import HfApi, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    hub, page = HfApi(), f"{hub_address()}/{repo}"
    info = asked(name, page, lambda: hub.model_info(repo, revision=revision, files_metadata=True))
    files = model_files(file.rfilename for file in info.siblings or ())
    if not files:
        raise AssetMissing(f"{name}: {repo} on the hub holds no model")
    for file in info.siblings or ():
        lfs = file.lfs
        if file.rfilename not in files or lfs is None or lfs.size < LARGE:
            continue
        blob = model_folder(repo) / "blobs" / lfs.sha256  # where snapshot_download looks for it
        if not blob.exists():
            url = hf_hub_url(repo, file.rfilename, revision=info.sha)
            what = f"{name}, {file.rfilename}"
            remote = Remote(what, url, lfs.sha256, lfs.size, page, build_hf_headers())
            download(remote, blob, progress)
    place = asked(
        name,
        page,
        lambda: hub.snapshot_download(
            repo, revision=revision, allow_patterns=files, etag_timeout=TIMEOUT
        ),
    )
    folder = Path(place)
    verified = asked(name, page, lambda: hub.verify_repo_checksums(repo, revision=folder.name))
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


def bring_rows(name: str, table: HubTable, data_dir: Path | None) -> None:
    """Have `datasets` prepare the rows at their commit, and write those that a task reads.

    Raises AssetMissing if the hub refuses, is silent, or holds no such data set.
    """
    from huggingface_hub import HfApi

    page = f"{hub_address()}/datasets/{table.repo}"
    asked(name, page, lambda: HfApi().dataset_info(table.repo, revision=table.revision))

    with extra("mteb"):
        from datasets import load_dataset
        from datasets.exceptions import DatasetsError

    try:  # once: it tries again by itself, for 23 seconds
        rows: Any = load_dataset(
            table.repo, table.config, revision=table.revision, split=table.split
        )
    except (DatasetsError, OSError, ValueError) as error:
        raise AssetMissing(f"{name} could not be read from {page}: {reason_of(error)}") from None
    if table.into is not None and data_dir is not None:
        write_atomically(data_dir / table.into, as_tsv(rows).encode())


def as_tsv(rows: Any) -> str:
    """Rows of a GLUE task as GLUE's own file of them: no quotes, labels in words."""
    names = rows.features["label"].names
    lines = ["index\tquestion\tsentence\tlabel"]
    lines += [f"{r['idx']}\t{r['question']}\t{r['sentence']}\t{names[r['label']]}" for r in rows]
    return "".join(f"{line}\n" for line in lines)


def asked(name: str, page: str, ask: Callable[[], Answer]) -> Answer:
    """An answer of huggingface_hub, asked again while it is unable; one line if it stays so."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    transport: Any = HfHubHTTPError.__bases__[0]  # of whatever http library it was built on
    failures = 0
    while True:
        try:
            return ask()
        except HFValidationError as error:
            raise AssetMissing(f"{name}: {reason_of(error)}") from None
        except (transport, OSError) as error:
            for cause in (error, error.__cause__):
                status = getattr(getattr(cause, "response", None), "status_code", None)
                if status is not None and refuses(status):
                    raise refusal(name, status, page) from None
            failures += 1
            if failures == TRIES:
                raise AssetMissing(
                    f"{name} could not be downloaded after {TRIES} attempts ({reason_of(error)}); "
                    "try again later"
                ) from None
            time.sleep(PAUSE * 2 ** (failures - 1))
