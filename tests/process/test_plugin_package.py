"""The classes of an installed package in a crawl: a step, a converter, an encoder and an appender."""

import json
import os
from pathlib import Path

import pytest

from .library import Library
from .plugin_package import install_plugin_package
from .project import Project
from .site import Site

STEPS = "steps: {jsoupDefault: {count: {class: shop-count, previous: filter, next: appender, options: {field: isbn}}}}"
APPENDERS = """\
appenders:
  xml: {type: shop-xml, dataDefs: [book]}
  journal: {type: shop-journal, dataDefs: [book], options: {path: PATH}}
  rows: {type: csv}
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = install_plugin_package(tmp_path / "site-packages")
    existing = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(target), *([existing] if existing else [])]))


def defs_of(library: Library, path: Path) -> str:
    text = library.defs(more=APPENDERS.replace("PATH", str(path)))
    text = text.replace("page: {dataDef: book}", f"page: {{dataDef: book, {STEPS}}}")
    return text.replace(
        "isbn: {selector: b, required: true}",
        "isbn: {selector: b, required: true, convert: shop-swap}\n      letters: {fromStep: true, type: int}",
    )


@pytest.mark.usefixtures("installed")
def test_the_classes_of_an_installed_package_work(project: Project, site: Site) -> None:
    library = Library(site, shelves=3, books=4)
    journal = project.folder / "journal.jsonl"
    project.write(defs_of(library, journal))
    done = project.crawl(nodes=1)
    assert done.summary["rows"]["book"] == 12
    expected = [(f"isbn {shelf:03d}-{book}", 4) for shelf in range(3) for book in range(4)]
    rows = project.rows("book")
    assert sorted((row["isbn"], int(row["letters"])) for row in rows) == expected
    lines = project.output("book.xml").read_text().splitlines()
    assert lines[0] == "<!-- isbn, letters, path -->"
    assert lines[1:] == [f'<row isbn="{row["isbn"]}" letters="{row["letters"]}" path="{row["path"]}"/>' for row in rows]
    changes = [json.loads(line) for line in journal.read_text().splitlines()]
    assert [(c["row"]["isbn"], c["row"]["letters"]) for c in changes] == [(r["isbn"], 4) for r in rows]
    assert {(c["dataDef"], c["run"]) for c in changes} == {("book", done.summary["run"])}


def test_a_package_that_is_not_installed_is_reported(project: Project, site: Site) -> None:
    project.write(defs_of(Library(site, shelves=1, books=1), project.folder / "journal"))
    done = project.start().wait(20)
    assert done.code == 2
    assert "unknown-appender unknown appender 'shop-xml'" in done.err
    assert "unknown-converter" in done.err


@pytest.mark.usefixtures("installed")
def test_a_class_of_another_group_is_refused(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=1)
    project.write(library.defs(more="appenders: {rows: {type: shop-count}, more: {type: shop-journl}}\n"))
    done = project.start().wait(20)
    assert done.code == 2
    assert "bad-appender 'shop-count' (shop-plugins 1.2:" in done.err
    assert "it is registered in crawl_console.steps, not as an appender" in done.err
    assert "unknown appender 'shop-journl' (did you mean 'shop-journal'?)" in done.err
