"""Checks that are switched off on purpose, one at a time: the tests of each must turn red."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest
from processes import ROOT

ATTACK = "mutant"


@dataclass(frozen=True)
class Mutant:
    """A place in the code, what is written there instead, and the tests that have to notice."""

    file: str
    text: str
    instead: str
    tests: str


MUTANTS = {
    "a tensor's digest": Mutant(
        "core/tensors.py",
        "if self.digests[name] != _sha256(data):",
        "if False:",
        "core/test_tensors.py",
    ),
    "the seal of a file of tensors": Mutant(
        "core/tensors.py",
        "metadata.pop(SEAL) == _seal(layouts, metadata)",
        "bool(metadata.pop(SEAL))",
        "core/test_tensors.py",
    ),
    "the digest of kept rows": Mutant(
        "evaluation/corpus_files.py",
        'hexdigest() == about["sha256"]',
        'hexdigest() != ""',
        "evaluation/test_fit_corpus.py",
    ),
    "the digest of a record": Mutant(
        "results/records.py",
        "if not older and hashlib.sha256(encode(record)).hexdigest() != wanted:",
        "if False:",
        "results/test_records.py",
    ),
    "the digest of a committed line": Mutant(
        "results/records.py",
        "if _digest(text) != wanted:",
        "if False:",
        "results/test_records.py",
    ),
    "the number of committed lines": Mutant(
        "results/records.py", "if rows != count:", "if False:", "results/test_records.py"
    ),
    "damaged similarities": Mutant(
        "results/records.py",
        "if cosines is None and path.exists():",
        "if False:",
        "results/test_records.py",
    ),
    "the digest of converted weights": Mutant(
        "encoders/checkpoint.py",
        "seal.read_bytes() == sha256_of(target).encode()",
        "True",
        "encoders/test_transformer.py",
    ),
    "the pinned weights of a name": Mutant(
        "encoders/checkpoint.py",
        "if wanted is not None and found != wanted:",
        "if False:",
        "encoders/test_transformer.py",
    ),
    "the golden token ids of a name": Mutant(
        "encoders/tokenizer_check.py",
        "if not wanted or tuple(wanted) == tuple(found):",
        "if True:",
        "encoders/test_transformer.py",
    ),
    "a folder without a vocabulary": Mutant(
        "encoders/checkpoint.py",
        "if kind not in WITHOUT_VOCABULARY and not _matching(folder, VOCABULARIES):",
        "if False:",
        "encoders/test_transformer.py",
    ),
    "weights without a place": Mutant(
        "encoders/kernels/padded.py", "if unplaced:", "if False:", "encoders/test_transformer.py"
    ),
    "word vectors that are not finite": Mutant(
        "encoders/word_vector_files.py",
        "if not finite.all():",
        "if False:",
        "encoders/test_word_vectors.py",
    ),
    "the digest of a download": Mutant(
        "assets/fetch/download.py",
        "if remote.sha256 in (None, digest):",
        "if True:",
        "assets/test_fetch_download.py assets/test_fetch.py",
    ),
    "the digest seen first": Mutant(
        "assets/pins.py",
        "if what in found and found[what] != first:",
        "if False:",
        "assets/test_fetch.py",
    ),
    "a pin that leads elsewhere": Mutant(
        "assets/pins.py", "        safe(what)\n", "", "assets/test_fetch_offline.py"
    ),
    "a pin that is no digest": Mutant(
        "assets/pins.py",
        "if not (isinstance(digest, str) and DIGEST.fullmatch(digest)):",
        "if False:",
        "assets/test_fetch_offline.py",
    ),
    "a member that leaves its folder": Mutant(
        "core/files.py", 'or ".." in path.parts', "", "assets/test_fetch_archives.py"
    ),
    "an absolute member": Mutant(
        "core/files.py", "path.is_absolute() or ", "", "assets/test_fetch_archives.py"
    ),
    "an archive that fills the disk": Mutant(
        "assets/fetch/archives.py",
        "if limit is not None and size > limit:",
        "if False:",
        "assets/test_fetch_archives.py",
    ),
    "members of a refused archive": Mutant(
        "assets/fetch/archives.py",
        "write_stream(content, waiting / into, left)",
        "write_stream(content, folder / into, left)",
        "assets/test_fetch_archives.py",
    ),
    "a link among imported files": Mutant(
        "assets/fetch/offline.py",
        "or not file.resolve().is_relative_to(folder.resolve())",
        "",
        "assets/test_fetch_offline.py",
    ),
    "an imported path with an absolute part": Mutant(
        "assets/fetch/offline.py",
        "if str(safe(path)) != path:",
        "if not safe(path):",
        "assets/test_fetch_offline.py",
    ),
    "the digest of an imported file": Mutant(
        "assets/fetch/offline.py",
        "    if found != sha256:\n        target.unlink()",
        "    if False:\n        target.unlink()",
        "assets/test_fetch_offline.py",
    ),
    "an override of no cell": Mutant(
        "gate/check.py",
        "if not base.records(method, task):",
        "if False:",
        "gate/test_gate.py",
    ),
    "markup on a page": Mutant(
        "report/markdown.py", '.replace("<", "&lt;")', "", "report/test_hostile_text.py"
    ),
    "the end of a part of a page": Mutant(
        "report/markdown.py",
        'if f"<!-- /{name} -->" in generated:',
        "if False:",
        "report/test_hostile_text.py",
    ),
    "commands of LaTeX": Mutant(
        "report/latex.py",
        "return SPECIAL.sub(lambda found: SPELT[found[0]], text)",
        "return text",
        "report/test_hostile_text.py",
    ),
    "formulas of a spreadsheet": Mutant(
        "cli/showing.py", "value.startswith(FORMULAS)", "False", "cli/test_showing.py"
    ),
    "vectors that are not finite": Mutant(
        "core/metrics/similarity.py",
        "if not np.isfinite(norms).all():",
        "if False:",
        "core/test_metrics.py",
    ),
    "an unknown key of a file": Mutant(
        "core/toml.py",
        "if unknown := sorted(set(table) - set(keys)):",
        "if unknown := []:",
        "core/test_toml.py",
    ),
    "workers of a killed command": Mutant(
        "evaluation/engines.py", "    _end_with(parent)\n", "", "cli/test_stopping.py"
    ),
}
SHORT = ("an override of no cell",)  # quick to try


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the code and its tests, with links to the data that they read."""
    folder = tmp_path_factory.mktemp("copied")
    for name in ("harness", "baselines", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("results", "docs", "pyproject.toml", "README.md", "CITATION.cff"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_every_mutant_is_of_code_that_is_there():
    for name, mutant in MUTANTS.items():
        assert (ROOT / "harness" / mutant.file).read_text().count(mutant.text) == 1, name
        assert all((ROOT / "tests" / path).exists() for path in mutant.tests.split())


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        soak = metafunc.config.getoption("--soak", default=None)
        metafunc.parametrize("name", MUTANTS if soak else SHORT)


@pytest.mark.slow
def test_a_check_that_is_switched_off_is_noticed(attacked, copied, name):
    mutant = MUTANTS[name]
    path, original = copied / "harness" / mutant.file, ROOT / "harness" / mutant.file
    path.write_text(original.read_text().replace(mutant.text, mutant.instead))
    chosen = [f"tests/{name}" for name in mutant.tests.split()]
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"), *chosen],
        cwd=copied,
        env={**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    path.write_bytes(original.read_bytes())
    assert done.returncode == 1, f"{name}: no test noticed\n{done.stdout[-2000:]}"
    assert "FAILED" in done.stdout
    attacked.count("refused")
