"""Models on the hub: which snapshots are complete, and the download of one.

huggingface_hub downloads a commit into its cache, as a folder that is called snapshot.
An interrupted download leaves a part of it; so `harness fetch` lists the files of each
snapshot that it has brought as a whole, in a file of its own, and no other is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath

from harness.core.errors import AssetMissing
from harness.core.files import write_atomically
from harness.core.interfaces import Hub
from harness.data.download import TIMEOUT, one_line_errors

# The weights of the model, and of its modules, which are in folders such as `2_Dense`.
WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin")
MODULE_PATTERNS = tuple(f"[0-9]_[A-Z]*/{file}" for file in WEIGHTS)
VOCABULARY_PATTERNS = ("*.txt", "*.model", "*.codes", "*.vocab", "*.spm", "*.tiktoken")
# The files in which a model states its own scores.
STATED_SCORES = ("README.md", ".eval_results/*.yaml", ".eval_results/*.yml")
MODEL_FILES = (
    "*.json",
    *VOCABULARY_PATTERNS,
    *WEIGHTS,
    *MODULE_PATTERNS,
    *STATED_SCORES,
)


def snapshot_of(source: Hub) -> Path | None:
    """The folder of a repository's commit in the hub's cache, which may be incomplete.

    The commit is the one that the source pins, else the one that `main` had at the last
    download; None if neither is known.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    repository = Path(HF_HUB_CACHE) / f"models--{source.repo.replace('/', '--')}"
    commit = source.revision
    if commit is None:
        head = repository / "refs" / "main"
        if not head.is_file():
            return None
        commit = head.read_text(encoding="utf-8").strip()
    return repository / "snapshots" / commit


def _list_of_files(snapshot: Path) -> Path:
    """The file that lists a snapshot's files, which is there only if they all came."""
    return snapshot.parents[1] / ".harness" / f"{snapshot.name}.txt"


def is_complete(snapshot: Path) -> bool:
    """Whether a fetch has brought all files of a snapshot, and all are still there."""
    if not _list_of_files(snapshot).is_file():
        return False
    names = _list_of_files(snapshot).read_text(encoding="utf-8").splitlines()
    return bool(names) and all((snapshot / name).is_file() for name in names)


def seal(snapshot: Path) -> None:
    """Declare a snapshot complete: list the files that it has."""
    files = [path for path in snapshot.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(snapshot).as_posix() for path in files)
    write_atomically(_list_of_files(snapshot), "\n".join(names).encode())


def fetch_model(source: Hub, *, again: bool = False) -> Path:
    """Bring a model's files into the hub's cache, and return their folder.

    The caller seals the snapshot, which is incomplete until then.

    Args:
        source: The repository, with its commit if it is pinned.
        again: Whether files that are there are downloaded again, since one is damaged.

    Raises:
        AssetMissing: A file cannot be downloaded. The next fetch uses the others.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError

    repo, revision = source.repo, source.revision
    try:
        with one_line_errors(f"{repo} on the hub"):
            info = HfApi().model_info(repo, revision=revision, timeout=TIMEOUT[1])
            files = model_files(file.rfilename for file in info.siblings or ())
            if not any(name.endswith((".safetensors", ".bin")) for name in files):
                raise AssetMissing(f"{repo} on the hub holds no model")
            downloaded = snapshot_download(
                repo, revision=revision, allow_patterns=files, force_download=again
            )
    except HFValidationError as error:
        raise AssetMissing(f"{repo} is no repository of the hub: {error}") from None
    # Where the hub gives no answer, huggingface_hub returns what is there.
    folder = Path(downloaded)
    for name in files:
        if not (folder / name).is_file():
            raise AssetMissing(f"{repo} on the hub: {name} did not come")
    return folder


def model_files(names: Iterable[str]) -> list[str]:
    """The files of a repository that hold a model, and the scores that it states.

    A pickled file, .bin, is left out where its folder has weights as safetensors.
    """
    from huggingface_hub.utils._paths import filter_repo_objects

    files = list(filter_repo_objects(names, allow_patterns=[*MODEL_FILES]))
    safe_folders = {PurePath(x).parent for x in files if x.endswith(".safetensors")}
    chosen = []
    for name in files:
        if not name.endswith(".bin") or PurePath(name).parent not in safe_folders:
            chosen.append(name)
    return chosen
