"""Plug-ins: methods, tasks and encoders from a file or a distribution, under the laws of all."""

import json
import sys

import pytest
from fixtures import forget_plugins
from processes import ROOT

from harness.contracts.laws import load_plugins
from harness.core.errors import UsageError
from harness.core.provenance import PLUGINS, plugins_of
from harness.data.places import Places, packaged
from harness.plugins import import_plugins, plugins_in_use
from harness.registry import load_registry

METHOD, TASK = "glove-mini.mean+mine@target", "mini-sts"


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


@pytest.mark.parametrize(
    ("kind", "name", "method", "task"),
    [
        ("method", "mine", METHOD, TASK),
        ("task", "mine", "glove-mini.mean", "mine"),
        ("task", "pairs", "glove-mini.mean", "pairs"),  # the template imports Pairs
        ("encoder", "mine", "mine.native", TASK),
    ],
)
def test_what_new_writes_runs_at_once_and_its_records_name_it(
    call, new_plugin_file, tmp_path, kind, name, method, task
):
    file = new_plugin_file(kind, name)
    done = call("run", "--plugin", str(file), "-m", method, "-t", task)
    assert done.status == 0, done.err
    record = record_of(tmp_path / "runs")
    [plugin] = plugins_in_use([file])
    assert record["digests"][f"plugin {name}"] == plugin.sha256
    assert record["facts"]["plugins"] == {name: ""}
    assert str(tmp_path) not in json.dumps(record)


def test_a_file_that_is_there_is_not_written_again(call, new_plugin_file):
    file = new_plugin_file("method")
    before = file.read_text()
    answer = call("new method mine")
    assert answer.status == 2
    assert "mine.py exists" in answer.complaint
    assert file.read_text() == before


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


def test_what_is_installed_or_named_in_the_environment_is_found_by_itself(
    installed, call, new_plugin_file, monkeypatch, tmp_path
):
    file = new_plugin_file("method")
    monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    rows = json.loads(call("list plugins --json").out)
    assert [(row["plug-in"], row["from"], row["posts"]) for row in rows] == [
        ("mine", str(file), "mine"),
        ("theirs", "my-package 1.2", "theirs"),
    ]
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
    assert call(f"run --plugin {file} -m {METHOD} -t {TASK}").status == 0
    forget_plugins()
    tell = "from pathlib import Path\nPath('imported').touch()\n"
    for source in (file, installed / "methods.py"):
        source.write_text(source.read_text() + tell)
    monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    assert "mine (not loaded)" in call("table --results runs -m", METHOD).out
    assert call("table", "-m", METHOD, "-t", "mini-sts").status == 0
    assert call("report --results runs").status == 0
    assert "By plug-ins, which do not come with the harness: mine" in (
        tmp_path / "runs/LEADERBOARD.md"
    ).read_text(encoding="utf-8")
    checked = call("check --results runs -m", METHOD)
    assert "plug-in mine has changed" in checked.out
    assert not (tmp_path / "imported").exists()
    assert call(f"table --results runs --plugin {file} -m", METHOD).status == 0
    assert (tmp_path / "imported").exists()


def test_a_cell_is_measured_again_after_its_plug_in_has_changed(
    call, new_plugin_file, tmp_path
):
    file = new_plugin_file("method")
    digests = []
    for _ in range(2):
        assert call(f"run --plugin {file} -m {METHOD} -t {TASK}").status == 0
        digests.append(record_of(tmp_path / "runs")["digests"])
        forget_plugins()
        file.write_text(file.read_text() + "\n# changed\n")
    before, after = digests
    assert {name for name in after if after[name] != before[name]} == {"plugin mine"}


# Code that makes vectors, and is part of their key

KEPT = """
from dataclasses import replace
from functools import partial
from harness import FunctionConfig, StaticConfig, TransformerConfig
from harness.encoders.native import NativeConfig
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
class Layers(TransformerConfig): pass
class Model:
    def encode(self, texts): return [[1.0 + len(text)] for text in texts]
def rows(scale, texts): return [[scale + len(text)] for text in texts]
def made(scale): return lambda texts: rows(scale, texts)

GLOVE = load_registry().encoders["glove-mini"]
SETTINGS = {"package": GLOVE.package, "file": GLOVE.file, "licence": "x", "trained_on": "x"}
PLAIN = StaticConfig("plain", GLOVE.tokeniser, **SETTINGS)
OF_VECTORS = (
    Loaded("loaded", GLOVE.tokeniser, **SETTINGS),
    StaticConfig("tokenised", Backwards("words", "lower"), **SETTINGS),
)
OF_FUNCTIONS = (
    FunctionConfig("method", Model().encode),
    FunctionConfig("partial", partial(rows, 2)),
    FunctionConfig("closure", made(3)),
)
OF_MODELS = (Layers("mine", ""), NativeConfig(Layers("mine", "")))
"""


def test_the_code_of_a_plug_in_is_in_the_key_of_each_encoder_that_holds_it(tmp_path):
    """A configuration that holds none has the key of its files, with and without the plug-in."""
    encoders = load_registry().encoders
    glove, bert = packaged(encoders["glove-mini"]), packaged(encoders["bert-mini"])
    file, keys = tmp_path / "kept.py", []
    for text in (KEPT, f"{KEPT}# changed\n"):
        forget_plugins()
        file.write_text(text)
        load_plugins([file])
        module = sys.modules["harness_plugins.kept"]
        places = Places(tmp_path)
        assert not plugins_of(module.PLAIN)
        plain_key = places.identify(module.PLAIN, glove).key
        assert plain_key == encoders["glove-mini"].identify(glove).key
        for configs, path in (
            (module.OF_VECTORS, glove),
            (module.OF_FUNCTIONS, file),
            (module.OF_MODELS, bert),
        ):
            for config in configs:
                assert set(plugins_of(config)) == {"kept"}
                keys.append(places.identify(config, path).key)
    assert len({plain_key, *keys}) == 1 + len(keys)


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


def test_two_files_of_one_name_are_two_plug_ins(new_plugin_file, tmp_path):
    one, other = new_plugin_file("method"), tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(one.read_text() + "\n")
    with pytest.raises(UsageError, match="another plug-in is called 'mine': "):
        load_plugins([one, other])


# The template, what is put in the place of what in it, and words of the refusal.
BROKEN = {
    "takes a registered name": (
        "method",
        {'POSTS = {"mine"': 'POSTS = {"whitening"'},
        "post-processor 'whitening'",
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
    "names a post-processor itself, not what makes it": (
        "method",
        {'POSTS = {"mine": Mine}': 'POSTS = {"mine": Mine()}'},
        "POSTS, 'mine': wanted a class",
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
    assert f"harness: {file}:" in answer.err
    assert words in answer.err


def test_an_error_of_a_plug_in_is_told_once_with_its_line(call, new_plugin_file):
    """And not for each law and each setting that it breaks."""
    file = new_plugin_file("method")
    raising = "        raise KeyError('k')"
    text = file.read_text().replace("        moments = Moments.of(x)", raising)
    text = text.replace('POSTS = {"mine": Mine', 'POSTS = {"mine": Mine, "two2": Two')
    two = 'class Two(Mine):\n    name = "two2"\n\n# By its word'
    file.write_text(text.replace("# By its word", two))
    line = 1 + file.read_text().split("\n").index(raising)
    answer = call(f"list plugins --plugin {file}")
    [told] = answer.err.splitlines()
    assert told.startswith(f"harness: {file}:{line}: mine: ")
    assert told.endswith("KeyError: 'k'")
