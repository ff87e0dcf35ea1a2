"""Plug-ins: methods, tasks and encoders from a file or a distribution, under the laws of all."""

import json
import os
import py_compile
import subprocess
import sys
from functools import partial
from importlib import import_module, metadata
from pathlib import Path

import numpy as np
import processes
import pytest
from fakes import TOY, made_record, results_of
from processes import ROOT
from scipy import linalg

from harness.assets import places
from harness.assets.places import Places, packaged
from harness.cli import main
from harness.contracts.plugins import load_plugins
from harness.core import metrics as core_metrics
from harness.core import plugin_code
from harness.core.errors import HarnessError, UsageError
from harness.core.files import safe_path
from harness.core.metrics import metrics
from harness.core.provenance import PLUGINS, Plugin, plugins_of
from harness.encoders.kernels.choose import TOLERANCE
from harness.encoders.vector_files import write_vectors
from harness.encoders.word_vectors import StaticConfig
from harness.evaluation.engines import Processes
from harness.plugins import (
    import_plugins,
    plugins_in_use,
    require_digested_code,
    require_plugins,
)
from harness.registry import load_registry
from harness.report.method_table import MethodTable
from harness.report.score_columns import ColumnScore
from harness.transforms.affine import Affine

KINDS = ("method", "task", "encoder")
MEASURED = {
    "method": ("glove-mini.mean+mine@target", "mini-sts"),
    "task": ("glove-mini.mean", "mine"),
    "encoder": ("mine.native", "mini-sts"),
}
# The cell of the plug-in `mine` is measured last.
ITS_CELL_AND_A_BUILT_IN = (
    "-m glove-mini.mean+mine@target glove-mini.mean -t mini-sts -j 1"
)


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
    plugin_code._REPLACED.clear()
    plugin_code._WATCHED.clear()
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
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 30


def test_a_file_that_is_there_or_a_name_that_is_none_is_not_written(
    call, new_plugin_file
):
    file = new_plugin_file("method")
    before = file.read_text()
    for name, words in (
        ("mine", "mine.py exists"),
        ("My_Own", "wanted words of lower-case"),
    ):
        answer = call("new method", name)
        assert answer.status == 2
        assert words in answer.complaint
    assert file.read_text() == before


@pytest.mark.parametrize("how", ["environment", "project"])
def test_a_folder_and_an_environment_name_plug_ins(
    call, new_plugin_file, monkeypatch, tmp_path, how
):
    file = new_plugin_file("method")
    if how == "environment":
        monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    else:
        table = '[tool.sentence-embedding-harness]\nplugins = ["mine.py"]\n'
        (tmp_path / "pyproject.toml").write_text(table)
    [row] = json.loads(call("list plugins --json").out)
    found = row["plug-in"], row["posts"], row["methods"]
    assert found == ("mine", "mine", "bert-mini.mean+mine@target")
    rows = json.loads(call("list components --json").out)
    assert {row["word"]: row["plug-in"] for row in rows}["+mine"] == "mine"
    assert {row["plug-in"] for row in rows} == {"", "mine"}


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


@pytest.mark.slow
def test_several_processes_load_it(call, new_plugin_file):
    methods = ["bert-mini.mean+mine@target", "glove-mini.mean+mine@target"]
    file = new_plugin_file("method")
    cells = f"-m {' '.join(methods)} -t mini-sts"
    done = call(f"run --plugin {file} {cells} -j 2")
    assert done.status == 0, done.err
    assert all(method in done.out for method in methods)


def test_python_loads_it_as_well(new_plugin_file):
    load_plugins([new_plugin_file("encoder")])
    config = load_registry().parse("mine.native").encoder
    assert config.vectors(["abc"]).shape == (1, 26)


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


INFO = "site/my_package-1.2.dist-info/"
ENTRY = "[sentence_embedding_harness]\n"
POINTS = {  # of a distribution: what its files hold instead, and words of the refusal
    "a module that is not there": ({"entry": "theirs = nothing_there"}, "No module named"),
    "a submodule that is not there": ({"entry": "theirs = my_package.nothing"}, "No module named"),
    "no module": ({"entry": "theirs ="}, "entry point theirs: wanted a module, as in my_pack"),
    "a relative module": ({"entry": "theirs = .methods"}, "theirs: wanted a module, as in my_"),
    "blanks in a module": ({"entry": "theirs = my package"}, "theirs: wanted a module, as in my_"),
    "a path": ({"entry": "theirs = my_package/methods.py"}, "theirs: wanted a module, as in my_"),
    "no equals sign": ({"entry": "theirs"}, "wanted NAME = MODULE in entry_points.txt"),
    "a built-in module": ({"entry": "theirs = sys"}, "wanted a module with sources, found"),
    "a name that is taken": ({"entry": "theirs = my_package.methods\nmine = my_package.methods"},
        "post-processor 'theirs'"),
    "bytes that are no text": ({INFO + "entry_points.txt": b"[sentence_embedding_harness]\n\xff"},
        "wanted NAME = MODULE in entry_points.txt, found UnicodeDecodeError"),
    "no name": ({INFO + "METADATA": b"Metadata-Version: 2.1\n"}, "METADATA without a Name"),
    "a syntax error": ({"methods": "def"}, "cannot be imported: SyntaxError"),
    "null bytes": ({"methods": "\0"}, "cannot be imported: "),
    "an error at import": ({"methods": "1 / 0"}, "cannot be imported: ZeroDivisionError"),
    "an end at import": ({"methods": "raise SystemExit(0)"}, "cannot be imported: SystemExit: 0"),
    "an end of the process": ({"methods": "import sys; sys.exit()"}, "cannot be imported: SystemE"),
    "endless recursion": ({"methods": "def f(): f()\nf()"}, "cannot be imported: RecursionError"),
    "methods that are none": ({"methods": "METHODS = ('no id',)"}, "'no id' is no method id"),
    "tasks of text": ({"methods": "TASKS = ('mini-sts',)"}, "cannot be imported: AttributeError"),
    "metrics of text": ({"methods": "METRICS = ('auc',)"}, "cannot be imported: "),
    "assets of text": ({"methods": "ASSETS = ('x',)"}, "cannot be imported: AttributeError"),
    "encoders that are one": ({"methods": "ENCODERS = 3"}, "cannot be imported: TypeError"),
    "an encoder without a name": ({"methods": "ENCODERS = (object(),)"}, "AttributeError"),
    "a task without an asset": ({"methods": "from harness import Task\nTASKS = (Task('t', print, "
        "('test',), ('test',), 'auc', 'nowhere', 'raw'),)"}, "cannot be tested: "),
}  # fmt: skip


@pytest.mark.parametrize("kind", POINTS)
def test_a_broken_distribution_is_named_in_one_line(installed, call, tmp_path, kind):
    changes, words = POINTS[kind]
    for name, content in changes.items():
        if name == "entry":
            (tmp_path / INFO / "entry_points.txt").write_text(ENTRY + content + "\n")
        elif name == "methods":
            (installed / "methods.py").write_text(content + "\n")
        else:
            (tmp_path / name).write_bytes(content)
    answer = call("list plugins")
    assert (answer.status, answer.out) in ((2, ""), (1, ""))
    assert "unexpected" not in answer.complaint
    assert words in answer.complaint
    named = ("my-package", "my_package-1.2.dist-info")
    assert any(name in answer.complaint for name in named), answer.complaint
    assert len(answer.err.splitlines()) == 1


def test_its_digest_is_of_every_file(installed):
    def digest():
        [plugin] = plugins_in_use()
        return plugin.sha256

    before = digest()
    (installed / "helpers.py").write_text("K = 1\n")
    code = digest()
    (installed / "table.txt").write_text("1\n")
    assert len({before, code, digest()}) == 3
    assert metadata.version("my-package") == "1.2"


def test_a_function_is_its_plug_ins_with_bound_arguments_too():
    plugin = Plugin("mine", "mine.py", "", "", __name__)
    assert [*map(plugin.defines, (record_of, partial(record_of), partial(print)))] == [
        1,
        1,
        0,
    ]


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
    shown = call("show --results runs -m", method)
    assert "mine (not loaded)" in shown.out
    assert call("table", "-m", method, "-t", "mini-sts").status == 0
    assert call("report --results runs").status == 0
    assert "By plug-ins, which do not come with the harness: mine" in (
        tmp_path / "runs/LEADERBOARD.md"
    ).read_text(encoding="utf-8")
    checked = call("check --results runs -m", method)
    assert "plug-in mine has changed" in checked.out
    assert not (tmp_path / "imported").exists()
    assert call(f"show --results runs --plugin {file} -m", method).status == 0
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


@pytest.mark.parametrize(
    "holds",
    [
        "make = lambda: FunctionConfig('f', partial(rows, 2))",
        "make = lambda: FunctionConfig('f', Model().encode)",
        "make = lambda: FunctionConfig('f', wrapped(rows))",
        "make = lambda: FunctionConfig('f', partial(print, [{'a': (Model(),)}]))",
        "make = lambda: NativeConfig(Mine('f', ''))",
        "make = lambda: made_dataclass('f', '')",
        "make = lambda: made_class('f', '')",
        "make = lambda: changed(TransformerConfig('f', ''))",
    ],
)
def test_a_plug_in_is_found_wherever_its_code_is_held(tmp_path, holds):
    file = tmp_path / "held.py"
    file.write_text(
        "from dataclasses import make_dataclass\n"
        "from functools import partial, wraps\n"
        "from types import new_class\n"
        "from harness import FunctionConfig, TransformerConfig\n"
        "from harness.encoders.native import NativeConfig\n"
        "METHODS = ()\n"
        "class Mine(TransformerConfig): pass\n"
        "class Model:\n"
        "    def encode(self, texts): return [[1.0] for _ in texts]\n"
        "def rows(n, texts): return [[1.0] * n for _ in texts]\n"
        "def wrapped(function): return wraps(print)(lambda texts: function(1, texts))\n"
        "def load(self, path, cache): return None\n"
        "made_dataclass = make_dataclass('Made', [], bases=(TransformerConfig,), frozen=True,\n"
        "    namespace={'load': load})\n"
        "made_class = new_class('Made', (TransformerConfig,), {}, lambda n: n.update(load=load))\n"
        "def changed(config):\n"
        "    object.__setattr__(config, 'load', partial(load, config))\n"
        "    return config\n"
        f"{holds}\n"
    )
    load_plugins([file])
    assert set(plugins_of(sys.modules["harness_plugins.held"].make())) == {"held"}
    assert not plugins_of(load_registry().encoders["glove-mini"])


REPLACED = {  # what a plug-in does when it is imported, and what it is told to have replaced
    "a method": (
        "from harness import StaticConfig as T\n"
        "plainly = T.load\n"
        "def load(self, path, cache): return plainly(self, path, cache)\n"
        "T.load = load\n",
        "harness.encoders.word_vectors.StaticConfig.load",
    ),
    "a wrapped method": (
        "from functools import wraps\n"
        "from harness import Affine as T\n"
        "plainly = T.__call__\n"
        "@wraps(plainly)\n"
        "def call(*rows): return plainly(*rows)\n"
        "T.__call__ = call\n",
        "harness.transforms.affine.Affine.__call__",
    ),
    "a property": (
        "from harness import StaticConfig as T\nT.source = property(lambda self: None)\n",
        "harness.encoders.word_vectors.StaticConfig.source",
    ),
    "a function": (
        "import harness.core.metrics as T\nT.cosines = lambda a, b: 1 / 0\n",
        "harness.core.metrics.cosines",
    ),
    "a function of a library": (
        "import harness.core.metrics as T, numpy\nT.score = numpy.mean\n",
        "harness.core.metrics.score",
    ),
    "the code of a function": (
        "import harness.core.files as T\n"
        "def safe_path(name): return name\n"
        "T.safe_path.__code__ = safe_path.__code__\n",
        "harness.core.files.safe_path.__code__",
    ),
    "a constant": (
        "import harness.core.metrics as T\nT.TIE_DECIMALS = 2\n",
        "harness.core.metrics.TIE_DECIMALS",
    ),
    "an entry of a table": (
        "from harness.encoders.kernels.choose import TOLERANCE as T\nT['float32'] = 1.0\n",
        "harness.encoders.kernels.choose.TOLERANCE['float32']",
    ),
    "NumPy's": ("import numpy as T\nT.mean = lambda x: 0.0\n", "numpy.mean"),
    "SciPy's": (
        "import scipy.linalg as T\nT.eigh = lambda x: x\n",
        "scipy.linalg.eigh",
    ),
}


@pytest.fixture
def as_before():
    """Puts back what the plug-ins of a test replace."""
    owners = (StaticConfig, Affine, core_metrics, np, linalg)
    held = [(owner, dict(vars(owner))) for owner in owners]
    code, tolerance = safe_path.__code__, dict(TOLERANCE)
    yield
    for owner, before in held:
        for name, thing in before.items():
            if vars(owner)[name] is not thing:
                setattr(owner, name, thing)
    safe_path.__code__ = code
    TOLERANCE.update(tolerance)


@pytest.mark.parametrize("what", REPLACED)
@pytest.mark.usefixtures("as_before")
def test_a_plug_in_that_replaces_code_is_refused_by_what_it_replaced(tmp_path, what):
    """No record of a built-in cell would name it. It stays replaced, so nothing is measured."""
    code, name = REPLACED[what]
    file = tmp_path / "patches.py"
    file.write_text(f"METHODS = ()\n{code}")
    with pytest.raises(
        UsageError, match=r"patches\.py: the plug-in patches replaces"
    ) as refused:
        load_plugins([file])
    assert f"{name}, which moves cells" in str(refused.value)
    assert "patches" not in PLUGINS
    with pytest.raises(HarnessError, match="the plug-in patches replaces"):
        require_digested_code([])


@pytest.mark.usefixtures("as_before")
def test_a_plug_in_that_replaces_code_in_a_fit_fails_that_cell_and_those_behind_it(
    call, new_plugin_file, tmp_path
):
    """Its own cell is measured last, and no record of the others is written."""
    file = new_plugin_file("method")
    text = file.read_text().replace(
        "moments = Moments.of(x)",
        "import harness.core.metrics as T\n"
        "        T.cosines = lambda *_: 1 / 0\n"
        "        moments = Moments.of(x)",
    )
    file.write_text(text)
    answer = call(f"run --plugin {file} {ITS_CELL_AND_A_BUILT_IN}")
    assert answer.status != 0
    assert (
        "the plug-in mine replaces harness.core.metrics.cosines"
        in answer.out + answer.err
    )
    assert not [*(tmp_path / "runs").rglob("seed-0.json")]


@pytest.mark.parametrize(
    "change",
    [
        "torch.set_default_dtype(torch.float64)",
        "torch.autocast('cpu', torch.bfloat16).__enter__()",
        "torch.set_grad_enabled(False)",
    ],
)
def test_a_plug_in_that_leaves_torch_changed_fails_its_cell(
    new_plugin_file, tmp_path, change
):
    """In a process of its own, whose torch stays changed."""
    file = new_plugin_file("method")
    text = file.read_text().replace(
        "import numpy as np", "import numpy as np\nimport torch"
    )
    fit = "moments = Moments.of(x)"
    assert fit in text
    changing = f"{fit}\n        if len(moments.mean) == 100:\n            {change}"
    file.write_text(text.replace(fit, changing))
    words = f"run --plugin {file} {ITS_CELL_AND_A_BUILT_IN} -o runs --cache cache"
    ended = processes.run(*words.split(), cwd=tmp_path)
    assert ended.status == 1
    setting = change.partition("(")[0]
    assert f"a plug-in (mine) leaves {setting} changed" in ended.err
    methods = [path.parent.parent.name for path in tmp_path.rglob("seed-0.json")]
    assert "glove-mini.mean+mine@target" not in methods


def test_a_plug_in_s_subclass_leaves_nothing_under_the_key_of_the_built_in(
    keys_of_changed_plugin, call, tmp_path
):
    wanted = call("run -m glove-mini.mean -t mini-sts -o alone").out
    keys_of_changed_plugin()
    others = "-m loaded.mean tokenised.mean -t mini-sts"
    done = call(f"run --plugin scaled.py {others} --cache other")
    assert done.status == 0, done.err
    records = [
        json.loads(p.read_text()) for p in (tmp_path / "runs").rglob("seed-0.json")
    ]
    assert [record["facts"]["plugins"] for record in records] == [{"scaled": ""}] * 2
    again = call("run -m glove-mini.mean -t mini-sts --cache other -o new")
    score = next(word for word in wanted.split() if "." in word and word[0].isdigit())
    assert score in again.out
    assert score not in done.out


# Compiled from the bytes that were digested


def test_bytecode_of_an_older_text_is_never_run(new_plugin_file, tmp_path):
    """Python tells texts by size and whole seconds; a copy may keep both."""
    file = tmp_path / "mine.py"
    for number in (1, 2):
        file.write_text(f"METHODS = ()\nNUMBER = {number}\n")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        py_compile.compile(
            str(file), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP
        )
        file.write_text(f"METHODS = ()\nNUMBER = {number + 1}\n")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        PLUGINS.clear()
        sys.modules.pop("harness_plugins.mine", None)
        load_plugins([file])
        assert number + 1 == sys.modules["harness_plugins.mine"].NUMBER


def test_another_text_than_the_digested_is_refused(new_plugin_file):
    """As a worker process would, which starts after the file was edited."""
    file = new_plugin_file("method")
    [plugin] = plugins_in_use([file])
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(UsageError, match="the plug-in changed since the command began"):
        import_plugins([plugin])
    assert "harness_plugins.mine" not in sys.modules
    with pytest.raises(HarnessError, match=f"{file}: the plug-in changed"):
        require_plugins([plugin])


def test_workers_that_find_another_text_end_the_run_with_one_line(new_plugin_file):
    file = new_plugin_file("method")
    load_plugins([file])
    file.write_text(file.read_text() + "\n# changed\n")
    wanted = f"^{file}: the plug-in changed since the command"
    with pytest.raises(HarnessError, match=wanted), Processes(2).executor() as executor:
        executor.submit(abs, -1).result()


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
        with pytest.raises(HarnessError, match="changed since the command began"):
            require_digested_code(PLUGINS.values())
        (plugin_folder / name).write_text(FOLDER[name])
    assert len(digests) == 1 + len(FOLDER)
    (plugin_folder / "__pycache__").mkdir()
    (plugin_folder / "__pycache__" / "methods.pyc").touch()
    require_digested_code(PLUGINS.values())


def test_a_module_of_a_folder_that_is_imported_late_is_the_one_that_was_digested(
    plugin_folder,
):
    (plugin_folder / "late.py").write_text("NUMBER = 1\n")
    load_plugins([plugin_folder])
    (plugin_folder / "late.py").write_text("NUMBER = 2\n")
    assert import_module("harness_plugins.whole.late").NUMBER == 1


@pytest.fixture
def linked_plugin(tmp_path):
    """A plug-in folder with a link to a folder of code outside, and the file of that code."""
    code = tmp_path / "elsewhere" / "helpers" / "__init__.py"
    folder = tmp_path / "plugins" / "linked"
    for place in (code.parent, folder):
        place.mkdir(parents=True)
    code.write_text("NUMBER = 1\n")
    (folder / "__init__.py").write_text("METHODS = ()\nfrom .helpers import NUMBER\n")
    (folder / "helpers").symlink_to(code.parent)
    (folder / "again").symlink_to(folder)  # without end
    return folder, code


def test_a_folder_that_a_plug_in_links_to_is_in_its_digest(linked_plugin):
    folder, code = linked_plugin
    load_plugins([folder])
    require_digested_code(PLUGINS.values())
    code.write_text("NUMBER = 2\n")
    with pytest.raises(HarnessError, match=r"found \w+, another helpers/__init__.py; "):
        require_digested_code(PLUGINS.values())


def test_a_folder_beside_it_that_a_plug_in_links_to_is_part_of_it(linked_plugin):
    folder, code = linked_plugin
    beside = code.parent.rename(folder.parent / "helpers")
    (folder / "helpers").unlink()
    (folder / "helpers").symlink_to(beside)
    load_plugins([folder])
    require_digested_code(PLUGINS.values())


def test_what_is_written_into_the_folder_of_a_plug_in_is_named(plugin_folder):
    load_plugins([plugin_folder])
    (plugin_folder / "runs").mkdir()
    (plugin_folder / "runs" / "record.json").write_text("{}")
    with pytest.raises(
        HarnessError, match=r"another runs/record.json; write nothing into its folder"
    ):
        require_digested_code(PLUGINS.values())


@pytest.mark.parametrize("is_late", [False, True])
def test_a_plug_in_stays_in_the_current_folder(tmp_path, monkeypatch, is_late):
    """Results are written there, by other threads too."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "moves.py"
    file.write_text(
        "METHODS = ()\nimport os\ndef late(): os.chdir(os.sep)\n"
        + ("" if is_late else "late()\n")
    )

    def load_and_move():
        load_plugins([file])
        sys.modules["harness_plugins.moves"].late()

    with pytest.raises(
        HarnessError, match=r"the plug-in moves\.py changes the current folder"
    ):
        load_and_move()
    assert Path.cwd() == tmp_path


FURTHER = {  # the place of a further file, and how it is run
    "an import": ("helper.py", "import helper"),
    "an import by name": ("helper.py", "importlib.import_module('helper')"),
    "a package": ("helper/__init__.py", "import helper"),
    "a folder without __init__.py": ("helper/tables.py", "import helper.tables"),
    "a folder on the path": (
        "lib/helper.py",
        "sys.path.insert(0, str(Path(__file__).parent / 'lib')); import helper",
    ),
    "a loader": (
        "lib/helper.txt.py",
        "spec = spec_from_file_location('x', Path(__file__).parent / 'lib/helper.txt.py'); "
        "spec.loader.exec_module(module_from_spec(spec))",
    ),
    "a program": (
        "helper.py",
        "runpy.run_path(str(Path(__file__).with_name('helper.py')))",
    ),
    "compiled text": (
        "helper.py",
        "file = Path(__file__).with_name('helper.py'); "
        "exec(compile(file.read_text(), file, 'exec'), {})",
    ),
}
IMPORTS = (
    "import importlib, runpy, sys\n"
    "from importlib.util import module_from_spec, spec_from_file_location\n"
    "from pathlib import Path\n"
    "METHODS = ()\n"
)


@pytest.fixture
def write_plugin_with_further_file(tmp_path, monkeypatch):
    """Writes a plug-in of one file, and a further file in its folder."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(way, text):
        place, code = FURTHER[way]
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("NUMBER = 1\n")
        file = tmp_path / "alone.py"
        file.write_text(IMPORTS + text.format(code))
        return file

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "helper"]:
        del sys.modules[name]


REFUSED = (
    r"the plug-in alone\.py runs code of .*helper.*, which its digest does not hold"
)


@pytest.mark.parametrize("way", FURTHER)
def test_code_of_a_further_file_is_refused_at_the_top_and_inside_a_function(
    write_plugin_with_further_file, way
):
    file = write_plugin_with_further_file(way, "{}\n")
    with pytest.raises(UsageError, match=rf"alone\.py: {REFUSED}"):
        load_plugins([file])
    file = write_plugin_with_further_file(way, "def late():\n    {}\n")
    load_plugins([file])
    require_digested_code(PLUGINS.values())
    with pytest.raises(HarnessError, match=REFUSED):
        sys.modules["harness_plugins.alone"].late()
    loaded = (
        sys.modules[name]
        for name in [*sys.modules]
        if name.partition(".")[0] == "helper"
    )
    assert not [*filter(None, (module.__file__ for module in loaded))]


def test_a_plug_in_that_goes_on_without_a_further_file_is_refused_all_the_same(
    write_plugin_with_further_file,
):
    text = "def late():\n    try: {}\n    except Exception: pass\n"
    load_plugins([write_plugin_with_further_file("an import", text)])
    sys.modules["harness_plugins.alone"].late()
    with pytest.raises(HarnessError, match=REFUSED):
        require_digested_code(PLUGINS.values())


def test_a_further_file_that_somebody_else_imported_is_refused(
    write_plugin_with_further_file,
):
    """As the program that loads the plug-in may."""
    file = write_plugin_with_further_file(
        "an import", "from helper import NUMBER, __spec__\n{}\n"
    )
    import_module("helper")
    with pytest.raises(UsageError, match=REFUSED):
        load_plugins([file])


def test_a_program_may_import_a_file_of_the_folder_itself(
    write_plugin_with_further_file,
):
    load_plugins([write_plugin_with_further_file("an import", "def late():\n    {}\n")])
    import_module("helper")
    require_digested_code(PLUGINS.values())


def test_a_worker_process_refuses_a_further_file(write_plugin_with_further_file):
    load_plugins(
        [write_plugin_with_further_file("an import", "def late(item):\n    {}\n")]
    )
    late = sys.modules["harness_plugins.alone"].late
    with (
        pytest.raises(HarnessError, match=REFUSED),
        Processes(2).executor() as executor,
    ):
        executor.submit(late, 0).result()


def test_a_fit_that_imports_a_further_file_fails_its_cell_and_no_other(
    call, new_plugin_file, tmp_path, monkeypatch
):
    file = new_plugin_file("method")
    (tmp_path / "helper.py").write_text("NUMBER = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    fits = "moments = Moments.of(x)"
    late = f"{fits}\n        if moments.count > 5000:\n            import helper"
    file.write_text(file.read_text().replace(fits, late))
    answer = call(f"run --plugin {file} {ITS_CELL_AND_A_BUILT_IN}")
    assert answer.status == 1
    assert "the plug-in mine.py runs code of helper.py" in answer.out + answer.err
    [record] = [
        json.loads(p.read_text()) for p in (tmp_path / "runs").rglob("seed-0.json")
    ]
    assert record["method"] == "glove-mini.mean"


@pytest.mark.parametrize("name", ["not a word.py", "text.txt", "empty"])
def test_what_is_no_plug_in_is_refused(name, tmp_path):
    place = tmp_path / name
    place.touch() if place.suffix else place.mkdir()
    with pytest.raises(
        UsageError, match=r"wanted a Python file, as in my_method.py, or a folder"
    ):
        load_plugins([place])


BROKEN = {
    "imports what is not there": (
        "from typing import",
        "import nothing_there\nfrom typing import",
    ),
    "takes a registered name": ('POSTS = {"mine"', 'POSTS = {"whitening"'),
    "registers a word that no method has": ("METHODS = (", "METHODS = ()  # ("),
    "breaks a law": (
        "moments = Moments.of(x)",
        "moments = Moments.of(x); rng.random()",
    ),
    "gives float32": (
        "return Affine(",
        "return lambda rows: (rows - moments.mean).astype('f4')\n        return Affine(",
    ),
    "writes into moments": (
        "moments = Moments.of(x)",
        "moments = Moments.of(x); np.add(moments.mean, 1, out=moments.mean)",
    ),
    "ends the program in a fit": ("moments = Moments.of(x)", "raise SystemExit(0)"),
    "ends the program at import": (
        "from typing import",
        "raise SystemExit(0)\nfrom typing import",
    ),
    "raises an error without a text at import": (
        "from typing import",
        "class Unspeakable(Exception):\n    def __str__(self): raise ValueError\n"
        "raise Unspeakable\nfrom typing import",
    ),
    "raises a group at import": (
        "from typing import",
        "raise BaseExceptionGroup('several', [SystemExit(0)])\nfrom typing import",
    ),
    "has a list of post-processors": ('POSTS = {"mine": Mine}', "POSTS = [Mine]"),
    "registers what is no method": ("METHODS = (", "METHODS = (3,)  # ("),
    "registers None": ("METHODS = (", "METHODS = None  # ("),
}
WORDS = {
    "imports what is not there": "cannot be imported: ModuleNotFoundError: No module named",
    "takes a registered name": "post-processor 'whitening'",
    "registers a word that no method has": '+mine is in no method; add one, as in METHODS = ("',
    "breaks a law": "mine fails a contract test: a deterministic fit draws nothing: wanted nothing "
    "drawn, found draws; baselines/whitening.py ",
    "gives float32": "mine fails a contract test: a map gives finite float64 of one width: wanted "
    "numbers of type float64, found float32; baselines/whitening.py ",
    "writes into moments": "mine fails a contract test: a fit does not write into shared rows: "
    "found ValueError: output array is read-only; baselines/whitening.py ",
    "ends the program in a fit": "mine fails a contract test: ",
    "ends the program at import": "cannot be imported: SystemExit: 0",
    "raises an error without a text at import": "cannot be imported: Unspeakable: ",
    "raises a group at import": "cannot be imported: BaseExceptionGroup: several",
    "has a list of post-processors": "cannot be imported: AttributeError: 'list' object has no",
    "registers what is no method": "cannot be imported: AttributeError: ",
    "registers None": "cannot be imported: TypeError: 'NoneType' object is not iterable",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_plug_in_is_refused_in_one_line_with_file_name_and_law(
    call, new_plugin_file, fault
):
    file, (old, new) = new_plugin_file("method"), BROKEN[fault]
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    answer = call(f"list plugins --plugin {file}")
    assert answer.status == 2
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert f"{file}: " in answer.complaint
    assert WORDS[fault] in answer.complaint


ENDING = """

def ends(*_):
    raise SystemExit(0)


class Ending(Mine):
    def fit(self, x, rng):
        wide = isinstance(x, Moments) and len(x.mean) == 100
        return ends() if wide else super().fit(x, rng)


POSTS = {"mine": Ending}
"""


def test_a_plug_in_that_ends_the_program_costs_its_cell_alone(
    call, new_plugin_file, tmp_path
):
    """It keeps the laws, whose rows have other widths than glove-mini's."""
    file = new_plugin_file("method")
    head, _, tail = file.read_text().partition("POSTS =")
    file.write_text(head + ENDING + "METHODS =" + tail.partition("METHODS =")[2])
    answer = call(f"run --plugin {file} {ITS_CELL_AND_A_BUILT_IN}")
    assert answer.status == 1
    assert (
        "plug-in mine: wanted a result, found SystemExit(0)" in answer.out + answer.err
    )
    assert record_of(tmp_path / "runs")["method"] == "glove-mini.mean"


@pytest.mark.parametrize(
    "error", ["KeyboardInterrupt", "BaseExceptionGroup('s', [KeyboardInterrupt()])"]
)
def test_a_plug_in_that_interrupts_the_program_is_named(call, new_plugin_file, error):
    file = new_plugin_file("method")
    ending = ENDING.replace("SystemExit(0)", error)
    head, _, tail = file.read_text().partition("POSTS =")
    file.write_text(head + ending + "METHODS =" + tail.partition("METHODS =")[2])
    answer = call(f"run --plugin {file} {ITS_CELL_AND_A_BUILT_IN}")
    assert answer.status == 1
    finding = error.partition("(")[0]
    assert f"plug-in mine: wanted a result, found {finding}" in answer.complaint
    assert "mend its code" in answer.complaint


def test_an_encoder_whose_name_no_id_can_hold_is_refused(call, new_plugin_file):
    file = new_plugin_file("encoder")
    text = file.read_text()
    for name in ('"Mine Encoder"', "3", '""'):
        file.write_text(text.replace('FunctionConfig("mine"', f"FunctionConfig({name}"))
        answer = call(f"list plugins --plugin {file}")
        assert answer.status == 2
        assert (
            "wanted a name in small letters as that of the encoder" in answer.complaint
        )


@pytest.mark.parametrize(("code", "status"), [("0", 1), ("'done'", 1), ("3", 1)])
def test_a_plug_in_that_ends_the_program_elsewhere_ends_it_with_a_line(
    call, new_plugin_file, code, status
):
    file = new_plugin_file("method")
    text = file.read_text().replace("METHODS = (", "MADE = []\nMETHODS = (")
    ending = f"""
def mine():
    if MADE:
        raise SystemExit({code})
    return Mine()


POSTS = {{"mine": mine}}
"""
    head, _, tail = text.partition("POSTS =")
    file.write_text(
        head + ending + "MADE = []\nMETHODS =" + tail.partition("\nMETHODS =")[2]
    )
    load_plugins([file])
    sys.modules["harness_plugins.mine"].MADE.append(1)
    method = "glove-mini.mean+mine@target"  # composed anew
    answer = call("plan", "--plugin", str(file), "-m", method, "-t", "mini-sts")
    assert answer.status == status
    assert "plug-in mine: wanted a result, found SystemExit(" in answer.complaint


def test_a_plug_in_that_is_loaded_is_not_loaded_again(new_plugin_file):
    plugins = plugins_in_use([new_plugin_file("method")])
    for _ in range(2):
        import_plugins(plugins)
    assert [*PLUGINS.values()] == plugins


def test_two_files_of_one_name_are_two_plug_ins(new_plugin_file, tmp_path):
    one = new_plugin_file("method")
    other = tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(one.read_text() + "\n")
    with pytest.raises(UsageError, match="another plug-in is called 'mine': "):
        load_plugins([one, other])


# A table for a paper


def test_a_table_has_rows_marks_and_a_caption(
    call, new_plugin_file, few_packaged_results
):
    methods = ("glove-mini.mean", "glove-mini.mean+mine@target")
    plugin = ("--plugin", str(new_plugin_file("method")))
    call("run", *plugin, "-m", *methods, "-t", "mini-sts", "mini-sick")
    text = call("table", "-m", *methods, "-t", "mini-sts", "mini-sick").out
    head, _, first, second, *_ = text.splitlines()
    assert head.endswith(" Avg. |")
    assert first.startswith("| `glove-mini.mean`  ")
    assert second.startswith("| `glove-mini.mean+mine@target` † |")
    assert second.count("**") == 6
    for words in (
        "raw text, test split",
        "`@target`: fitted on",
        "Holm's correction",
        "sha256",
    ):
        assert words in text
    latex = call("table", "-m", *methods, "-t", "mini-sts", "--latex").out
    assert latex.startswith("\\begin{table}")
    assert latex.count("\\textbf{") == 1
    assert "\\caption{Spearman (\\texttt{all}) $\\times$100 on mini-sts" in latex


def test_the_best_is_bold_and_what_does_not_differ_from_it_is_marked():
    scores = {"fake.mean": 51.0, "fake.cls": 50.0, "fake.last": 49.0}
    results = results_of(
        *(made_record(m, "toy", {"spearman": x}) for m, x in scores.items())
    )
    p_holm = {"toy": {"fake.mean": 1.0, "fake.cls": 0.06, "fake.last": 0.04}}
    columns = {"toy": (ColumnScore(TOY, ("spearman",)),)}
    parts = {"methods": [*scores], "columns": columns, "results": results}
    made = MethodTable(**parts, registry=load_registry(), p_holm=p_holm)
    assert [made.cell("toy", m, str, "**{}**") for m in scores] == [
        "**51.00**",
        "50.00 ≈",
        "49.00",
    ]
    untested = MethodTable(**parts, registry=load_registry())
    assert [untested.cell("toy", m, str, "<{}>") for m in scores] == [
        "<51.00>",
        "50.00",
        "49.00",
    ]


def test_published_rows_of_the_same_protocol_stand_below(call, tmp_path):
    folder = tmp_path / "results"
    folder.symlink_to(ROOT / "results")
    words = (
        "table",
        "-m",
        "minilm.mean",
        "-t",
        "sts-b",
        "sts12.senteval",
        "--results",
        "results",
    )
    text = call(*words, "--beside", "mteb.1-12-75").out
    [published] = [
        line for line in text.splitlines() if line.startswith("| all-MiniLM-L6-v2 ")
    ]
    assert published.split()[-6:] == ["82.0325", "|", "72.3690", "|", "–", "|"]
    assert "Not tested" in text
    assert call("table -m minilm.mean -t sts-b --results results").status == 0


def test_the_command_alone_is_helped(capfd):
    with pytest.raises(SystemExit) as ended:
        main(["new", "--help"])
    assert ended.value.code == 0
    assert "method, task or encoder" in capfd.readouterr().out


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
