"""A whole crawl as a user runs it: output files, summary, exit code."""

import json
import os
import signal
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from .library import Library
from .project import Project, read_csv, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(90)

SUMMARY = {
    "run", "state", "exit_code", "seconds", "pages_per_s", "jobs", "rows", "appenders", "nodes", "defs_version",
    "rejected", "duplicates", "fields", "warnings", "results", "verdict",
}  # fmt: skip
JOBS = {"done", "failed", "skipped", "incomplete", "ready", "taken"}


@pytest.mark.quick
def test_lists_and_details_have_exact_rows(project: Project, site: Site) -> None:
    library = Library(site)
    project.write(library.defs())
    done = project.crawl(nodes=2)
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)
    assert done.jobs == {"done": library.size}
    assert done.summary["rows"] == {"entry": 20, "book": 20}


def test_summary_is_one_line_with_exactly_its_names(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    done = project.crawl()
    assert done.out.count("\n") == 1, "one object on one line and nothing else on stdout"
    summary = done.summary
    assert set(summary) == SUMMARY
    assert set(summary["jobs"]) == JOBS
    assert summary["state"] == "DONE"
    assert summary["exit_code"] == 0
    assert summary["defs_version"] == 1
    assert 0 < summary["seconds"] < done.seconds
    assert summary["pages_per_s"] == pytest.approx(summary["jobs"]["done"] / summary["seconds"], rel=0.01)
    for appender in summary["appenders"]:
        assert {"name", "rows", "bytes", "path", "backlog"} <= set(appender)
        assert appender["backlog"] == 0
        path = Path(appender["path"])
        assert appender["bytes"] == path.stat().st_size
        assert appender["rows"] == len(read_csv(path))
    for node in summary["nodes"]:
        assert {"id", "role", "state", "heart", "done", "failed"} <= set(node)
        assert node["state"] == "TERMINATED"
    assert sum(node["done"] for node in summary["nodes"]) == summary["jobs"]["done"]


def test_summary_keys_of_lists_are_those_of_the_contract(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    summary = project.crawl().summary
    assert {frozenset(a) for a in summary["appenders"]} == {frozenset({"name", "rows", "bytes", "path", "backlog"})}
    assert {frozenset(n) for n in summary["nodes"]} == {frozenset({"id", "role", "state", "heart", "done", "failed"})}


@pytest.mark.sweep
def test_every_datadef_has_a_file_with_its_header(project: Project, site: Site) -> None:
    project.write(Library(site).defs())
    running = project.start()
    latest = project.data / "output" / "latest"
    running.wait()
    assert latest.is_symlink()
    assert sorted(path.name for path in latest.glob("[!.]*")) == ["book.csv", "entry.csv", "nothing.csv"]
    assert project.output("nothing.csv").read_bytes() == b"x,y\r\n"
    assert project.output("entry.csv").read_bytes().startswith(b"title,price\r\n")
    assert project.output("entry.csv").stat().st_mode & 0o777 == 0o600
    assert project.data.stat().st_mode & 0o777 == 0o700


@pytest.mark.quick
def test_link_to_the_latest_run(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    first, second = project.crawl().summary["run"], project.crawl().summary["run"]
    assert first != second
    assert (project.data / "output" / "latest").resolve() == (project.data / "output" / second).resolve()
    assert (project.data / "output" / first / "book.csv").exists()
    third = project.crawl("--max-pages", "1").summary["run"]
    output = project.data / "output"
    assert (os.readlink(output / "current"), os.readlink(output / "latest")) == (third, second)
    project.crawl()
    assert (os.readlink(output / "current"), os.readlink(output / "latest")) == (third, third)


def test_outputs_of_every_kind_hold_the_same_rows(project: Project, site: Site) -> None:
    library = Library(site)
    semicolons = "{type: csv, delimiter: ';', dataDefs: [book], path: semi.csv}"
    outputs = f"appenders: {{a: {{type: csv}}, b: {{type: jsonl}}, c: {{type: sqlite}}, d: {semicolons}}}\n"
    project.write(library.defs(more=outputs))
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    lines = project.output("entry.jsonl").read_text("utf-8").splitlines()
    assert sorted(json.loads(line)["title"] for line in lines) == sorted(row["title"] for row in project.rows("entry"))
    assert '"price":0.00' in "".join(lines), "decimals keep their digits"
    with sqlite3.connect(project.output("book.db")) as db:
        assert {row[1:] for row in db.execute("SELECT * FROM book")} == {
            tuple(row.values()) for row in project.rows("book")
        }
    db.close()
    assert project.output("semi.csv").read_bytes().startswith(b"isbn;path\r\n")


def test_failed_jobs_exit_1_and_max_failed_allows_them(project: Project, site: Site) -> None:
    library = Library(site, shelves=1, books=4)
    site["/book/0-2"] = Page("no", 418)
    project.write(library.defs())
    done = project.crawl(code=1)
    assert done.summary["state"] == "DONE"
    assert done.summary["exit_code"] == 1
    assert done.jobs == {"done": 4, "failed": 1}
    assert project.crawl("--max-failed", "1").summary["exit_code"] == 0
    assert project.job(site.url("/book/0-2")) == {"state": "FAILED", "reason": "HTTP 418", "attempts": 1}


@pytest.mark.sweep
def test_a_done_run_is_not_resumed(project: Project, site: Site) -> None:
    library = Library(site, shelves=1)
    project.write(library.defs())
    project.crawl()
    site.clear_log()
    project.crawl()
    assert sorted(site.paths) == sorted(library.pages), "a new run fetches everything again: no document is live"


def test_bare_program_without_a_terminal_runs_headless(project: Project, site: Site) -> None:
    library = Library(site, shelves=1)
    project.write(library.defs())
    done = project.run_command("--defs", str(project.defs), "--data", str(project.data), seconds=30)
    assert done.code == 0, done.err
    assert project.count_rows("entry", "book") == library.rows()
    assert done.out == ""


def test_quiet_says_nothing_on_stderr(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=1).defs())
    assert project.crawl("--progress", "quiet").err == ""


@pytest.mark.sweep
def test_pages_of_an_earlier_process_do_not_count_in_the_rate(project: Project, site: Site) -> None:
    library = Library(site, shelves=3, books=20)
    project.write(library.defs(concurrency=2))
    project.crawl("--max-pages", "50")
    for page in library.pages:
        program = site.pages[page]
        assert isinstance(program, Page)
        site[page] = replace(program, delay=0.5)
    lines = [json.loads(line) for line in project.crawl("--progress", "json").err.splitlines()]
    speeds = [line["pages_per_s"] for line in lines if "pages_per_s" in line]
    assert speeds
    assert max(speeds) < 20, "two at a time, each at two pages per second"


@pytest.mark.sweep
def test_progress_as_json_stays_json_when_it_is_stopped(project: Project, site: Site) -> None:
    library = Library(site, shelves=5, delay=0.3)
    project.write(library.defs(concurrency=1))
    running = project.start("--progress", "json")
    assert until(lambda: len(site.paths) > 2)
    running.send(signal.SIGINT)
    done = running.wait()
    assert done.code == 130
    assert all(json.loads(line)["jobs"] for line in done.err.splitlines())


@pytest.mark.sweep
def test_progress_as_json_is_json(project: Project, site: Site) -> None:
    project.write(Library(site, shelves=6, delay=0.2).defs())
    lines = project.crawl("--progress", "json").err.splitlines()
    assert len(lines) >= 2
    assert all(set(json.loads(line)) >= {"state", "jobs", "rows"} for line in lines)


def test_each_page_of_a_large_site_is_fetched_once(project: Project, site: Site) -> None:
    library = Library(site, shelves=30, books=30)
    project.write(library.defs(concurrency=32))
    project.crawl(nodes=3)
    assert project.count_rows("entry", "book") == library.rows()
    assert sorted(site.paths) == sorted(library.pages)


def test_cyclic_links_give_one_job_per_page(project: Project, site: Site) -> None:
    count = 60
    for number in range(count):
        links = "".join(f'<a href="/{(number + step) % count}#f{step}">x</a>' for step in range(count))
        site[f"/{number}"] = html(links)
    project.write(
        f"""\
locatorGroups: {{ring: {{locators: [{{url: "{site.url("/0")}"}}]}}}}
taskGroups: {{ring: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{url: {{value: "%{{document.url}}"}}, depth: {{value: "%{{depth}}", type: int}}}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{robots: false, concurrency: 64}}}}
"""
    )
    project.crawl()
    assert sorted(site.paths) == sorted(f"/{n}" for n in range(count))
    assert sorted(row["depth"] for row in project.rows("page")) == ["0"] + ["1"] * (count - 1)
