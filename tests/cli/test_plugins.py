"""Plug-ins: methods, tasks and encoders from a file or a distribution, under the laws of all."""

import json
import subprocess
import sys
from functools import partial
from importlib import metadata

import pytest
from fakes import TOY, made_record, results_of
from processes import ROOT

from harness.assets import places
from harness.cli import main
from harness.core.errors import UsageError
from harness.core.metrics import metrics
from harness.core.provenance import PLUGINS, Plugin
from harness.plugins import load_plugins, plugins_in_use
from harness.registry import load_registry
from harness.report.method_table import MethodTable

KINDS = ("method", "task", "encoder")
MEASURED = {
    "method": ("glove-mini.mean+mine@target", "mini-sts"),
    "task": ("glove-mini.mean", "mine"),
    "encoder": ("mine.native", "mini-sts"),
}


@pytest.fixture(autouse=True)
def apart():
    """What a test loads is gone behind it."""
    kept = dict(PLUGINS), dict(places.ADDED), dict(metrics())
    yield
    for held, before in zip((PLUGINS, places.ADDED, metrics()), kept, strict=True):
        held.clear()
        held.update(before)
    for name in [name for name in sys.modules if name.startswith("harness_plugins.")]:
        del sys.modules[name]


@pytest.fixture
def made(call, tmp_path):
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
def test_what_new_writes_runs_at_once_and_its_records_name_it(call, made, tmp_path, kind):
    file = made(kind)
    method, task = MEASURED[kind]
    done = call("run", "--plugin", str(file), "-m", method, "-t", task)
    assert done.status == 0, done.err
    record = record_of(tmp_path / "runs")
    [plugin] = plugins_in_use([file])
    assert record["digests"]["plugin mine"] == plugin.sha256
    assert record["facts"]["plugins"] == {"mine": ""}
    assert str(tmp_path) not in json.dumps(record)


def test_what_new_writes_keeps_every_law_and_tells_them_one_by_one(made):
    files = [str(made(kind, f"my{kind}")) for kind in KINDS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    options = ["--harness-contracts", *(word for file in files for word in ("--plugin", file))]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split(" passed")[0].split()[-1]) > 30


def test_a_file_that_is_there_or_a_name_that_is_none_is_not_written(call, made):
    file = made("method")
    before = file.read_text()
    for name, words in (("mine", "mine.py exists"), ("My_Own", "wanted words of lower-case")):
        answer = call("new", "method", name)
        assert (answer.status, words in answer.complaint) == (2, True)
    assert file.read_text() == before


@pytest.mark.parametrize("how", ["environment", "project"])
def test_a_folder_and_an_environment_name_plug_ins(call, made, monkeypatch, tmp_path, how):
    file = made("method")
    if how == "environment":
        monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    else:
        table = '[tool.sentence-embedding-harness]\nplugins = ["mine.py"]\n'
        (tmp_path / "pyproject.toml").write_text(table)
    [row] = json.loads(call("list", "plugins", "--json").out)
    found = row["plug-in"], row["posts"], row["methods"]
    assert found == ("mine", "mine", "bert-mini.mean+mine@target")
    rows = json.loads(call("list", "posts", "--json").out)
    assert {row["word"]: row["plug-in"] for row in rows}["+mine"] == "mine"
    assert {row["plug-in"] for row in rows} == {"", "mine"}


@pytest.mark.slow
def test_several_processes_load_it(call, made):
    methods = ["bert-mini.mean+mine@target", "glove-mini.mean+mine@target"]
    done = call("run", "--plugin", str(made("method")), "-m", *methods, "-t", "mini-sts", "-j", "2")
    assert done.status == 0, done.err
    assert all(method in done.out for method in methods)


def test_python_loads_it_as_well(made):
    load_plugins([made("encoder")])
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
    (package / "methods.py").write_text(template.read_text().replace('"mine"', '"theirs"'))
    text = (package / "methods.py").read_text().replace("+mine@", "+theirs@")
    (package / "methods.py").write_text(text)
    info = tmp_path / "site" / "my_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[sentence_embedding_harness]\ntheirs = my_package.methods\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield package
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


def test_an_installed_distribution_is_found_by_itself(installed, call, tmp_path):
    [row] = json.loads(call("list", "plugins", "--json").out)
    assert (row["plug-in"], row["from"], row["version"]) == ("theirs", "my-package 1.2", "1.2")
    assert call("run", "-m", "glove-mini.mean+theirs@target", "-t", "mini-sts").status == 0
    assert record_of(tmp_path / "runs")["facts"]["plugins"] == {"theirs": "1.2"}


def test_its_digest_is_of_every_source_file(installed):
    def digest():
        [plugin] = plugins_in_use()
        return plugin.sha256

    before = digest()
    (installed / "helpers.py").write_text("K = 1\n")
    assert digest() != before
    assert metadata.version("my-package") == "1.2"


def test_a_function_is_its_plug_ins_with_bound_arguments_too():
    plugin = Plugin("mine", "mine.py", "", "", __name__)
    assert [*map(plugin.defines, (record_of, partial(record_of), partial(print)))] == [1, 1, 0]


# Trust


def test_what_only_reads_results_imports_none(call, made, monkeypatch, tmp_path, installed):
    file = made("method")
    assert call("run", "--plugin", str(file), "-m", MEASURED["method"][0], "-t", "mini-sts")
    PLUGINS.clear()
    tell = "from pathlib import Path\nPath('imported').touch()\n"
    for source in (file, installed / "methods.py"):
        source.write_text(source.read_text() + tell)
    sys.modules.pop("my_package.methods", None)
    sys.modules.pop("harness_plugins.mine", None)
    monkeypatch.setenv("HARNESS_PLUGINS", str(file))
    method = MEASURED["method"][0]
    shown = call("show", "--results", "runs", "-m", method)
    assert "mine (not loaded)" in shown.out
    assert call("table", "-m", method, "-t", "mini-sts").status == 0
    assert call("report", "--results", "runs").status == 0
    assert "By plug-ins, which do not come with the harness: mine" in (
        tmp_path / "runs/LEADERBOARD.md"
    ).read_text(encoding="utf-8")
    checked = call("check", "--results", "runs", "-m", method)
    assert "its plug-in mine has changed since its record" in checked.out
    assert not (tmp_path / "imported").exists()
    assert call("show", "--results", "runs", "--plugin", str(file), "-m", method).status == 0
    assert (tmp_path / "imported").exists()


def test_a_cell_is_measured_again_after_its_plug_in_has_changed(call, made, tmp_path):
    file = made("method")
    command = ("run", "--plugin", str(file), "-m", MEASURED["method"][0], "-t", "mini-sts")
    call(*command)
    before = record_of(tmp_path / "runs")["digests"]
    PLUGINS.clear()
    sys.modules.pop("harness_plugins.mine")
    file.write_text(file.read_text() + "\n# changed\n")
    call(*command)
    after = record_of(tmp_path / "runs")["digests"]
    assert {name for name in after if after[name] != before[name]} == {"plugin mine"}


def test_the_vectors_of_a_changed_function_are_encoded_anew(made):
    file, keys = made("encoder"), []
    for _ in range(2):
        load_plugins([file])
        keys.append(load_registry().encoders["mine"].identify().key)
        PLUGINS.clear()
        sys.modules.pop("harness_plugins.mine")
        file.write_text(file.read_text() + "\n# changed\n")  # the probes have the same vectors
    assert keys[0] != keys[1]


BROKEN = {
    "imports what is not there": ("from typing import", "import nothing_there\nfrom typing import"),
    "takes a registered name": ('POSTS = {"mine"', 'POSTS = {"whitening"'),
    "registers a word that no method has": ("METHODS = (", "METHODS = ()  # ("),
    "breaks a law": ("moments = Moments.of(x)", "moments = Moments.of(x); rng.random()"),
}
WORDS = {
    "imports what is not there": "cannot be imported: ModuleNotFoundError: No module named",
    "takes a registered name": "two files register the post-processor 'whitening': rename one",
    "registers a word that no method has": '+mine stands in no method; add one, as in METHODS = ("',
    "breaks a law": "mine fails a contract test: a deterministic fit draws nothing; pytest",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_plug_in_is_refused_in_one_line_with_file_name_and_law(call, made, fault):
    file, (old, new) = made("method"), BROKEN[fault]
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    answer = call("list", "plugins", "--plugin", str(file))
    assert (answer.status, answer.out, len(answer.err.splitlines())) == (2, "", 1)
    assert f"{file}: " in answer.complaint
    assert WORDS[fault] in answer.complaint


def test_two_files_of_one_name_are_two_plug_ins(made, tmp_path):
    one = made("method")
    other = tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text(one.read_text() + "\n")
    with pytest.raises(UsageError, match="another plug-in is called 'mine': "):
        load_plugins([one, other])


# A table for a paper


def test_a_table_has_rows_marks_and_a_caption(call, made):
    methods = ("glove-mini.mean", "glove-mini.mean+mine@target")
    plugin = ("--plugin", str(made("method")))
    call("run", *plugin, "-m", *methods, "-t", "mini-sts", "mini-sick")
    text = call("table", "-m", *methods, "-t", "mini-sts", "mini-sick").out
    head, _, first, second, *_ = text.splitlines()
    assert head.endswith(" Avg. |")
    assert first.startswith("| `glove-mini.mean`  ")
    assert second.startswith("| `glove-mini.mean+mine@target` † |")
    assert second.count("**") == 6
    for words in ("raw text, test split", "`@target`: fitted on", "Holm's correction", "sha256"):
        assert words in text
    latex = call("table", "-m", *methods, "-t", "mini-sts", "--latex").out
    assert latex.startswith("\\begin{table}")
    assert latex.count("\\textbf{") == 1
    assert "\\caption{Spearman (\\texttt{all}) $\\times$100 on mini-sts" in latex


def test_the_best_is_bold_and_what_does_not_differ_from_it_is_marked():
    scores = {"fake.mean": 51.0, "fake.cls": 50.0, "fake.last": 49.0}
    results = results_of(*(made_record(m, "toy", {"spearman": x}) for m, x in scores.items()))
    p_holm = {"toy": {"fake.mean": 1.0, "fake.cls": 0.06, "fake.last": 0.04}}
    columns = {"toy": [(TOY, ("spearman",))]}
    made = MethodTable((*scores,), columns, results, p_holm)
    assert [made.cell("toy", m, str, "**{}**") for m in scores] == ["**51.00**", "50.00 ≈", "49.00"]
    untested = MethodTable((*scores,), columns, results)
    assert [untested.cell("toy", m, str, "<{}>") for m in scores] == ["<51.00>", "50.00", "49.00"]


def test_published_rows_of_the_same_protocol_stand_below(call, tmp_path):
    folder = tmp_path / "results"
    folder.symlink_to(ROOT / "results")
    words = ("table", "-m", "minilm.mean", "-t", "sts-b", "sts12.senteval", "--results", "results")
    text = call(*words, "--beside", "mteb.1-12-75").out
    [published] = [line for line in text.splitlines() if line.startswith("| all-MiniLM-L6-v2 ")]
    assert published.split()[-6:] == ["82.0325", "|", "72.3690", "|", "–", "|"]
    assert "Not tested" in text
    assert call("table", "-m", "minilm.mean", "-t", "sts-b", "--results", "results").status == 0


def test_the_command_alone_is_helped(capfd):
    with pytest.raises(SystemExit) as ended:
        main(["new", "--help"])
    assert ended.value.code == 0
    assert "method, task or encoder" in capfd.readouterr().out


def test_rows_of_a_function_that_looks_at_its_neighbours_are_refused(call, made):
    file = made("encoder")
    text = file.read_text().replace("+ 1e-3", "+ len(texts)")
    file.write_text(text)
    answer = call("run", "--plugin", str(file), "-m", "mine.native", "-t", "mini-sts")
    assert answer.status == 2
    assert "a text has one vector whatever stands beside it" in answer.complaint
