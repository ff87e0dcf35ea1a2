"""Where the harness is installed, and the environment of a result.

The environment is the commit, the packages, the interpreter, the processor and threads.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from harness.core.errors import UsageError

# A wheel holds the folder `baselines` as the package `harness.baselines`, the folder
# `results` without its generated pages as `harness/data/committed`, and the templates of
# plug-ins as `harness/templates`.
HARNESS = Path(__file__).resolve().parents[1]
IS_WHEEL = (HARNESS / "baselines").is_dir()

# INSTALLATION holds all code, TEMPLATE_FOLDER the plug-ins that `harness new` copies.
if IS_WHEEL:
    INSTALLATION = HARNESS
    TEMPLATE_FOLDER = HARNESS / "templates"
else:
    INSTALLATION = HARNESS.parent
    TEMPLATE_FOLDER = HARNESS.parent / "examples" / "plugins" / "templates"

BASELINES = INSTALLATION / "baselines"

# The libraries that a score may depend on.
PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "safetensors")


@cache
def commit() -> dict[str, Any]:
    """The commit of the checkout, and whether its code differs from it (`dirty`).

    Both are None for an installed package.
    """
    if IS_WHEEL:  # which may be inside the checkout of another project
        return {"commit": None, "dirty": None}
    folders = (HARNESS.name, BASELINES.name)
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", *folders)
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": None if changes is None else bool(changes),
    }


def _git(*arguments: str) -> str | None:
    """The output of a command of git; None if it fails."""
    command = ["git", "-C", str(INSTALLATION), *arguments]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return completed.stdout.strip()


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on all systems
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def environment() -> dict[str, Any]:
    """Commit, package versions, interpreter, processor and threads, as a record stores them.

    The threads are those that torch and NumPy use by default in this process.
    """
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return {
        **commit(),
        "harness": _version("sentence-embedding-harness"),
        "python": platform.python_version(),
        "packages": packages(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processor": processor(),
        "threads": min(int(limit), cores()) if limit.isdigit() else cores(),
        "device": "cpu",
    }


def packages() -> dict[str, str | None]:
    """The installed versions of the libraries that a score may depend on."""
    return {name: _version(name) for name in PACKAGES}


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@cache
def processor() -> str:
    """The processor's model name on Linux, elsewhere the name that the platform module gives."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        model = re.search(r"model name\s*: (.+)", cpuinfo.read_text())
        if model is not None:
            return model[1]
    return platform.processor() or platform.machine()


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Context for imports of the packages of an extra, such as `pandas`.

    Raises UsageError, with the command that installs the extra, for a missing package.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the package {error.name} is not installed; get it: "
            f"pip install 'sentence-embedding-harness[{name}]'"
        ) from None


def one_blas_thread() -> Any:
    """Context in which NumPy and SciPy multiply and decompose matrices on one thread.

    The order of a sum, and so the last digits of a fit or a score, depends on the number
    of threads.
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401 - loads SciPy's own BLAS, so that it is found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
