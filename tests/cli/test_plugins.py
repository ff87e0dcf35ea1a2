"""Plug-ins: methods, tasks and encoders from a file or a distribution, under the laws of all."""

import json
import subprocess
import sys

import processes
import pytest
from processes import ROOT

from harness.contracts.plugins import load_plugins
from harness.core.errors import UsageError
from harness.core.metrics import metrics
from harness.core.provenance import PLUGINS, plugins_of
from harness.data import places
from harness.data.places import Places, packaged
from harness.plugins import import_plugins, plugins_in_use
from harness.registry import load_registry

KINDS = ("method", "task", "encoder")
MEASURED = {
    "method": ("glove-mini.mean+mine@target", "mini-sts"),
    "task": ("glove-mini.mean", "mine"),
    "encoder": ("mine.native", "mini-sts"),
}


def forget():
    """Forget the plug-ins that are loaded, as a new process would not know them."""
    PLUGINS.clear()
    for name in [*sys.modules]:
        if name.startswith(("harness_plugins.", "my_package")):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def without_loaded_plugins():
    """What a test loads is gone behind it."""
    kept = dict(places.PLUGIN_ASSETS), dict(metrics())
    yield
    forget()
    for held, before in zip((places.PLUGIN_ASSETS, metrics()), kept, strict=True):
        held.clear()
        held.update(before)


@pytest.fixture
def new_plugin_file(call, tmp_path):
    """Makes the file that `harness new` writes."""

    def make(kind, name="mine"):
        call("new", kind, name)
        return tmp_path / f"{name}.py"

    return make


def record_of(folder):
    [path] = folder.rglob("seed-0.json")
    return json.loads(path.read_text())


# One file


@pytest.mark.parametrize("kind", KINDS)
def test_what_new_writes_runs_at_once_and_its_records_name_it(
    call, new_plugin_file, tmp_path, kind
):
    file = new_plugin_file(kind)
    method, task = MEASURED[kind]
    done = call("run", "--plugin", str(file), "-m", method, "-t", task)
    assert done.status == 0, done.err
    record = record_of(tmp_path / "runs")
    [plugin] = plugins_in_use([file])
    assert record["digests"]["plugin mine"] == plugin.sha256
    assert record["facts"]["plugins"] == {"mine": ""}
    assert str(tmp_path) not in json.dumps(record)


def test_what_new_writes_keeps_every_law_and_tells_them_one_by_one(new_plugin_file):
    plugin = processes.pytest_options("harness.contracts.pytest_plugin")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    command.append("--harness-contracts")
    for kind in KINDS:
        command += ["--plugin", str(new_plugin_file(kind, f"my{kind}"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 15


def test_a_file_that_is_there_or_a_name_that_is_none_is_not_written(
    call, new_plugin_file
):
    file = new_plugin_file("method")
    before = file.read_text()
    for name, words in (
        ("mine", "mine.py exists"),
        ("My_Own", "wanted words of lower-case"),
        ("numpy", "numpy.py would hide"),
    ):
        answer = call("new method", name)
        assert answer.status == 2
        assert words in answer.complaint
    assert file.read_text() == before


def test_a_name_of_what_a_template_imports_gives_a_file_that_runs(
    call, new_plugin_file
):
    file = new_plugin_file("task", "pairs")
    done = call(f"run --plugin {file} -m glove-mini.mean -t pairs")
    assert done.status == 0, done.err


def test_an_environment_names_plug_ins(call, new_plugin_file, monkeypatch):
    monkeypatch.setenv("HARNESS_PLUGINS", str(new_plugin_file("method")))
    [row] = json.loads(call("list plugins --json").out)
    found = row["plug-in"], row["posts"], row["methods"]
    assert found == ("mine", "mine", "bert-mini.mean+mine@target")


@pytest.mark.slow
def test_a_process_that_cannot_load_it_says_so(new_plugin_file):
    """It ends the program where a worker imports it, and nowhere else."""
    file = new_plugin_file("method")
    ending = (
        "import sys\nif any('loky' in name for name in sys.modules):\n    sys.exit(0)\n"
    )
    file.write_text(file.read_text() + ending)
    methods = ["glove-mini.mean+mine@target", "glove-mini.mean", "bert-mini.mean"]
    chosen = ("-m", *methods, "-t", "mini-sts", "-j", "2", "-q")
    done = processes.run("run", "--plugin", str(file), *chosen, cwd=file.parent)
    assert done.status == 2
    assert done.err == f"harness: {file}: cannot be imported: SystemExit: 0\n"


# A distribution


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A distribution that declares the entry point, on the path of this process."""
    site = tmp_path / "site"
    package, info = site / "my_package", site / "my_package-1.2.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    text = (ROOT / "examples/plugins/templates/method.py").read_text()
    text = text.replace('"mine"', '"theirs"').replace("+mine@", "+theirs@")
    (package / "__init__.py").touch()
    (package / "methods.py").write_text(text)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n"
    )
    (info / "entry_points.txt").write_text(
        "[sentence_embedding_harness]\ntheirs = my_package.methods\n"
    )
    monkeypatch.syspath_prepend(site)
    return package


def test_an_installed_distribution_is_found_by_itself(installed, call, tmp_path):
    [row] = json.loads(call("list plugins --json").out)
    found = row["plug-in"], row["from"], row["version"]
    assert found == ("theirs", "my-package 1.2", "1.2")
    assert call("run -m glove-mini.mean+theirs@target -t mini-sts").status == 0
    assert record_of(tmp_path / "runs")["facts"]["plugins"] == {"theirs": "1.2"}


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ("theirs = nothing_there", "", "my-package, entry point theirs: wanted an installed"),
        ("theirs = my_package.methods", "1 / 0", "my-package 1.2: cannot be imported: Zero"),
        ("theirs = my_package.methods", "METHODS = ('no id',)", "'no id' is no method id"),
    ],
)  # fmt: skip
def test_a_broken_distribution_is_named_in_one_line(
    installed, call, tmp_path, entry, code, words
):
    points = tmp_path / "site/my_package-1.2.dist-info/entry_points.txt"
    points.write_text(f"[sentence_embedding_harness]\n{entry}\n")
    (installed / "methods.py").write_text(code)
    answer = call("list plugins")
    assert (answer.status, answer.out) == (2, "")
    assert words in answer.complaint
    assert len(answer.err.splitlines()) == 1


# Trust


def test_what_only_reads_results_imports_none(
    call, new_plugin_file, monkeypatch, tmp_path, installed, few_packaged_results
):
    file, (method, task) = new_plugin_file("method"), MEASURED["method"]
    assert call(f"run --plugin {file} -m {method} -t {task}").status == 0
    forget()
    tell = "from pathlib import Path\nPath('imported').touch()\n"
    for source in (file, installed / "methods.py"):
        source.write_text(source.read_text() + tell)
    monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    assert "mine (not loaded)" in call("table --results runs -m", method).out
    assert call("table", "-m", method, "-t", "mini-sts").status == 0
    assert call("report --results runs").status == 0
    assert "By plug-ins, which do not come with the harness: mine" in (
        tmp_path / "runs/LEADERBOARD.md"
    ).read_text(encoding="utf-8")
    checked = call("check --results runs -m", method)
    assert "plug-in mine has changed" in checked.out
    assert not (tmp_path / "imported").exists()
    assert call(f"table --results runs --plugin {file} -m", method).status == 0
    assert (tmp_path / "imported").exists()


def test_a_cell_is_measured_again_after_its_plug_in_has_changed(
    call, new_plugin_file, tmp_path
):
    file, (method, task) = new_plugin_file("method"), MEASURED["method"]
    digests = []
    for _ in range(2):
        assert call(f"run --plugin {file} -m {method} -t {task}").status == 0
        digests.append(record_of(tmp_path / "runs")["digests"])
        forget()
        file.write_text(file.read_text() + "\n# changed\n")
    before, after = digests
    assert {name for name in after if after[name] != before[name]} == {"plugin mine"}


# Code that makes vectors, and is part of their key


KEPT = """
from dataclasses import replace
from harness import FunctionConfig, StaticConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.registry import load_registry

METHODS = ()
class Backwards(Tokeniser):
    def words(self, text):
        return super().words(text[::-1])


class Loaded(StaticConfig):
    def load(self, path, cache):
        loaded = super().load(path, cache)
        return replace(loaded, vectors=abs(loaded.vectors))


BUILT_IN = load_registry().encoders["glove-mini"]
SETTINGS = {"package": BUILT_IN.package, "file": BUILT_IN.file, "licence": "x", "trained_on": "x"}
PLAIN = StaticConfig("plain", BUILT_IN.tokeniser, **SETTINGS)
LOADED = Loaded("loaded", BUILT_IN.tokeniser, **SETTINGS)
TOKENISED = StaticConfig("tokenised", Backwards("words", "lower"), **SETTINGS)
FUNCTION = FunctionConfig("function", lambda texts: [[1.0 + len(text)] for text in texts])
"""


def test_the_code_of_a_plug_in_is_in_the_key_of_each_encoder_that_holds_it(tmp_path):
    """A configuration that holds none has the key of its files, with and without the plug-in."""
    built_in = load_registry().encoders["glove-mini"]
    file, keys = tmp_path / "kept.py", []
    for text in (KEPT, f"{KEPT}# changed\n"):
        forget()
        file.write_text(text)
        load_plugins([file])
        module = sys.modules["harness_plugins.kept"]
        keys.append({})
        for config in (module.PLAIN, module.LOADED, module.TOKENISED, module.FUNCTION):
            path = file if config is module.FUNCTION else packaged(built_in)
            keys[-1][config.name] = Places(tmp_path).identify(config, path).key
    before, after = keys
    assert before["plain"] == after["plain"]
    assert before["plain"] == built_in.identify(packaged(built_in)).key
    assert {name for name in before if before[name] != after[name]} == {
        "loaded",
        "tokenised",
        "function",
    }
    assert len({*before.values(), *after.values()}) == 7


HELD = """
from functools import partial
from harness import FunctionConfig, TransformerConfig
from harness.encoders.native import NativeConfig
METHODS = ()
class Mine(TransformerConfig): pass
class Model:
    def encode(self, texts): return [[1.0] for _ in texts]
def rows(n, texts): return [[1.0] * n for _ in texts]
def made(n): return lambda texts: rows(n, texts)
CONFIGURATIONS = (
    FunctionConfig('f', rows),
    FunctionConfig('f', partial(rows, 2)),
    FunctionConfig('f', made(2)),
    FunctionConfig('f', Model().encode),
    NativeConfig(Mine('f', '')),
)
"""


def test_a_plug_in_is_found_wherever_its_code_is_held(tmp_path):
    file = tmp_path / "held.py"
    file.write_text(HELD)
    load_plugins([file])
    for configuration in sys.modules["harness_plugins.held"].CONFIGURATIONS:
        assert set(plugins_of(configuration)) == {"held"}
    assert not plugins_of(load_registry().encoders["glove-mini"])


# A folder


FOLDER = {
    "__init__.py": "from harness_plugins.whole.methods import METHODS, POSTS, table\n",
    "methods.py": (
        "from pathlib import Path\n"
        "from .helpers.tables import NAME\n"
        "def table(): return Path(__file__).with_name(NAME).read_text()\n"
        "METHODS, POSTS = (), {}\n"
    ),
    "helpers/__init__.py": "",
    "helpers/tables.py": "NAME = 'table.txt'\n",
    "table.txt": "one",
}


def test_a_folder_is_a_plug_in_and_every_file_of_it_is_in_its_digest(tmp_path):
    folder = tmp_path / "whole"
    for name, text in FOLDER.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    load_plugins([folder])
    assert sys.modules["harness_plugins.whole"].table() == "one"
    digests = {PLUGINS["whole"].sha256}
    for name in FOLDER:
        (folder / name).write_text(FOLDER[name] + "\n# changed\n")
        digests.add(plugins_in_use([folder])[0].sha256)
        (folder / name).write_text(FOLDER[name])
    assert len(digests) == 1 + len(FOLDER)
    (folder / "__pycache__").mkdir(exist_ok=True)
    (folder / "__pycache__" / "methods.pyc").touch()
    assert plugins_in_use([folder]) == [PLUGINS["whole"]]


# What is refused


def test_another_text_than_the_digested_is_refused(new_plugin_file):
    """As a worker process would, which starts after the file was edited."""
    file = new_plugin_file("method")
    [plugin] = plugins_in_use([file])
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(UsageError, match="the plug-in changed since the command began"):
        import_plugins([plugin])
    assert "harness_plugins.mine" not in sys.modules


@pytest.mark.parametrize("name", ["not a word.py", "text.txt", "empty"])
def test_what_is_no_plug_in_is_refused(name, tmp_path):
    place = tmp_path / name
    place.touch() if place.suffix else place.mkdir()
    with pytest.raises(
        UsageError, match=r"wanted a Python file, as in my_method.py, or a folder"
    ):
        load_plugins([place])


def test_two_files_of_one_name_are_two_plug_ins(new_plugin_file, tmp_path):
    one, other = new_plugin_file("method"), tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(one.read_text() + "\n")
    with pytest.raises(UsageError, match="another plug-in is called 'mine': "):
        load_plugins([one, other])


# The template, what is put in the place of what in it, and words of the refusal.
BROKEN = {
    "imports what is not there": (
        "method",
        {"from typing import": "import nothing_there\nfrom typing import"},
        "cannot be imported: ModuleNotFoundError: No module named",
    ),
    "takes a registered name": (
        "method",
        {'POSTS = {"mine"': 'POSTS = {"whitening"'},
        "post-processor 'whitening'",
    ),
    "has a list of post-processors": (
        "method",
        {'POSTS = {"mine": Mine}': "POSTS = [Mine]"},
        "cannot be imported: AttributeError: 'list' object has no",
    ),
    "breaks a law": (
        "method",
        {"moments = Moments.of(x)": "moments = Moments.of(x); rng.random()"},
        "mine: A fit that says that it is deterministic draws no random numbers: found draws",
    ),
    "breaks a law, and no method names it": (
        "method",
        {
            "METHODS = (": "METHODS = ()  # (",
            "moments = Moments.of(x)": "raise ValueError('x')",
        },
        "mine: A fitted map gives a finite row",
    ),
    "looks at the texts around a text": (
        "encoder",
        {"+ 1e-3": "+ len(texts)"},
        "mine: wanted one vector of a text whatever the texts next",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_plug_in_is_refused_in_a_line_with_file_name_and_law(
    call, new_plugin_file, fault
):
    kind, changes, words = BROKEN[fault]
    file = new_plugin_file(kind)
    text = file.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    file.write_text(text)
    answer = call(f"list plugins --plugin {file}")
    assert (answer.status, answer.out) == (2, "")
    assert f"harness: {file}: " in answer.err
    assert words in answer.err
