"""Pages that exhaust parsers and selectors cost their own job; other pages and the nodes do not notice."""

import contextlib
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, until
from .site import Page, Site, html
from .test_politeness import defs

pytestmark = pytest.mark.timeout(170)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")

STORM = b"<b>x</b><p " + b" ".join(b"a%d=1" % number for number in range(120_000)) + b">"
TABLE = b"<b>x</b><table>" + b"<tr><td>1<td>2" * 60_000 + b"</table>"
ROWS = b"<b>x</b>" + b"<p>x" * 200_000
DEEP = b"<b>x</b><section>" + b"<div>" * 9_000
MEMORY = b"<b>x</b>" + b"<p a=1 b=2 c=3 d=4 e=5>" * 400_000
GOOD = 200


def hostile_defs(site: Site, paths: list[str]) -> str:
    fields = "{cell: {selector: 'table tr:nth-child(1) td'}, last: {selector: 'p:nth-last-child(2)', all: true}, "
    fields += "deep: {selector: 'section div div'}, b: {selector: b}, url: {"
    return defs(*(site.url(path) for path in paths)).replace("{url: {", fields)


def assert_nodes_lived(project: Project) -> None:
    assert project.query("SELECT count(*) FROM nodes WHERE state <> 'TERMINATED'") == [(0,)]
    assert project.query("SELECT count(*) FROM nodes") == [(project.nodes,)], "no node was replaced"


@pytest.mark.quick
def test_hostile_pages_cost_their_own_jobs_alone(project: Project, site: Site) -> None:
    hostile = {"/storm": STORM, "/rows": ROWS, "/deep": DEEP, "/memory": MEMORY}
    for path, body in hostile.items():
        site[path] = body
    site["/table"] = TABLE
    good = [f"/{number}" for number in range(GOOD)]
    for path in good:
        site[path] = html(f"<b>{path}</b>" + ("<p>text</p>" * 8_000 if path.endswith("7") else ""))
    project.write(hostile_defs(site, [*hostile, "/table", *good]))
    done = project.start("--set", "parse_limit=1.5", "--set", "parse_memory=150000000").wait(150)
    assert done.code in (0, 1), done.err
    project.assert_clean(done)
    assert_nodes_lived(project)
    rows = {row["url"].removeprefix(site.url("")): row for row in project.rows("page")}
    assert {path for path in good if rows.get(path, {}).get("b") == path} == set(good)
    assert rows["/table"]["cell"] == "1"
    assert project.job(site.url("/storm"))["reason"].startswith("takes more than ")
    assert "needs more than 150 MB" in project.job(site.url("/memory"))["reason"]
    for path in hostile:
        assert project.job(site.url(path))["state"] in ("DONE", "FAILED")


def test_an_xpath_that_walks_the_page_for_each_block_meets_the_time_limit(project: Project, site: Site) -> None:
    site["/"] = html("<p>x</p>" * 10_000)
    site["/good"] = html("<p>x</p>")
    fields = "{url: {selector: 'xpath: count(//p | preceding::p[count(following::p) > 1])'}, other: {"
    written = defs(site.url("/"), site.url("/good")).replace("{url: {", fields)
    project.write(written.replace("fields:", "query: {block: p}\n    fields:"))
    done = project.start("--set", "parse_limit=1.5").wait(60)
    assert done.code == 1, done.err
    project.assert_clean(done)
    assert_nodes_lived(project)
    assert project.job(site.url("/"))["reason"].startswith("takes more than ")
    assert "dataDef page, field url" in project.job(site.url("/"))["reason"]
    assert project.job(site.url("/good"))["state"] == "DONE"


@linux
def test_extraction_processes_killed_at_random_cost_no_row(project: Project, site: Site) -> None:
    library = Library(site, shelves=6, books=30, delay=0.2)
    for path in library.pages:
        page = site.pages[path]
        assert isinstance(page, Page)
        site[path] = replace(page, body=page.content + b"<p>text</p>" * 7_000)  # too many tags for the node itself
    project.write(library.defs(concurrency=8))
    running = project.start("--set", "parse_limit=20")
    rng, kills, killed_at = random.Random(11), 0, -16
    while not running.exited and kills < 20:
        [(pages,)] = project.query("SELECT count(*) FROM jobs WHERE state = 'DONE'") if kills else [(0,)]
        victims = project.extraction_processes()
        if victims and pages >= killed_at + 16:  # a page whose processes always die fails, as it must
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(victims), signal.SIGKILL)
                kills, killed_at = kills + 1, pages
        time.sleep(rng.uniform(0.05, 0.2))
    done = running.wait(120)
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert kills > 3
    assert project.count_rows("entry", "book") == library.rows()
    assert_nodes_lived(project)


def is_over(process: int) -> bool:
    """Whether a process has ended, perhaps while it is asked."""
    try:
        return not Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.quick
@linux
@pytest.mark.parametrize("who", sampled(["node", "group", "supervisor"], 0))
def test_extraction_processes_end_with_their_node(project: Project, site: Site, who: str) -> None:
    site["/"] = STORM
    project.write(defs(site.url("/")).replace("{url: {", "{b: {selector: b}, url: {"))
    running = project.start("--set", "parse_limit=60", nodes=1)
    assert until(lambda: len(project.extraction_processes()) == 1, 30)
    [child] = project.extraction_processes()
    [node] = project.children("node")
    if who == "node":
        os.kill(node, signal.SIGKILL)
    elif who == "group":
        os.killpg(node, signal.SIGKILL)
    else:
        running.send(signal.SIGKILL)
    seconds = 4.0 if who == "supervisor" else 1.0  # a node outlives its supervisor by up to 3 s
    started_at = time.monotonic()
    assert until(lambda: is_over(child))
    assert time.monotonic() - started_at < seconds
    running.send(signal.SIGKILL)
    running.process.wait()
    project.assert_no_process_left(5)


@pytest.mark.sweep
def test_try_shell_and_previews_survive_a_hostile_page(project: Project) -> None:
    (project.folder / "storm.html").write_bytes(STORM)
    (project.folder / "good.html").write_bytes(b"<b>fine</b>")
    project.write(defs("http://127.0.0.1:9/").replace("{url: {", "{b: {selector: b}, url: {"))
    where = ("--defs", str(project.defs), "--set", "parse_limit=0.5")
    tried = project.run_command("try", "page", "storm.html", *where)
    assert tried.code == 1
    assert "takes more than" in tried.err
    assert "Traceback" not in tried.err
    lines = ["b", ":block p", ":fields page", "regex: <b>x", ":open good.html", "b", ":quit"]
    shell = project.start_command("shell", "storm.html", *where, stdin="\n".join(lines).encode()).wait(60)
    assert shell.code == 0, shell.err
    assert shell.out.count("takes more than") == 3, shell.out
    assert "   1  <b>x" in shell.out.splitlines()
    assert "   1  fine" in shell.out.splitlines()
    project.assert_no_process_left(2)
