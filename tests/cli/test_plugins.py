"""Plug-ins: methods, tasks and encoders from a file or a distribution, under the laws of all."""

import json
import subprocess
import sys

import numpy as np
import processes
import pytest
from processes import ROOT

from harness.contracts.plugins import load_plugins
from harness.core.errors import UsageError
from harness.core.metrics import metrics
from harness.core.provenance import PLUGINS, plugins_of
from harness.data import places
from harness.data.places import Places, packaged
from harness.encoders.vector_files import write_vectors
from harness.plugins import import_plugins, plugins_in_use
from harness.registry import load_registry

KINDS = ("method", "task", "encoder")
MEASURED = {
    "method": ("glove-mini.mean+mine@target", "mini-sts"),
    "task": ("glove-mini.mean", "mine"),
    "encoder": ("mine.native", "mini-sts"),
}


@pytest.fixture(autouse=True)
def without_loaded_plugins():
    """What a test loads is gone behind it."""
    kept = dict(PLUGINS), dict(places.PLUGIN_ASSETS), dict(metrics())
    yield
    for held, before in zip(
        (PLUGINS, places.PLUGIN_ASSETS, metrics()), kept, strict=True
    ):
        held.clear()
        held.update(before)
    for name in [name for name in sys.modules if name.startswith("harness_plugins.")]:
        del sys.modules[name]


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
    files = [str(new_plugin_file(kind, f"my{kind}")) for kind in KINDS]
    plugin = processes.pytest_options("harness.contracts.pytest_plugin")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    options = [
        "--harness-contracts",
        *(word for file in files for word in ("--plugin", file)),
    ]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, check=False
    )
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


@pytest.mark.parametrize("name", ["pairs", "places"])
def test_a_name_of_what_a_template_imports_gives_a_file_that_runs(
    call, new_plugin_file, name
):
    file = new_plugin_file("task", name)
    done = call(f"run --plugin {file} -m glove-mini.mean -t {name}")
    assert done.status == 0, done.err


def test_an_environment_names_plug_ins(call, new_plugin_file, monkeypatch):
    file = new_plugin_file("method")
    monkeypatch.setenv("HARNESS_PLUGINS", str(file))
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
    words = (
        "run",
        "--plugin",
        str(file),
        "-m",
        *methods,
        "-t",
        "mini-sts",
        "-j",
        "2",
        "-q",
    )
    done = processes.run(*words, cwd=file.parent)
    assert done.status == 2
    assert done.err == f"harness: {file}: cannot be imported: SystemExit: 0\n"


# A distribution


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """A distribution that declares the entry point, on the path of this process."""
    package = tmp_path / "site" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    template = ROOT / "examples/plugins/templates/method.py"
    (package / "methods.py").write_text(
        template.read_text().replace('"mine"', '"theirs"')
    )
    text = (package / "methods.py").read_text().replace("+mine@", "+theirs@")
    (package / "methods.py").write_text(text)
    info = tmp_path / "site" / "my_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n"
    )
    (info / "entry_points.txt").write_text(
        "[sentence_embedding_harness]\ntheirs = my_package.methods\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield package
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


def test_an_installed_distribution_is_found_by_itself(installed, call, tmp_path):
    [row] = json.loads(call("list plugins --json").out)
    assert (row["plug-in"], row["from"], row["version"]) == (
        "theirs",
        "my-package 1.2",
        "1.2",
    )
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
    file = new_plugin_file("method")
    assert (
        call(f"run --plugin {file} -m {MEASURED['method'][0]} -t mini-sts").status == 0
    )
    PLUGINS.clear()
    tell = "from pathlib import Path\nPath('imported').touch()\n"
    for source in (file, installed / "methods.py"):
        source.write_text(source.read_text() + tell)
    sys.modules.pop("my_package.methods", None)
    sys.modules.pop("harness_plugins.mine", None)
    monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    method = MEASURED["method"][0]
    shown = call("table --results runs -m", method)
    assert "mine (not loaded)" in shown.out
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
    file = new_plugin_file("method")
    command = (
        "run",
        "--plugin",
        str(file),
        "-m",
        MEASURED["method"][0],
        "-t",
        "mini-sts",
    )
    call(*command)
    before = record_of(tmp_path / "runs")["digests"]
    PLUGINS.clear()
    sys.modules.pop("harness_plugins.mine")
    file.write_text(file.read_text() + "\n# changed\n")
    call(*command)
    after = record_of(tmp_path / "runs")["digests"]
    assert {name for name in after if after[name] != before[name]} == {"plugin mine"}


def test_the_vectors_of_a_changed_function_are_encoded_anew(new_plugin_file, tmp_path):
    file, keys = new_plugin_file("encoder"), []
    for _ in range(2):
        load_plugins([file])
        config = load_registry().encoders["mine"]
        keys.append(Places(tmp_path).identify(config, file).key)
        PLUGINS.clear()
        sys.modules.pop("harness_plugins.mine")
        file.write_text(
            file.read_text() + "\n# changed\n"
        )  # the probes have the same vectors
    assert keys[0] != keys[1]


# Code that makes vectors, and is part of their key


SCALED = """
from dataclasses import dataclass, replace
from pathlib import Path
from harness import StaticConfig
from harness.encoders.counted_vectors import CountedConfig
from harness.encoders.word_tokenizer import Tokeniser
from harness.registry import load_registry

FACTOR = 1.0


@dataclass(frozen=True)
class Scaled:
    def __call__(self, vocabulary):
        return replace(vocabulary, vectors=FACTOR * vocabulary.vectors)


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
COUNTED = CountedConfig("counted", file="v.safetensors", counts="counts.txt", maps=(Scaled(),))
ENCODERS = (PLAIN, LOADED, TOKENISED)
"""


@pytest.fixture
def keys_of_changed_plugin(tmp_path):
    """Loads a plug-in of encoders after a change of its text; gives the keys of its encoders."""
    file = tmp_path / "scaled.py"
    vectors = tmp_path / "vectors"
    vectors.mkdir()
    write_vectors(vectors / "v.safetensors", ("a", "b"), np.eye(2, dtype=np.float32))
    (vectors / "counts.txt").write_text("a 1\nb 2\n")

    def keys(old="", new=""):
        PLUGINS.clear()
        sys.modules.pop("harness_plugins.scaled", None)
        file.write_text(SCALED.replace(old, new))
        load_plugins([file])
        module = sys.modules["harness_plugins.scaled"]
        configs = module.PLAIN, module.LOADED, module.TOKENISED
        found = {c.name: Places(tmp_path).identify(c, packaged(c)).key for c in configs}
        return found | {
            "counted": Places(tmp_path).identify(module.COUNTED, vectors).key
        }

    return keys


def test_the_code_of_a_plug_in_is_in_the_key_of_each_encoder_that_holds_it(
    keys_of_changed_plugin, tmp_path
):
    """A configuration that holds none has the key of its files, with and without the plug-in."""
    built_in = load_registry().encoders["glove-mini"]
    key = built_in.identify(packaged(built_in)).key
    before, after = (
        keys_of_changed_plugin(),
        keys_of_changed_plugin("FACTOR = 1.0", "FACTOR = 2.0"),
    )
    assert before["plain"] == after["plain"] == key
    assert {name for name in before if before[name] != after[name]} == set(before) - {
        "plain"
    }
    assert len({*before.values(), *after.values()}) == 7
    assert Places(tmp_path).identify(built_in, packaged(built_in)).key == key


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


@pytest.fixture
def plugin_folder(tmp_path):
    folder = tmp_path / "whole"
    for name, text in FOLDER.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_a_folder_is_a_plug_in_and_every_file_of_it_is_in_its_digest(plugin_folder):
    load_plugins([plugin_folder])
    assert sys.modules["harness_plugins.whole"].table() == "one"
    digests = {PLUGINS["whole"].sha256}
    for name in FOLDER:
        (plugin_folder / name).write_text(FOLDER[name] + "\n# changed\n")
        digests.add(plugins_in_use([plugin_folder])[0].sha256)
        (plugin_folder / name).write_text(FOLDER[name])
    assert len(digests) == 1 + len(FOLDER)
    (plugin_folder / "__pycache__").mkdir()
    (plugin_folder / "__pycache__" / "methods.pyc").touch()
    [plugin] = plugins_in_use([plugin_folder])
    assert plugin == PLUGINS["whole"]


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


BROKEN = {  # what is put in the place of what in the template, and words of the refusal
    "imports what is not there": (
        "from typing import",
        "import nothing_there\nfrom typing import",
        "cannot be imported: ModuleNotFoundError: No module named",
    ),
    "takes a registered name": (
        'POSTS = {"mine"',
        'POSTS = {"whitening"',
        "post-processor 'whitening'",
    ),
    "breaks a law": (
        "moments = Moments.of(x)",
        "moments = Moments.of(x); rng.random()",
        "mine: A fit that says that it is deterministic draws no random numbers: found draws",
    ),
    "has a list of post-processors": (
        'POSTS = {"mine": Mine}',
        "POSTS = [Mine]",
        "cannot be imported: AttributeError: 'list' object has no",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_plug_in_is_refused_in_a_line_with_file_name_and_law(
    call, new_plugin_file, fault
):
    file, (old, new, words) = new_plugin_file("method"), BROKEN[fault]
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    answer = call(f"list plugins --plugin {file}")
    assert (answer.status, answer.out) == (2, "")
    assert f"harness: {file}: " in answer.err
    assert words in answer.err


def test_a_post_processor_that_no_method_names_has_to_keep_the_laws(
    call, new_plugin_file
):
    file = new_plugin_file("method")
    text = file.read_text().replace("METHODS = (", "METHODS = ()  # (")
    file.write_text(text)
    assert call(f"list plugins --plugin {file}").status == 0
    PLUGINS.clear()
    sys.modules.pop("harness_plugins.mine")
    file.write_text(text.replace("moments = Moments.of(x)", "raise ValueError('x')"))
    answer = call(f"list plugins --plugin {file}")
    assert answer.status == 2
    assert "mine: A fitted map gives a finite row" in answer.err


def test_two_files_of_one_name_are_two_plug_ins(new_plugin_file, tmp_path):
    one = new_plugin_file("method")
    other = tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(one.read_text() + "\n")
    with pytest.raises(UsageError, match="another plug-in is called 'mine': "):
        load_plugins([one, other])


def test_rows_of_a_function_that_looks_at_its_neighbours_are_refused(
    call, new_plugin_file
):
    file = new_plugin_file("encoder")
    text = file.read_text().replace("+ 1e-3", "+ len(texts)")
    file.write_text(text)
    answer = call(f"run --plugin {file} -m mine.native -t mini-sts")
    assert answer.status == 2
    assert (
        "mine: wanted one vector of a text whatever the texts next" in answer.complaint
    )
