"""With `on_save = ask`, saved defs wait until an operator publishes them; `plan` says what they would change."""

import json
import os
import signal
from typing import Any

import pytest

from crawl_console.client import send_command

from .gated_crawl import GatedCrawl, defs_version, with_changed_field
from .library import Library
from .project import Project, until
from .site import Site, html

pytestmark = pytest.mark.timeout(120)
ASK = ("--set", "on_save=ask")


@pytest.fixture
def gated(project: Project, site: Site) -> GatedCrawl:
    return GatedCrawl(project, site)


def plan(project: Project, *arguments: str, code: int) -> dict[str, Any]:
    done = project.run_with_data("plan", "--defs", str(project.defs), "--json", *arguments, seconds=60)
    assert done.code == code, done.err
    (line,) = done.out.splitlines()
    return dict(json.loads(line))


def read_rows(project: Project, data_def: str) -> list[tuple[str, ...]]:
    return sorted(tuple(row.values()) for row in project.rows(data_def))


def test_saves_wait_until_they_are_published_or_taken_back(gated: GatedCrawl, project: Project) -> None:
    running = gated.start(*ASK)
    gated.write(with_changed_field(gated.library.defs()))
    assert until(lambda: project.status()["defs_saved"])
    assert defs_version(project) == 1
    saved = project.status()["defs_saved"]
    assert "book: 1 field changed" in saved["text"]
    assert "defs saved, not published: book: 1 field changed" in project.run_with_data("status").out
    assert until(lambda: "defs saved, not published" in running.err)
    done = project.run_with_data("reload")
    assert done.code == 0, done.err
    assert defs_version(project) == 2
    assert project.status()["defs_saved"] is None

    gated.write(gated.library.defs())
    assert until(lambda: project.status()["defs_saved"])
    gated.write(gated.library.defs().replace("selector: b", "selectr: b"))
    assert until(lambda: project.status()["defs_problems"])
    assert project.status()["defs_saved"] is None
    gated.write(gated.library.defs())
    assert until(lambda: project.status()["defs_saved"])
    assert project.status()["defs_problems"] == []
    gated.write("# as before\n" + with_changed_field(gated.library.defs()))
    assert until(lambda: project.status()["defs_saved"] is None)
    gated.finish(running)
    assert defs_version(project) == 2


def test_sighup_and_the_command_publish_only_what_the_operator_saw(gated: GatedCrawl, project: Project) -> None:
    running = gated.start(*ASK)
    gated.write(with_changed_field(gated.library.defs()))
    assert until(lambda: project.status()["defs_saved"])
    os.kill(running.pid, signal.SIGHUP)
    assert until(lambda: defs_version(project) == 2)
    gated.write(with_changed_field(gated.library.defs()).replace("{selector: a}", "{selector: i}"))
    gated.write(gated.library.defs())
    assert until(lambda: project.status()["defs_saved"])
    assert defs_version(project) == 2, "a signal publishes once"

    seen = project.status()["defs_saved"]["hash"]
    gated.write(with_changed_field(gated.library.defs()).replace("{selector: a}", "{selector: i}"))
    assert until(lambda: (project.status()["defs_saved"] or {}).get("hash", seen) != seen)
    done, answer = send_command(project.data, "reload", {"saved": seen})
    assert not done
    assert "saved again" in answer
    assert defs_version(project) == 2
    done, answer = send_command(project.data, "reload", {"saved": project.status()["defs_saved"]["hash"]})
    assert done, answer
    assert defs_version(project) == 3
    gated.finish(running)


@pytest.mark.sweep
def test_a_run_ends_with_the_published_version(gated: GatedCrawl, project: Project) -> None:
    running = gated.start(*ASK)
    gated.write(with_changed_field(gated.library.defs()))
    assert until(lambda: project.status()["defs_saved"])
    gated.finish(running)
    assert defs_version(project) == 1
    assert project.count_rows("entry", "book") == gated.library.rows()
    expected = plan(project, "--full", code=1)["rows"]["book"]
    assert expected == {"added": 0, "changed": 12, "removed": 0}
    gated.hold.set()
    done = project.crawl(*ASK, "--fresh")
    assert done.summary["defs_version"] == 2
    assert project.status()["defs_saved"] is None


def test_a_plan_says_exactly_what_publishing_does(project: Project, site: Site) -> None:
    library = Library(site, shelves=30, books=6)
    site["/book/3-3"] = html("<b>ISBN 003-3</b><b class=x>second</b>")
    project.write(library.defs())
    project.crawl()
    site.clear_log()
    assert plan(project, code=0)["rows"] == {name: {"added": 0, "changed": 0, "removed": 0} for name in DATA_DEFS}
    project.write("# a comment\n\n" + library.defs().replace("{selector: a}", "{  selector:   a  }"))
    assert plan(project, "--full", code=0)["differs"] is False

    before = {name: read_rows(project, name) for name in ("entry", "book")}
    text = library.defs()
    text = text.replace('selector: i, match: "[0-9.]+"', 'selector: i, match: "[0-9]*[.]0[0-2]"')  # empties prices
    text = text.replace('block: "li"', 'block: "li:not(:first-child)"')  # removes a row of each shelf
    text = text.replace("isbn: {selector: b,", "isbn: {selector: b:last-of-type,")  # changes one book
    text = text.replace(
        "page: {dataDef: book}, more: {dataDef: nothing}", "page: {dataDef: book}, new: {dataDef: title}"
    )
    text = text.replace("  nothing:\n", "  title: {fields: {t: {selector: b}}}\n  nothing:\n")
    text = text.replace("locators: [", "locators: [{name: more, url: '/shelf/1?again'}, ")
    project.write(text.replace("locatorGroups", f"baseUrl: '{site.url('/')}'\nlocatorGroups"))
    full = plan(project, "--full", code=1)
    assert full["exact"] is True
    assert full["pages"] == full["compared"] == library.size
    assert full["rows"]["title"] == {"added": 180, "changed": 0, "removed": 0}
    assert full["rows"]["book"] == {"added": 0, "changed": 1, "removed": 0}
    assert full["rows"]["entry"]["added"] == 0
    assert full["rows"]["entry"]["removed"] == 30
    assert full["emptied"]["entry"]["price"] > 0
    assert full["locators"] == {"added": 1, "removed": 0}
    sample = plan(project, code=1)
    assert sample["exact"] is False
    assert 20 < sample["compared"] <= 40
    words = project.run_with_data("plan", "--defs", str(project.defs))
    assert words.code == 1
    assert "entry.price: empty in" in words.out
    assert f"{sample['compared']} of 210 pages" in words.out
    assert site.paths == []

    project.run_with_data("extract", "--defs", str(project.defs), seconds=60)
    after = {name: read_rows(project, name) for name in ("entry", "book", "title")}
    assert len(after["title"]) == full["rows"]["title"]["added"]
    assert len(after["entry"]) == len(before["entry"]) - full["rows"]["entry"]["removed"]
    assert len(set(after["book"]) - set(before["book"])) == full["rows"]["book"]["changed"]
    assert plan(project, code=0)["differs"] is False


DATA_DEFS = ("entry", "book", "nothing")


@pytest.mark.sweep
def test_rows_are_paired_by_key_else_by_position(project: Project, site: Site) -> None:
    library = Library(site, shelves=2, books=5)
    project.write(library.defs())
    project.crawl()
    first_gone = library.defs().replace('block: "li"', 'block: "li:not(:first-child)"')
    project.write(first_gone)
    assert plan(project, "--full", code=1)["rows"]["entry"] == {"added": 0, "changed": 8, "removed": 2}
    project.write(first_gone.replace("  entry:\n", "  entry:\n    key: [title]\n"))
    assert plan(project, "--full", code=1)["rows"]["entry"] == {"added": 0, "changed": 0, "removed": 2}


@pytest.mark.sweep
def test_a_plan_needs_valid_defs_and_a_run(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=1)
    project.write(library.defs())
    done = project.run_with_data("plan", "--defs", str(project.defs))
    assert done.code == 2
    assert "no run yet" in done.err
    project.crawl()
    project.write(library.defs().replace("selector: b", "selectr: b"))
    done = project.run_with_data("plan", "--defs", str(project.defs), "--json")
    assert done.code == 2
    assert "unknown-key" in done.err
    assert done.out == ""


@pytest.mark.sweep
def test_a_plan_of_secrets_compares_what_is_stored(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=1)
    text = library.defs().replace("{name: start, ", "{name: start, headers: {Authorization: 'Bearer abc'}, ")
    project.write(text)
    project.crawl()
    assert plan(project, code=0)["differs"] is False
    project.write(text.replace("Bearer abc", "Bearer abd"))
    assert plan(project, code=1)["locators"] == {"added": 1, "removed": 1}


def test_a_small_plan_is_exact_and_reads_the_run_time_of_the_settings(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=2)
    text = library.defs().replace("title: {selector: a}", "title: {selector: a}\n      at: {value: '%{run.time}'}")
    project.write(text)
    (project.folder / "crawl.toml").write_text("run_time = '2024-01-31T09:05:00Z'\n")
    project.crawl()
    project.write(text.replace("selector: i, match", "selector: u, match"))
    result = plan(project, code=1)
    assert result["exact"] is True
    assert result["rows"]["entry"] == {"added": 0, "changed": 2, "removed": 0}
    assert result["emptied"] == {"entry": {"price": 2}}
    project.write(text.replace("{selector: a}", "{selector: 'a:first-child'}"))
    assert plan(project, code=1)["rows"]["entry"] == {"added": 0, "changed": 0, "removed": 0}


@pytest.mark.sweep
def test_nothing_waits_once_the_supervisor_is_gone(gated: GatedCrawl, project: Project) -> None:
    running = gated.start(*ASK)
    gated.write(with_changed_field(gated.library.defs()))
    assert until(lambda: project.status()["defs_saved"])
    gated.finish(running)
    assert project.status()["defs_saved"] is None
    assert "not published" not in project.run_with_data("status").out
