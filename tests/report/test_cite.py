"""Citations: every key has its entry, every sentence its records, every page its digest."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from committed import TABLES
from fakes import FakeConfig, made_record, method, registry, results_folder, results_of
from processes import ROOT

from harness.core.errors import DataError
from harness.data.catalogue import DATA_ASSETS
from harness.registry import load_registry
from harness.report.bibtex import HARNESS_KEY, bib_keys, bibtex, entries, software
from harness.report.cite import (
    cite_harness,
    cite_method,
    cite_number,
    cite_table,
    published_sentence,
)
from harness.results.index import Results
from harness.results.published_tables import load_table
from harness.results.store import Store

ENTRIES = entries()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
ENVIRONMENT = {"commit": COMMIT, "dirty": False, "harness": "0.1.0"}
REGISTRY = load_registry()
FAKES = registry(FakeConfig())
FAKES.tasks.update(REGISTRY.tasks)


# BibTeX


def test_every_key_that_is_named_has_an_entry_and_every_entry_is_named():
    tasks, methods, encoders = REGISTRY.tasks, REGISTRY.methods, REGISTRY.encoders
    named = (*tasks.values(), *methods.values(), *encoders.values(), *TABLES)
    of_data = {key for asset in DATA_ASSETS for key in asset.cite}
    posts = (post for method in methods.values() for post in method.post)
    cites = [
        *(thing.cite for thing in named),
        *(getattr(post, "cite", "") for post in posts),
    ]
    assert {*bib_keys(cites), *of_data, HARNESS_KEY} == set(ENTRIES)


def test_entries_are_whole_and_latex_can_print_them():
    for entry in ENTRIES.values():
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", entry, re.MULTILINE))
        assert len(fields) == entry.count("\n") - 1
        assert {"author", "title", "year"} <= fields.keys()
        assert ("booktitle" in fields) == entry.startswith("@inproceedings")
        assert entry.isascii()
        for name, text in fields.items():
            without_commands = re.sub(r"\{\\.*?\}", "", text)
            assert name == "url" or not set("&%#_$^~") & set(without_commands)


@pytest.mark.parametrize(
    "entry",
    [
        "@Article { me2026 ,\n  title = {A {Nested} one},\n  year = 2026 }",
        "@misc{me2026,\n      title={Exported},\n      note={a @misc{other, } within},\n}",
        "@misc{me2026,\r\n  title = {CRLF},\r\n}",
    ],
)
def test_entries_are_read_as_programs_export_them(entry, tmp_path):
    own = tmp_path / "references.bib"
    own.write_bytes(
        f"% mine\n@string{{acl = {{ACL}}}}\n{entry}\n\n  @misc{{b,\n}}\n".encode()
    )
    assert entries(own) == {"me2026": entry.replace("\r", ""), "b": "@misc{b,\n}"}
    own.write_text("@misc{b,\n  title = {open,\n}\n")
    with pytest.raises(
        DataError, match=r"references\.bib: the entry 'b' has no closing brace"
    ):
        entries(own)
    own.write_text("@misc{a,\n}\n\n@misc{a,\n}\n")
    with pytest.raises(
        DataError, match=r"references\.bib: two entries have the key 'a'"
    ):
        entries(own)
    with pytest.raises(DataError, match="wanted an entry 'nobody1999', found none"):
        bibtex(["nobody1999"])


# The citation file


def test_the_harness_is_cited_at_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    version, licence = PROJECT["version"], PROJECT["license"]
    assert (citation["version"], citation["license"]) == (version, licence)
    assert software() == f"{citation['title']} {version}, {licence}"
    is_released = ".dev" not in version
    assert ("date-released" in citation) == is_released
    if is_released:
        year = citation["date-released"].year
        assert f"year = {{{year}}}" in ENTRIES[HARNESS_KEY]
    assert PROJECT["name"] == HARNESS_KEY


# Sentences

SEEDED = method("mean", "stretch", on="target")
PLAIN = method("mean")
TABLE = load_table(Path(__file__).parent / "golden" / "synthetic.toml", FAKES)


def record(one, task, seed=0, score=70.0, identity="", **environment):
    of_subsets = {"all": score, "mean": score, "wmean": score, "groups": {"g": score}}
    return made_record(
        one.id,
        task,
        {"spearman": of_subsets},
        seed,
        identity=identity or one.identity,
        environment=ENVIRONMENT | environment,
    )


def folder_of(results, registry=FAKES, tables=(TABLE,)):
    return results_folder(Path("nowhere"), registry, results, *tables)


def test_the_digest_of_a_citation_is_over_the_records_as_files_have_them(tmp_path):
    scores = (81.4, 81.5, 81.65, 81.8, 81.9)
    made = [record(SEEDED, "sts-b", seed, score) for seed, score in enumerate(scores)]
    store = Store(tmp_path)
    store.commit(made)
    folder = folder_of(Results.read(store))
    sentences, _ = cite_number("synthetic/seeded/sts-b", folder)
    file = store.committed_path(SEEDED.id).read_bytes()
    assert sentences == [
        "Seeded (Calibrated), STS-B (sts-b, test, raw text), "
        "Spearman x100 of cosine and gold, single set: "
        "published 82.00 in Nobody et al. 1999, Table 1; "
        "measured 81.65 ± 0.21 over 5 seeds (-0.35, consistent) by fake.mean+stretch@target "
        "with sentence-embedding-harness 0.1.0, commit 0123456789ab, records sha256 "
        f"{hashlib.sha256(file).hexdigest()}."
    ]


UNMEASURED = {
    "not run": ("synthetic/plain/sts-b", []),
    "stale": (
        "synthetic/plain/sts-b",
        [record(PLAIN, "sts-b", identity="Method(other)")],
    ),
    "a spread": ("synthetic/sd/sts-b", [record(PLAIN, "sts-b")]),
    "an average with a hole": ("synthetic/plain/avg", [record(PLAIN, "sts-b")]),
}
CODE = {
    "uncommitted changes": [{"dirty": True}],
    "an unknown commit": [{"commit": None, "dirty": None}],
    "two versions": [{}, {"harness": "0.2.0"}],
    "five commits": [{"commit": letter * 40} for letter in "abcde"],
}
NAMES = (
    (cite_number, "bert-flow.t2/bert-base-flow-target/sts-b"),
    (cite_method, "minilm.mean+whitening@target"),
    (cite_method, "minilm.mean+natsv:10@target"),
    (cite_method, "mpnet-base.mean"),
    (cite_method, "bert-base:64.first-last+whitening:256@nli"),
)


def test_citations_are_golden(approved):
    """What was not measured has no number and no digest; code is named as the records have it."""
    citations = {
        state: cite_number(name, folder_of(results_of(*made, found=FAKES)))
        for state, (name, made) in UNMEASURED.items()
    }
    for what, environments in CODE.items():
        made = [
            record(SEEDED, "sts-b", seed, **environment)
            for seed, environment in enumerate(environments)
        ]
        citations[what] = cite_number(
            "synthetic/seeded/sts-b", folder_of(results_of(*made))
        )
    made = [record(PLAIN, task, score=60.5) for task in ("sts12", "sts-b")]
    made.append(record(SEEDED, "sts-b", identity="Method(other)"))
    folder = folder_of(results_of(*made, found=FAKES))
    citations["a table"] = cite_table("synthetic", folder)
    citations["a method"] = cite_method("fake.mean", folder)
    citations["a stale method"] = cite_method(SEEDED.id, folder)
    citations["everything"] = cite_harness(folder)
    published = folder_of(Results({}), REGISTRY, TABLES)
    citations |= {name: cite(name, published) for cite, name in NAMES}
    text = ""
    for what, (sentences, keys) in citations.items():
        lines = [f"# {what}", *sentences, *bib_keys(keys)]
        text += "\n".join([*lines, "", ""])
    assert text == approved("golden/citations.txt")


def test_every_published_cell_can_be_cited():
    for published in (cell for table in TABLES for cell in table.numbers):
        sentence = published_sentence(published, REGISTRY)
        assert published.row.label in sentence
        assert f"published {published.in_points or published.value} " in sentence
        assert "{" not in sentence
