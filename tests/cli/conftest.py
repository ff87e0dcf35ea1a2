"""The command line in this process, as a person or a program meets it."""

import shlex
import shutil
from importlib import import_module

import pytest
from committed import RESULTS
from fakes import PROBE, FakeConfig, corpus, numbered, registry
from fixtures import forget_plugins
from processes import Ended

from harness.cli import SECTIONS, main
from harness.core.metrics import metrics
from harness.data import places
from harness.registry import load_registry

# Commands are imported before a test replaces what they import.
for modules in SECTIONS.values():
    for module in modules.values():
        import_module(f"harness.cli.{module}")

PUBLISHED = RESULTS / "papers" / "simcse.issue-285.toml"


class Answer(Ended):
    """What a command said and ended with."""

    @property
    def complaint(self) -> str:
        """The one line that it complains with; a bar may stand above it."""
        assert "Traceback" not in self.err
        [line] = [
            line for line in self.err.splitlines() if line.startswith("harness: ")
        ]
        return line


@pytest.fixture(autouse=True)
def without_loaded_plugins():
    """What a test loads is gone behind it."""
    kept = dict(places.PLUGIN_ASSETS), dict(metrics())
    yield
    forget_plugins()
    for held, before in zip((places.PLUGIN_ASSETS, metrics()), kept, strict=True):
        held.clear()
        held.update(before)


@pytest.fixture
def call(monkeypatch, capfd, tmp_path):
    """The command line in an empty folder: its status, its answer and its notes.

    A command is given as it is typed, `call("run -m minilm.mean -t sts-b")`; words that
    come from elsewhere may follow it.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("HARNESS_DATA_DIR", raising=False)

    def answer(command, *more):
        arguments = [*shlex.split(command), *more]
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        return Answer(ended.value.code or 0, *capfd.readouterr())

    return answer


# A command that reads the packaged results takes a second for all of them.


@pytest.fixture
def one_packaged_table(monkeypatch, tmp_path_factory):
    """Only a published table comes with the harness, and no record: its folder of results."""
    packaged = tmp_path_factory.mktemp("packaged")
    (packaged / "papers").mkdir()
    shutil.copy(PUBLISHED, packaged / "papers")
    monkeypatch.setattr("harness.results.layout.COMMITTED", packaged)
    return packaged


@pytest.fixture
def few_packaged_results(one_packaged_table):
    """Two published tables come with the harness, and records of GloVe and of `minilm.mean`."""
    packaged = one_packaged_table
    shutil.copy(RESULTS / "papers" / "mteb.1-12-75.toml", packaged / "papers")
    shutil.copytree(
        RESULTS / "records" / "glove-mini", packaged / "records" / "glove-mini"
    )
    (packaged / "records" / "minilm").mkdir()
    shutil.copy(
        RESULTS / "records" / "minilm" / "minilm.mean.jsonl",
        packaged / "records" / "minilm",
    )
    return packaged


@pytest.fixture
def toys(monkeypatch, tmp_path, call, one_packaged_table):
    """The command line over a registry of fakes, with their data and a folder of results."""
    monkeypatch.setenv("HARNESS_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data" / PROBE).parent.mkdir(parents=True)
    (tmp_path / "data" / PROBE).touch()
    (tmp_path / "results" / "papers").mkdir(parents=True)
    shutil.copy(PUBLISHED, tmp_path / "results" / "papers")
    (tmp_path / "README.md").write_text(
        "# Toys\n\n<!-- leaderboard -->\n<!-- /leaderboard -->\n"
    )
    found = registry(FakeConfig(), corpus("stream", numbered(100, 25)))
    for name, task in load_registry().tasks.items():
        if name.endswith(".senteval"):  # which the published table names
            found.tasks[name] = task
    # Published tables still name what comes with the harness.
    for module in ("registry", "resolve", "cli.fetch", "results.folder"):
        monkeypatch.setattr(f"harness.{module}.load_registry", lambda: found)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text("{}")
    here = ("--encoder", f"fake={tmp_path / 'weights'}")

    def answer(command, *more):
        name, *arguments = shlex.split(command)
        by_hand = here if name in ("run", "reproduce") else ()
        return call(name, *by_hand, *arguments, *more)

    return answer
