"""Defs saved while a crawl runs: published as a new version, or refused and reported."""

import os
import signal
import threading
from itertools import pairwise

import pytest

from .gated_crawl import (
    GATE,
    GatedCrawl,
    defs_version,
    read_defs,
    with_changed_field,
)
from .library import Library
from .project import Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def gated(project: Project, site: Site) -> GatedCrawl:
    return GatedCrawl(project, site)


@pytest.mark.sweep
def test_formatting_changes_nothing(gated: GatedCrawl, project: Project, site: Site) -> None:
    running = gated.start()
    gated.write("# a comment\n\n" + gated.library.defs().replace("selector: b,", "selector:   'b',"))
    done = project.run_with_data("reload")
    assert done.code == 0
    assert "nothing changed" in done.out
    assert defs_version(project) == 1
    gated.finish(running)
    assert defs_version(project) == 1
    assert project.count_rows("entry", "book") == gated.library.rows()


def test_bad_defs_keep_the_old_version_and_are_shown(gated: GatedCrawl, project: Project, site: Site) -> None:
    running = gated.start()
    gated.write(gated.library.defs().replace("selector: b", "selectr: b"))
    assert until(lambda: project.status()["defs_problems"])
    (problem,) = project.status()["defs_problems"]
    assert set(problem) == {"file", "line", "col", "code", "message"}
    assert problem["code"] == "unknown-key"
    assert "did you mean 'selector'" in problem["message"]
    assert defs_version(project) == 1
    assert "unknown-key" in project.run_with_data("status").out
    refused = project.run_with_data("reload")
    assert refused.code == 2
    assert "unknown-key" in refused.err
    assert until(lambda: "unknown-key" in running.err)
    gated.write(gated.library.defs())
    assert until(lambda: not project.status()["defs_problems"])
    gated.finish(running)
    assert defs_version(project) == 1
    assert project.count_rows("entry", "book") == gated.library.rows()


def test_ways_to_save(gated: GatedCrawl, project: Project, site: Site) -> None:
    more = project.defs / "zz.yml"
    more.write_text("hosts: {'example.org': {delay: 1}}\n")
    running = gated.start()
    os.kill(running.pid, signal.SIGHUP)
    gated.write(with_changed_field(gated.library.defs()))
    os.kill(running.pid, signal.SIGHUP)
    assert until(lambda: defs_version(project) == 2)
    assert not running.exited
    (project.defs / ".new").write_text(gated.with_gate(gated.library.defs()))
    (project.defs / ".new").replace(project.defs / "crawl.yml")
    assert until(lambda: defs_version(project) == 3)
    more.unlink()
    assert until(lambda: defs_version(project) == 4), "deleted"
    more.write_text("hosts: {'example.org': {delay: 2}}\n")
    assert until(lambda: defs_version(project) == 5)
    more.unlink()
    more.mkdir()
    assert until(lambda: project.status()["defs_problems"])
    assert defs_version(project) == 5, "a directory in the place of a file"
    more.rmdir()
    assert until(lambda: defs_version(project) == 6)
    (project.defs / "deep").mkdir()
    (project.defs / "deep" / "more.yaml").write_text("dataDefs: {book: {fields: {only: {selector: b}}}}\n")
    assert until(lambda: defs_version(project) == 7)
    gated.finish(running)
    assert {tuple(row) for row in project.rows("book")} == {("only",)}


@pytest.mark.quick
def test_truncated_at_any_byte_the_last_save_wins(gated: GatedCrawl, project: Project, site: Site) -> None:
    running = gated.start()
    whole = with_changed_field(read_defs(project)).encode()
    for size in range(0, len(whole), 61):
        (project.defs / "crawl.yml").write_bytes(whole[:size])
        assert not running.exited
    (project.defs / "crawl.yml").write_bytes(whole)
    done = project.run_with_data("reload")
    assert done.code == 0, done.err
    gated.finish(running)
    assert sorted(row["isbn"] for row in project.rows("book")) == sorted(
        f"{s:03d}-{b}" for s in range(3) for b in range(4)
    )
    assert len(project.rows("entry")) == 12


def test_a_resumed_run_uses_the_new_defs(project: Project, site: Site) -> None:
    gated = GatedCrawl(project, site)
    running = gated.start()
    running.send(signal.SIGTERM)
    gated.hold.set()
    running.wait()
    site.clear_log()
    gated.write(with_changed_field(gated.library.defs()))
    done = project.crawl()
    assert "12 pages to re-extract" in done.err
    assert set(site.paths) <= {GATE}
    assert all(row["isbn"][:4] != "ISBN" for row in project.rows("book"))
    assert len(project.rows("book")) == 12


def test_reload_without_a_supervisor(project: Project) -> None:
    assert project.run_with_data("reload").code == 2


def test_host_rules_change_while_the_host_is_crawled(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=12)
    site["/robots.txt"] = Page("User-agent: *\nDisallow: /book/0-1", headers={"Content-Type": "text/plain"})
    hold = threading.Event()
    site["/book/0-0"] = Page(html("<b>ISBN 000-0</b>"), hold=hold)
    project.write(library.defs(robots=True))
    running = project.start()
    skipped = "SELECT count(*) FROM jobs WHERE state = 'SKIPPED'"
    assert until(lambda: len(site.paths) > 5)
    assert until(lambda: project.query(skipped) == [(3,)]), project.describe_state()
    project.write(library.defs(robots=False))
    assert until(lambda: site.count("/book/0-11") == 1), project.describe_state()
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    assert project.count_rows("entry", "book") == library.rows()
    assert site.count("/robots.txt") == 1


def count_slow(times: list[float]) -> int:
    return sum(later - earlier >= 0.3 for earlier, later in pairwise(times))


@pytest.mark.sweep
def test_a_delay_is_kept_from_the_next_request_on(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=40, delay=0.05)
    project.write(library.defs(concurrency=2))
    running = project.start()
    assert until(lambda: len(site.paths) > 5)
    project.write(library.defs(concurrency=2, delay=0.4))
    assert until(lambda: defs_version(project) == 2)
    site.clear_log()
    assert until(lambda: count_slow(site.start_times()) >= 4), site.start_times()
    gaps = [later - earlier for earlier, later in pairwise(site.start_times())]
    first = next(number for number, gap in enumerate(gaps) if gap >= 0.3)
    assert sum(gaps[:first]) <= 2, "the node learns the new delay within its beat"
    assert all(gap >= 0.3 for gap in gaps[first:]), gaps
    project.write(library.defs(concurrency=8))
    assert running.wait().code == 0
    assert project.count_rows("entry", "book") == library.rows()
