"""`export --changes`: what was added, changed and vanished between two real runs on a site that changes."""

import csv
import gzip
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from crawl_console.cli.main import main

from .killed_crawl import rerun_under_kills
from .project import Completed, Project
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{{url: "{url}"}}]}}}}
taskGroups:
  shelf: {{items: {{dataDef: item}}, whole: {{dataDef: whole}}}}
  detail: {{page: {{dataDef: product}}}}
dataDefs:
  item:
    query: {{block: li}}
    key: [sku]
    fields: {{sku: {{selector: b}}, price: {{selector: i, type: decimal}}, tags: {{selector: u, all: true, join: ";"}}}}
    links: [{{selector: "a.next", linkGroup: shelf}}, {{selector: "li a", linkGroup: detail}}]
  whole:
    query: {{block: li}}
    fields: {{sku: {{selector: b}}, price: {{selector: i, type: decimal}}}}
  product:
    key: [sku]
    fields: {{sku: {{selector: h1, required: true}}, text: {{selector: p}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""

Export = Callable[..., Completed]


@pytest.fixture
def export(project: Project, capfd: pytest.CaptureFixture[str]) -> Export:
    """Run `export` with these arguments in this process."""

    def run(*arguments: str) -> Completed:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main(["export", *arguments, "--data", str(project.data)])
        out, err = capfd.readouterr()
        return Completed(int(str(exit_info.value.code)), out, err, 0.0)

    return run


def fill(site: Site, *pages: dict[str, str]) -> None:
    """Put the list pages `/`, `/2`, … with an item for each sku and price, and a detail page for each sku."""
    site.pages.clear()
    for number, prices in enumerate(pages, 1):
        items = "".join(
            f'<li><b>{sku}</b><i>{price}</i><u>t1</u><u>t2</u><a href="/p/{sku}">go</a></li>'
            for sku, price in prices.items()
        )
        following = f'<a class="next" href="/{number + 1}">next</a>' if number < len(pages) else ""
        site["/" if number == 1 else f"/{number}"] = html(items + following)
        for sku in prices:
            site[f"/p/{sku}"] = html(f"<h1>{sku}</h1><p>about {sku}</p>")


def lines(done: Completed) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def changed_keys(done: Completed) -> list[tuple[str, str]]:
    return [(line["change"], line["key"]["sku"]) for line in lines(done)]


def test_rows_are_added_changed_and_vanished_by_their_key(project: Project, site: Site, export: Export) -> None:
    project.write(DEFS.format(url=site.url("/")))
    fill(site, {"a": "1.50", "b": "2", "c": "3"}, {"d": "4"})
    first = project.crawl().summary["run"]
    alone = export("item", "--changes", "--format", "jsonl")
    assert [kind for kind, _ in changed_keys(alone)] == ["added"] * 4
    assert "no earlier run has rows of item" in alone.err

    # b moved to the second page, and c is in neither list
    fill(site, {"a": "1.60", "e": "5"}, {"b": "2", "d": "4"})
    second = project.crawl().summary["run"]
    done = export("item", "--changes", "--format", "jsonl")
    assert done.err == ""
    assert lines(done) == [
        {"change": "changed", "key": {"sku": "a"}, "fields": {"price": {"old": 1.5, "new": 1.6}}},
        {
            "change": "added", "key": {"sku": "e"},
            "fields": {"price": {"old": None, "new": 5}, "tags": {"old": None, "new": ["t1", "t2"]}},
        },
        {
            "change": "vanished", "key": {"sku": "c"},
            "fields": {"price": {"old": 3, "new": None}, "tags": {"old": ["t1", "t2"], "new": None}},
        },
    ]  # fmt: skip
    assert '"old":1.50,"new":1.60' in done.out, "numbers keep their digits"
    table = list(csv.reader(export("item", "--changes").out.splitlines()))
    assert table == [
        ["change", "sku", "price.old", "price.new", "tags.old", "tags.new"],
        ["changed", "a", "1.50", "1.60", "", ""],
        ["added", "e", "", "5", "", "t1;t2"],
        ["vanished", "c", "3", "", "t1;t2", ""],
    ]

    keyless = lines(export("whole", "--changes", "--format", "jsonl"))
    assert [(line["change"], line["key"], line["fields"]["sku"]) for line in keyless] == [
        ("added", {}, {"old": None, "new": "a"}),
        ("added", {}, {"old": None, "new": "e"}),
        ("vanished", {}, {"old": "a", "new": None}),
        ("vanished", {}, {"old": "c", "new": None}),
    ]
    # nothing links to the page of c any more
    product = export("product", "--changes", "--format", "jsonl")
    assert changed_keys(product) == [("added", "e"), ("vanished", "c")]
    assert product.err == ""

    fill(site, {"a": "1.60", "e": "5"}, {"b": "2", "d": "4"})
    project.crawl()
    assert lines(export("item", "--changes", "--format", "jsonl")) == []
    assert len(lines(export("item", "--changes", "--since", first, "--format", "jsonl"))) == 3
    assert len(lines(export("item", "--changes", "--run", second, "--format", "jsonl"))) == 3

    target = project.folder / "changes.jsonl"
    assert export("item", "--changes", "--since", first, "-o", str(target)).code == 0
    assert len(target.read_text().splitlines()) == 3
    for wrong in (
        ("item", "--changes", "--since", "nope"),
        ("item", "--changes", "--run", first, "--since", second),
        ("item", "--changes", "--since", second, "--run", second),
        ("item", "--changes", "--format", "sqlite"),
        ("item", "--changes", "--format", "scoopi"),
        ("item", "--changes", "-o", str(project.folder / "x.db")),
        ("--changes",),
        ("unknown", "--changes"),
    ):
        refused = export(*wrong)
        assert (refused.code, refused.out) == (2, ""), wrong
        assert "Traceback" not in refused.err
        assert refused.err.strip()


@pytest.mark.quick
def test_a_list_page_that_was_not_read_leaves_what_is_missing_undecided(
    project: Project, site: Site, export: Export
) -> None:
    project.write(DEFS.format(url=site.url("/")))
    fill(site, {"a": "1", "b": "2"}, {"c": "3", "d": "4"})
    first = project.crawl().summary["run"]
    # a new item shifts b to the second page, which fails today
    fill(site, {"n": "9", "a": "1"}, {"b": "2", "c": "3", "d": "4"})
    site["/2"] = Page(status=400)
    assert project.crawl(code=1).summary["state"] == "DONE"
    changes = export("item", "--changes", "--format", "jsonl")
    assert changed_keys(changes) == [("added", "n")]
    why = "not every page that gives or leads to item was read in this run"
    assert f"item: 3 rows of run {first} not called vanished: {why}" in changes.err
    products = export("product", "--changes", "--format", "jsonl")
    assert changed_keys(products) == [("added", "n")]
    assert f"product: 3 rows of run {first} not called vanished" in products.err
    site["/2"] = html("<li><b>c</b><i>3</i></li><li><b>d</b><i>4</i></li>")
    assert project.run_with_data("retry").code == 0
    project.crawl()
    assert changed_keys(export("item", "--changes", "--format", "jsonl")) == [
        ("added", "n"), ("changed", "c"), ("changed", "d"), ("vanished", "b"),
    ]  # fmt: skip


@pytest.mark.sweep
def test_a_list_that_became_shorter_hides_nothing(project: Project, site: Site, export: Export) -> None:
    project.write(DEFS.format(url=site.url("/")))
    fill(site, {"a": "1", "b": "2"}, {"c": "3"})
    project.crawl()
    fill(site, {"a": "1", "c": "3"})
    project.crawl()
    assert changed_keys(export("item", "--changes", "--format", "jsonl")) == [("vanished", "b")]


@pytest.mark.sweep
def test_a_row_vanishes_when_its_page_is_gone_and_not_when_it_failed_or_was_rejected(
    project: Project, site: Site, export: Export
) -> None:
    project.write(DEFS.format(url=site.url("/")))
    fill(site, {"a": "1", "b": "2", "c": "3"})
    project.crawl()
    del site.pages["/p/a"]  # 404
    first = project.crawl().summary["run"]
    assert changed_keys(export("product", "--changes", "--format", "jsonl")) == [("vanished", "a")]
    rejected = html("<p>the heading is missing, so the record is rejected</p>")
    for code, now in ((1, Page(status=400)), (0, rejected)):
        site["/p/b"] = now
        project.crawl(code=code)
        changes = export("product", "--changes", "--since", first, "--format", "jsonl")
        assert changed_keys(changes) == []
        assert "1 row of run" in changes.err


@pytest.mark.sweep
def test_a_limited_run_lets_nothing_vanish(project: Project, site: Site, export: Export) -> None:
    project.write(DEFS.format(url=site.url("/")).replace("shelf: {items", "shelf: {maxPages: 1, items"))
    fill(site, {"a": "1", "b": "2"}, {"c": "3"})
    first = project.crawl().summary["run"]
    fill(site, {"a": "1"}, {"b": "2", "c": "3"})
    project.crawl()
    assert changed_keys(export("item", "--changes", "--format", "jsonl")) == []
    project.crawl("--max-pages", "1")  # a new run, cancelled by its limit
    assert changed_keys(export("item", "--changes", "--since", first, "--format", "jsonl")) == []
    fill(site, {"a": "1"}, {"c": "3"})
    project.write(DEFS.format(url=site.url("/")))
    project.crawl()  # resumes it without a limit for the group
    assert project.status()["state"] == "DONE"
    since_first = export("item", "--changes", "--since", first, "--format", "jsonl")
    assert changed_keys(since_first) == [("added", "c"), ("vanished", "b")]
    assert changed_keys(export("item", "--changes", "--format", "jsonl")) == [("added", "c")]


CHANGED = (
    DEFS
    + """\
appenders:
  rows: {{type: jsonl}}
  changes: {{type: jsonl, changes: true}}
  object: {{type: jsonl, changes: true, dataDefs: [item], path: "file://{folder}/far.jsonl"}}
  sheet: {{type: csv, changes: true, dataDefs: [item], path: "sheet.csv.gz", delimiter: ";"}}
"""
)


def assert_written(project: Project, export: Export) -> None:
    """The files of the appenders say what `export --changes` says."""
    for name in ("item", "whole", "product"):
        told = export(name, "--changes", "--format", "jsonl").out
        assert project.output(f"{name}.changes.jsonl").read_text() == told, name
    far = project.folder / "far.jsonl"
    assert far.read_text() == export("item", "--changes", "--format", "jsonl").out, "the object, too"
    sheet = export("item", "--changes", "--delimiter", ";").out
    assert gzip.decompress(project.output("sheet.csv.gz").read_bytes()).decode().splitlines() == sheet.splitlines()


def test_an_appender_writes_the_changes_of_each_run(project: Project, site: Site, export: Export) -> None:
    project.write(CHANGED.format(url=site.url("/"), folder=project.folder))
    fill(site, {"a": "1", "b": "2"}, {"c": "3", "d": "4"})
    project.crawl()
    assert_written(project, export)
    assert len(project.output("item.changes.jsonl").read_text().splitlines()) == 4

    fill(site, {"n": "9", "a": "1"}, {"b": "2", "c": "3", "d": "4"})
    site["/2"] = Page(status=400)
    project.crawl(code=1)
    assert_written(project, export)
    assert "vanished" not in project.output("item.changes.jsonl").read_text()
    del site.pages["/2"]  # now it is known to be gone: no new row says so
    assert project.run_with_data("retry").code == 0
    project.crawl()
    assert_written(project, export)
    assert project.output("item.changes.jsonl").read_text().count("vanished") == 3
    verified = project.run_with_data("state", "--verify")
    assert verified.code == 0, verified.out + verified.err

    fill(site, {"n": "9", "a": "1"})
    project.crawl()
    assert project.output("item.changes.jsonl").read_text() == ""
    assert_written(project, export)


@pytest.mark.quick
def test_changes_with_other_keys_are_refused(project: Project) -> None:
    base = CHANGED.format(url="http://shop.example/", folder=project.folder)
    for new, said in (
        ("{type: parquet, changes: true}", "`changes` has no effect with `type: parquet`"),
        ("{type: jsonl, changes: true, flatten: true}", "`flatten` has no effect with `changes`"),
        ("{type: jsonl-changes}", "unknown appender 'jsonl-changes'"),
        ('{type: jsonl, changes: true, path: "{dataDef}.jsonl"}', "would both write"),
    ):
        project.write(base.replace("{type: jsonl, changes: true}", new))
        checked = project.run_with_data("check")
        assert checked.code == 2, new
        assert said in checked.out + checked.err, checked.err


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["appender", "any"])
def test_kills_leave_exact_changes(project: Project, site: Site, export: Export, kind: str) -> None:
    project.write(CHANGED.format(url=site.url("/"), folder=project.folder))
    fill(site, {f"s{i}": str(i) for i in range(30)}, {"c": "3", "d": "4"})
    project.crawl()
    fill(site, {f"s{i}": str(i % 7) for i in range(5, 40)}, {"c": "5"})
    count = "SELECT count(*) FROM rows WHERE run = (SELECT max(seq) FROM runs WHERE seq > 1)"
    rerun_under_kills(project, kind, random.Random(kind), count=count, until_at_most=60)
    assert_written(project, export)
    assert project.output("item.changes.jsonl").read_text().count("vanished") == 6


@pytest.mark.quick
def test_a_run_in_which_everything_vanished_ends(project: Project, site: Site) -> None:
    appenders = "{whole: {type: json}, changes: {type: jsonl, changes: true}, table: {type: csv, changes: true}}"
    project.write(f"{DEFS.format(url=site.url('/'))}appenders: {appenders}\n")
    fill(site, {"a": "1.50", "b": "2"})
    project.crawl()
    site["/"] = html("<h1>sold out</h1>")
    done = project.crawl("--fresh", seconds=40)
    assert done.summary["rows"] == {}
    folder = project.data / "output" / "latest"
    told = [json.loads(line) for line in (folder / "item.changes.jsonl").read_text().splitlines()]
    assert [(line["change"], line["key"]["sku"]) for line in told] == [("vanished", "a"), ("vanished", "b")]
    assert json.loads((folder / "item.json").read_text()) == []
