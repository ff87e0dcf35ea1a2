"""The identity of a method, for every configuration of the registry; and of the code that computes.

A setting at its default is left out, so a new one changes no identity. `defaults.txt`
holds the defaults: one that changed would make an old result look like one of the new
setting.
"""

import re
import shutil
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace

import numpy as np
from committed import committed_records
from hypothesis import given
from hypothesis import strategies as st
from processes import ROOT

from baselines.natsv import Natsv
from baselines.whitening import Whitening
from harness.core import provenance
from harness.core.digests import NOT_IN_IDENTITY, identity_text
from harness.core.types import METHOD_ID, Method, MethodId
from harness.registry import load_registry
from harness.transforms.pooling import MEAN

METHODS = tuple(load_registry().methods.values())
MINILM = load_registry().encoders["minilm"]


def settings_of(kind):
    return [f for f in fields(kind) if f.compare and f.metadata.get("identity", True)]


def parts_of(value):
    """A configuration and all configurations in it."""
    if is_dataclass(value):
        yield value
        for setting in settings_of(type(value)):
            yield from parts_of(getattr(value, setting.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from parts_of(item)


CLASSES = sorted(
    {type(part) for method in METHODS for part in parts_of(method)},
    key=lambda kind: kind.__name__,
)


def test_what_is_said_of_a_method_is_not_in_its_identity():
    method = Method(MINILM, MEAN, (Whitening(64),), "target")
    told = replace(method, cite="other2020", note="A note.", tasks=("sts-b",))
    encoder = replace(
        MINILM,
        cite="other2020",
        licence="MIT",
        trained_on="other texts",
        download_size=1,
    )
    assert told.identity == method.identity == replace(method, encoder=encoder).identity
    assert "cite" not in method.identity


# Defaults


def test_no_default_of_a_setting_has_changed(approved):
    """Records leave defaults out. Another default needs another name of the setting."""
    lines = set()
    for kind in CLASSES:
        for setting in settings_of(kind):
            default = setting.default
            if setting.default_factory is not MISSING:
                default = setting.default_factory()
            if default is not MISSING:  # an identity can leave it out
                text = identity_text(default)
                lines.add(f"{kind.__name__}.{setting.name} = {text}\n")
    assert "".join(sorted(lines)) == approved("defaults.txt")


def test_every_committed_record_has_the_identity_of_its_method():
    registry = load_registry()
    stored = {(record.method, record.identity) for record in committed_records()}
    assert all(
        registry.parse(method).identity == identity for method, identity in stored
    )


# Settings of plug-ins


@dataclass(frozen=True)
class Settings:
    """A configuration of a plug-in."""

    value: object = None
    hidden: object = field(default=None, metadata=NOT_IN_IDENTITY)
    log: object = field(default=None, compare=False)


def test_settings_of_every_kind_tell_values_apart():
    values = [1, 1.0, True, "1", None, (), (1,), ((1,),), Natsv, np.mean, len]
    values += [np.arange(3), np.arange(5000), np.arange(5000)[::-1]]
    values += [lambda: 1, lambda: 2, "a".upper, "b".upper]
    texts = [identity_text(Settings(value)) for value in values]
    assert len({*texts}) == len(values)


def test_a_setting_at_its_default_and_one_that_is_declared_out_are_left_out():
    assert identity_text(Settings(1, hidden=2, log=3)) == "Settings(value=1)"
    assert identity_text(Settings()) == "Settings()"


# The code that computes


def test_the_page_on_identity_says_which_files_compute(tmp_path, monkeypatch):
    """Each row of its table: a line more in a file, and whether cells are measured again."""
    leave = shutil.ignore_patterns("__pycache__", "embedded", "committed")
    for name in ("harness", "baselines", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=leave)
    monkeypatch.setattr(provenance, "HARNESS", tmp_path / "harness")
    monkeypatch.setattr(provenance, "BASELINES", tmp_path / "baselines")
    before = provenance.code_digest.__wrapped__()
    page = (ROOT / "docs/identity.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w./]+)` \| (yes|no) \|$", page, re.MULTILINE)
    assert len(rows) > 10
    for name, again in rows:
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content + b"# A comment.\n")
        is_moved = provenance.code_digest.__wrapped__() != before
        (tmp_path / name).write_bytes(content)
        assert is_moved == (again == "yes"), name


# Ids


@given(st.from_regex(METHOD_ID, fullmatch=True, alphabet=st.characters(codec="ascii")))
def test_an_id_is_written_as_it_was_read(text):
    assert str(MethodId.parse(text)) == text
