"""Parsers, converters, stored values, checkpoints and side branches of plugin code, in real crawls."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from .project import Project, until
from .shared_crawl import Part, shared
from .site import Page, Site, html
from .stepped_shop import SteppedShop

pytestmark = pytest.mark.timeout(180)

DEFS = """\
locatorGroups:
  items: {{locators: [{{url: "{url}"}}]}}
taskGroups:
  items: {{page: {{dataDef: item, steps: {steps}}}}}
  other: {{page: {{dataDef: other}}}}
dataDefs:
  item: {{fields: {fields}, links: {links}}}
  other: {{fields: {{title: {{selector: h1}}}}}}
hosts: {{"127.0.0.1": {{robots: false}}}}
"""
NOINDEX = ("--set", "meta_noindex=true")


def write(project: Project, site: Site, plugin: str, *, steps: str) -> None:
    project.nodes = 1
    folder = Path(project.defs) / "plugins"
    folder.mkdir(exist_ok=True)
    (folder / "shop.py").write_text(plugin)
    project.write(defs(site, steps=steps))


def defs(
    site: Site, *, steps: str = "recordDefault", fields: str = "{title: {selector: h1}}", links: str = "[]",
    path: str = "/",
) -> str:  # fmt: skip
    return DEFS.format(url=site.url(path), steps=steps, fields=fields, links=links)


@shared(*NOINDEX)
def test_a_parser_reads_what_is_no_text(site: Site) -> Part:
    site["/data.bin"] = Page(b"\x89\x00\x03\x01\x02\x03", headers={"Content-Type": "application/octet-stream"})
    plugin = """
import asyncio
LOCK = asyncio.Lock()
class Bytes:
    async def parse(self, document, context):
        async with LOCK:
            await asyncio.sleep(0)
        assert document.url == context.url and document.status == 200
        return [{"value": byte} for byte in document.body[3:]]
"""
    steps = "{recordDefault: {parser: {class: reader.Bytes, previous: loader, next: filter}}}"
    text = defs(site, steps=steps, fields="{value: {type: int, fromStep: true}}", path="/data.bin")
    crawl = yield text, {"reader.py": plugin}
    assert crawl.jobs == {"done": 1}
    assert [row["value"] for row in crawl.rows("item")] == ["1", "2", "3"]


@shared(*NOINDEX)
def test_a_converter_changes_one_field_and_rejects_records(site: Site) -> Part:
    site["/"] = html("".join(f"<p><b>{n}</b></p>" for n in ("one", "two", "ten", "")))
    plugin = """
import json, pkgutil
WORDS = json.loads(pkgutil.get_data("plugins", "words.json"))
class Number:
    def convert(self, value, context):
        return WORDS[value]
class Add:
    async def convert(self, value, context):
        return Odd(int(value) + 1)
class Odd(str):
    def __str__(self):
        raise RuntimeError("no text")
    strip = encode = __len__ = __eq__ = __hash__ = __str__
"""
    fields = "{n: {selector: b, convert: [words.Number, words.Add], type: int, default: 0}}"
    text = defs(site, fields=fields).replace("item: {fields", "item: {query: {block: p}, fields")
    crawl = yield text, {"words.py": plugin, "words.json": '{"one": 1, "two": 2}'}
    assert crawl.jobs == {"done": 1}
    assert [row["n"] for row in crawl.rows("item")] == ["2", "3", "0"]
    assert crawl.done.summary["rejected"] == {crawl.prefix + "item": 1}
    [(events,)] = crawl.project.query("SELECT group_concat(text) FROM events")
    assert "KeyError: 'ten' (plugins/words.py:6)" in crawl.done.err + events


@shared(*NOINDEX)
def test_steps_of_a_run_share_values_that_are_committed_with_the_job(site: Site) -> Part:
    site["/"] = html("<h1>0</h1><a href=/1>x</a>")
    site["/1"] = html("<h1>1</h1><a href=/2>x</a>")
    site["/2"] = html("<h1>2</h1>")
    plugin = """
class Count:
    def run(self, rows, context):
        count = context.store.get("count", 0) + 1
        context.store.set("count", count)
        if count == 3:
            raise ValueError("the third")
        for row in rows:
            row["count"] = context.store.get("count")
        return rows
"""
    steps = "{recordDefault: {count: {class: counter.Count, previous: parser, next: filter}}}"
    fields = "{title: {selector: h1}, count: {type: int, fromStep: true}}"
    crawl = yield defs(site, steps=steps, fields=fields, links="[{selector: a}]"), {"counter.py": plugin}
    assert crawl.jobs == {"done": 2, "failed": 1}
    assert [row["count"] for row in crawl.rows("item")] == ["1", "2"]
    assert crawl.project.query("SELECT key, value FROM step_values") == [("count", "2")]


def test_a_checkpoint_is_read_by_the_next_attempt(project: Project, site: Site) -> None:
    site["/"] = html("<h1>a</h1>")
    plugin = """
import os, time
class Slow:
    def run(self, rows, context):
        at = context.checkpoint()
        if at is None:
            context.checkpoint("half")
            time.sleep(60)
        for row in rows:
            row["title"] += " from " + at
        return rows
"""
    steps = "{recordDefault: {slow: {class: shop.Slow, previous: filter, next: appender, limit: 90}}}"
    write(project, site, plugin, steps=steps)
    running = project.start()
    assert until(lambda: (project.data / "crawl.db").exists() and stored_checkpoint(project) == [("half",)])
    [node] = project.children("node")
    os.kill(node, signal.SIGKILL)
    done = running.wait()
    assert done.code == 0, done.err
    assert [row["title"] for row in project.rows("item")] == ["a from half"]
    assert stored_checkpoint(project) == []


def stored_checkpoint(project: Project) -> list[tuple[str, ...]]:
    try:
        return project.query("SELECT text FROM step_checkpoints")
    except Exception:  # the schema is being made
        return []


@shared(*NOINDEX)
def test_a_side_branch_makes_jobs_and_no_rows(site: Site) -> Part:
    site["/"] = html("<h1>a</h1><a href=/x>x</a>")
    site["/x"] = html("<h1>x</h1>")
    plugin = """
class Follow:
    def __init__(self, linkGroup):
        self.group = linkGroup
    def run(self, rows, context):
        context.follow("/x", self.group)
        return []
"""
    follow = "{class: branch.Follow, previous: parser, next: seeder, options: {linkGroup: other}}"
    crawl = yield defs(site, steps=f"{{recordDefault: {{follow: {follow}}}}}"), {"branch.py": plugin}
    assert crawl.jobs == {"done": 2}
    assert [row["title"] for row in crawl.rows("item")] == ["a"]
    assert [row["title"] for row in crawl.rows("other")] == ["x"]


@shared(*NOINDEX)
def test_a_locator_creator_follows_the_url_of_each_row(site: Site) -> Part:
    site["/"] = html("<a href=/x>x</a>")
    site["/x"] = html("<h1>x</h1>")
    creator = "{class: LocatorCreator, previous: parser, next: seeder, options: {linkGroup: other}}"
    fields = "{link: {selector: a, attribute: href, type: url}}"
    crawl = yield defs(site, steps=f"{{recordDefault: {{creator: {creator}}}}}", fields=fields)
    assert crawl.jobs == {"done": 2}
    assert [row["title"] for row in crawl.rows("other")] == ["x"]


@pytest.mark.quick
def test_a_plugin_edited_under_load_with_a_node_killed(project: Project, site: Site) -> None:
    shop = SteppedShop(project, site, size=400)
    for number in range(1, 400):
        site[f"/i/{number}"] = Page(html(f"<h1>Item {number}</h1><i>{number}.50</i>"), delay=0.02)
    shop.write(factor=2)
    project.nodes = 2
    running = project.start(nodes=2)
    assert until(lambda: project.status()["jobs"]["done"] > 50)
    shop.write_plugin(3)
    assert until(lambda: project.status()["defs_version"] == 2)
    os.kill(project.children("node")[0], signal.SIGKILL)
    shop.write_plugin(4)
    done = running.wait(90)
    assert done.code == 0, done.err
    assert project.count_rows("scored", "named") == shop.scored(factor=4) + shop.named()
    doubled = Counter(project.query("SELECT job, data_def FROM rows")).most_common(1)
    assert doubled[0][1] == 1
    units = "SELECT count(DISTINCT r.data_def) FROM rows r JOIN data_defs d ON d.id = r.data_def WHERE d.name = 'named'"
    assert project.query(units) == [(1,)]


@pytest.mark.sweep
@pytest.mark.parametrize(
    "change", ["signature", *(pytest.param(change, marks=pytest.mark.sweep) for change in ("deleted", "syntax"))]
)
def test_a_plugin_broken_while_a_crawl_runs_keeps_the_old_version(project: Project, site: Site, change: str) -> None:
    shop = SteppedShop(project, site, size=60)
    for number in range(1, 60):
        site[f"/i/{number}"] = Page(html(f"<h1>Item {number}</h1><i>{number}.50</i>"), delay=0.3)
    shop.write()
    project.nodes = 1
    running = project.start(nodes=2)
    assert until(lambda: project.status()["jobs"]["done"] > 0)
    plugin = project.defs / "plugins" / "shop.py"
    match change:
        case "signature":
            plugin.write_text(plugin.read_text().replace("def run(self, rows, context)", "def run(self, rows)"))
        case "deleted":
            plugin.unlink()
        case "syntax":
            plugin.write_text("class Mark(:")
    assert until(lambda: project.status()["defs_problems"])
    codes = {problem["code"] for problem in project.status()["defs_problems"]}
    expected = {"signature": "bad-step-class", "deleted": "unknown-step-class", "syntax": "bad-python"}
    assert expected[change] in codes
    done = running.wait()
    assert done.code == 0, done.err
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()


@pytest.mark.quick
def test_a_converter_that_hangs_costs_the_rows_of_one_task(project: Project, site: Site) -> None:
    shop = SteppedShop(project, site)
    shop.write()
    (project.defs / "plugins" / "words.py").write_text(
        "import time\nclass Slow:\n    def convert(self, value, context):\n"
        "        if value == 'Item 3':\n            time.sleep(60)\n        return value\n"
    )
    text = (project.defs / "crawl.yml").read_text()
    project.write(text.replace("name: {selector: h1, required: true}", "name: {selector: h1, convert: words.Slow}"))
    project.nodes = 1
    done = project.crawl("--set", "parse_limit=0.5", code=1)
    assert done.jobs == {"done": shop.size - 1, "failed": 1}
    [(reason,)] = project.query("SELECT reason FROM jobs WHERE state = 'FAILED'")
    assert reason == "plain/parser: takes longer than its limit of 0.5 s"
    assert project.count_rows("scored") == shop.scored()
    (project.defs / "plugins" / "words.py").write_text(
        "class Slow:\n    def convert(self, value, context):\n        return value\n"
    )
    site.clear_log()
    assert project.run_with_data("extract", "--defs", str(project.defs)).code == 0
    assert site.paths == []
    assert project.count_rows("scored", "named") == shop.scored() + shop.named()


def test_a_process_that_a_step_forked_holds_nothing_up(project: Project, site: Site) -> None:
    shop = SteppedShop(project, site)
    shop.write()
    plugin = project.defs / "plugins" / "shop.py"
    fork = """
                if not os.fork():
                    time.sleep(8)
                    os._exit(0)
                os._exit(1)
"""
    plugin.write_text(
        plugin.read_text().replace(
            '            case "error":', f'            case "fork":{fork}            case "error":'
        )
    )
    project.write((project.defs / "crawl.yml").read_text().replace("trouble: none", "trouble: fork"))
    project.nodes = 1
    done = project.crawl(code=1)
    assert done.jobs == {"done": shop.size - 3, "failed": 3}
    assert project.count_rows("named") == shop.named()


def test_what_a_page_stored_before_its_process_died_is_not_counted_twice(project: Project, site: Site) -> None:
    site["/"] = html("<h1>a</h1>")
    plugin = """
import os, pathlib
class Count:
    def run(self, rows, context):
        context.store.set("count", context.store.get("count", 0) + 1)
        mark = pathlib.Path(%r)
        if not mark.exists():
            mark.touch()
            os._exit(1)
        return rows
"""
    steps = "{recordDefault: {count: {class: shop.Count, previous: filter, next: appender}}}"
    write(project, site, plugin % str(project.folder / "mark"), steps=steps)
    project.crawl()
    assert project.query("SELECT value FROM step_values") == [("1",)]


@pytest.mark.sweep
def test_an_edit_in_a_folder_of_plugins_re_extracts(project: Project, site: Site) -> None:
    site["/"] = html("<h1>a</h1>")
    plugin = """
from plugins.tools.words import suffix
class Add:
    def run(self, rows, context):
        return [{"title": row["title"] + suffix()} for row in rows]
"""
    steps = "{recordDefault: {add: {class: shop.Add, previous: filter, next: appender}}}"
    write(project, site, plugin, steps=steps)
    words = project.defs / "plugins" / "tools" / "words.py"
    words.parent.mkdir()
    words.write_text("def suffix():\n    return ' 1'\n")
    project.crawl()
    words.write_text("def suffix():\n    return ' 2'\n")
    assert project.run_with_data("extract", "--defs", str(project.defs)).code == 0
    assert [row["title"] for row in project.rows("item")] == ["a 2"]


@shared(*NOINDEX)
def test_a_page_that_asks_not_to_be_indexed_gets_no_row_from_a_command(site: Site) -> Part:
    site["/"] = html("<meta name=robots content=noindex><h1>a</h1>")
    step = "{class: command, run: [cat], previous: filter, next: appender}"
    crawl = yield defs(site, steps=f"{{recordDefault: {{echo: {step}}}}}")
    assert crawl.jobs == {"done": 1}
    assert crawl.rows("item") == []
