"""An installed package adds an output type, a document type, a type of field, a command and a screen."""

import os
from pathlib import Path

import pytest

from .plugin_package import install_plugin_package
from .project import Completed, Project
from .site import Page, Site, html

DEFS = """\
locatorGroups: {{cards: {{locators: [{{name: cards, url: "{url}"}}]}}}}
taskGroups: {{cards: {{card: {{dataDef: card}}}}}}
dataDefs:
  card:
    fields: {{name: {{selector: h1}}, price: {{selector: b, type: decimal}}}}
    links: [{{selector: a}}]
    filters: [{{field: name, pattern: ""}}]
appenders: {{cards: {{type: {type}}}}}
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    target = install_plugin_package(tmp_path / "site-packages", "seam_package")
    existing = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(target), *([existing] if existing else [])]))
    return target


def run(project: Project, *arguments: str) -> Completed:
    return project.start_command(*arguments).wait(20)


@pytest.mark.usefixtures("packages")
def test_an_output_type_a_document_type_and_a_command_of_a_package_work(project: Project, site: Site) -> None:
    site["/"] = html('<a href="/1"></a><a href="/2"></a><a href="/3"></a>')
    site["/1"] = Page(b"\0CARD tea=1.25", headers={"Content-Type": "application/vnd.shop-card"})
    site["/2"] = Page(b"\0CARD mate=2", headers={"Content-Type": "application/octet-stream"})
    site["/3"] = Page(b"\0CARD bad", headers={"Content-Type": "application/vnd.shop-card"})
    project.write(DEFS.format(url=site.url("/"), type="tsv"))
    done = project.crawl(nodes=1)
    assert done.jobs == {"done": 3, "skipped": 1}
    head, *lines = project.output("card.tsv").read_text().splitlines()
    assert head == "name\tprice"
    assert sorted(lines) == ["mate\t2", "tea\t1.25"]
    skipped = run(project, "jobs", "--state", "skipped", "--json").out
    assert "not a page: application/vnd.shop-card has no price" in skipped
    assert run(project, "state", "--verify").code == 0
    assert run(project, "shop-greet", "tea").out == "hello tea\n"
    assert "  shop-greet  Of the package shop-seams 0.3.\n" in run(project, "--help").out
    assert "did you mean 'shop-greet'?" in run(project, "shop-gret").err
    listed = [line.split() for line in run(project, "steps", "--available").out.splitlines()]
    named = [(name, kind) for name, kind, origin, *_ in listed if origin == "shop-seams"]
    assert named == [
        ("tsv", "appender"),
        ("card", "document"),
        ("phone", "type"),
        ("shop-greet", "command"),
        ("shop", "screen"),
    ]


def test_a_name_that_its_package_cannot_give_is_told(project: Project, site: Site, packages: Path) -> None:
    folder = packages / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[crawl_console.outputs]\nlost = nowhere:X\n"
        "former = engine.model.output_type:OutputType\nwrong = shop_seams:greet\n"
        "[crawl_console.commands]\nlost-command = nowhere:X\nrun = nowhere:X\n"
    )
    for type_, reason in (
        ("lost", "ModuleNotFoundError: No module named 'nowhere'"),
        ("former", "ModuleNotFoundError: No module named 'engine': the package engine is crawl_engine now"),
        ("wrong", "it is not an OutputType"),
    ):
        project.write(DEFS.format(url=site.url("/"), type=type_))
        checked = run(project, "check")
        assert checked.code == 2
        assert f"bad-appender '{type_}' (crawl_console.outputs) cannot be loaded from" in checked.err
        assert f"of broken 1.0: {reason}" in checked.err
        assert "Traceback" not in checked.err
    assert "lost" in run(project, "steps", "--available").out
    lost = run(project, "lost-command")
    assert lost.code == 2
    assert "'lost-command' (crawl_console.commands) cannot be loaded from nowhere:X of broken 1.0" in lost.err
    assert "'run'" not in run(project, "--help").err  # a built-in command keeps its name


PHONES = """\
locatorGroups: {{shops: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{shops: {{shop: {{dataDef: shop}}}}}}
dataDefs:
  shop:
    fields: {{phone: {{selector: b, type: {type}, default: +49301}}, phones: {{selector: b, type: {type}, all: true}}}}
    links: [{{selector: a}}]
"""


@pytest.mark.extended
@pytest.mark.usefixtures("packages")
def test_a_type_of_field_of_a_package_is_read_in_extraction_processes(project: Project, site: Site) -> None:
    site["/"] = html("".join(f'<a href="/{number}"></a>' for number in range(1, 5)))
    for number, phone in enumerate(("+49 (30) 123", "no", "0", "666"), 1):
        site[f"/{number}"] = html(f"<b>{phone}</b>")
    project.write(PHONES.format(url=site.url("/"), type="phone"))
    done = project.crawl(nodes=1, code=1)
    assert done.jobs == {"done": 4, "failed": 1}, "the page whose text ends the process"
    rows = sorted(project.output("shop.csv").read_text().splitlines()[1:])
    assert rows == ["+49301,", "+4930123,+4930123"]
    assert "'no' is not a phone number" in done.err
    assert "'0': KeyError: '0'" in done.err
    assert "its extraction process died twice (exit 3; dataDef shop, field phone)" in done.err


@pytest.mark.extended
def test_a_type_that_is_not_installed_or_has_no_reader_is_told_at_its_line(
    project: Project, site: Site, packages: Path
) -> None:
    folder = packages / "half-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: half\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[crawl_console.field_types]\nhalf = half:TYPE\nlost = nowhere:X\nwrong = shop_seams:greet\nprice = half:TYPE\n"
    )
    (packages / "half.py").write_text(
        "from crawl_engine.model.field_type import FieldType\n"
        "TYPE = FieldType(name='half', reader='half_reader:READER')\n"
    )
    for type_, reason in (
        ("isbn", "unknown-value `type` cannot be the text 'isbn'; no installed package adds it"),
        ("phones", "unknown-value `type` cannot be the text 'phones' (did you mean 'phone'?)"),
        ("half", "bad-type `type: half` of half 1.0 has no reader: no module 'half_reader'"),
        ("lost", "bad-type 'lost' (crawl_console.field_types) cannot be loaded from nowhere:X of half 1.0"),
        ("wrong", "it is not a FieldType"),
    ):
        project.write(PHONES.format(url=site.url("/"), type=type_))
        checked = run(project, "check")
        assert checked.code == 2
        assert reason in next(line for line in checked.err.splitlines() if ":5:41: " in line)
        assert "Traceback" not in checked.err
    assert "the name 'price' (crawl_console.field_types) is taken" in run(project, "steps", "--available").err
